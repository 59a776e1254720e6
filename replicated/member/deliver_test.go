package member

import (
	"errors"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// awaited is a call that notes how it ended.
type awaited struct {
	ended, signalled int
	err              error
}

func (a *awaited) Complete(o *invoke.Outcome) { a.ended, a.err = a.ended+1, o.Err }
func (a *awaited) Signal()                    { a.signalled++ }
func (a *awaited) Typed() any                 { return nil }

// TestAPanicEndsTheCallsOfItsBatch has a handler panic at the second of three commands of one
// batch.
func TestAPanicEndsTheCallsOfItsBatch(t *testing.T) {
	const self = 1
	n := 0
	step := replicated.NewCommand[[]byte, []byte]("step")
	o := New(squall.SubgroupConfig{Name: "steps"}, func() *struct{} { return &struct{}{} },
		Handle(step, func(*struct{}, *Context, []byte) ([]byte, error) {
			if n++; n == 2 {
				panic("the second step")
			}
			return nil, nil
		})).object
	o.self.Store(self)
	o.calls.table.Lap = func() uint32 { return 7 }
	o.deliver([]squall.Message{
		{View: 1, Sender: self, Data: machine.AppendKnows(nil, machine.Header{Time: 1}, 1, []string{"step"})},
		{View: 1, Seq: 1, Sender: self, Data: machine.AppendEnable(nil, machine.Header{Time: 1}, 1, []string{"step"})},
	})
	var all [3]awaited
	var batch []squall.Message
	for i := range all {
		call, err := o.calls.put(&all[i])
		if err != nil {
			t.Fatal(err)
		}
		batch = append(batch, squall.Message{View: 1, Seq: squall.Seq(2 + i), Sender: self, Data: machine.AppendCommand(nil, machine.Header{Time: 2, Call: call})})
	}
	o.deliver(batch)
	var panicked *PanicError
	for i, a := range all {
		if a.ended != 1 || a.signalled != 1 {
			t.Errorf("call %d ended %d times, and was told %d times", i, a.ended, a.signalled)
		}
		if i == 0 && a.err != nil || i > 0 && !errors.As(a.err, &panicked) {
			t.Errorf("call %d ended with %v", i, a.err)
		}
	}
	if n != 2 {
		t.Errorf("%d commands were executed", n)
	}
}

// The courier checks again when its record of what has arrived is delivered: more may have arrived
// since the record was sent.
func TestTheCourierGoesOnWhenARecordSaysWhatArrived(t *testing.T) {
	begin := replicated.NewCommand[[]byte, []byte]("begin")
	o := New(squall.SubgroupConfig{Name: "tasks"}, func() *struct{} { return &struct{}{} },
		Handle(begin, func(_ *struct{}, c *Context, _ []byte) ([]byte, error) {
			return nil, c.Start("task", nil)
		})).object
	o.deliver([]squall.Message{
		{View: 1, Sender: 1, Data: machine.AppendKnows(nil, machine.Header{Time: 1}, 1, []string{"begin"})},
		{View: 1, Seq: 1, Sender: 1, Data: machine.AppendEnable(nil, machine.Header{Time: 1}, 1, []string{"begin"})},
	})
	to := machine.Destination{Kind: machine.ToTask, Name: "task"}
	for i, x := range []struct {
		what string
		data []byte
		left int
	}{
		{"a task", machine.AppendCommand(nil, machine.Header{Time: 2}), 1},
		{"another task", machine.AppendCommand(nil, machine.Header{Time: 2}), 2},
		{"the first task is done", machine.AppendHanded(nil, machine.Header{Time: 2}, to, invoke.Cursor{View: 1, Seq: 2, Index: 1}), 1},
	} {
		o.deliver([]squall.Message{{View: 1, Seq: squall.Seq(2 + i), Sender: 1, Data: x.data}})
		if n := len(o.machine.Outgoing(to, invoke.Cursor{})); n != x.left {
			t.Errorf("%s: %d tasks wait, want %d", x.what, n, x.left)
		}
		select {
		case <-o.outbox.wake:
		default:
			t.Errorf("%s: the courier does not look", x.what)
		}
	}
}

// A client that watches does not get what a handler emitted before it panicked.
func TestWhatAHandlerEmittedThatPanickedIsForNobody(t *testing.T) {
	step := replicated.NewCommand[[]byte, []byte]("step")
	o := New(squall.SubgroupConfig{Name: "steps"}, func() *struct{} { return &struct{}{} },
		Handle(step, func(_ *struct{}, c *Context, _ []byte) ([]byte, error) {
			c.Emit("topic", nil)
			panic("after an event")
		})).object
	o.deliver([]squall.Message{
		{View: 1, Sender: 1, Data: machine.AppendKnows(nil, machine.Header{Time: 1}, 1, []string{"step"})},
		{View: 1, Seq: 1, Sender: 1, Data: machine.AppendEnable(nil, machine.Header{Time: 1}, 1, []string{"step"})},
		{View: 1, Seq: 2, Sender: 1, Data: machine.AppendCommand(nil, machine.Header{Time: 2})},
	})
	d := &desk{object: o, most: 1 << 10}
	answer, none := d.watched(&watching{})
	if a, err := client.ParseAnswer(answer); err != nil || a.Said == client.Done || none {
		t.Errorf("the watcher gets %+v, %v; it waits: %v", a, err, none)
	}
}
