package messages

import (
	"errors"
	"strings"
	"testing"
)

func TestForeignProcessesRunUntilTheyAreStopped(t *testing.T) {
	end, err := (&options{foreign: 2}).startForeign(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(end(), end()); err != nil { // the second time they are gone
		t.Error(err)
	}
}

func TestForeignLoadHasItsBounds(t *testing.T) {
	for args, good := range map[string]bool{
		"--foreign=1": true, "--foreign=64": true, "--foreign=0": false, "--foreign=65": false, "--foreign=1 --latency": true, "--foreign=1 --idle": false, "--foreign=1 --latency --nodes=2": false,
	} {
		if _, err := parse(strings.Fields(args)...); good != (err == nil) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
