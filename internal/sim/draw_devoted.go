package sim

import (
	"time"

	"github.com/squall-go/squall/views"
)

// devote has some of the runs with faults show one rare case many times, in place of what else would go wrong in them: members that
// move from shard to shard, several leaders of a restart at the same time, or a disk that is a view behind.
func (d dice) devote(p *Plan) {
	if p.Limits.Kinds != 0 || p.Founders < 3 || !d.oneIn(8) {
		return
	}
	if !p.keeps() {
		d.keeps(p, true)
	}
	switch at := d.upTo(p.FailAfter()); {
	case d.oneIn(4):
		d.moving(p, at)
	case p.Founders > 3 && d.oneIn(3):
		p.Outages, p.Faults = 0, nil
		blackout := d.overtaken(p, &p.Faults, at)
		p.Faults = append(p.Faults, blackout)
	default:
		cut, late := d.rivals(p, at)
		p.Faults = []Fault{{Kind: Blackout, At: at, For: d.upTo(p.Hop()), Node: late, Nth: 1}, cut}
		p.Keep.LateIn, p.Keep.LostIn = 2, 4
	}
}

// moving has members of a log's shards end and come back, one soon after the other, so that others move with every view.
func (d dice) moving(p *Plan, at time.Duration) {
	for i := range p.Decls {
		if decl := &p.Decls[i]; decl.Mode == views.Persistent {
			decl.Shards, decl.MinMembers, decl.MaxMembers, decl.LayoutName = 2, 1, 0, turning
		}
	}
	p.Outages, p.Faults = 0, nil
	for range 8 {
		p.Faults = append(p.Faults, Fault{Kind: Crash, At: at, Node: 1 + d.IntN(p.Founders-1)})
		at += d.upTo(p.FailAfter() / 2)
	}
	for i := range p.Nodes {
		p.Nodes[i].Returns, p.Nodes[i].Times = d.upTo(p.FailAfter()/8), 4
	}
}

// givers has a member end that gives another one its state.
func (d dice) givers(p *Plan) {
	if p.States == 0 || !p.Limits.Kinds.Has(Crash) || len(p.Faults) == 0 || !d.oneIn(4) {
		return
	}
	last := &p.Faults[len(p.Faults)-1]
	p.Faults = append(p.Faults, Fault{Kind: pick(d, Crash, PowerOff), At: last.At, Node: d.IntN(len(p.Nodes)), On: Gives, Nth: 1 + d.IntN(2)})
}
