package messages

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/proc"
)

func TestForeignProcessesRunUntilTheyAreStopped(t *testing.T) {
	stop, err := startForeign(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(stop(), stop()); err != nil { // the second time they are gone
		t.Error(err)
	}
}

func TestAForeignProcessComputesUntilItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	before := proc.CPUTime()
	go func() {
		defer close(done)
		compute(ctx)
	}()
	for proc.CPUTime() < before+5*time.Millisecond {
		select {
		case <-done:
			t.Fatal("it ended by itself")
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	<-done
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
