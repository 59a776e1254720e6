package replicated

import (
	"context"
	"errors"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// TestAFutureIsWaitedForAgain ends the context of a Wait while the outcome becomes known: the Wait returns one of both, and loses
// no outcome. The next command uses the memory of the one before.
func TestAFutureIsWaitedForAgain(t *testing.T) {
	add := NewCommand[[]byte, []byte]("add")
	interrupted := 0
	for i := range 2000 {
		f := add.make(nil)
		ctx, cancel := context.WithCancel(t.Context())
		version := squall.Version{View: 1, Seq: squall.Seq(i)}
		if i%3 == 0 { // before anything becomes known
			cancel()
			if _, err := f.Wait(ctx); !errors.Is(err, context.Canceled) {
				t.Fatalf("round %d: a Wait whose context has ended returned %v", i, err)
			}
		}
		go cancel()
		go func() {
			f.complete(&outcome{version: version, reply: []byte{byte(i)}})
			f.signal()
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

// endedContext has ended, and calls a function when a Wait is about to look at both, its end and the outcome.
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
			f.complete(&outcome{reply: []byte{byte(i)}})
			f.signal()
		}})
		if err != nil || len(value) != 1 || value[0] != byte(i) {
			t.Fatalf("round %d: %v, %v", i, value, err)
		}
		if len(f.woken) != 0 {
			t.Fatalf("round %d: the next command of this memory is woken at once", i)
		}
	}
}

// counted is a codec that counts what it encodes.
type counted struct {
	Codec[[]byte]
	n *int
}

func (c counted) Append(b []byte, v *[]byte) ([]byte, error) {
	*c.n++
	return c.Codec.Append(b, v)
}

func TestAReplyIsEncodedWhereItIsRead(t *testing.T) {
	const self, other = 1, 2
	encoded := 0
	step := NewCommand[[]byte, []byte]("step").Encoded(Raw(), counted{Raw(), &encoded})
	o := New(squall.SubgroupConfig{Name: "steps"}, func() *struct{} { return &struct{}{} },
		Handle(step, func(*struct{}, *Context, []byte) ([]byte, error) { return []byte("reply"), nil })).object
	o.self.Store(self)
	o.calls.table.Lap = func() uint32 { return 7 }
	h := machine.Header{Time: 1}
	seq := squall.Seq(0)
	deliver := func(from squall.NodeID, data []byte) {
		seq++
		o.deliver([]squall.Message{{View: 1, Seq: seq, Sender: from, Data: data}})
	}
	deliver(self, machine.AppendKnows(nil, h, 1, []string{"step"}))
	deliver(self, machine.AppendEnable(nil, h, 1, []string{"step"}))
	deliver(other, machine.AppendOpen(nil, h, machine.Token{1}, 1e18, machine.Owner{}))
	session := machine.SessionNumber(machine.Token{1}, 1)
	call, err := o.calls.put(nothing{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		what string
		from squall.NodeID
		data []byte
		want int
	}{
		{"another member's command", other, machine.AppendCommand(nil, h), 0},
		{"another member's command with all replies", other, machine.AppendCommand(nil, machine.Header{Time: 1, Replies: true}), 1},
		{"another member's command after it", other, machine.AppendCommand(nil, h), 0},
		{"a call of this process", self, machine.AppendCommand(nil, machine.Header{Time: 1, Call: call}), 1},
		{"a client's command", other, machine.AppendClient(nil, h, session, 1, 0), 1},
	} {
		encoded = 0
		before := o.machine.Executed()
		deliver(x.from, x.data)
		if encoded != x.want || o.machine.Executed() != before+1 {
			t.Errorf("%s: %d replies were encoded, want %d; %d commands were executed", x.what, encoded, x.want, o.machine.Executed()-before)
		}
	}
}
