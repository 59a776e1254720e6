package bench

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

func TestForeignProcessesRunUntilTheyAreStopped(t *testing.T) {
	stop, err := startForeign(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	stop() // they are gone: nothing to wait for
}

func TestAForeignProcessComputesUntilItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- compute(ctx) }()
	select {
	case err := <-done:
		t.Fatalf("it ended by itself: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	cancel(os.ErrClosed)
	if err := <-done; !errors.Is(err, os.ErrClosed) {
		t.Errorf("it ended with %v", err)
	}
}

func TestForeignLoadHasItsBounds(t *testing.T) {
	for args, good := range map[string]bool{"--foreign=1": true, "--foreign=64": true, "--foreign=0": false, "--foreign=65": false} {
		if _, err := parse(args); good != (err == nil) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
