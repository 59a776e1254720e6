//go:build linux

package ripc

import (
	"fmt"
	"testing"
)

// An id is printed without zero bytes, and stays what it is.
func TestAnIDIsPrintedWithoutZeroBytes(t *testing.T) {
	id := ID("squall object\x00test\x00accounts")
	if got := fmt.Sprintf("%s %v %q", id, id, id); got != `squall object/test/accounts squall object/test/accounts "squall object/test/accounts"` {
		t.Error(got)
	}
	if string(id) != "squall object\x00test\x00accounts" {
		t.Errorf("%q", string(id))
	}
	if (oneHost{}).socket(id) == (oneHost{}).socket("squall object/test/accounts") {
		t.Error("two ids have one socket")
	}
}
