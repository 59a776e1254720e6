package multicast_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// node is one member's part in one subgroup, stepped by hand on a table in memory.
type node struct {
	*multicast.Subgroup
	table *sst.Table
	log   []string        // what was delivered: "sender:data"
	seqs  []order.Seq     // their positions
	take  func(n int) int // how much of a run the application takes; nil is all
	runs  int             // the longest run it wants; 0 is any
	keep  func(multicast.Message)
}

// Deliver implements multicast.Receiver.
func (n *node) Deliver(run []multicast.Message) int {
	k := len(run)
	if n.take != nil {
		k = n.take(k)
	}
	for _, m := range run[:k] {
		if n.keep != nil {
			n.keep(m)
		}
		n.log = append(n.log, fmt.Sprintf("%d:%s", m.Sender, m.Data))
		n.seqs = append(n.seqs, m.Seq)
	}
	return k
}

// MaxRun implements multicast.Receiver.
func (n *node) MaxRun() int { return n.runs }

type group struct {
	t     *testing.T
	nodes []*node
	ways  *fabrictest.Memory
}

// newGroup lays one subgroup of n members out; senders are ranks, and without them all members
// send.
func newGroup(t *testing.T, n int, mode views.Mode, tuning multicast.Tuning, senders ...order.Rank) *group {
	t.Helper()
	return newGroupAfter(t, func(int, *multicast.Config) {}, n, mode, tuning, senders...)
}

// newGroupAfter is newGroup with something of a view before.
func newGroupAfter(t *testing.T, before func(r int, cfg *multicast.Config), n int, mode views.Mode, tuning multicast.Tuning, senders ...order.Rank) *group {
	t.Helper()
	return newGroupOf(t, views.Subgroup{Name: "a", Mode: mode, RingBytes: 4096, Window: 8, Senders: senders}, before, n, tuning)
}

// newGroupOf makes a group of all members of a subgroup, which are its senders unless it names
// them.
func newGroupOf(t *testing.T, sg views.Subgroup, before func(r int, cfg *multicast.Config), n int, tuning multicast.Tuning) *group {
	t.Helper()
	v := &views.View{ID: 1}
	for r := range n {
		v.Members = append(v.Members, views.Member{ID: order.NodeID(r + 1)})
		sg.Members = append(sg.Members, order.Rank(r))
	}
	if sg.Senders == nil {
		sg.Senders = sg.Members
	}
	v.Subgroups = []views.Subgroup{sg}
	if err := v.Validate(); err != nil {
		t.Fatal(err)
	}
	layout := sst.NewLayout(n)
	columns := multicast.Declare(layout, sg)
	var shapes []fabric.RowShape
	for r := range n {
		shapes = append(shapes, layout.Shape(order.Rank(r)))
	}
	g := &group{t: t, ways: fabrictest.NewMemory(shapes...)}
	for r := range n {
		table, err := sst.NewTable(layout, g.ways.Tables[r])
		if err != nil {
			t.Fatal(err)
		}
		one := &node{table: table}
		cfg := multicast.Config{View: v, Subgroup: sg, Columns: columns, Table: table, Receiver: one, Tuning: tuning}
		before(r, &cfg)
		one.Subgroup = multicast.New(cfg)
		table.OnMove(one.Rebind)
		g.nodes = append(g.nodes, one)
	}
	return g
}

// send commits a message at a member, and reports whether there was room.
func (g *group) send(r int, format string, args ...any) bool {
	g.t.Helper()
	data := fmt.Sprintf(format, args...)
	c, ok := g.nodes[r].Sender.Claim(len(data))
	if !ok {
		return false
	}
	copy(c.Bytes, data)
	if err := g.nodes[r].Sender.Commit(c); err != nil {
		g.t.Fatal(err)
	}
	return true
}

// cycle is one cycle of one member's loop.
func (n *node) cycle() int {
	work := n.table.Poll() + n.Step()
	n.table.Flush()
	return work
}

// settle steps all members until no member has anything to do: that this happens at all is
// quiescence (N1).
func (g *group) settle(ranks ...int) {
	g.t.Helper()
	if ranks == nil {
		for r := range g.nodes {
			ranks = append(ranks, r)
		}
	}
	for quiet, rounds := 0, 0; quiet < 3; rounds++ {
		work := 0
		for _, r := range ranks {
			work += g.nodes[r].cycle()
			if g.nodes[r].Holding() {
				work++
			}
		}
		if quiet++; work > 0 {
			quiet = 0
		}
		if rounds == 10000 {
			g.t.Fatal("the group does not come to rest")
		}
	}
}

// same checks that all members delivered the same, and returns it.
func (g *group) same() []string {
	g.t.Helper()
	for r, n := range g.nodes {
		if !slices.Equal(n.log, g.nodes[0].log) || !slices.Equal(n.seqs, g.nodes[0].seqs) {
			g.t.Fatalf("rank %d delivered %v at %v\nrank 0 delivered %v at %v", r, n.log, n.seqs, g.nodes[0].log, g.nodes[0].seqs)
		}
		if !slices.IsSorted(n.seqs) || len(slices.Compact(slices.Clone(n.seqs))) != len(n.seqs) {
			g.t.Fatalf("M3: rank %d delivered at %v", r, n.seqs)
		}
	}
	return g.nodes[0].log
}

func (g *group) expect(want string) {
	g.t.Helper()
	if got := strings.Join(g.same(), " "); got != want {
		g.t.Fatalf("delivered %s\nwant %s", got, want)
	}
}

func TestSendersTakeTurns(t *testing.T) {
	g := newGroup(t, 3, views.Ordered, multicast.Tuning{})
	for k := range 2 {
		for r := range 3 {
			g.send(r, "%d", k)
		}
	}
	g.settle()
	g.expect("1:0 2:0 3:0 1:1 2:1 3:1")
}

// G7, with nulls: the other senders have nothing to send, and hold up no member.
func TestASilentSenderHoldsUpNobody(t *testing.T) {
	for sender := range 3 {
		g := newGroup(t, 3, views.Ordered, multicast.Tuning{})
		for k := range 5 {
			g.send(sender, "%d", k)
		}
		g.settle()
		if got := len(g.same()); got != 5 {
			t.Errorf("rank %d sent 5 messages, %d were delivered", sender, got)
		}
		if nulls := g.nodes[(sender+1)%3].Stats.NullsSent.Load(); nulls < 4 || nulls > 5 {
			t.Errorf("a silent sender sent %d nulls", nulls)
		}
	}
}

func TestWithoutNullsASilentSenderStallsTheOrder(t *testing.T) {
	g := newGroup(t, 3, views.Ordered, multicast.Tuning{NoNulls: true})
	g.send(1, "x")
	if g.settle(); len(g.same()) != 0 {
		t.Error("delivered past a silent sender")
	}
	g.send(0, "w")
	g.settle()
	g.expect("1:w 2:x")
}

func TestAMemberThatIsNoSenderDeliversAndSendsNothing(t *testing.T) {
	g := newGroup(t, 3, views.Ordered, multicast.Tuning{}, 0, 2)
	if g.nodes[1].Sender != nil {
		t.Error("a member that is no sender has a ring")
	}
	g.send(2, "b")
	g.send(0, "a")
	g.settle()
	g.expect("1:a 3:b")
}

// G2, M1: while one member has not received a message no member delivers it.
func TestNothingIsDeliveredBeforeEverybodyHasIt(t *testing.T) {
	g := newGroup(t, 3, views.Ordered, multicast.Tuning{})
	g.ways.Hold(0, 2, true)
	g.send(0, "x")
	g.settle()
	for r, n := range g.nodes {
		if len(n.log) != 0 {
			t.Errorf("M1: rank %d delivered %v, which rank 2 has not", r, n.log)
		}
	}
	g.ways.Hold(0, 2, false)
	g.settle()
	g.expect("1:x")
}

// M4: a ring's room is used again when everybody delivered it, and not before.
func TestAFullWindowOpensWhenEverybodyDelivered(t *testing.T) {
	g := newGroup(t, 3, views.Ordered, multicast.Tuning{})
	sent := 0
	for g.send(0, "%d", sent) {
		sent++
	}
	if sent != 8 {
		t.Fatalf("a window of 8 took %d messages", sent)
	}
	g.nodes[2].take = func(int) int { return 0 } // this application takes nothing
	g.settle()
	if len(g.nodes[0].log) != 8 || g.send(0, "more") {
		t.Fatalf("M4: rank 0 delivered %d, and there is room though rank 2 delivered nothing", len(g.nodes[0].log))
	}
	g.nodes[2].take = nil
	g.settle()
	if !g.send(0, "more") {
		t.Fatal("no room, though every member delivered")
	}
	g.settle()
	if got := len(g.same()); got != 9 {
		t.Fatalf("%d messages delivered", got)
	}
}

func TestAReceiverThatTakesPartOfARunIsOfferedTheRest(t *testing.T) {
	for _, mode := range []views.Mode{views.Ordered, views.Unordered} {
		for _, portion := range []int{1, 2, 3} {
			g := newGroup(t, 2, mode, multicast.Tuning{})
			g.nodes[1].take = func(n int) int { return min(n, portion) }
			for k := range 7 {
				g.send(0, "%d", k)
				g.send(1, "%d", k)
			}
			g.settle()
			if mode == views.Ordered {
				g.same()
			}
			if got := g.nodes[1].log; len(got) != 14 {
				t.Fatalf("%v, %d at a time: delivered %v", mode, portion, got)
			}
			g.fifo()
		}
	}
}

// What an application took of a run counts as delivered while it refuses the rest: it may wait for
// that, as one does whose messages wait for disks.
func TestWhatWasTakenOfARunIsDelivered(t *testing.T) {
	g := newGroup(t, 2, views.Ordered, multicast.Tuning{}, 0)
	left := 2
	g.nodes[1].take = func(n int) int {
		n = min(n, left)
		left -= n
		return n
	}
	for k := range 5 {
		g.send(0, "%d", k)
	}
	g.settle()
	if n := g.nodes[1]; len(n.log) != 2 || n.Delivered() != 2 || n.Line(1)[5] != 2 {
		t.Errorf("of 5 messages %v were taken; delivered is %d, and %d for others", n.log, n.Delivered(), n.Line(1)[5])
	}
}

// fifo checks that every sender's messages, which are numbers, were delivered in its order, each
// once.
func (g *group) fifo() {
	g.t.Helper()
	for r, n := range g.nodes {
		next := map[string]int{}
		for _, entry := range n.log {
			sender, data, _ := strings.Cut(entry, ":")
			if data != fmt.Sprint(next[sender]) {
				g.t.Fatalf("M5: rank %d delivered %s in place of %s:%d, in %v", r, entry, sender, next[sender], n.log)
			}
			next[sender]++
		}
	}
}

// M5: a message that is held up at one member is delivered at the others, and no member waits for a
// silent sender, without any null.
func TestUnorderedWaitsForNobody(t *testing.T) {
	g := newGroup(t, 3, views.Unordered, multicast.Tuning{})
	g.ways.Hold(0, 2, true)
	for k := range 4 {
		g.send(0, "%d", k)
	}
	g.settle()
	if a, b, c := len(g.nodes[0].log), len(g.nodes[1].log), len(g.nodes[2].log); a != 4 || b != 4 || c != 0 {
		t.Errorf("delivered %d, %d and %d", a, b, c)
	}
	for r, n := range g.nodes {
		if nulls := n.Stats.NullsSent.Load(); nulls != 0 {
			t.Errorf("rank %d sent %d nulls", r, nulls)
		}
	}
	g.ways.Hold(0, 2, false)
	g.settle()
	if got := len(g.nodes[2].log); got != 4 {
		t.Errorf("delivered %d after all", got)
	}
	g.fifo()
}

func TestUnorderedRoomIsReleasedWhenEverybodyTookIt(t *testing.T) {
	g := newGroup(t, 3, views.Unordered, multicast.Tuning{})
	for k := range 100 {
		for r := range 3 {
			if !g.send(r, "%d", k) {
				t.Fatalf("no room for message %d of rank %d", k, r)
			}
		}
		g.settle()
	}
	g.fifo()
	for r, n := range g.nodes {
		if len(n.log) != 300 {
			t.Errorf("rank %d delivered %d", r, len(n.log))
		}
	}
}

// A declared silence causes no nulls and holds up no member, and a message sent meanwhile comes
// behind it.
func TestSkippedRoundsNeedNoNulls(t *testing.T) {
	g := newGroup(t, 2, views.Ordered, multicast.Tuning{})
	g.nodes[0].Skip(5)
	for k := range 5 {
		g.send(1, "%d", k)
	}
	g.settle()
	g.expect("2:0 2:1 2:2 2:3 2:4")
	if nulls := g.nodes[0].Stats.NullsSent.Load(); nulls != 0 {
		t.Errorf("%d nulls in the rounds that were skipped", nulls)
	}
	g.send(0, "behind")
	g.settle()
	g.expect("2:0 2:1 2:2 2:3 2:4 1:behind")
}

func TestOneAtATimeDeliversTheSame(t *testing.T) {
	tunings := []multicast.Tuning{{OneSend: true}, {OneReceive: true}, {OneDeliver: true}, {OneSend: true, OneReceive: true, OneDeliver: true}}
	for _, tuning := range tunings {
		for _, mode := range []views.Mode{views.Ordered, views.Unordered} {
			g := newGroup(t, 3, mode, tuning)
			for k := range 6 {
				g.send(0, "%d", k)
				g.send(2, "%d", k)
			}
			g.settle()
			g.fifo()
			for r, n := range g.nodes {
				if len(n.log) != 12 {
					t.Errorf("%+v, %v: rank %d delivered %v", tuning, mode, r, n.log)
				}
			}
		}
	}
}

// A sender whose words go backwards, or beyond everything, has failed; the others see it and
// nothing else happens.
func TestASenderWhoseCounterShrinksFails(t *testing.T) {
	for _, word := range []uint64{0, 1 << 63} {
		g := newGroup(t, 2, views.Ordered, multicast.Tuning{})
		g.send(1, "x")
		g.settle()
		line := g.nodes[1].table.Line(1, fabric.LineBytes)
		sst.Counter[uint64](1).Store(line, word) // sent
		g.nodes[1].table.PushLine([]order.Rank{0}, fabric.LineBytes)
		g.nodes[1].table.Flush()
		g.nodes[0].cycle()
		if f := g.nodes[0].table.Failures(); len(f) != 1 || f[0].Rank != 1 || !strings.Contains(fmt.Sprint(f[0].Err), "M2") {
			t.Errorf("M2: sent became %d: %v", word, f)
		}
	}
}

// M1, of a peer: what it says of itself must make sense.
func TestAMemberWhoseProgressShrinksFails(t *testing.T) {
	for _, bad := range [][2]uint64{{0, 0}, {1, 0}, {1, 2}} { // received, delivered
		g := newGroup(t, 2, views.Ordered, multicast.Tuning{})
		g.send(1, "x")
		g.send(0, "y")
		g.settle()
		line := g.nodes[1].table.Line(1, fabric.LineBytes)
		sst.Counter[uint64](6).Store(line, bad[0])
		sst.Counter[uint64](5).Store(line, bad[1])
		g.nodes[1].table.PushLine([]order.Rank{0}, fabric.LineBytes)
		g.nodes[1].table.Flush()
		g.nodes[0].cycle()
		if f := g.nodes[0].table.Failures(); len(f) != 1 || f[0].Rank != 1 || !strings.Contains(fmt.Sprint(f[0].Err), "M1") {
			t.Errorf("M1: received and delivered became %v: %v", bad, f)
		}
	}
}

// Random sends, delays between pairs, slow applications and skips: M1 to M5, and everything is
// delivered in the end.
func TestTheOrderIsTheSameWhateverTheDelays(t *testing.T) {
	runs := 150
	if testing.Short() {
		runs = 30
	}
	seed := testutil.Seed(t)
	for run := range runs {
		random := rand.New(rand.NewPCG(seed, uint64(run)))
		mode := views.Mode(random.IntN(2))
		n := 2 + random.IntN(3)
		g := newGroup(t, n, mode, multicast.Tuning{})
		sent := make([]int, n)
		for _, one := range g.nodes {
			one.take = func(k int) int { return random.IntN(k + 1) }
		}
		for range 400 {
			switch r := random.IntN(n); random.IntN(8) {
			case 0, 1:
				if g.send(r, "%d", sent[r]) {
					sent[r]++
				}
			case 2:
				if to := random.IntN(n); to != r {
					g.ways.Hold(order.Rank(r), order.Rank(to), random.IntN(2) == 0)
				}
			case 3:
				if random.IntN(10) == 0 && mode == views.Ordered {
					g.nodes[r].Skip(order.Index(random.IntN(4)))
				}
			default:
				g.nodes[r].cycle()
			}
		}
		for from := range n {
			g.nodes[from].take = nil
			for to := range n {
				g.ways.Hold(order.Rank(from), order.Rank(to), false)
			}
		}
		g.settle()
		g.fifo()
		total := 0
		for _, k := range sent {
			total += k
		}
		if mode == views.Ordered {
			g.same()
		}
		for r, one := range g.nodes {
			if len(one.log) != total {
				t.Fatalf("seed %d, run %d, %v: rank %d delivered %d of %d", seed, run, mode, r, len(one.log), total)
			}
		}
	}
}
