package member

import (
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// part is a member's part in one subgroup of one view.
type part struct {
	m          *Member
	view       *views.View
	sg         views.Subgroup
	index      int // of the subgroup in the view
	core       *multicast.Subgroup
	outbox     *Outbox
	bodies     Transfers // nil: there are no large messages
	before     *part     // of the view before, until it is delivered to its end
	receiver   Receiver
	begun      bool         // the receiver was told that the view begins
	delivering []delivering // of own messages that are delivered as the view ends
	rest       int          // own claims that are delivered as the view ends, until all of them are delivered here
	recorder   *Recorder    // nil: the subgroup is not persistent
	confirms   *direct      // nil: there are no direct rounds
	settle
}

// part makes this member's part in a subgroup of a view that is about to be installed. What its
// outbox has not got delivered is carried over.
func (m *Member) part(e *epoch, i int) *part {
	sg := e.view.Subgroups[i]
	p := &part{m: m, view: e.view, sg: sg, index: i, outbox: m.outbox(sg)}
	cfg := multicast.Config{View: e.view, Subgroup: sg, Columns: e.layout.subs[i], Table: e.table, Tuning: m.cfg.Tuning, Stats: p.outbox.Stats, Stopped: e.change.Stopped}
	if sg.Mode == views.Persistent {
		p.recorder = m.recorder(e.view, i)
		cfg.Clock, cfg.Latest = m.Now, m.latest
	}
	p.receiver = m.cfg.Receiver(e.view, i)
	cfg.Receiver = p.receiver
	if k, ok := p.receiver.(interface{ Keeper() multicast.Keeper }); ok {
		cfg.Keeper = k.Keeper()
	}
	p.before, p.outbox.last = p.outbox.last, p
	cfg.Ahead = p.outbox.ahead
	if m.cfg.Transfers != nil {
		if p.bodies = m.cfg.Transfers(e.view, i); p.bodies != nil {
			cfg.Bodies = p.bodies
		}
	}
	p.core = p.outbox.install(cfg, p.bodies)
	p.confirms = p.direct(e)
	return p
}

func (p *part) exchange() (work int) {
	if p.core.Sender != nil {
		work = p.outbox.advance(p.core)
	}
	if p.recorder == nil {
		return work + p.core.Exchange()
	}
	work += p.persist()
	clock := p.hearTime()
	work += p.core.Exchange()
	p.noteTime(clock)
	return work
}

// wedge stops the exchange.
func (p *part) wedge() {
	p.core.Wedge()
	if p.recorder != nil {
		p.recorder.end(p.view.ID)
	}
	if p.bodies != nil {
		p.bodies.End()
	}
}

// close frees what the view left, when nothing of it is delivered any more.
func (p *part) close() {
	p.core.Drop()
	if p.bodies != nil {
		p.bodies.Close()
	}
}

// deliver delivers what can be, after what is left of the view before.
func (p *part) deliver() (work int) {
	if p.before != nil {
		if !p.before.finished() && !(mutant.Enabled && mutant.On(mutant.Impatient)) {
			return 0
		}
		p.before.core.LetGo()
		p.before = nil
	}
	if !p.begun {
		p.begun = true
		p.receiver.Begin(p.view, p.index)
	}
	if work = p.core.Deliver(); work > 0 {
		p.m.ran = append(p.m.ran, p)
		if invariants.Enabled {
			invariants.Check(p.view.ID >= p.outbox.delivered, "B4", "view %d is delivered after view %d", p.view.ID, p.outbox.delivered)
		}
		p.outbox.delivered = p.view.ID
	}
	if p.confirms != nil {
		p.confirms.give(p)
	}
	p.resolveDelivered()
	p.outbox.callWaiting()
	if p.rest > 0 && p.finished() {
		p.outbox.delivers(p)
	}
	return work
}

func (p *part) finished() bool {
	return p.core.Finished() && p.before == nil
}

// unfinished reports whether something of the view is still to be delivered, or shown, here. A
// later view may wait for it.
func (p *part) unfinished() bool { return !p.finished() || p.awaitsShown() }

// resolveDelivered tells the goroutines that wait for the delivery of this member's own messages.
func (p *part) resolveDelivered() {
	for len(p.delivering) > 0 && (p.delivering[0].seq < p.core.Delivered() || p.core.Finished()) {
		v := order.Version{View: p.view.ID, Seq: p.delivering[0].seq}
		var err error
		if !p.recorder.shown(v) {
			if !p.recorder.gone {
				break
			}
			err = ErrLeftShard
		}
		p.delivering[0].future.resolve(v, p.recorder.frontier(), err)
		p.delivering = p.delivering[1:]
	}
	p.outbox.resolveOwn(p)
}

// awaitsShown reports whether own messages that have their places are still to be shown to the
// application. The views that follow tell when every disk has them. In the last view of a member
// that left, only its application is waited for, which may not have taken yet what every disk is
// known to have.
func (p *part) awaitsShown() bool {
	if len(p.delivering) == 0 || !p.m.left || p.view != p.m.epoch.view {
		return len(p.delivering) > 0
	}
	return order.Version{View: p.view.ID, Seq: p.delivering[0].seq}.Before(p.recorder.Frontier.At(Everywhere))
}

// lost tells the goroutines that wait that this member halted before its application had their
// messages.
func (p *part) lost(reason error) {
	for _, l := range p.delivering {
		l.future.resolve(order.Version{}, nil, reason)
	}
	p.delivering = nil
}
