package wait

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

func TestAPauseDoublesUpToTheLongest(t *testing.T) {
	b := Backoff{First: 3, Longest: 20}
	lap := func() (pauses []time.Duration) {
		for range 5 {
			pauses = append(pauses, b.Next())
		}
		return pauses
	}
	want := []time.Duration{3, 6, 12, 20, 20}
	if got := lap(); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	b.Reset()
	if got := lap(); !slices.Equal(got, want) {
		t.Errorf("after Reset: %v", got)
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	b := Backoff{First: time.Hour, Longest: time.Hour}
	if err := b.Wait(ctx); !errors.Is(err, cause) {
		t.Error(err)
	}
	if err := Sleep(t.Context(), 1); err != nil {
		t.Error(err)
	}
}
