package squall_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/squall-go/squall"

	"github.com/squall-go/squall/internal/testutil"
)

func TestMain(m *testing.M) {
	testutil.Overlap(3)
	goleak.VerifyTestMain(m)
}

// eventually waits until something holds, and fails the test if it does not within 20 seconds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func send(t testing.TB, s *squall.Subgroup, text string) {
	t.Helper()
	if err := s.Send(t.Context(), []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// journal is what one member delivered, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
	views []squall.ViewID // that they were delivered in
}

// deliver is an upcall. It writes down sender and text.
func (j *journal) deliver(m squall.Message) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf("%d:%s", m.Sender, m.Data))
	j.views = append(j.views, m.View)
}

func (j *journal) read() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// since is what was delivered from a view on.
func (j *journal) since(id squall.ViewID) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.lines)
	for n > 0 && j.views[n-1] >= id {
		n--
	}
	return slices.Clone(j.lines[n:])
}

// from is what a sender's part of it is, in order.
func (j *journal) from(id squall.NodeID) (lines []string) {
	prefix := fmt.Sprintf("%d:", id)
	for _, l := range j.read() {
		if strings.HasPrefix(l, prefix) {
			lines = append(lines, l)
		}
	}
	return lines
}

// await waits for n messages.
func (j *journal) await(t testing.TB, n int) []string {
	t.Helper()
	eventually(t, fmt.Sprintf("%d messages", n), func() bool { return len(j.read()) >= n })
	return j.read()
}

// same waits until all members delivered n messages, which must be the same in the same order, and
// returns them.
func same(t testing.TB, n int, journals ...*journal) []string {
	t.Helper()
	first := journals[0].await(t, n)
	for i, j := range journals {
		if got := j.await(t, n); !slices.Equal(got, first) || len(got) != n {
			t.Fatalf("%d messages: journal %d differs from the first one:\n%q\n%q", n, i+1, got, first)
		}
	}
	return first
}

// everybodySends has each group send so many numbered messages at the same time.
func everybodySends(t testing.TB, subgroup string, each int, groups ...*squall.Group) {
	t.Helper()
	var senders sync.WaitGroup
	for _, g := range groups {
		senders.Go(func() {
			for k := range each {
				if err := must(g.Subgroup(subgroup)).Send(t.Context(), fmt.Appendf(nil, "%d", k)); err != nil {
					t.Errorf("node %d: message %d: %v", g.ID(), k, err)
					return
				}
			}
		})
	}
	senders.Wait()
}

// newJournals makes n of them.
func newJournals(n int) []*journal {
	js := make([]*journal, n)
	for i := range js {
		js[i] = &journal{}
	}
	return js
}

// awaitView waits until groups are in one view of so many members, and connected to all of them.
func awaitView(t testing.TB, members int, groups ...*squall.Group) *squall.View {
	t.Helper()
	eventually(t, fmt.Sprintf("one view of %d members", members), func() bool {
		for _, g := range groups {
			v := g.View()
			coming := func(id squall.NodeID) bool { return must(g.Debug().Link(id)) == "pending" }
			if len(v.Members) != members || v.ID != groups[0].View().ID || slices.ContainsFunc(ids(v), coming) {
				return false
			}
		}
		return true
	})
	return groups[0].View()
}

// ids are the members of a view, in order of seniority.
func ids(v *squall.View) (list []squall.NodeID) {
	for _, m := range v.Members {
		list = append(list, m.ID)
	}
	return list
}

// noFailure takes a member's events, none of which may be a failure.
func noFailure(t testing.TB, i int) func(squall.Event) {
	return func(e squall.Event) {
		switch e.(type) {
		case squall.MemberDown, squall.Halted:
			t.Errorf("node %d: %v", i+1, e)
		}
	}
}

// traffic is members that send numbered messages as fast as they can, until it is stopped or they
// halt.
type traffic struct {
	t      testing.TB
	groups []*squall.Group
	counts []atomic.Int64 // messages that were accepted, by group
	failed []error        // why a group's sender ended before its time
	over   atomic.Bool
	ends   sync.WaitGroup
}

// newTraffic returns once every member has sent something.
func newTraffic(t testing.TB, subgroup string, groups ...*squall.Group) *traffic {
	t.Helper()
	l := &traffic{t: t, groups: groups, counts: make([]atomic.Int64, len(groups)), failed: make([]error, len(groups))}
	for i, g := range groups {
		l.ends.Go(func() {
			for k := 0; !l.over.Load(); k++ {
				if l.failed[i] = must(g.Subgroup(subgroup)).Send(context.Background(), fmt.Appendf(nil, "%d", k)); l.failed[i] != nil {
					return
				}
				l.counts[i].Add(1)
			}
		})
	}
	t.Cleanup(func() { l.over.Store(true) })
	l.goesOn(1)
	return l
}

// goesOn waits until every member of the load that lives has sent n more messages.
func (l *traffic) goesOn(n int64) {
	l.t.Helper()
	for i, g := range l.groups {
		was := l.counts[i].Load()
		eventually(l.t, fmt.Sprintf("node %d goes on sending", g.ID()), func() bool { return l.counts[i].Load() >= was+n || g.Err() != nil })
	}
}

// stop ends the load. Only members that halted may have failed.
func (l *traffic) stop() {
	l.t.Helper()
	l.over.Store(true)
	l.ends.Wait()
	for i, g := range l.groups {
		if err := l.failed[i]; err != nil && (g.Err() == nil || !errors.Is(err, g.Err())) {
			l.t.Errorf("node %d: %v", g.ID(), err)
		}
	}
}

// total is the number of messages that were accepted.
func (l *traffic) total() (n int) {
	for i := range l.counts {
		n += int(l.counts[i].Load())
	}
	return n
}

// check verifies that everything that a member sent was delivered once and in order. The last
// messages of a member that halted may be missing, and the message whose Send failed may have been
// delivered.
func (l *traffic) check(lines []string) {
	l.t.Helper()
	at := map[string]int{}
	for _, line := range lines {
		sender, text, _ := strings.Cut(line, ":")
		k, err := strconv.Atoi(text)
		if err != nil {
			continue // not of the load
		}
		if k != at[sender] {
			l.t.Fatalf("message %d of node %s came in place of %d", k, sender, at[sender])
		}
		at[sender]++
	}
	for i, g := range l.groups {
		sent, got := int(l.counts[i].Load()), at[fmt.Sprint(g.ID())]
		if got > sent+1 || got != sent && l.failed[i] == nil {
			l.t.Errorf("node %d: %d messages were accepted, %d delivered", g.ID(), sent, got)
		}
	}
}

// must returns v. An error is a mistake in the test.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
