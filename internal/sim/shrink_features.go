package sim

import (
	"time"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/views"
)

// features are what a plan may do without, or do with less of. Each changes a plan, and reports whether there was something to change.
var features = []func(*Plan) bool{
	func(p *Plan) bool { return p.eachApp(func(a *App) bool { return put(&a.Messages, a.Messages/4) }) },
	func(p *Plan) bool { return p.eachApp(func(a *App) bool { return put(&a.Messages, (a.Messages+1)/2) }) },
	(*Plan).withoutLogs, (*Plan).withoutLarges, (*Plan).withoutShards,
	func(p *Plan) bool { return put(&p.States, 0) },
	func(p *Plan) bool { return put(&p.Reads.Count, p.Reads.Count/4) },
	func(p *Plan) bool { return put(&p.Keep.After, 0) },
	func(p *Plan) bool { return either(put(&p.Keep.LostIn, 0), put(&p.Keep.LateIn, 0)) },
	func(p *Plan) bool { return put(&p.Keep.TornIn, 0) },
	func(p *Plan) bool { return either(put(&p.Keep.Memory, 0), put(&p.Keep.Block, 0)) },
	func(p *Plan) (changed bool) {
		for i := range p.Keep.Disks {
			changed = either(changed, put(&p.Keep.Disks[i].SlowIn, 0), put(&p.Keep.Disks[i].Slow, 0))
		}
		return changed
	},
	func(p *Plan) bool { return either(put(&p.Outages, 0), put(&p.Outage, 0)) },
	func(p *Plan) bool { return put(&p.Tuning, multicast.Tuning{NoNulls: p.Tuning.NoNulls}) },
	func(p *Plan) bool {
		return p.eachApp(func(a *App) bool { return either(put(&a.Mute, 0), put(&a.Unmute, 0)) })
	},
	func(p *Plan) bool {
		return p.eachApp(func(a *App) bool { return either(put(&a.HoldIn, 0), put(&a.Hold, 0)) })
	},
	func(p *Plan) bool { return p.eachApp(func(a *App) bool { return put(&a.AbortIn, 0) }) },
	func(p *Plan) bool { return p.eachApp(func(a *App) bool { return put(&a.SkipIn, 0) }) },
	func(p *Plan) bool { return p.eachApp(func(a *App) bool { return put(&a.FutureIn, 0) }) },
	func(p *Plan) bool { return p.eachApp(func(a *App) bool { return put(&a.Burst, min(a.Burst, 1)) }) },
	func(p *Plan) bool { return p.eachApp(func(a *App) bool { return put(&a.MaxBytes, 0) }) },
	func(p *Plan) bool { return p.eachApp(func(a *App) bool { return put(&a.Start, a.Start/2) }) },
	func(p *Plan) bool {
		return p.eachDecl(func(d *views.Declaration) bool { c := d.Senders != nil; d.Senders = nil; return c })
	},
	func(p *Plan) bool {
		return p.eachDecl(func(d *views.Declaration) bool { c := d.Members != nil; d.Members = nil; return c })
	},
	func(p *Plan) bool {
		return p.eachPair(func(k *simnet.Kind, _ *simnet.Delay) bool { return put(k, simnet.Framed) })
	},
	func(p *Plan) bool {
		return p.eachPair(func(_ *simnet.Kind, d *simnet.Delay) bool { return either(put(&d.Tail, 0), put(&d.TailEvery, 0)) })
	},
	func(p *Plan) bool {
		return p.eachPair(func(_ *simnet.Kind, d *simnet.Delay) bool { return put(&d.Jitter, 0) })
	},
	func(p *Plan) bool { return put(&p.Net.SocketBytes, 0) },
	func(p *Plan) bool { return either(put(&p.Net.PieceBytes, 0), put(&p.Net.FrameRanges, 0)) },
	func(p *Plan) bool {
		return p.eachNode(func(n *Node) bool { return either(put(&n.Pace.Pause, 0), put(&n.Pace.PauseEvery, 0)) })
	},
	func(p *Plan) bool { return p.eachNode(func(n *Node) bool { return put(&n.Pace.Spins, 0) }) },
	func(p *Plan) bool { return p.eachNode(func(n *Node) bool { return put(&n.Pace.Even, true) }) },
	func(p *Plan) bool { return p.eachNode(func(n *Node) bool { return put(&n.Skew, 0) }) },
	func(p *Plan) bool { return p.eachNode(func(n *Node) bool { return put(&n.Joins, n.Joins/2) }) },
	func(p *Plan) bool {
		return p.eachFault(func(f *Fault) bool { return put(&f.InStep, min(f.InStep, 1)) })
	},
	func(p *Plan) bool { return p.eachFault(func(f *Fault) bool { return put(&f.At, f.At/2) }) },
	func(p *Plan) bool { return p.eachFault(func(f *Fault) bool { return put(&f.For, (f.For+1)/2) }) },
}

// put stores a value, and reports whether another one was there.
func put[T comparable](at *T, v T) bool {
	changed := *at != v
	*at = v
	return changed
}

// either reports whether any of several changes was one. All of them are made before it is called.
func either(changed ...bool) bool {
	for _, c := range changed {
		if c {
			return true
		}
	}
	return false
}

func (p *Plan) eachApp(change func(*App) bool) (changed bool) {
	for i := range p.Apps {
		changed = either(changed, change(&p.Apps[i]))
	}
	return changed
}

func (p *Plan) eachDecl(change func(*views.Declaration) bool) (changed bool) {
	for i := range p.Decls {
		changed = either(changed, change(&p.Decls[i]))
	}
	return changed
}

func (p *Plan) eachNode(change func(*Node) bool) (changed bool) {
	for i := range p.Nodes {
		changed = either(changed, change(&p.Nodes[i]))
	}
	return changed
}

func (p *Plan) eachFault(change func(*Fault) bool) (changed bool) {
	for i := range p.Faults {
		changed = either(changed, change(&p.Faults[i]))
	}
	return changed
}

func (p *Plan) eachPair(change func(*simnet.Kind, *simnet.Delay) bool) (changed bool) {
	for a := range p.Nodes {
		for b := range p.Nodes {
			changed = either(changed, change(&p.Net.Kinds[a][b], &p.Net.Delays[a][b]))
		}
	}
	return changed
}

func (p *Plan) withoutLogs() bool {
	return p.eachDecl(func(d *views.Declaration) bool {
		return d.Mode == views.Persistent && put(&d.Mode, views.Ordered)
	}) && p.forgetDisks()
}

func (p *Plan) withoutLarges() bool {
	larges := p.eachApp(func(a *App) bool { return put(&a.LargeIn, 0) })
	return either(larges, put(&p.BulkTime, time.Duration(0)), put(&p.Bodies, BodyPlan{}), p.eachDecl(func(d *views.Declaration) bool {
		return either(put(&d.MaxMessageBytes, 0), put(&d.LargeMemoryBytes, 0))
	}))
}

func (p *Plan) withoutShards() bool {
	return p.eachDecl(func(d *views.Declaration) bool {
		return either(put(&d.Shards, 0), put(&d.MinMembers, 0), put(&d.MaxMembers, 0), put(&d.LayoutName, ""))
	})
}
