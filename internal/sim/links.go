package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/attach"
	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/internal/simnet"
)

// linkEnd is one process's end of the two connections that large bodies travel on between it and
// another process: one for control frames and one for blocks. All groups of transfers share them.
// Each keeps its order; what travels on one may overtake what travels on the other.
//
// Life: both ends stand → one breaks, or its process ends → the other hears of that behind what
// still arrives, or finds that nothing is heard any more.
type linkEnd struct {
	number attach.Link
	proc   *process
	other  *linkEnd
	turn   *turn
	over   bool
	frames []frame // on their way here, by arrival
	blocks []block
	ends   time.Duration // when the end of the other side is here; never: it does not end
	groups []*tied       // by channel, from 1; nil: the channel was taken back

	reading *block // nil: none
	wholeAt time.Duration

	sentAt    time.Duration // when frames were last sent here
	lastFrame time.Duration // when the last one arrives
	lastBlock time.Duration
	heard     time.Duration // on the process's own clock
}

// tied is a group that has a channel on a link, and the place of the other side in it.
type tied struct {
	*transfers
	place int
}

// frame is a control frame on its way.
type frame struct {
	at time.Duration
	c  relay.Control
}

// block is a block on its way.
type block struct {
	at   time.Duration
	h    relay.Header
	data []byte
	// Once it is being read:
	from   *tied
	into   []byte
	memory *memory
}

// link is the process's end of the link to another one, or nil.
func (p *process) link(q *process) *linkEnd {
	for i := len(p.links) - 1; i >= 0; i-- {
		if e := p.links[i]; e.other.proc == q && !e.over {
			return e
		}
	}
	return nil
}

// connect makes a link. What both processes have open is offered to the other one.
func (w *world) connect(p, q *process) {
	if p.over || q.over {
		return
	}
	w.links++
	a, b := &linkEnd{number: w.links, proc: p, ends: never}, &linkEnd{number: w.links, proc: q, ends: never}
	a.other, b.other = b, a
	for _, e := range []*linkEnd{a, b} {
		takes := 3 * w.frameTime(e.other.proc, e.proc) // a dial, its answer, and a greeting
		e.lastFrame, e.lastBlock, e.sentAt = w.now+takes, w.now+takes, never
		e.heard = e.proc.local()
		e.proc.links = append(e.proc.links, e)
	}
	for _, e := range []*linkEnd{a, b} {
		peer := attach.Proof{ID: e.other.proc.self.ID, Key: e.other.proc.key}
		e.proc.meet(func(n *attach.Node, out *attach.Effects) { n.Up(e.number, peer, e == a, e.proc.local(), out) })
		e.proc.watchPeers()
	}
}

// meet gives package attach an input, and applies its effects, as package rdmc does. A process that
// a fault ends at one of its moves finishes its step, and has no links for what it still opens.
func (p *process) meet(input func(a *attach.Node, out *attach.Effects)) {
	if p.over {
		return
	}
	var out attach.Effects
	input(&p.meets, &out)
	for i := range out {
		p.tie(&out[i])
	}
}

func (p *process) tie(e *attach.Effect) {
	t := p.groups[e.Group]
	var l *linkEnd // nil: it has ended
	if i := slices.IndexFunc(p.links, func(l *linkEnd) bool { return l.number == e.Link }); i >= 0 {
		l = p.links[i]
	}
	switch e.Do {
	case attach.Say:
		if l != nil {
			l.say(e.Frame)
		}
	case attach.Tie:
		l.groups = append(l.groups, &tied{t, e.Place})
		t.ends[e.Place] = l
	case attach.Untie:
		if l != nil {
			l.groups[e.Channel-1] = nil
		}
		t.ends[e.Place] = nil
	case attach.GiveUp:
		p.world.probes[PeerSilent]++
		l.breaks(false)
	case attach.Await:
		p.world.later(p.world.plan.FailAfter()/4, func() {
			if !p.over {
				p.meet(func(a *attach.Node, out *attach.Effects) { a.Elapsed(e.Timer, out) })
			}
		})
	case attach.Stranger:
		p.world.fail(fmt.Errorf("sim: node %d offers a group of other members", l.other.proc.self.ID))
	default:
		t.news(e)
	}
}

// frameTime draws how long a control frame takes.
func (w *world) frameTime(from, to *process) time.Duration {
	d := w.plan.Net.Delays[from.node.place][to.node.place]
	return d.Base + time.Duration(w.bulk.Int64N(int64(d.Jitter)+1))
}

// say sends a control frame to the other side. What is said at one moment arrives at one moment.
func (e *linkEnd) say(c relay.Control) {
	o, w := e.other, e.proc.world
	if e.over {
		return
	}
	if o.sentAt != w.now {
		o.sentAt = w.now
		o.lastFrame = max(o.lastFrame, w.now+w.frameTime(e.proc, o.proc))
	}
	if o.over || o.ends != never {
		return
	}
	o.frames = append(o.frames, frame{o.lastFrame, c})
	o.wakeAt(o.lastFrame)
}

// carry sends a block to the other side, which takes a while, and returns when the connection has
// taken it. The block before has arrived, or is lost.
func (e *linkEnd) carry(b block, takes time.Duration) (taken time.Duration) {
	o, w := e.other, e.proc.world
	o.lastBlock = w.now + takes
	if !e.over && !o.over && o.ends == never {
		b.at = o.lastBlock
		o.blocks = append(o.blocks, b)
		o.wakeAt(b.at)
	}
	return w.now + takes/2
}

func (e *linkEnd) wakeAt(at time.Duration) {
	e.turn = e.proc.world.schedule.wake(e.turn, at, e)
}

// act implements actor: what has arrived is read.
func (e *linkEnd) act(now time.Duration) time.Duration {
	p := e.proc
	if e.over {
		return never
	}
	if until, held := p.held(now); held {
		return until
	}
	if e.isCut() {
		return now + p.world.plan.Hop()
	}
	if e.reading != nil && e.wholeAt != never && now >= e.wholeAt {
		e.read(relay.Whole)
	}
	for len(e.frames) > 0 && e.frames[0].at <= now && !e.over {
		f := e.frames[0]
		e.frames = e.frames[1:]
		e.heard = p.local()
		e.hear(&f)
	}
	for len(e.blocks) > 0 && e.blocks[0].at <= now && e.reading == nil && !e.over {
		b := e.blocks[0]
		e.blocks = e.blocks[1:]
		e.begin(&b)
	}
	if e.ends != never && now >= e.ends && len(e.frames) == 0 && !e.over {
		e.breaks(false)
	}
	return e.next(now)
}

// next is when there is something to do.
func (e *linkEnd) next(now time.Duration) time.Duration {
	at := e.ends
	switch {
	case e.over:
		return never
	case len(e.frames) > 0:
		at = e.frames[0].at
	}
	switch {
	case e.reading == nil && len(e.blocks) > 0:
		at = sooner(at, e.blocks[0].at)
	case e.reading != nil:
		at = sooner(at, e.wholeAt)
	}
	if at == never {
		return never
	}
	return max(at, now)
}

// isCut reports whether what the other side sends does not arrive now.
func (e *linkEnd) isCut() bool {
	from, to := e.other.proc.node, e.proc.node
	return from.cuts>>to.place&1 != 0 && e.proc.world.plan.Net.Kinds[from.place][to.place] == simnet.Framed
}

// hear takes a control frame.
func (e *linkEnd) hear(f *frame) {
	p := e.proc
	switch f.c.Kind {
	case relay.Attach, relay.Leave, relay.Ping, relay.Pong:
		p.meet(func(a *attach.Node, out *attach.Effects) {
			if err := a.Hear(e.number, &f.c, p.local(), out); err != nil {
				p.world.fail(err)
			}
		})
		return
	}
	if t := e.group(f.c.Channel); t != nil && !t.step(t.place, &f.c) {
		p.meet(func(a *attach.Node, out *attach.Effects) { a.Speaks(e.number, f.c.Channel, out) })
		t.step(t.place, &f.c)
	}
}

// group is what a channel stands for; nil if it was taken back.
func (e *linkEnd) group(channel uint32) *tied { return e.groups[channel-1] }

// begin takes the header of a block. The block itself is read at once, or takes a while.
func (e *linkEnd) begin(b *block) {
	w := e.proc.world
	t := e.group(b.h.Channel)
	if t == nil {
		return
	}
	if b.into, b.memory = t.expect(t.place, &b.h); b.into == nil {
		return
	}
	b.from, e.reading, e.wholeAt = t, b, w.now
	switch {
	case e.ends != never && w.bulk.oneIn(2):
		e.wholeAt = never // the end of the connection comes before the end of the block
	case w.bulk.oneIn(2):
		e.wholeAt = w.now + w.bulk.upTo(w.plan.Hop()/4)
	default:
		e.read(relay.Whole)
	}
}

// read is the end of the block that is being read.
func (e *linkEnd) read(a relay.Arrival) {
	b, w := e.reading, e.proc.world
	e.reading = nil
	if !b.memory.used {
		w.judge("release", violated("R5", "node %d reads block %d of message %d into memory that was given back", e.proc.self.ID, b.h.Block, b.h.Message))
	}
	if a == relay.Whole {
		copy(b.into, b.data)
		e.heard = e.proc.local()
		if checksum(b.into) != b.h.Sum {
			a = relay.Damaged
		}
	} else {
		copy(b.into, b.data[:w.bulk.IntN(len(b.data))])
		w.probes[BlockCut]++
	}
	b.from.arrived(b.from.place, &b.h, a)
}

// breaks is the end of the link at this side: its groups are told. If it is half open from then on,
// the other side hears nothing of it, and nothing else.
func (e *linkEnd) breaks(halfOpen bool) {
	p, q, w := e.proc, e.other.proc, e.proc.world
	e.over = true
	e.frames, e.blocks = nil, nil
	p.links = slices.DeleteFunc(p.links, func(o *linkEnd) bool { return o == e })
	if e.reading != nil {
		e.read(relay.Cut)
	}
	if halfOpen {
		e.other.loses()
	} else {
		e.other.hearEnd()
	}
	p.meet(func(a *attach.Node, out *attach.Effects) { a.Down(e.number, p.local(), out) })
	if p.link(q) == nil && p.self.ID > q.self.ID {
		w.callAt(w.now+w.plan.Hop(), func() { // groups did not meet on the link that broke
			if p.meets.Misses(q.self.ID) && p.link(q) == nil {
				w.connect(p, q)
			}
		})
	}
}

// hearEnd has this side hear of the end of the other one, behind a part of what is on its way.
func (e *linkEnd) hearEnd() {
	w := e.proc.world
	if e.over || e.ends != never {
		return
	}
	e.loses()
	e.ends = max(e.lastFrame, w.now+w.plan.Net.NoticeAfter)
	e.wakeAt(max(w.now, e.next(w.now)))
}

// loses drops what is on its way here from some frame and some block on.
func (e *linkEnd) loses() {
	w := e.proc.world
	e.frames = e.frames[:w.bulk.IntN(len(e.frames)+1)]
	e.blocks = e.blocks[:w.bulk.IntN(len(e.blocks)+1)]
	if e.reading != nil && w.bulk.oneIn(2) {
		e.wholeAt = never
	}
}

// endLinks is the end of the links of a process that ends. If its host lost power, processes on
// other hosts hear nothing of it.
func (p *process) endLinks() {
	for _, e := range p.links {
		e.over = true
		o := e.other
		if p.unpowered && p.world.plan.Net.Kinds[p.node.place][o.proc.node.place] == simnet.Framed {
			o.loses()
			continue
		}
		o.hearEnd()
	}
	p.links = nil
}

// resetLinks breaks the links between two processes, and returns how many there were. A link may be
// half open from then on: only one side knows.
func (w *world) resetLinks(p, q *process, halfOpen bool) (broken int) {
	for _, e := range slices.Clone(p.links) {
		if e.other.proc != q || e.ends != never {
			continue
		}
		broken++
		e.breaks(halfOpen)
	}
	return broken
}

// isBusy reports whether a block or a group waits for the other side.
func (e *linkEnd) isBusy() bool {
	return e.reading != nil || slices.ContainsFunc(e.groups, func(t *tied) bool { return t != nil && t.relay.Busy() })
}

// watchPeers has the peers of a process watched, as long as it has links.
func (p *process) watchPeers() {
	if p.pulsing {
		return
	}
	p.pulsing = true
	pause := p.world.plan.FailAfter() / 4
	p.world.schedule.add(p.world.now+pause, acting(func(now time.Duration) time.Duration {
		if until, held := p.held(now); held {
			return until
		}
		for _, e := range slices.Clone(p.links) {
			p.meet(func(a *attach.Node, out *attach.Effects) { a.Watch(e.number, p.local(), e.heard, e.isBusy(), out) })
		}
		if p.pulsing = len(p.links) > 0; !p.pulsing {
			return never
		}
		return now + pause
	}))
}
