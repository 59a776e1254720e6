package member

import (
	"cmp"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/ripc"
)

// delivery is what delivers batches of records: the goroutine that delivers uses it.
type delivery struct {
	taken   []invoke.Pending // the calls of the batch, or nil, by the records that this process sent
	outcome invoke.Outcome   // of one of them
	atOnce  ripc.Replies     // to the clients among them
}

// deliver applies a batch of records, in order.
func (o *object) deliver(batch []squall.Message) {
	if view := uint64(batch[0].View); view != o.delivers.Load() {
		o.delivers.Store(view)
	}
	self := squall.NodeID(o.self.Load())
	o.lock()
	o.takeCalls(batch, self)
	at := progress{taken: o.delivery.taken}
	o.inside.commands.Run(func() {
		for !o.applyAll(batch, self, &at) {
		}
	})
	o.letGo()
	o.delivery.outcome = invoke.Outcome{}
	if o.news {
		o.tellWatchers()
	}
	if o.sent {
		o.sent = false
		o.outbox.wake.Ring()
	}
	o.unlock()
	for i, p := range o.delivery.taken {
		if f, ok := p.(*flight); ok {
			p = f.waits
		}
		switch r, ok := p.(*relayed); {
		case ok:
			r.reply(&o.delivery.atOnce)
		case p != nil:
			p.Signal()
		}
		o.delivery.taken[i] = nil
	}
	o.delivery.atOnce.Flush()
}

// progress is how far the records of a batch are applied.
type progress struct {
	message int              // that is applied, among the batch
	records machine.Records  // of it that are not applied
	begun   bool             // it is split into its records
	taken   []invoke.Pending // the calls of the records that are not applied
}

// applyAll applies records to the end of the batch, or until a handler panics; then it reports
// false, and nothing is executed any more. The lock is held.
func (o *object) applyAll(batch []squall.Message, self squall.NodeID, at *progress) (done bool) {
	defer o.panicked() // once for all records: one for each would take a tenth of the time of a small command
	for ; at.message < len(batch); at.message++ {
		m := &batch[at.message]
		own := isOwn(m, self)
		if !at.begun {
			at.records, at.begun = machine.Split(m.Data), true
			o.enter(uint64(m.View), uint64(m.Seq), uint64(m.Sender), cmp.Or(uint64(m.Time), at.records.Time))
		}
		for {
			data, ok := at.records.Next()
			if !ok {
				break
			}
			var waiting invoke.Pending
			if own {
				waiting, at.taken = at.taken[0], at.taken[1:]
			}
			o.apply(m, data, own, waiting)
			if o.applied != nil {
				o.applied(data, o.context.Index)
			}
			o.context.Index++
			if at.records.More() && o.record.Time != 0 && o.result.Status != invoke.Malformed && !o.unknowns && o.check.every == 0 {
				o.applyCommands(m, own, at)
			}
		}
		at.begun = false
	}
	return true
}

// applyCommands applies the next records of a message as apply does, as long as
// Machine.ApplyCommand accepts them. The precondition of ApplyCommand holds: a record of the
// message was applied, and was not Malformed. Most records of busy members are commands of this
// kind. Apply would spend two thirds of the time of a small command on checks whose result is the
// same for all of them (BenchmarkDeliver). The lock is held.
func (o *object) applyCommands(m *squall.Message, own bool, at *progress) {
	for o.failed == nil {
		operation, record, ok := o.machine.ApplyCommand(&at.records)
		if !ok {
			return
		}
		o.calledBy(m.Sender, 0, "", "", o.machine.Time()) // for each one: the handler before may have changed the context
		b, args := o.byNumber[operation], record[machine.CommandBytes:]
		if own {
			o.waiting, at.taken = at.taken[0], at.taken[1:]
		}
		o.executing = b
		reply, typed, failed := b.execute(o.state, &o.context, args, nil, o.waiting, o.waiting != nil)
		o.executing = nil
		if o.waiting != nil {
			out := o.outcomeOf(m, invoke.Done)
			if out.Reply, out.Typed = reply, typed; failed {
				out.Status = invoke.Failed
			}
			o.waiting.Complete(out)
			o.waiting = nil
		}
		if o.applied != nil {
			o.applied(record, o.context.Index)
		}
		o.context.Index++
	}
}

// apply applies a record of a message, for which a call of this process waits, or nil. The lock is
// held.
func (o *object) apply(m *squall.Message, data []byte, own bool, waiting invoke.Pending) {
	if o.failed != nil {
		if waiting != nil {
			waiting.Complete(&invoke.Outcome{Err: o.failed})
		}
		return
	}
	o.waiting, o.typed = waiting, false
	before := o.machine.Executed()
	o.record.Data = data
	result := &o.result
	o.machine.Apply(&o.record, (*handler)(&o.replica), result)
	if result.Enabled {
		o.operationsEnabled()
	}
	if result.Parted != nil && o.check.diverged != nil {
		p := result.Parted
		o.check.diverged(&DivergedError{Object: o.sg.Name, Commands: p.Count, Member: squall.NodeID(p.One), Other: squall.NodeID(p.Other)})
	}
	if result.Hash && !m.Replayed() {
		o.hash(own, result.Wish)
	}
	if o.check.every != 0 && o.machine.Executed() != before {
		o.takeDigest()
	}
	switch result.Kind {
	case machine.Knows:
		o.wake.Ring()
	case machine.Handed:
		o.sent = true
	case machine.Reply:
		o.gather(m.Sender, data)
	}
	if waiting != nil {
		o.complete(m, data, waiting)
	}
	if result.Replies && !own && !m.Replayed() && o.failed == nil {
		reply := result.Reply
		if result.Kind == machine.Command {
			reply = o.reply
		}
		o.answer(m.Sender, result.Call, result.Status, reply)
	}
	o.waiting = nil
}

// complete gives the result of a record to the call that waits for it here.
func (o *object) complete(m *squall.Message, data []byte, waiting invoke.Pending) {
	result := &o.result
	out := o.outcomeOf(m, result.Status)
	out.Reply, out.Typed, out.Session = result.Reply, o.typed, result.Session
	if result.Kind == machine.Command {
		if out.Reply = o.reply; result.Status == invoke.Elsewhere {
			out.Args = data[machine.CommandBytes:]
		}
	}
	waiting.Complete(out)
}

// outcomeOf returns the outcome of a record of a message, without its reply. The outcome is valid
// until the next call. The lock is held.
func (o *object) outcomeOf(m *squall.Message, status invoke.Status) *invoke.Outcome {
	out := &o.delivery.outcome
	out.Version, out.Status, out.Session, out.Args, out.Err = m.Version(), status, 0, nil, o.failed
	return out
}

// takeCalls finds the calls that wait for the messages of a batch. The lock is held.
func (o *object) takeCalls(batch []squall.Message, self squall.NodeID) {
	o.delivery.taken = o.delivery.taken[:0]
	locked := false
	for i := range batch {
		if !isOwn(&batch[i], self) {
			continue
		}
		if !locked {
			o.calls.mu.Lock()
			locked = true
		}
		rs := machine.Split(batch[i].Data)
		for data, ok := rs.Next(); ok; data, ok = rs.Next() {
			p, _ := o.calls.table.Take(machine.Call(data))
			o.delivery.taken = append(o.delivery.taken, p.Pending)
		}
	}
	if locked {
		o.calls.mu.Unlock()
	}
}

// isOwn reports whether this process sent a message.
func isOwn(m *squall.Message, self squall.NodeID) bool { return m.Sender == self && !m.Replayed() }
