//go:build linux

package verbs

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/verbs/device"
	"github.com/squall-go/squall/fabric/verbs/internal/fake"
	"github.com/squall-go/squall/internal/sim"
	"github.com/squall-go/squall/internal/simnet"
)

// chaos is the transport of a run of the simulator: whole members over the fake network, in virtual
// time. Between the arrivals of which the simulator decides, each poll of a queue has the network
// make some steps.
type chaos struct {
	net    *fake.Network
	random *rand.Rand
	parker *fabric.Parker
	time   time.Time
	left   int // requests until a pair breaks; 0: none does
	tables []*links
	links  []*carried
}

func newChaos(seed uint64) simnet.Transport {
	parker, err := fabric.NewParker()
	if err != nil {
		panic(err)
	}
	c := &chaos{random: rand.New(rand.NewPCG(seed, 28)), parker: parker}
	c.net = fake.New(fake.Options{Seed: seed, SlowSends: c.random.IntN(3) == 0, Patient: c.random.IntN(2) == 0})
	if c.random.IntN(4) == 0 {
		c.left = 1 + c.random.IntN(2000)
	}
	return c
}

// now implements clock: no moment is like the one before.
func (c *chaos) now() time.Time {
	c.sleep(time.Millisecond >> c.random.IntN(8))
	return c.time
}

func (c *chaos) sleep(d time.Duration) { c.time = c.time.Add(d) }

// Open implements fabric.Transport.
func (c *chaos) Open(spec *fabric.Spec, own []byte) (fabric.Links, error) {
	s := *spec
	s.Parker = c.parker
	ls, err := New(c.net.Device()).Open(&s, own)
	if err != nil {
		return nil, err
	}
	t := ls.(*links)
	t.hub.clock = c
	c.tables = append(c.tables, t)
	return t, nil
}

// carried is a link of it.
type carried struct {
	*Link
	chaos  *chaos
	line   *simnet.Line
	frozen bool
	sum    uint32 // of the row as it was frozen
}

// Connect implements simnet.Transport.
func (c *chaos) Connect(a, b *simnet.Line) (simnet.Carried, simnet.Carried) {
	la, lb := c.end(a), c.end(b)
	sa, sb := la.setup(), lb.setup()
	la.join(&sb)
	lb.join(&sa)
	return la, lb
}

func (c *chaos) end(line *simnet.Line) *carried {
	l, err := line.Links.(*links).link(line.Peer)
	if err != nil {
		panic(err)
	}
	l.lifeline = tether{line}
	c.net.Cut(l.pair, line.Cut)
	end := &carried{Link: l, chaos: c, line: line}
	c.links = append(c.links, end)
	return end
}

func (l *carried) join(peer *setup) {
	l.remote = device.Region{Address: peer.Address, Key: peer.Key}
	if err := l.pair.Connect(peer.Pair); err != nil {
		panic(err)
	}
	l.pair = observed{l.pair, l}
}

// Freeze implements fabric.Link.
func (l *carried) Freeze() []byte {
	row := l.Link.Freeze()
	l.frozen, l.sum = true, crc32.ChecksumIEEE(row)
	return row
}

// Close implements fabric.Link.
func (l *carried) Close() error {
	if l.frozen && crc32.ChecksumIEEE(l.replica) != l.sum {
		panic("F4: a row changed after it was frozen")
	}
	return l.Link.Close()
}

// Waits implements simnet.Carried.
func (l *carried) Waits() bool { return len(l.inbox) > 0 || l.chaos.net.Waits(l.hub.queue) }

// Vanish implements simnet.Carried.
func (l *carried) Vanish() {
	if p, is := l.pair.(observed); is {
		l.chaos.net.Vanish(p.Pair)
	}
}

// observed is a pair whose requests arrive when the simulator says.
type observed struct {
	device.Pair
	link *carried
}

func (p observed) Post(receives []device.Receive, work []device.Work) error {
	if err := p.Pair.Post(receives, work); err != nil || len(work) == 0 {
		return err
	}
	c := p.link.chaos
	posted := c.net.Posted(p.Pair)
	p.link.line.Sent(func() { c.net.Arrive(p.Pair, posted) })
	if c.left > 0 {
		if c.left = max(0, c.left-len(work)); c.left == 0 && p.link.line.Breaks() {
			c.net.Break(p.Pair)
		}
	}
	return nil
}

// tether is the lifeline of a link: a connection of the simulator.
type tether struct{ *simnet.Line }

func (t tether) ended() bool { return t.Ended() }
func (t tether) look() bool  { return t.Ended() }
func (t tether) hangUp()     { t.HangUp() }
func (t tether) close() error {
	t.HangUp()
	return nil
}

// Close implements simnet.Transport. What is left are links of processes that crashed.
func (c *chaos) Close() {
	for _, l := range c.links {
		l.Vanish()
		if l.free != nil {
			l.pair = nil
			_ = l.release()
		}
	}
	for _, t := range c.tables {
		_ = t.Close()
	}
	c.net.Close()
	_ = c.parker.Close()
}

// drawMembers draws a plan in which all pairs are linked by the transport, or in one of four some.
func drawMembers(seed uint64) *sim.Plan {
	p := sim.Draw(seed, sim.Limits{})
	if seed%4 == 0 {
		return p
	}
	for _, row := range p.Net.Kinds {
		for b := range row {
			row[b] = simnet.Framed
		}
	}
	return p
}

// members plays whole members in the simulator, with all of its faults and checkers: they join,
// leave, crash and hang, and ways are cut. In one of four runs a pair breaks besides.
func members(first, count uint64) *sim.Campaign {
	return &sim.Campaign{First: first, Count: count, Draw: drawMembers, Options: sim.Options{Transport: newChaos}}
}

func TestMembers(t *testing.T) {
	c := members(*firstFlag, seedCount(60, 1000))
	if err := c.Run(); err != nil {
		t.Fatal(sim.ReportOf(c.Failed, c.Options, err, again(t, c.Failed.Seed)))
	}
	t.Logf("%d seeds, %d deliveries, %d views", c.Seeds, c.Deliveries, c.Views)
}

func TestMembersOfTheSameSeedDoTheSame(t *testing.T) {
	for seed := range uint64(5) {
		p, o := drawMembers(seed), sim.Options{Transport: newChaos}
		if a, b := sim.Run(p, o), sim.Run(p, o); a.Hash != b.Hash || a.Steps != b.Steps {
			t.Errorf("seed %d: %d steps, and %d", seed, a.Steps, b.Steps)
		}
	}
}
