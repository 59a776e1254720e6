package multicast_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/views"
)

// end wedges these members, trims them by what all of them have, and has them deliver the rest.
func (g *group) end(survivors ...order.Rank) (trim []order.Index) {
	g.t.Helper()
	for _, r := range survivors {
		for other := range order.Rank(len(g.nodes)) {
			if !slices.Contains(survivors, other) {
				g.nodes[r].table.Freeze(other)
			}
		}
		g.nodes[r].Wedge()
	}
	for _, r := range survivors {
		reach := g.nodes[r].Reach()
		if trim == nil {
			trim = slices.Clone(reach)
		}
		for k, n := range reach {
			trim[k] = min(trim[k], n)
		}
	}
	for _, r := range survivors {
		if err := g.nodes[r].Trim(trim); err != nil {
			g.t.Fatal(err)
		}
		for steps := 0; !g.nodes[r].Finished(); steps++ {
			if steps == 1000 {
				g.t.Fatalf("rank %d never finishes", r)
			}
			g.nodes[r].Step()
		}
		if g.nodes[r].Step() != 0 {
			g.t.Errorf("M9: rank %d goes on behind the end", r)
		}
	}
	return trim
}

// M9, case by case.
func TestAViewEndsAtItsTrim(t *testing.T) {
	everybody := []order.Rank{0, 1, 2}
	for _, c := range []struct {
		name      string
		tuning    multicast.Tuning
		senders   []order.Rank
		happens   func(g *group)
		survivors []order.Rank
		trim      string
		want      string
	}{
		{"nothing was ever sent", multicast.Tuning{}, nil, func(g *group) {}, everybody, "[0 0 0]", ""},
		{"everything was delivered", multicast.Tuning{}, nil, func(g *group) {
			g.send(1, "x")
			g.settle()
		}, everybody, "[1 1 0]", "2:x"},
		{"nulls at the end", multicast.Tuning{}, nil, func(g *group) {
			g.send(2, "x")
			g.settle(0, 1)
			g.nodes[2].cycle() // it publishes, and the others' nulls are not back
			g.settle(0, 1)
		}, everybody, "[0 0 1]", "3:x"},
		{"the last batch was all nulls", multicast.Tuning{}, nil, func(g *group) {
			g.send(0, "x")
			g.settle()
			for _, n := range g.nodes { // so that the order goes on, with nothing in it
				n.Skip(3)
			}
			g.settle()
		}, everybody, "[4 3 3]", "1:x"},
		{"silence promised beyond what was sent", multicast.Tuning{}, nil, func(g *group) {
			g.nodes[1].Skip(20)
			g.settle()
			g.ways.Hold(2, 0, true) // nothing is stable at rank 0
			g.send(0, "a")
			g.send(0, "b")
			g.settle()
		}, everybody, "[2 20 0]", "1:a 1:b"},
		{"one sender is far ahead", multicast.Tuning{NoNulls: true}, nil, func(g *group) {
			for k := range 5 {
				g.send(1, "%d", k)
			}
			g.settle()
			g.send(2, "late")
			g.settle()
		}, everybody, "[0 5 1]", "2:0 3:late 2:1 2:2 2:3 2:4"},
		{"what a failed sender left is passed over", multicast.Tuning{NoNulls: true}, nil, func(g *group) {
			g.send(0, "all have it")
			g.settle()
			g.ways.Hold(0, 2, true)
			g.send(0, "rank 2 has it not")
			g.send(1, "b")
			g.send(2, "c")
			g.send(1, "d")
			g.settle()
		}, []order.Rank{1, 2}, "[1 2 1]", "1:all have it 2:b 3:c 2:d"},
		{"the only sender fails", multicast.Tuning{}, []order.Rank{0}, func(g *group) {
			g.ways.Hold(1, 2, true) // nothing is stable at rank 2
			g.send(0, "a")
			g.settle()
			g.ways.Hold(0, 2, true)
			g.send(0, "b")
			g.settle()
		}, []order.Rank{1, 2}, "[1]", "1:a"},
		{"one survives", multicast.Tuning{}, nil, func(g *group) {
			g.ways.Hold(0, 1, true)
			g.ways.Hold(2, 1, true)
			g.send(0, "lost")
			g.send(1, "own")
			g.settle()
		}, []order.Rank{1}, "[0 1 0]", "2:own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(t, 3, views.Ordered, c.tuning, c.senders...)
			c.happens(g)
			if trim := fmt.Sprint(g.end(c.survivors...)); trim != c.trim {
				t.Errorf("trim %s, want %s", trim, c.trim)
			}
			for _, r := range c.survivors {
				if got := strings.Join(g.nodes[r].log, " "); got != c.want {
					t.Errorf("M9: rank %d delivered %s\nwant %s", r, got, c.want)
				}
			}
		})
	}
}

// M8: what the others would see of it is what they saw before.
func TestAWedgedMemberSaysNothingMore(t *testing.T) {
	for _, mode := range []views.Mode{views.Ordered, views.Unordered} {
		g := newGroup(t, 2, mode, multicast.Tuning{})
		g.nodes[0].take = func(int) int { return 0 }
		g.send(0, "a")
		g.send(1, "b")
		g.settle()
		n := g.nodes[0]
		n.Wedge()
		before, reach := *n.table.Line(0, fabric.LineBytes), fmt.Sprint(n.Reach())
		g.send(0, "c")
		g.send(1, "d")
		n.Skip(5)
		n.take = nil
		g.settle()
		if n.Exchange() != 0 || n.Unsettled() {
			t.Errorf("M8: %v: a wedged member has something to exchange", mode)
		}
		if after := *n.table.Line(0, fabric.LineBytes); after != before {
			t.Errorf("M8: %v: its line went from %v to %v", mode, before, after)
		}
		if now := fmt.Sprint(n.Reach()); now != reach {
			t.Errorf("M8: %v: its reach went from %s to %s", mode, reach, now)
		}
		if got := strings.Join(n.log, " "); got != "1:a 2:b" {
			t.Errorf("%v: of what was stable it delivered %s", mode, got)
		}
	}
}

func TestATrimThatDoesNotFitIsRefused(t *testing.T) {
	for _, c := range []struct {
		what string
		trim []order.Index
	}{
		{"senders", []order.Index{1}},
		{"M7", []order.Index{3, 1}},
		{"M7", []order.Index{2, 1 << 60}},
		{"M6", []order.Index{0, 1}},
	} {
		g := newGroup(t, 2, views.Ordered, multicast.Tuning{NoNulls: true})
		g.send(0, "a")
		g.send(1, "b")
		g.settle()
		g.send(0, "c")
		g.settle()
		n := g.nodes[0]
		if err := n.Trim([]order.Index{1, 1}); !errors.Is(err, multicast.ErrBadTrim) {
			t.Errorf("before the wedge: %v", err)
		}
		n.Wedge()
		if err := n.Trim(c.trim); !errors.Is(err, multicast.ErrBadTrim) || !strings.Contains(err.Error(), c.what) {
			t.Errorf("%v: %v, want %s", c.trim, err, c.what)
		}
		if err := n.Trim([]order.Index{2, 1}); err != nil {
			t.Error(err)
		}
		if err := n.Trim([]order.Index{2, 1}); !errors.Is(err, multicast.ErrBadTrim) {
			t.Errorf("a second time: %v", err)
		}
	}
}

// A queue that is full holds up the end of a view, and loses nothing of it.
func TestAnApplicationThatRefusesIsOfferedTheEndAgain(t *testing.T) {
	for _, mode := range []views.Mode{views.Ordered, views.Unordered} {
		g := newGroup(t, 2, mode, multicast.Tuning{NoNulls: true})
		n := g.nodes[0]
		n.take = func(int) int { return 0 }
		for k := range 6 {
			g.send(0, "%d", k)
		}
		g.settle()
		n.Wedge()
		if err := n.Trim([]order.Index{6, 0}); err != nil {
			t.Fatal(err)
		}
		if n.Subgroup.Deliver(); n.Finished() {
			t.Fatalf("%v: finished, though nothing was taken", mode)
		}
		n.take = func(k int) int { return min(k, 1) }
		for range 6 {
			if n.Finished() != (len(n.log) == 6) {
				t.Errorf("%v: finished %v after %v", mode, n.Finished(), n.log)
			}
			n.Subgroup.Deliver()
		}
		if got := strings.Join(n.log, " "); got != "1:0 1:1 1:2 1:3 1:4 1:5" || !n.Finished() {
			t.Errorf("%v: delivered %s, finished: %v", mode, got, n.Finished())
		}
	}
}

// M10
func TestUnorderedMessagesBeyondTheTrimAreDeliveredOnce(t *testing.T) {
	g := newGroup(t, 3, views.Unordered, multicast.Tuning{})
	g.send(0, "0")
	g.settle()
	g.ways.Hold(0, 2, true)
	g.send(0, "1")
	if c, ok := g.nodes[0].Sender.Claim(1); !ok || g.nodes[0].Sender.Abort(c) != nil { // it has an index as well
		t.Fatal("no claim to give back")
	}
	g.send(0, "2")
	g.settle()
	if trim := fmt.Sprint(g.end(0, 1, 2)); trim != "[1 0 0]" {
		t.Fatalf("trim %s", trim)
	}
	for r, want := range []string{"[{1 0 3}]", "[{1 0 3}]", "[]"} {
		if got := fmt.Sprint(g.nodes[r].Ahead()); got != want {
			t.Errorf("M10: rank %d is ahead by %s, want %s", r, got, want)
		}
	}
	next := newGroupAfter(t, func(r int, cfg *multicast.Config) {
		old := g.nodes[r]
		cfg.Carry, cfg.Ahead = old.Sender, old.Ahead()
		if r == 0 {
			cfg.Delivered = 1
		}
	}, 3, views.Unordered, multicast.Tuning{})
	next.send(0, "3")
	next.settle()
	for r := range next.nodes {
		got := strings.Join(append(g.nodes[r].log, next.nodes[r].log...), " ")
		if got != "1:0 1:1 1:2 1:3" {
			t.Errorf("M10: rank %d delivered %s", r, got)
		}
	}
}

// A future of a message is fulfilled when the message is here. One behind the trim is sent again in
// the next view, though the order of this one goes on behind its place.
func TestAnOwnMessageBehindTheTrimIsNotHere(t *testing.T) {
	g := newGroup(t, 3, views.Ordered, multicast.Tuning{NoNulls: true})
	g.send(0, "all have it")
	g.settle()
	g.ways.Hold(0, 2, true)
	g.send(0, "rank 2 has it not")
	g.send(1, "b")
	g.send(2, "c")
	g.send(1, "d")
	g.settle()
	if trim := fmt.Sprint(g.end(0, 1, 2)); trim != "[1 2 1]" {
		t.Fatalf("trim %s", trim)
	}
	for r, want := range []string{"[true false]", "[true true]", "[true false]"} {
		n := g.nodes[r]
		if got := fmt.Sprint([]bool{n.Has(0), n.Has(1)}); got != want {
			t.Errorf("rank %d has its first two messages: %s, want %s", r, got, want)
		}
		if behind := n.SeqOf(1) < n.Delivered(); !behind && r == 0 {
			t.Errorf("rank %d delivered up to %d: its second message has place %d", r, n.Delivered(), n.SeqOf(1))
		}
	}
}

// M10, with bodies: a large message that was delivered ahead of its view is dropped in the next
// one, and its body with it.
func TestTheBodyOfAMessageThatWasDeliveredAheadIsFreed(t *testing.T) {
	all := make([]*bodies, 2)
	g := newGroupAfter(t, func(r int, cfg *multicast.Config) {
		all[r] = newBodies()
		all[r].put(0, 5, "a body")
		cfg.Bodies = all[r]
		if r == 1 {
			cfg.Ahead = []multicast.Ahead{{Sender: 1, Indexes: 1}}
		}
	}, 2, views.Unordered, multicast.Tuning{})
	g.place(0, 5, len("a body"))
	g.settle()
	if got := fmt.Sprint(g.nodes[0].log, g.nodes[1].log); got != "[1:a body] []" {
		t.Errorf("M10: delivered %s", got)
	}
	for r, b := range all {
		if b.freed != 1 {
			t.Errorf("rank %d freed %d bodies", r, b.freed)
		}
	}
}

// spoil gives a record, which a member has published and not flushed yet, a length that goes beyond
// the ring.
func (g *group) spoil(r int, data string) {
	g.t.Helper()
	table := g.nodes[r].table
	row := table.Row(order.Rank(r))
	at := bytes.Index(row, []byte(data))
	if at < 0 {
		g.t.Fatalf("%q is not in the row", data)
	}
	binary.LittleEndian.PutUint64(row[at-smc.HeaderBytes:], 1<<30)
}

// A bad record stops the order until the view ends. Below the trim it counts as a null, and is
// passed over once, also where a round of nulls ends with it.
func TestABadRecordBelowTheTrimIsANull(t *testing.T) {
	for _, apart := range []bool{false, true} {
		t.Run(fmt.Sprint("apart=", apart), func(t *testing.T) { spoilt(t, apart) })
	}
}

// spoilt has rank 0 send a message with a bad record. If the others are apart, they see it only
// when the view ends.
func spoilt(t *testing.T, apart bool) {
	g := newGroup(t, 3, views.Ordered, multicast.Tuning{})
	g.ways.Hold(1, 2, apart)
	g.ways.Hold(2, 1, apart)
	cycle := func() {
		g.nodes[0].table.Poll()
		g.nodes[0].Exchange() // it delivers nothing: it would find the fault itself
		g.nodes[0].table.Flush()
		for _, n := range g.nodes[1:] {
			n.cycle()
		}
	}
	g.send(0, "first")
	cycle()
	g.send(0, "spoilt")
	g.nodes[0].Exchange()
	g.spoil(0, "spoilt")
	g.nodes[0].Skip(5)
	g.nodes[1].Skip(2)
	g.send(1, "last")
	for range 20 {
		cycle()
	}
	want, before := "[1:first 2:last]", "[1:first]"
	if apart {
		want, before = before, "[]"
	}
	for _, n := range g.nodes[1:] {
		f := n.table.Failures()
		if found := len(f) == 1 && f[0].Rank == 0 && errors.Is(f[0].Err, fabric.ErrViolation); found == apart {
			t.Fatalf("failures %v", f)
		}
		if got := fmt.Sprint(n.log); got != before {
			t.Fatalf("delivered %s before the end of the view", got)
		}
	}
	g.end(1, 2)
	for _, n := range g.nodes[1:] {
		if got := fmt.Sprint(n.log); got != want {
			t.Errorf("delivered %s, want %s", got, want)
		}
	}
}

// M10: what a process delivered beyond the trim belongs to that process, and to no later one of its
// node.
func TestWhatAnEarlierProcessOfANodeSentIsNotDropped(t *testing.T) {
	g := newGroupAfter(t, func(r int, cfg *multicast.Config) {
		cfg.Ahead = []multicast.Ahead{{Sender: 1, Incarnation: 7, Indexes: 1}} // the members of this view have incarnation 0
	}, 2, views.Unordered, multicast.Tuning{})
	g.send(0, "0")
	g.settle()
	for r, n := range g.nodes {
		if got := fmt.Sprint(n.log); got != "[1:0]" {
			t.Errorf("M10: rank %d delivered %s", r, got)
		}
	}
}
