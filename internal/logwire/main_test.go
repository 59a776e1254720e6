package logwire

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/squall-go/squall/internal/testutil"
)

func TestMain(m *testing.M) {
	testutil.Overlap(4)
	goleak.VerifyTestMain(m)
}
