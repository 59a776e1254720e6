package simnet

import (
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
)

const line = fabric.LineBytes

func endpoints(n int, shape fabric.RowShape) (members []Endpoint) {
	for i := range n {
		members = append(members, Endpoint{order.NodeID(i + 1), shape})
	}
	return members
}

// pair opens two nodes with two lines and some bytes each.
func pair(seed uint64, opts Options) (*Net, []*fabric.Table) {
	n := New(seed, opts)
	return n, n.Open(endpoints(2, fabric.RowShape{ControlBytes: 2 * line, RowBytes: 2*line + 4096}))
}

var toSecond = []order.Rank{1}

func put(t *fabric.Table, v uint64) {
	atomic.StoreUint64(fabric.Word(t.Row(t.Self()), line), v)
	t.PushLine(toSecond, line)
}

func get(t *fabric.Table, r order.Rank) uint64 {
	return atomic.LoadUint64(fabric.Word(t.Row(r), line))
}

// locked lets the suite's goroutines share a network, whose time goes on with every look.
type locked struct {
	fabric.Link
	mu  *sync.Mutex
	net **Net
}

func (l locked) Push(off, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Link.Push(off, n)
}

func (l locked) PushLine(off int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Link.PushLine(off)
}

func (l locked) Poll() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	(*l.net).Advance((*l.net).Now() + time.Microsecond)
	return l.Link.Poll()
}

func (l locked) Flush() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Link.Flush()
}

func (l locked) Freeze() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Link.Freeze()
}

func (l locked) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Link.Close()
}

func TestFramedPairsKeepTheFabricsPromises(t *testing.T) {
	fabrictest.Run(t, func(t testing.TB, n int, shape fabric.RowShape) []*fabric.Table {
		var mu sync.Mutex
		var net *Net
		seed := testutil.Seed(t)
		net = New(seed, Options{
			SocketBytes: 256 << 10, PieceBytes: 64 << 10, FrameRanges: 8, NoticeAfter: 10 * time.Microsecond,
			Delay: func(order.NodeID, order.NodeID) Delay {
				return Delay{Base: time.Microsecond, Jitter: 10 * time.Microsecond, Tail: 50 * time.Microsecond, TailEvery: 16}
			},
			Wrap: func(_, _ order.NodeID, l fabric.Link) fabric.Link { return locked{l, &mu, &net} },
		})
		return net.Open(endpoints(n, shape))
	})
}

func TestAFrameArrivesAfterItsDelayAndNotBefore(t *testing.T) {
	net, tables := pair(1, Options{Delay: func(order.NodeID, order.NodeID) Delay { return Delay{Base: 10} }})
	put(tables[0], 7)
	tables[1].Poll()
	if get(tables[1], 0) != 0 {
		t.Fatal("visible before it was flushed")
	}
	tables[0].Flush()
	net.Advance(9)
	if tables[1].Poll() != 0 || get(tables[1], 0) != 0 {
		t.Fatal("visible before its time")
	}
	net.Advance(10)
	if tables[1].Poll() != 1 || get(tables[1], 0) != 7 {
		t.Fatal("not visible in its time")
	}
}

// Z2: what a full socket leaves behind is sent later, coalesced, lines behind the bytes they cover.
func TestAFullSocketTakesAPartAndTheRestWaits(t *testing.T) {
	net, tables := pair(1, Options{SocketBytes: 1000})
	row := tables[0].Row(0)
	for i := range 4096 {
		row[2*line+i] = byte(i) | 1
	}
	tables[0].Push(toSecond, 2*line, 4096)
	for v := uint64(1); v <= 3; v++ {
		put(tables[0], v)
		tables[0].Flush()
	}
	polls := 0
	for get(tables[1], 0) != 3 {
		if get(tables[1], 0) != 0 && !slices.Equal(tables[1].Row(0)[2*line:], row[2*line:]) {
			t.Fatal("F2: the line is visible, and not all of the bytes before it")
		}
		tables[1].Poll()
		tables[0].Flush()
		if polls++; polls > 20 {
			t.Fatal("the rest never came")
		}
	}
	if net.Stats.SocketFull == 0 || net.Stats.Coalesced == 0 || polls < 4 {
		t.Fatalf("after %d polls: %+v", polls, net.Stats)
	}
}

func TestACutHoldsUpOneWayOnly(t *testing.T) {
	net, tables := pair(1, Options{})
	net.Cut(1, 2)
	put(tables[0], 7)
	tables[0].Flush()
	atomic.StoreUint64(fabric.Word(tables[1].Row(1), line), 8)
	tables[1].PushLine([]order.Rank{0}, line)
	tables[1].Flush()
	tables[0].Poll()
	tables[1].Poll()
	if get(tables[1], 0) != 0 || get(tables[0], 1) != 8 {
		t.Fatalf("the cut way brought %d, the other one %d", get(tables[1], 0), get(tables[0], 1))
	}
	net.Heal(1, 2)
	tables[1].Poll()
	if get(tables[1], 0) != 7 {
		t.Fatal("what was sent while the way was cut did not arrive afterwards")
	}
}

func TestACrashedPeersLastWordsArriveBeforeTheNewsOfItsEnd(t *testing.T) {
	for _, kind := range []Kind{Framed, Shared, Seeping} {
		t.Run(kind.String(), func(t *testing.T) {
			net, tables := pair(3, Options{
				Kind:        func(order.NodeID, order.NodeID) Kind { return kind },
				Delay:       func(order.NodeID, order.NodeID) Delay { return Delay{Base: 10, Jitter: 100} },
				NoticeAfter: 50,
			})
			put(tables[0], 7)
			tables[0].Flush()
			net.Crash(1)
			var failures []fabric.Failure
			for now := range 300 * time.Nanosecond {
				net.Advance(now)
				tables[1].Poll()
				tables[1].Flush()
				failures = append(failures, tables[1].Failures()...)
			}
			if len(failures) != 1 || !errors.Is(failures[0].Err, fabric.ErrPeerGone) {
				t.Fatalf("F5: told %v", failures)
			}
			if get(tables[1], 0) != 7 {
				t.Fatal("its last words are lost")
			}
		})
	}
}

func TestAHostThatLosesPowerSaysNothing(t *testing.T) {
	net, tables := pair(3, Options{Delay: func(order.NodeID, order.NodeID) Delay { return Delay{Base: 10} }})
	for range 20 {
		put(tables[0], get(tables[0], 0)+1)
		tables[0].Flush()
	}
	net.PowerOff(1)
	net.Advance(time.Second)
	tables[1].Poll()
	if f := tables[1].Failures(); len(f) != 0 {
		t.Fatalf("told %v", f)
	}
	if net.Stats.LostInFlight == 0 || get(tables[1], 0) == 20 {
		t.Fatalf("nothing was lost: word %d, %+v", get(tables[1], 0), net.Stats)
	}
}

// Z3: the fuse burns within a step, and no node sees anything that comes later.
func TestACrashWithinAStepCutsItShort(t *testing.T) {
	net, tables := pair(1, Options{})
	net.CrashAfter(1, 3, false)
	last := func() (v uint64) {
		defer func() {
			if c, ok := recover().(Crashed); !ok || c.Node != 1 {
				t.Fatalf("recovered %v", c)
			}
		}()
		for {
			v++
			put(tables[0], v)
			tables[0].Flush()
		}
	}()
	tables[1].Poll()
	if last != 2 || get(tables[1], 0) != 1 {
		t.Fatalf("crashed in step %d, the peer saw %d", last, get(tables[1], 0))
	}
}

// Z3: a process that crashes between two calls of its step makes none after that.
func TestAProcessThatCrashedPushesNothing(t *testing.T) {
	net, tables := pair(1, Options{})
	put(tables[0], 1)
	tables[0].Flush()
	net.Crash(1)
	func() {
		defer func() {
			if c, ok := recover().(Crashed); !ok || c.Node != 1 {
				t.Errorf("recovered %v", c)
			}
		}()
		put(tables[0], 2)
		tables[0].Flush()
	}()
	if tables[1].Poll(); get(tables[1], 0) != 1 {
		t.Errorf("the peer saw %d", get(tables[1], 0))
	}
}

// The writes of a Seeping pair become visible one by one, in order: bytes before the words that
// were pushed behind them.
func TestSeepingShowsWritesOneByOneInOrder(t *testing.T) {
	reached := map[[3]uint64]bool{}
	for seed := range uint64(200) {
		net, tables := pair(seed, Options{Kind: func(order.NodeID, order.NodeID) Kind { return Seeping }, StoreOrder: [8]int{1, 0, 2, 3, 4, 5, 6, 7}})
		row := tables[0].Row(0)
		row[2*line] = 9
		tables[0].Push(toSecond, 2*line, 8)
		atomic.StoreUint64(fabric.Word(row, line+8), 2)
		put(tables[0], 1)
		for range 50 {
			seen := tables[1].Row(0)
			at := [3]uint64{uint64(seen[2*line]), *fabric.Word(seen, line+8), get(tables[1], 0)}
			reached[at] = true
			tables[1].Poll()
			net.Seep(2)
		}
	}
	for _, legal := range [][3]uint64{{}, {9}, {9, 2}, {9, 2, 1}} {
		if !reached[legal] {
			t.Errorf("never seen: %v", legal)
		}
		delete(reached, legal)
	}
	if len(reached) > 0 {
		t.Errorf("F2: seen out of order: %v", reached)
	}
}

// F4
func TestAFrozenSharedRowStaysAsItWas(t *testing.T) {
	for _, kind := range []Kind{Shared, Seeping} {
		reached := map[uint64]bool{}
		for seed := range uint64(50) {
			net, tables := pair(seed, Options{Kind: func(order.NodeID, order.NodeID) Kind { return kind }})
			put(tables[0], 7)
			tables[1].Freeze(0)
			frozen := get(tables[1], 0)
			reached[frozen] = true
			put(tables[0], 8)
			tables[1].Poll()
			net.Seep(2)
			if get(tables[1], 0) != frozen {
				t.Errorf("F4: %v, seed %d: frozen at %d, now %d", kind, seed, frozen, get(tables[1], 0))
			}
		}
		if want := map[Kind]int{Shared: 1, Seeping: 2}[kind]; len(reached) != want || !reached[7] {
			t.Errorf("%v: rows were frozen at %v", kind, reached)
		}
	}
}

// A row that is frozen while its owner stores: what is copied later is newer, and bytes are as new
// as the words before them.
func TestAFrozenRowIsTorn(t *testing.T) {
	torn := 0
	for seed := range uint64(200) {
		_, tables := pair(seed, Options{Kind: func(order.NodeID, order.NodeID) Kind { return Seeping }})
		row := tables[0].Row(0)
		for v := uint64(1); v <= 8; v++ {
			row[2*line] = byte(v)
			tables[0].Push(toSecond, 2*line, 8)
			atomic.StoreUint64(fabric.Word(row, 0), v)
			tables[0].PushLine(toSecond, 0)
			atomic.StoreUint64(fabric.Word(row, line+56), v)
			tables[0].PushLine(toSecond, line)
		}
		tables[1].Freeze(0)
		seen := tables[1].Row(0)
		first, last, bytes := *fabric.Word(seen, 0), *fabric.Word(seen, line+56), uint64(seen[2*line])
		if last+1 < first || bytes < last {
			t.Errorf("F2: seed %d: frozen with the words %d and %d, and the bytes of %d", seed, first, last, bytes)
		}
		if last > first {
			torn++
		}
	}
	if torn == 0 {
		t.Error("no row was torn")
	}
}

// Z1: the same seed and the same calls give the same bytes at the same moments, another seed
// others.
func TestTheSameSeedGivesTheSameRun(t *testing.T) {
	run := func(seed uint64) uint64 {
		h := fnv.New64a()
		net := New(seed, Options{
			Kind:  func(a, b order.NodeID) Kind { return Kind((a + b) % 3) },
			Delay: func(order.NodeID, order.NodeID) Delay { return Delay{Base: 5, Jitter: 50, Tail: 500, TailEvery: 10} }, SocketBytes: 300, PieceBytes: 100, FrameRanges: 2,
		})
		tables := net.Open(endpoints(4, fabric.RowShape{ControlBytes: 2 * line, RowBytes: 2*line + 1024}))
		all := []order.Rank{0, 1, 2, 3}
		calls := rand.New(rand.NewPCG(7, 7))
		for step := range 400 {
			net.Advance(time.Duration(step * 10))
			table := tables[calls.IntN(4)]
			off := calls.IntN(1000)
			table.Row(table.Self())[2*line+off]++
			table.Push(all, 2*line+off, 1+calls.IntN(20))
			*fabric.Word(table.Row(table.Self()), line) += 1
			table.PushLine(all, line)
			table.Poll()
			table.Flush()
			for r := range order.Rank(4) {
				h.Write(table.Row(r))
			}
		}
		return h.Sum64()
	}
	once, again, other := run(1), run(1), run(2)
	if once != again {
		t.Fatal("two runs of one seed differ")
	}
	if once == other {
		t.Fatal("two seeds give one run")
	}
}

// F2: a line that was pushed again stands where it stood first, so lines of one frame are seen
// together or not at all.
func TestTheLinesOfAFrameBecomeVisibleTogether(t *testing.T) {
	net := New(1, Options{SocketBytes: lineRoom})
	tables := net.Open(endpoints(2, fabric.RowShape{ControlBytes: 4 * line, RowBytes: 4 * line}))
	waited := false
	for v := uint64(1); v <= 10; v++ {
		for _, off := range []int{line, 3 * line, 2 * line, line} { // line 1 last, and first
			atomic.StoreUint64(fabric.Word(tables[0].Row(0), off), v)
			tables[0].PushLine(toSecond, off)
		}
		for range 6 {
			tables[0].Flush()
			tables[1].Poll()
			seen := func(off int) uint64 { return *fabric.Word(tables[1].Row(0), off) }
			if seen(2*line) < seen(line) || seen(3*line) < seen(line) {
				t.Fatalf("line 1 is at %d, the lines pushed before it at %d and %d", seen(line), seen(2*line), seen(3*line))
			}
			waited = waited || seen(line) < v
		}
		if *fabric.Word(tables[1].Row(0), line) != v {
			t.Fatalf("not arrived: %d", v)
		}
	}
	if !waited {
		t.Fatal("the socket took a frame at once")
	}
}
