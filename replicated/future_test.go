package replicated

import (
	"context"
	"errors"
	"testing"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// TestAFutureIsWaitedForAgain ends the context of a Wait while the outcome becomes known: the Wait
// returns one of both, and loses no outcome. The next command uses the memory of the one before.
func TestAFutureIsWaitedForAgain(t *testing.T) {
	add := NewCommand[[]byte, []byte]("add")
	interrupted := 0
	for i := range 2000 {
		f := add.make(nil)
		ctx, cancel := context.WithCancel(t.Context())
		version := order.Version{View: 1, Seq: order.Seq(i)}
		if i%3 == 0 { // before anything becomes known
			cancel()
			if _, err := f.Wait(ctx); !errors.Is(err, context.Canceled) {
				t.Fatalf("round %d: a Wait whose context has ended returned %v", i, err)
			}
		}
		go cancel()
		go func() {
			f.Complete(&invoke.Outcome{Version: version, Reply: []byte{byte(i)}})
			f.Signal()
		}()
		value, at, err := f.WaitVersion(ctx)
		if errors.Is(err, context.Canceled) {
			interrupted++
			value, at, err = f.WaitVersion(t.Context())
		}
		if err != nil || at != version || len(value) != 1 || value[0] != byte(i) {
			t.Fatalf("round %d: %v at %v, %v", i, value, at, err)
		}
	}
	t.Logf("%d of 2000 were waited for again", interrupted)
}

// endedContext has ended, and calls a function when a Wait is about to look at both, its end and
// the outcome.
type endedContext struct {
	context.Context
	meanwhile func()
}

func (c endedContext) Done() <-chan struct{} {
	c.meanwhile()
	return c.Context.Done()
}

func TestAnOutcomeThatBecomesKnownAsTheContextEndsIsNotLost(t *testing.T) {
	add := NewCommand[[]byte, []byte]("add")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 100 { // the select of a Wait takes either
		f := add.make(nil)
		value, err := f.Wait(endedContext{ended, func() {
			f.Complete(&invoke.Outcome{Reply: []byte{byte(i)}})
			f.Signal()
		}})
		if err != nil || len(value) != 1 || value[0] != byte(i) {
			t.Fatalf("round %d: %v, %v", i, value, err)
		}
		if len(f.woken) != 0 {
			t.Fatalf("round %d: the next command of this memory is woken at once", i)
		}
	}
}
