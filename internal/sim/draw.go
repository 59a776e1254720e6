package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/order"
	rdmcschedule "github.com/squall-go/squall/rdmc/schedule"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/views"
)

// Draw makes the plan of a seed.
func Draw(seed uint64, l Limits) *Plan {
	d := newDice(seed)
	// dice of their own: what else a seed draws does not depend on them
	also := func(what uint64) dice { return dice{rand.New(rand.NewPCG(seed, what))} }
	p := &Plan{Seed: seed, Limits: l, Initial: l.Nodes}
	faulty := d.IntN(3) > 0
	if l.Faults != nil {
		faulty = *l.Faults
	}
	devotion := also(0xde707e)
	devoted, joiners := faulty && l.Kinds == 0 && devotion.oneIn(8), 0
	if p.Initial == 0 {
		p.Initial = d.size(devoted)
	}
	if faulty && !devoted {
		joiners = d.joiners(p.Initial)
	}
	d.nodes(p, p.Initial+joiners)
	d.subgroups(p, faulty)
	d.net(p, len(p.Nodes))
	faults := 0
	if faulty {
		faults = pick(d, 1, 1, 2, 3, 5)
	}
	p.Beats = pick(also(0xbea7), 1, 4, 4, 4, 8, 8) // most steps of a run are heartbeats
	// before anything asks for the bounds, which depend on it
	d.mutes(p, faulty)
	p.Faults = append(p.Faults, make([]Fault, faults)...)
	d.apps(p, cmp.Or(l.Messages, d.messages(devoted)), faulty)
	d.inboxes(p)
	if faulty {
		d.faults(p)
		d.joins(p)
	}
	also(0x1a46e).larges(p)
	also(0xd15c).keep(p, faulty)
	also(0x5a4d).split(p)
	still := also(0x57111)
	stands := faulty && !devoted && l.Kinds == 0 && p.Initial >= 3 && still.oneIn(16)
	switch {
	case devoted:
		devotion.devote(p)
	case stands:
		still.still(p)
	}
	p.also(also, faulty)
	if faulty && !devoted && !stands && l.Kinds == 0 {
		also(0xd02e).dozes(p)
	}
	return p
}

// also draws what has dice of its own.
func (p *Plan) also(dice func(what uint64) dice, faulty bool) {
	dice(0x57a7e).states(p)
	if faulty {
		dice(0x917e).givers(p)
		dice(0x9057).ghosts(p)
		dice(0x11e).lies(p)
		p.Keep.TornIn = pick(dice(0x7043), 0, 50, 12)
	}
	if p.Reads.Count == 0 {
		dice(0x4ead).reads(p)
	}
	dice(0x6e9).keepers(p)
	p.Beside = pick(dice(0xbe51de), 0, 100, 20, 5)
}

// size draws how many members found a group. What a run takes grows with the square of that, and
// nearly all that can go wrong does so among three to five: there is a quorum without one of them,
// and a half.
func (d dice) size(devoted bool) int {
	if devoted {
		return pick(d, 3, 4, 5, 6)
	}
	return pick(d, 1, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 6, 7)
}

// joiners draws how many nodes come later. Groups of more than six are rare.
func (d dice) joiners(initial int) int {
	n := pick(d, 0, 0, 0, 1, 1, 2, 4)
	if d.oneIn(16) {
		return n
	}
	return min(n, max(6-initial, 0))
}

// messages draws how many messages all applications send together, about.
func (d dice) messages(devoted bool) int {
	if devoted {
		return 50
	}
	return 50 + d.IntN(pick(d, 100, 100, 350))
}

// dice draws parts of a plan.
type dice struct{ *rand.Rand }

func newDice(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 0x5157))} }

func (d dice) oneIn(n int) bool { return n > 0 && d.IntN(n) == 0 }

// upTo draws a duration from (0, most], small ones as often as large ones.
func (d dice) upTo(most time.Duration) time.Duration {
	return 1 + time.Duration(d.Int64N(max(1, int64(most)>>d.IntN(4))))
}

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

func (d dice) nodes(p *Plan, n int) {
	for len(p.Nodes) < n {
		id := order.NodeID(1 + d.IntN(40))
		if !slices.ContainsFunc(p.Nodes, func(m Node) bool { return m.ID == id }) {
			p.Nodes = append(p.Nodes, Node{ID: id, Pace: d.pace(), Ask: d.Perm(n)})
		}
	}
}

// some draws at least one of the nodes, in no order; nil stands for all of them.
func (d dice) some(all []order.NodeID) []order.NodeID {
	if d.oneIn(2) {
		return nil
	}
	ids := slices.Clone(all)
	d.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids[:1+d.IntN(len(ids))]
}

func (d dice) subgroups(p *Plan, faulty bool) {
	var all []order.NodeID
	for _, n := range p.Nodes {
		all = append(all, n.ID)
	}
	for i := range pick(d, 1, 1, 1, 2, 2, 3) {
		decl := views.Declaration{
			Name: string(rune('a' + i)), Members: d.some(all), Mode: pick(d, views.Ordered, views.Ordered, views.Ordered, views.Unordered),
			RingBytes: pick(d, 4<<10, 4<<10, 4<<10, 8<<10, 16<<10), Window: pick(d, 4, 4, 8, 16, 64),
		}
		of := decl.Members
		if of == nil {
			of = all
		}
		decl.Senders = d.some(of)
		if faulty && d.oneIn(3) {
			d.shards(&decl, len(of))
		}
		p.Decls = append(p.Decls, decl)
	}
	if d.oneIn(6) {
		p.Tuning = multicast.Tuning{OneSend: d.oneIn(2), OneReceive: d.oneIn(2), OneDeliver: d.oneIn(2)}
	}
}

// shards splits a declaration that has so many members at most.
func (d dice) shards(decl *views.Declaration, most int) {
	decl.Shards = min(pick(d, 1, 2, 2, 3), most)
	decl.MinMembers = 1 + d.IntN(max(1, most/decl.Shards))
	if d.oneIn(2) {
		decl.MaxMembers = decl.MinMembers + d.IntN(2)
	}
}

func (d dice) net(p *Plan, n int) {
	const us = time.Microsecond
	kinds := pick(d, []simnet.Kind{simnet.Framed}, []simnet.Kind{simnet.Framed}, []simnet.Kind{simnet.Seeping}, []simnet.Kind{simnet.Shared},
		[]simnet.Kind{simnet.Framed, simnet.Shared, simnet.Seeping})
	delay := simnet.Delay{Base: d.upTo(50 * us), Jitter: d.upTo(100 * us), Tail: d.upTo(1000 * us), TailEvery: pick(d, 0, 8, 64)}
	for a := range n {
		p.Net.Kinds = append(p.Net.Kinds, make([]simnet.Kind, n))
		p.Net.Delays = append(p.Net.Delays, make([]simnet.Delay, n))
		for b := range n {
			p.Net.Delays[a][b] = delay
			if d.oneIn(8) { // a pair that is far apart, in one direction
				p.Net.Delays[a][b].Base += d.upTo(500 * us)
			}
			if b < a {
				p.Net.Kinds[a][b] = pick(d, kinds...)
				p.Net.Kinds[b][a] = p.Net.Kinds[a][b]
			}
		}
	}
	p.Net.SocketBytes = pick(d, 0, 0, 400, 1500, 6000)
	p.Net.PieceBytes = pick(d, 0, 0, 40, 300)
	p.Net.FrameRanges = pick(d, 0, 0, 1, 3)
	p.Net.NoticeAfter = d.upTo(500 * us)
	if d.oneIn(4) {
		p.Outages, p.Outage = 1+d.IntN(4), d.upTo(1000*us)
	}
}

func (d dice) pace() Pace {
	p := Pace{Step: 2*time.Microsecond + d.upTo(30*time.Microsecond), Spins: pick(d, 0, 1, 8)}
	if d.oneIn(6) {
		p.Step *= 8
	}
	if d.oneIn(3) {
		p.Pause, p.PauseEvery = d.upTo(time.Millisecond), pick(d, 20, 100)
	}
	return p
}

// mutes makes the applications, some of which will not want to send for a while.
func (d dice) mutes(p *Plan, faulty bool) {
	for i := range p.Nodes {
		for k := range p.Decls {
			a := App{Node: i, Decl: k}
			if faulty && d.oneIn(6) {
				a.Mute = 1
			}
			p.Apps = append(p.Apps, a)
		}
	}
}

// apps shares the messages out among the applications that may send, some of which stay silent.
func (d dice) apps(p *Plan, messages int, faulty bool) {
	p.Messages = messages
	loud := 0
	for i := range p.Apps {
		a := &p.Apps[i]
		decl, id := p.Decls[a.Decl], p.Nodes[a.Node].ID
		*a = d.app(p, *a, decl.RingBytes/2, faulty)
		if a.Mute > 0 {
			a.Mute, a.Unmute = d.upTo(p.FailAfter()), d.upTo(2*p.FailAfter())
		}
		may := (len(decl.Senders) == 0 || slices.Contains(decl.Senders, id)) && (len(decl.Members) == 0 || slices.Contains(decl.Members, id))
		if may && !d.oneIn(5) {
			a.Messages = 1
		}
		loud += a.Messages
	}
	for i := range p.Apps {
		p.Apps[i].Messages *= (messages + loud - 1) / max(loud, 1)
	}
}

func (d dice) app(p *Plan, a App, most int, faulty bool) App {
	a.Start = d.upTo(200 * time.Microsecond)
	if d.oneIn(8) { // silent until all members would notice that the order waits for it
		a.Start = 20*time.Millisecond + d.upTo(100*time.Millisecond)
	}
	a.Gap = d.upTo(pick[time.Duration](d, 5, 50, 300) * time.Microsecond)
	hold := d.upTo(500 * time.Microsecond)
	if faulty && d.oneIn(2) { // it sends while the fault comes, is noticed and is mended
		a.Gap = d.upTo(p.FailAfter() / 8)
	}
	if faulty && d.oneIn(3) {
		hold = d.upTo(5 * p.FailAfter())
	}
	a.Burst, a.MaxBytes = pick(d, 1, 1, 3, 40), pick(d, 0, 7, 16, 100, 100, 400, 400, most)
	a.Hold, a.HoldIn, a.AbortIn = hold, pick(d, 0, 0, 4, 20), pick(d, 0, 0, 3, 20)
	a.SkipIn, a.FutureIn = pick(d, 0, 0, 0, 4), pick(d, 0, 3, 10)
	return a
}

// larges has some applications send large messages, in one run of three.
func (d dice) larges(p *Plan) {
	if !d.oneIn(3) {
		return
	}
	p.BulkTime = d.upTo(pick(d, p.Hop(), p.Bound(), p.FailAfter()))
	for i := range p.Decls {
		p.Decls[i].MaxMessageBytes = pick(d, 100, 4<<10, 16<<10)
		p.Decls[i].LargeMemoryBytes = p.Decls[i].MaxMessageBytes * pick(d, 1, 2, 8)
	}
	for i := range p.Apps {
		p.Apps[i].LargeIn = pick(d, 0, 2, 8)
	}
	largest := 0
	for _, decl := range p.Decls {
		largest = max(largest, decl.MaxMessageBytes)
	}
	p.Bodies = BodyPlan{
		BlockBytes: pick(d, 0, largest/3, largest/5), Shared: d.oneIn(2),
		Algorithm: pick(d, rdmcschedule.Auto, rdmcschedule.Pipeline, rdmcschedule.Pipeline, rdmcschedule.Chain, rdmcschedule.Tree, rdmcschedule.Sequential),
	}
}

// keep has some subgroups keep what they deliver, in every other run.
func (d dice) keep(p *Plan, faulty bool) {
	if d.oneIn(2) {
		d.keeps(p, faulty)
	}
}

func (d dice) keeps(p *Plan, faulty bool) {
	for i := range p.Decls {
		if decl := &p.Decls[i]; decl.Mode == views.Ordered && !d.oneIn(3) {
			decl.Mode, decl.Members, decl.Shards, decl.MinMembers, decl.MaxMembers = views.Persistent, nil, 0, 0, 0
		}
	}
	if !p.keeps() { // the dice had it that none does
		decl := &p.Decls[0]
		decl.Mode, decl.Members, decl.Shards, decl.MinMembers, decl.MaxMembers = views.Persistent, nil, 0, 0, 0
	}
	d.disks(p, faulty)
}

// disks draws the disks of a run that keeps anything.
func (d dice) disks(p *Plan, faulty bool) {
	for i := range p.Nodes {
		p.Nodes[i].Skew = d.upTo(pick(d, time.Microsecond, p.Bound(), 10*p.FailAfter()))
		p.Keep.Disks = append(p.Keep.Disks, DiskPlan{Sync: d.upTo(pick(d, p.Hop(), 4*p.Hop())), SlowIn: pick(d, 0, 0, 20), Slow: d.upTo(p.Bound() / 4)})
	}
	p.Keep.Memory, p.Keep.Block, p.Keep.After = pick(d, 600, 4<<10, 64<<10, 0), pick(d, 512, 2<<10, 0), pick(d, 0, 0, 1<<len(p.Decls)-1, d.Uint64())
	for i := range p.Apps {
		if a, decl := &p.Apps[i], p.Decls[p.Apps[i].Decl]; decl.Mode == views.Persistent {
			a.MaxBytes = min(a.MaxBytes, decl.RingBytes/2-smc.TimeBytes)
		}
	}
	if faulty {
		d.spoils(p)
	}
}

// split has some of the subgroups that keep what they deliver do so in shards, and others among
// some members only. In some of these members move at every change.
func (d dice) split(p *Plan) {
	for i := range p.Decls {
		decl := &p.Decls[i]
		if decl.Mode != views.Persistent || len(p.Nodes) < 2 || d.oneIn(3) {
			continue
		}
		if d.shards(decl, len(p.Nodes)); d.oneIn(3) {
			decl.Shards = 0
		} else {
			decl.Shards = max(2, decl.Shards)
			decl.LayoutName = pick(d, "", turning)
		}
	}
}

// spoils draws the faults of disks, and whether all processes end at once.
func (d dice) spoils(p *Plan) {
	n, at, contested := len(p.Nodes), d.upTo(4*p.FailAfter()), false
	kinds := p.Limits.Kinds.of(SyncCut, SyncCut, FullDisk, SlowDisk, LostDisk, DamagedLogs, ClockBack, Stranger, Stranger)
	for range min(len(kinds), pick(d, 0, 1, 1, 2)) {
		f := Fault{Kind: pick(d, kinds...), At: d.upTo(4 * p.FailAfter()), Node: d.IntN(n), For: d.upTo(4 * p.FailAfter())}
		f.Peer, f.Nth, f.InStep = d.IntN(len(p.Decls)), 1+d.IntN(12), d.IntN(int(allParts)+1)
		if f.Kind == SlowDisk {
			f.Set = uint64(d.IntN(2))
		}
		p.Faults = append(p.Faults, f)
	}
	if p.Limits.Kinds.Has(Blackout) && !d.oneIn(8) {
		f := Fault{Kind: Blackout, At: at, Peer: pick(d, 0, 1, 2), For: d.upTo(pick(d, p.Hop(), p.FailAfter())), Set: d.Uint64() & d.Uint64() & d.Uint64() & pick[uint64](d, 0, 1<<n-1)}
		if d.oneIn(2) { // one has more on its disk than the others, and comes when they have gone on
			for i := range p.Keep.Disks {
				p.Keep.Disks[i].Sync = p.Bound() / 4
			}
			f.Node, f.Nth = d.IntN(n), 1
			p.Keep.Disks[f.Node].Sync = p.Hop() / 4
		}
		// in the middle of a view change, of which few know how it ends
		if n > 1 && p.Limits.Kinds.Has(Crash) && d.oneIn(4) {
			p.Faults = append(p.Faults, Fault{Kind: Crash, At: at, Node: d.IntN(n)})
			f.At, f.On, f.Nth, f.For = at+1, pick(d, Acks, Decides, Echoes, Echoes, Completes), 1, d.upTo(p.Hop())
		}
		if n > 3 && p.Limits.Kinds == 0 && d.oneIn(8) {
			f = d.overtaken(p, &p.Faults, at)
		}
		p.Faults = append(p.Faults, f)
		contested = d.relapses(p, at)
	}
	for i := range p.Nodes {
		if p.Nodes[i].Times == 0 && d.oneIn(2) {
			p.Nodes[i].Returns, p.Nodes[i].Times = d.upTo(2*p.FailAfter()), 1
		}
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	p.Keep.LostIn = pick(d, 0, 0, 4, 20)
	if p.Keep.LateIn = pick(d, 0, 0, 3, 10); contested {
		p.Keep.LateIn = pick(d, 0, 2, 2, 4)
	}
}

// overtaken ends all processes as a second view change is done soon after the first one, of which
// the disk of a slow member has no more than the echo.
func (d dice) overtaken(p *Plan, all *[]Fault, at time.Duration) (blackout Fault) {
	n := p.Initial
	*all = append(*all,
		Fault{Kind: Crash, At: at, Node: d.IntN(n)},
		Fault{Kind: SlowDisk, At: at + 1, On: Echoes, Nth: 1 + d.IntN(2), Set: 1, For: p.FailAfter() + d.upTo(p.FailAfter())},
		Fault{Kind: Crash, At: at + 1, On: Installs, Nth: 1 + d.IntN(3)},
	)
	return Fault{Kind: Blackout, At: at + 1, On: Installs, Nth: n + d.IntN(max(1, min(4, n-2))), For: d.upTo(4 * p.Hop())}
}

// relapses has some of the processes that come back after all had ended end once more, in the
// middle of that, or lose each other for a while, so that several of them lead. It reports whether
// they are rivals.
func (d dice) relapses(p *Plan, at time.Duration) (contested bool) {
	contest := d.IntN(5)
	switch {
	case contest == 0 && p.Limits.Kinds.Has(OneWayCut) && len(p.Nodes) > 2:
		cut, late := d.rivals(p, at)
		blackout := &p.Faults[len(p.Faults)-1]
		blackout.Node, blackout.Nth = late, 1
		p.Faults = append(p.Faults, cut)
	case contest < 3 && p.Limits.Kinds.Has(Crash) && len(p.Nodes) > 2:
		p.Faults = append(p.Faults, d.duel(p, at)...)
	case p.Limits.Kinds.Has(Crash):
		for range pick(d, 0, 1, 2, 4) {
			p.Faults = append(p.Faults, Fault{
				Kind: pick(d, Crash, PowerOff), At: at + 1, Node: d.IntN(len(p.Nodes)),
				On: pick(d, Promises, Promises, Plans, Completing, Votes, Votes, Votes, Restarts), Nth: 1 + d.IntN(pick(d, 1, 4)), InStep: d.IntN(4),
			})
		}
	}
	if p.Limits.Kinds.Has(Partition) && d.oneIn(3) {
		p.Outages = 0
		for range 1 + d.IntN(3) {
			at += d.upTo(4 * p.FailAfter())
			f := Fault{Kind: Partition, At: at, For: d.upTo(8 * p.FailAfter())}
			d.sides(p, &f)
			p.Faults = append(p.Faults, f)
			at += f.For
		}
	}
	return contest < 3
}

// rivals has two of the processes that come back not hear each other, for as long as several
// attempts take, and stay alive. Another one, which hears both, comes late: so both are able to
// lead at the same time, and the others promise and vote for one and the other by turns.
func (d dice) rivals(p *Plan, at time.Duration) (cut Fault, late int) {
	p.Outages = 0
	a, b := 0, 1
	if d.oneIn(4) {
		a = 2
	}
	p.Net.Kinds[a][b], p.Net.Kinds[b][a] = simnet.Framed, simnet.Framed
	late = 3 - a - b
	if len(p.Nodes) > 3 && d.oneIn(2) {
		late = 3 + d.IntN(len(p.Nodes)-3)
	}
	return Fault{Kind: OneWayCut, At: at + 1, Node: a, Peer: b, For: 16*p.FailAfter() + d.upTo(32*p.FailAfter())}, late
}

// duel ends a leader of a restart with a vote that few processes or none received, or cuts it off
// from the others. It is away until others have voted for another view, and one or two of them have
// ended, or were cut off, as well.
func (d dice) duel(p *Plan, at time.Duration) (all []Fault) {
	nth := 1
	for range 2 + d.IntN(2) {
		away := pick[time.Duration](d, 1, 4, 12) * p.FailAfter()
		f := Fault{Kind: Crash, At: at + 1, Node: d.IntN(len(p.Nodes)), On: Votes, Nth: nth, InStep: pick(d, 0, 0, 1, 2), For: away + d.upTo(away)}
		if p.Limits.Kinds.Has(Partition) && d.oneIn(2) {
			f.Kind, f.Nth, f.InStep, p.Outages = Partition, nth+d.IntN(3), 0, 0
			p.Net.frame()
		}
		all = append(all, f)
		nth += 1 + d.IntN(2)
	}
	return all
}

func (d dice) inboxes(p *Plan) {
	for range p.Nodes {
		var row []Inbox
		for range p.Decls {
			row = append(row, Inbox{ShutIn: pick(d, 0, 0, 3, 12), Shut: d.upTo(300 * time.Microsecond), MaxRun: pick(d, 0, 0, 1, 3, 1024)})
		}
		p.Inboxes = append(p.Inboxes, row)
	}
}

// keepers draws which applications keep messages after their upcalls.
func (d dice) keepers(p *Plan) {
	for _, row := range p.Inboxes {
		for k := range row {
			row[k].Keep, row[k].KeepFor = pick(d, 0, 0, 1, 3, 16), d.upTo(300*time.Microsecond)
		}
	}
}

// joins draws when the later nodes ask to be members, at once or one after the other, and which
// nodes come back.
func (d dice) joins(p *Plan) {
	together := d.upTo(p.FailAfter())
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Joins = together; d.oneIn(2) {
			n.Joins = d.upTo(2 * p.FailAfter())
		}
		if d.oneIn(3) && len(p.Nodes) > 1 {
			n.Returns, n.Times = d.upTo(pick[time.Duration](d, 1, 2, 4)*p.FailAfter()), 1+d.IntN(2)
		}
	}
}

// faults draws what goes wrong: each a while after the one before, which is anything from the
// middle of its view change to long after it.
func (d dice) faults(p *Plan) {
	at := d.upTo(4 * time.Millisecond)
	if d.oneIn(3) {
		at = d.upTo(p.FailAfter())
	}
	var all []Fault
	for range p.Faults {
		all = append(all, d.fault(p, at)...)
		at += d.upTo(pick(d, 100*time.Microsecond, p.Hop(), p.Bound(), p.FailAfter(), 4*p.FailAfter()))
	}
	if p.Limits.Kinds == 0 {
		switch d.IntN(12) {
		case 0, 1:
			all = d.succession(p, at)
		case 2:
			all = d.schism(p, at)
		case 3:
			all = d.estrangement(p, at)
		}
	}
	slices.SortStableFunc(all, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	p.Faults = all
	if slices.ContainsFunc(all, func(f Fault) bool { return f.Kind == OneWayCut || f.Kind == Partition }) {
		p.Outages = 0 // they would heal what has to stay cut
	}
}

// succession is the hardest case of a view change: the member that begins the next view first ends
// before it could say so, and another one leads, which does not know yet.
func (d dice) succession(p *Plan, at time.Duration) []Fault {
	p.Net.SocketBytes = pick(d, 400, 400, 1500)
	for a := range p.Nodes {
		for b := range p.Nodes {
			p.Net.Delays[a][b].Base = d.upTo(p.Hop() / 2)
		}
	}
	p.Net.frame()
	return []Fault{
		{Kind: pick(d, Crash, Leave), At: at, Node: len(p.Nodes) - 1, For: p.FailAfter()},
		{Kind: pick(d, Crash, Crash, PowerOff), At: at, On: pick(d, Installs, Installs, Completes), Nth: 1, InStep: 1 + d.IntN(pick(d, 1, 4))},
	}
}

// estrangement cuts the leader off in the middle of a change, until about when the others give it
// up: what it decided, or will, and what they decide must be the same.
func (d dice) estrangement(p *Plan, at time.Duration) []Fault {
	for a := range p.Nodes {
		p.Net.Kinds[a][0], p.Net.Kinds[0][a] = simnet.Framed, simnet.Framed
	}
	return []Fault{
		{Kind: Crash, At: at, Node: p.Initial - 1},
		{Kind: Partition, At: at + d.upTo(2*p.Hop()), Set: 1, For: p.FailAfter() + d.upTo(8*p.Hop())},
	}
}

// schism crashes the members that learn of a decision first while a part of the group is being
// given up: the rest finds the decision at few members, or at none.
func (d dice) schism(p *Plan, at time.Duration) []Fault {
	split := Fault{Kind: Partition, At: at}
	d.sides(p, &split)
	all := []Fault{split}
	for range 1 + d.IntN(2) {
		all = append(all, Fault{Kind: Crash, At: at + 1, On: pick(d, Echoes, Echoes, Decides, Completes), Nth: 1 + d.IntN(3), InStep: 1 + d.IntN(12)})
	}
	return all
}

func (d dice) fault(p *Plan, at time.Duration) []Fault {
	n := len(p.Nodes)
	f := Fault{At: at, Node: d.IntN(n)}
	kinds := p.Limits.Kinds.of(Crash, Crash, Crash, Crash, PowerOff, PowerOff, Hang, Hang, SlowUpcall, ClockJump, Leave, Leave, OneWayCut, Partition, Partition, Accuse, Reset, Reset)
	if len(kinds) == 0 {
		return nil // only disks are to be at fault
	}
	f.Kind = pick(d, kinds...)
	if d.oneIn(3) {
		f.Node = 0 // the senior is the most interesting one
	}
	switch f.Kind {
	case Crash, PowerOff:
		f.InStep = pick(d, 0, 1, 2, 5, 30)
		if d.oneIn(2) {
			f.On, f.Nth = pick(d, Proposes, Proposes, Acks, Acks, Decides, Decides, Echoes, Echoes, Completes, Completes, Installs, Asks, Meets, Readies, Enters), 1+d.IntN(pick(d, 1, 3))
			f.InStep = 1 + d.IntN(pick(d, 3, 12, 40))
		}
	case Hang, SlowUpcall, ClockJump:
		f.For = d.spell(p)
		if f.Kind == Hang && d.oneIn(3) {
			f.On, f.Nth = pick(d, Proposes, Acks, Decides, Echoes, Completes, Installs), 1
		}
	case Leave:
		return d.leaves(p, f)
	case OneWayCut:
		f.Peer = (f.Node + 1 + d.IntN(max(1, n-1))) % n
		f.For = d.outage(p)
		p.Net.Kinds[f.Node][f.Peer], p.Net.Kinds[f.Peer][f.Node] = simnet.Framed, simnet.Framed
	case Partition:
		f.For = d.outage(p)
		d.sides(p, &f)
	case Reset:
		f.On, f.Nth = pick(d, NoMove, Asks, Meets, Meets, Readies, Readies, Enters, Installs, Installs, Installs), 1+d.IntN(pick(d, 1, 3))
		f.InStep, f.Set = d.IntN(2), pick(d, 1<<n-1, d.Uint64())
	case Accuse:
		if d.oneIn(2) {
			f.On, f.Nth = pick(d, Acks, Decides, Echoes, Echoes), 1
		}
		f.Peer = (f.Node + 1 + d.IntN(max(1, n-1))) % n
	}
	return []Fault{f}
}

// spell draws how long a process does nothing: too short to be suspected, or long enough for all
// others to suspect it.
func (d dice) spell(p *Plan) time.Duration {
	if d.oneIn(3) {
		return d.upTo(p.FailAfter() / 8)
	}
	return p.FailAfter()*3/2 + d.upTo(3*p.FailAfter())
}

// dozes has a process stand still, in one of four runs with large messages, for about as long as
// others wait before they give its links up: neither so short that all of them stay, nor so long
// that all give it up.
func (d dice) dozes(p *Plan) {
	if p.BulkTime == 0 || len(p.Nodes) < 2 || !d.oneIn(4) {
		return
	}
	f := Fault{Kind: Hang, At: d.upTo(4 * p.FailAfter()), Node: d.IntN(len(p.Nodes)), For: p.FailAfter()/8 + time.Duration(d.Int64N(int64(p.FailAfter())*11/8))}
	if d.oneIn(2) { // as groups of transfers meet
		f.On, f.Nth = Installs, 1+d.IntN(2*len(p.Nodes))
	}
	p.Faults = append(p.Faults, f)
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
}

// outage is how long a way is cut.
func (d dice) outage(p *Plan) time.Duration {
	if d.oneIn(3) {
		return 0
	}
	return d.upTo(4 * p.FailAfter())
}

// leaves has several members leave at once, now and then all of them.
func (d dice) leaves(p *Plan, f Fault) (all []Fault) {
	who := d.Perm(len(p.Nodes))[:min(len(p.Nodes), pick(d, 1, 1, 1, 2, 3))]
	if d.oneIn(6) {
		who = d.Perm(len(p.Nodes))
	}
	for _, i := range who {
		f.Node = i
		all = append(all, f)
		f.At += d.upTo(pick(d, time.Microsecond, p.Hop()))
	}
	return all
}

// sides draws a partition, exactly a half as often as not.
func (d dice) sides(p *Plan, f *Fault) {
	n := len(p.Nodes)
	k := n / 2
	if d.oneIn(2) {
		k = d.IntN(n + 1)
	}
	for _, i := range d.Perm(n)[:k] {
		f.Set |= 1 << i
	}
	for a := range n {
		for b := range n {
			if f.Set>>a&1 != f.Set>>b&1 {
				p.Net.Kinds[a][b] = simnet.Framed
			}
		}
	}
}
