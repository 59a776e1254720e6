package sim

import (
	"time"

	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/views"
)

// devote has some of the runs with faults show one rare case many times, in place of what else
// would go wrong in them: members that move from shard to shard, a leader that alone knows the end
// of a view, several leaders of a restart at the same time, or a disk that is a view behind.
func (d dice) devote(p *Plan) {
	if p.Initial < 3 {
		return
	}
	if !p.keeps() {
		d.keeps(p, true)
	}
	switch at := d.upTo(p.FailAfter()); {
	case d.oneIn(8):
		d.ahead(p, at)
	case d.oneIn(4):
		d.moving(p, at)
	case p.Initial > 3 && d.oneIn(2):
		p.Outages, p.Faults = 0, nil
		blackout := d.overtaken(p, &p.Faults, at)
		p.Faults = append(p.Faults, blackout)
	default:
		cut, late := d.rivals(p, at)
		p.Faults = []Fault{{Kind: Blackout, At: at, For: d.upTo(p.Hop()), Node: late, Nth: 1}, cut}
		p.Keep.LateIn, p.Keep.LostIn = 2, 4
	}
}

// ahead makes the leader of a view change complete it without a member that it misses, and cuts the
// leader off just then. The others have its decision, and wait until that member has it, too: they
// lead next, and must adopt the decision. The cause of the change is no failure: a member does not
// want to send any more.
func (d dice) ahead(p *Plan, at time.Duration) {
	last := len(p.Nodes) - 1
	for i := range p.Apps {
		if a := &p.Apps[i]; a.Node == 1 {
			a.Messages, a.Mute, a.Unmute = 0, at, 0
		} else {
			a.Mute = 0
		}
	}
	p.Net.frame()
	long := 2*p.FailAfter() + d.upTo(2*p.FailAfter())
	p.Outages, p.Faults = 0, []Fault{
		{Kind: OneWayCut, At: at / 2, Node: 0, Peer: last, On: Decides, Nth: 1, For: long},
		{Kind: OneWayCut, At: at / 2, Node: last, Peer: 0, On: Decides, Nth: 1, For: long},
		{Kind: Partition, At: at / 2, Set: 1, On: Completes, Nth: 1, For: long},
	}
}

// moving has members of a log's shards end and come back, one soon after the other, so that others
// move with every view.
func (d dice) moving(p *Plan, at time.Duration) {
	for i := range p.Decls {
		if decl := &p.Decls[i]; decl.Mode == views.Persistent {
			decl.Shards, decl.MinMembers, decl.MaxMembers, decl.LayoutName = 2, 1, 0, turning
		}
	}
	p.Outages, p.Faults = 0, nil
	for range 8 {
		p.Faults = append(p.Faults, Fault{Kind: Crash, At: at, Node: 1 + d.IntN(p.Initial-1)})
		at += d.upTo(p.FailAfter() / 2)
	}
	for i := range p.Nodes {
		p.Nodes[i].Returns, p.Nodes[i].Times = d.upTo(p.FailAfter()/8), 4
	}
	if d.oneIn(2) { // callers wait for messages that their members do not show any more
		p.Keep.After = 1<<len(p.Decls) - 1
		for i := range p.Apps {
			p.Apps[i].FutureIn = 2
		}
	}
}

// still has a member stand still as it is left behind, and read as soon as it goes on.
func (d dice) still(p *Plan) {
	at := d.upTo(p.FailAfter())
	if d.oneIn(2) {
		d.halfway(p, at)
		return
	}
	if !p.keeps() {
		d.keeps(p, true)
	}
	d.stopped(p, at)
}

// halfway has a member stand still, in shared memory, when it has echoed the decision by which the
// others go on. When it goes on, it reads before it takes anything in.
func (d dice) halfway(p *Plan, at time.Duration) {
	p.Net.share(pick(d, simnet.Shared, simnet.Seeping))
	p.Outages, p.Faults = 0, nil
	for range 4 {
		p.Faults = append(p.Faults,
			Fault{Kind: pick(d, Crash, Accuse), At: at, Node: d.IntN(p.Initial), Peer: d.IntN(p.Initial)},
			Fault{Kind: Hang, At: at, On: pick(d, Acks, Echoes), Nth: 1 + d.IntN(2), For: d.spell(p)})
		at += 2 * p.FailAfter()
	}
	for i := range p.Nodes {
		p.Nodes[i].Returns, p.Nodes[i].Times = d.upTo(p.FailAfter()/8), 4
	}
	for i := range p.Apps {
		p.Apps[i].Gap, p.Apps[i].Start = p.FailAfter()/64, 0
	}
	p.Keep.After = 0
	p.Reads = Reads{Count: 40, Gap: p.Hop()}
}

// stopped has a member stand still, in shared memory, while the processes of all others end, come
// back and go on without it. When it goes on, it reads before it takes anything in.
func (d dice) stopped(p *Plan, at time.Duration) {
	p.Net.share(pick(d, simnet.Shared, simnet.Seeping))
	still := d.IntN(p.Initial)
	p.Outages, p.Faults = 0, []Fault{{Kind: Hang, At: at, Node: still, For: 8*p.FailAfter() + d.upTo(16*p.FailAfter())}}
	for i := range p.Initial {
		if i != still {
			p.Faults = append(p.Faults, Fault{Kind: Crash, At: at + 1, Node: i})
			p.Nodes[i].Returns, p.Nodes[i].Times = d.upTo(p.Hop()), 1
		}
	}
	p.Keep.After = 0
	p.Reads = Reads{Count: 40, Gap: p.Hop()}
}

// givers has a member end that gives another one its state.
func (d dice) givers(p *Plan) {
	if p.States == 0 || !p.Limits.Kinds.Has(Crash) || len(p.Faults) == 0 || !d.oneIn(4) {
		return
	}
	last := &p.Faults[len(p.Faults)-1]
	p.Faults = append(p.Faults, Fault{Kind: pick(d, Crash, PowerOff), At: last.At, Node: d.IntN(len(p.Nodes)), On: Gives, Nth: 1 + d.IntN(2)})
}
