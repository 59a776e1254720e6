package multicast_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/views"
)

// newPersistent makes a group whose messages carry times; the times of rank r begin at 1000·(r+1).
func newPersistent(t *testing.T, n int) *group { return newPersistentTuned(t, n, multicast.Tuning{}) }

func newPersistentTuned(t *testing.T, n int, tuning multicast.Tuning) *group {
	clocks := make([]order.Time, n)
	return newGroupAfter(t, func(r int, cfg *multicast.Config) {
		cfg.Clock = func() order.Time { clocks[r]++; return order.Time(1000*(r+1)) + clocks[r] }
	}, n, views.Persistent, tuning)
}

// sendTimed is send for messages that carry times.
func (g *group) sendTimed(r int, data string) {
	g.t.Helper()
	c, ok := g.nodes[r].Sender.Claim(len(data))
	if !ok {
		g.t.Fatal("no room")
	}
	copy(c.Bytes, data)
	if err := g.nodes[r].Sender.Commit(c); err != nil {
		g.t.Fatal(err)
	}
}

func TestMessagesOfAPersistentSubgroupCarryTheTimeOfTheirPublication(t *testing.T) {
	g := newPersistent(t, 2)
	times := make([][]order.Time, 2)
	for r, n := range g.nodes {
		n.keep = func(m multicast.Message) { times[r] = append(times[r], m.Time) }
	}
	g.sendTimed(0, "one")
	g.sendTimed(0, "two")
	g.sendTimed(1, "")
	g.settle()
	g.expect("1:one 2: 1:two")
	for r, got := range times {
		if len(got) != 3 || got[0] != 1001 || got[1] != 2001 || got[2] != 1001 {
			t.Errorf("rank %d delivered times %d: one reading serves what is published at once, and both have the same", r, got)
		}
	}
	if bytes := g.nodes[0].Stats.SentBytes.Load(); bytes != 6 {
		t.Errorf("%d bytes were sent: times are not the application's", bytes)
	}
}

func TestEverywhereIsWhatTheLastDiskHas(t *testing.T) {
	g := newPersistent(t, 3)
	g.sendTimed(0, "x")
	g.settle()
	all := g.nodes[0].Delivered()
	everywhere := func(want order.Seq, whole bool) {
		t.Helper()
		g.settle()
		for r, n := range g.nodes {
			if got, w := n.Everywhere(); got != want || w != whole {
				t.Errorf("rank %d: every disk has %d (whole %v), want %d (%v)", r, got, w, want, whole)
			}
		}
	}
	everywhere(0, false)
	g.nodes[0].Persist(all, true)
	g.nodes[1].Persist(1, true)
	everywhere(0, false)
	g.nodes[2].Persist(0, true)
	everywhere(0, true) // what was before this view, and nothing of it
	g.nodes[2].Persist(1, true)
	everywhere(1, true)
	g.nodes[1].Persist(all+5, true) // no more than it delivered
	g.nodes[2].Persist(all, true)
	everywhere(all, true)
	if g.nodes[0].Persist(all, true) != 0 {
		t.Error("what is no news counts as work")
	}
}

// B9: a time that was heard before may be that of any message that is visible, received or not.
func TestWhatIsVisibleHasArrivedThoughItIsReceivedOneByOne(t *testing.T) {
	for name, tuning := range map[string]multicast.Tuning{"one receive": {OneReceive: true}, "all": {}} {
		t.Run(name, func(t *testing.T) {
			g := newPersistentTuned(t, 2, tuning)
			for range 3 {
				g.sendTimed(1, "x")
			}
			g.nodes[1].cycle()
			g.nodes[0].table.Poll()
			g.nodes[0].Exchange()
			if got := g.nodes[0].Arrivals(); got != 6 { // the last one is index 2 of the second sender
				t.Errorf("three messages are visible, and all that was published lies before %d", got)
			}
		})
	}
}

func TestADiskThatSaysWhatCannotBeFails(t *testing.T) {
	for what, words := range map[string][3]uint64{ // delivered, persisted, whole
		"more than it delivered":        {1, 2, 1},
		"something before what is past": {1, 1, 0},
	} {
		g := newPersistent(t, 2)
		g.sendTimed(0, "x")
		g.settle()
		row := g.nodes[1].table
		off := lineOffset(t, row.Row(1))
		for i, w := range words {
			atomic.StoreUint64(fabric.Word(row.Row(1), off+8*[]int{5, 3, 4}[i]), w)
		}
		row.PushLine([]order.Rank{0}, off)
		row.Flush()
		g.nodes[0].table.Poll()
		g.nodes[0].Everywhere()
		if f := g.nodes[0].table.Failures(); len(f) != 1 || !errors.Is(f[0].Err, fabric.ErrViolation) {
			t.Errorf("%s: failures %v", what, f)
		}
	}
}

// lineOffset finds the only control line of a row: the one whose received is not 0.
func lineOffset(t *testing.T, row []byte) int {
	for off := 0; off < len(row); off += fabric.LineBytes {
		if binary.LittleEndian.Uint64(row[off+48:]) != 0 {
			return off
		}
	}
	t.Fatal("no line")
	return 0
}

// B10: a message that has a time after the latest one is received by no member, and its sender
// fails. While a member does not know the latest time, such a message waits.
func TestB10AMessageWithATimeAfterTheLatestIsNotReceived(t *testing.T) {
	for name, c := range map[string]struct {
		latest    order.Time
		known     bool
		delivered string
		failed    bool
	}{
		"the latest time":               {1002, true, "1:one 1:two", false},
		"after it":                      {1001, true, "1:one", true},
		"before the latest is known":    {1001, false, "1:one", false},
		"all are after it, and unknown": {1000, false, "", false},
	} {
		clock, latest, known := order.Time(1000), c.latest, c.known
		g := newGroupAfter(t, func(r int, cfg *multicast.Config) {
			cfg.Clock = func() order.Time { clock++; return clock }
			if r == 1 {
				cfg.Latest = func() (order.Time, bool) { return latest, known }
			}
		}, 2, views.Persistent, multicast.Tuning{}, 0)
		for _, text := range []string{"one", "two"} {
			g.sendTimed(0, text)
			g.settle()
		}
		if got := strings.Join(g.nodes[1].log, " "); got != c.delivered {
			t.Errorf("%s: delivered %q, want %q", name, got, c.delivered)
		}
		failures := g.nodes[1].table.Failures()
		if failed := len(failures) == 1 && errors.Is(failures[0].Err, fabric.ErrViolation); failed != c.failed || len(failures) > 1 {
			t.Errorf("%s: failures %v", name, failures)
		}
		if c.failed {
			continue
		}
		latest, known = 1002, true
		g.settle()
		g.expect("1:one 1:two")
	}
}

// B10: a sender that changes the time of a message after it was received moves no clock further
// than the times that were received.
func TestB10ATimeThatChangesAfterItWasReceivedIsBounded(t *testing.T) {
	clock, got := order.Time(1000), order.Time(0)
	g := newGroupAfter(t, func(r int, cfg *multicast.Config) {
		cfg.Clock = func() order.Time { clock++; return clock }
		cfg.Latest = func() (order.Time, bool) { return 2000, true }
	}, 2, views.Persistent, multicast.Tuning{}, 0)
	g.nodes[1].keep = func(m multicast.Message) { got = m.Time }
	g.sendTimed(0, "8 bytes.")
	for g.nodes[1].Reach()[0] == 0 {
		g.nodes[0].cycle()
		g.nodes[1].table.Poll()
		g.nodes[1].Exchange()
	}
	at := 2*fabric.LineBytes + smc.HeaderBytes + 8 // of the time, behind the first record's data
	binary.LittleEndian.PutUint64(g.nodes[1].table.Row(0)[at:], 9000)
	g.settle()
	g.expect("1:8 bytes.")
	if got != 1001 {
		t.Errorf("the time is %d, want 1001", got)
	}
}

func TestAMessageWithoutATimeFailsItsSender(t *testing.T) {
	g := newPersistent(t, 2)
	c, _ := g.nodes[0].Sender.Claim(0)
	if err := g.nodes[0].Sender.Commit(c); err != nil {
		t.Fatal(err)
	}
	g.nodes[1].Skip(5) // then all that rank 0 sends can be delivered as soon as it is here
	g.nodes[1].cycle()
	g.ways.Hold(0, 1, true)
	table := g.nodes[0].table
	g.nodes[0].Exchange()
	row := table.Row(0)
	off := 2 * fabric.LineBytes // the record of index 0: eight bytes long, which becomes none
	binary.LittleEndian.PutUint64(row[off:], 0)
	table.Push([]order.Rank{1}, off, smc.HeaderBytes)
	g.sendTimed(0, "behind it")
	for k := range 20 {
		g.ways.Hold(0, 1, k < 5)
		g.nodes[0].table.Poll()
		g.nodes[0].Exchange()
		g.nodes[0].table.Flush()
		g.nodes[1].cycle()
	}
	if f := g.nodes[1].table.Failures(); len(f) != 1 || !errors.Is(f[0].Err, fabric.ErrViolation) {
		t.Errorf("failures %v", f)
	}
	if got := fmt.Sprint(g.nodes[1].log); got != "[]" {
		t.Errorf("delivered %s, which lies behind it", got)
	}
}
