package sst_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/sst"
)

// declared is one thing in a row, as it was asked for.
type declared struct {
	rank   order.Rank
	line   int // offset, if n is 0
	words  int
	area   sst.Area
	n      int
	onLine bool
}

// build declares random columns in random rows. The same seed gives the same declarations.
func build(seed uint64, ranks int) (*sst.Layout, []declared) {
	random := rand.New(rand.NewPCG(seed, 0))
	l := sst.NewLayout(ranks)
	var all []declared
	for range random.IntN(40) {
		r := order.Rank(random.IntN(ranks))
		switch random.IntN(3) {
		case 0:
			all = append(all, declared{rank: r, line: l.Line(r, "line", "a", "b"), words: 8, onLine: true})
		case 1:
			n := 1 + random.IntN(30)
			all = append(all, declared{rank: r, line: l.Vector(r, "vector", n), words: n, onLine: true})
		case 2:
			n := random.IntN(5000)
			all = append(all, declared{rank: r, area: l.Bytes(r, n), n: n})
		}
	}
	return l, all
}

func tables(t *testing.T, l *sst.Layout, ranks int) []*sst.Table {
	t.Helper()
	var shapes []fabric.RowShape
	for r := range ranks {
		shapes = append(shapes, l.Shape(order.Rank(r)))
	}
	var out []*sst.Table
	for _, mem := range fabrictest.NewMemory(shapes...).Tables {
		table, err := sst.NewTable(l, mem)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, table)
	}
	return out
}

// D2 and D3: whatever is declared, lines are aligned and in the control part, areas behind it,
// nothing overlaps, rows are no larger than what was declared in them, and all processes that
// declare the same columns compute the same layout.
func TestWhatIsDeclaredDoesNotOverlap(t *testing.T) {
	for seed := range uint64(300) {
		ranks := 1 + int(seed%5)
		l, all := build(seed, ranks)
		again, _ := build(seed, ranks)
		table := tables(t, l, ranks)[0]
		used := make([][]bool, ranks)
		need := make([]int, ranks)
		for r := range used {
			shape := l.Shape(order.Rank(r))
			if shape != again.Shape(order.Rank(r)) {
				t.Fatalf("seed %d: the same declarations give %v and %v", seed, shape, again.Shape(order.Rank(r)))
			}
			used[r] = make([]bool, shape.RowBytes)
			for k := range fabric.LineBytes { // the fabric's own line
				used[r][k] = true
			}
			need[r] = fabric.LineBytes
		}
		for _, d := range all {
			from, n := d.line, (d.words*8+fabric.LineBytes-1)&^(fabric.LineBytes-1)
			control := l.Shape(d.rank).ControlBytes
			if !d.onLine {
				from, n = table.Offset(d.rank, d.area), d.n
				if got := table.Area(d.rank, d.area); len(got) != d.n || cap(got) != d.n {
					t.Fatalf("seed %d: an area of %d bytes has %d", seed, d.n, len(got))
				}
				if from < control || from%fabric.LineBytes != 0 {
					t.Fatalf("seed %d: an area at %d, the control part ends at %d", seed, from, control)
				}
			} else if from%fabric.LineBytes != 0 || from+n > control {
				t.Fatalf("seed %d: a line at %d, the control part ends at %d", seed, from, control)
			}
			for k := from; k < from+n; k++ {
				if used[d.rank][k] {
					t.Fatalf("D2: seed %d: byte %d of rank %d has two columns", seed, k, d.rank)
				}
				used[d.rank][k] = true
			}
			need[d.rank] += (n + fabric.LineBytes - 1) &^ (fabric.LineBytes - 1)
		}
		for r, n := range need {
			if have := l.Shape(order.Rank(r)).RowBytes; have != n {
				t.Fatalf("D3: seed %d: rank %d has %d bytes for columns of %d", seed, r, have, n)
			}
		}
	}
}

func TestARowThatNoFabricCarriesIsRefused(t *testing.T) {
	l := sst.NewLayout(2)
	for range 4 {
		l.Bytes(1, 1<<30)
	}
	if err := l.Check(); !errors.Is(err, sst.ErrRowTooLarge) || !strings.Contains(err.Error(), "rank 1") {
		t.Error(err)
	}
}

func TestATableSmallerThanItsLayoutIsRefused(t *testing.T) {
	l := sst.NewLayout(1)
	mem := fabrictest.NewMemory(l.Shape(0)).Tables[0]
	l.Line(0, "late", "x")
	if _, err := sst.NewTable(l, mem); !errors.Is(err, sst.ErrRowTooLarge) {
		t.Error(err)
	}
}

// first and second are the counters of a line.
const (
	first  sst.Counter[uint64] = 0
	second sst.Counter[uint64] = 1
)

// D1 is what the layers above keep; here a counter only has to travel as it is.
func TestACounterIsLoadedAsItWasStored(t *testing.T) {
	l := sst.NewLayout(2)
	offs := l.Lines("x", "n")
	both := tables(t, l, 2)
	if v := first.Load(both[1].Line(0, offs[0])); v != 0 {
		t.Errorf("D1: a counter starts at %d", v)
	}
	first.Store(both[0].Line(0, offs[0]), 1<<63+5)
	both[0].PushLine([]order.Rank{0, 1}, offs[0])
	both[0].Flush()
	both[1].Poll()
	if v := first.Load(both[1].Line(0, offs[0])); v != 1<<63+5 {
		t.Errorf("loaded %d", v)
	}
	if least := first.Min(both[1], offs); least != 0 { // of the own row
		t.Errorf("the least of %d and 0 is %d", uint64(1<<63+5), least)
	}
}

func TestDumpShowsEveryRowOnALine(t *testing.T) {
	l := sst.NewLayout(3)
	off := l.Lines("chat", "sent", "received")
	vector := l.Vector(2, "taken", 9)
	all := tables(t, l, 3)
	for r, table := range all {
		first.Store(table.Line(order.Rank(r), off[r]), uint64(10*r+1))
		second.Store(table.Line(order.Rank(r), off[r]), uint64(10*r+2))
		if r == 2 {
			at, word := sst.Cell(vector, 8)
			word.Store(table.Line(2, at), 77)
			table.PushLine([]order.Rank{1}, at)
		}
		table.PushLine([]order.Rank{1}, off[r])
		table.Flush()
	}
	all[1].Poll()
	all[1].Freeze(2)
	var b strings.Builder
	if err := all[1].Dump(&b); err != nil {
		t.Fatal(err)
	}
	const want = `rank 0: fabric{parked=0} chat{sent=1 received=2}
rank 1 (self): fabric{parked=0} chat{sent=11 received=12}
rank 2 (frozen): fabric{parked=0} chat{sent=21 received=22} taken{0=0 1=0 2=0 3=0 4=0 5=0 6=0 7=0} taken{8=77}
`
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
	if err := all[1].Dump(failingWriter{}); err == nil {
		t.Error("an error of the writer is lost")
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, fmt.Errorf("full") }
