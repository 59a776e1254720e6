package rdmc

import (
	"errors"
	"runtime"
	"testing"

	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/internal/samehost"
)

// Announcing costs nothing, so a message that no machine has memory for must not cost a receiver
// its life.
func TestAMessageThatAReceiverHasNoMemoryForFailsTheGroupEverywhere(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems do not report how much memory is free")
	}
	if _, err := samehost.Make(1 << 39); !errors.Is(err, ErrNoMemory) {
		t.Fatal(err)
	}
	w := newWorld(t, 3, 0)
	all := w.open("g", GroupConfig{})
	all[0].do(func(r *relay.Relay, out *relay.Effects) {
		s, err := r.Start(1<<39, 0, 0, out) // of which the root has nothing either
		if err != nil {
			t.Error(err)
		}
		all[0].sendings[s.Number] = &Sending{group: all[0].Group, started: s}
	})
	for i, x := range all {
		if err := <-x.failed; !errors.Is(err, ErrFailed) {
			t.Errorf("node %d: %v", i+1, err)
		}
	}
}
