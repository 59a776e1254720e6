package testlab

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/squall-go/squall"
)

// Check compares the logs of a run. It returns everything that a group must not do, joined.
func Check(logs []*Log) error {
	c := &checker{logs: logs, views: map[squall.ViewID]*seen{}}
	for _, l := range logs {
		for _, bad := range l.Bad {
			c.fault("process %d delivered what no process sent: %s", l.Life, bad)
		}
		c.sequenceOfViews(l)
	}
	for sg := range subgroups(logs) {
		c.subgroup(sg)
	}
	return errors.Join(c.faults...)
}

// maxFaults is how many are told of: one wrong message makes many.
const maxFaults = 20

type checker struct {
	logs   []*Log
	views  map[squall.ViewID]*seen
	faults []error
}

// seen is a view, and the process that installed it first.
type seen struct {
	Installed
	by int
}

func (c *checker) fault(format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fmt.Errorf(format, args...))
	}
}

func subgroups(logs []*Log) int {
	if len(logs) == 0 {
		return 0
	}
	return len(logs[0].Subgroups)
}

// sequenceOfViews checks that all processes install consecutive views of which they are members,
// and the same ones (G4, G5).
func (c *checker) sequenceOfViews(l *Log) {
	for i, v := range l.Views {
		if i > 0 && v.ID != l.Views[i-1].ID+1 {
			c.fault("G4: process %d installed view %d after view %d", l.Life, v.ID, l.Views[i-1].ID)
		}
		if !v.has(l.ID) {
			c.fault("G4: process %d, node %d, installed view %d without itself: %v", l.Life, l.ID, v.ID, v.Members)
		}
		first := c.views[v.ID]
		if first == nil {
			c.views[v.ID] = &seen{v, l.Life}
		} else if !slices.Equal(first.Members, v.Members) {
			c.fault("G4, G5: view %d is %v at process %d and %v at process %d", v.ID, first.Members, first.by, v.Members, l.Life)
		}
	}
}

// account is what one process delivered in one view of a subgroup.
type account struct {
	life     int
	runs     []Run
	messages int
	complete bool // the process saw the view's end
}

func (a *account) digests() []byte {
	all := make([]byte, 0, a.messages)
	for _, r := range a.runs {
		all = append(all, r.Digests...)
	}
	return all
}

// subgroup checks one subgroup over all views.
func (c *checker) subgroup(sg int) {
	accounts := map[squall.ViewID][]*account{}
	for _, l := range c.logs {
		for id, a := range c.accounts(l, sg) {
			accounts[id] = append(accounts[id], a)
		}
	}
	next := map[int]uint64{}
	for _, id := range slices.Sorted(maps.Keys(accounts)) {
		longest := c.same(sg, id, accounts[id])
		c.fifo(sg, id, longest, next)
	}
	c.nothingLost(sg, next)
}

// accounts splits what a log says of a subgroup by views, and looks whether each is whole in
// itself.
func (c *checker) accounts(l *Log, sg int) map[squall.ViewID]*account {
	all := map[squall.ViewID]*account{}
	for _, v := range l.Views {
		all[v.ID] = &account{life: l.Life}
	}
	var last squall.ViewID
	for _, r := range l.Runs {
		if r.Subgroup != sg {
			continue
		}
		a := all[r.View]
		if a == nil || r.View < last {
			c.fault("G4: process %d delivered in view %d after view %d; it installed %d views", l.Life, r.View, last, len(l.Views))
			continue
		}
		c.whole(l, sg, a, r)
		a.runs = append(a.runs, r)
		a.messages += len(r.Digests)
		last = r.View
	}
	for i, v := range l.Views {
		synchronous := i < len(l.Views)-1 && !l.Subgroups[sg].Async
		all[v.ID].complete = v.ID < last || synchronous || l.End != nil && l.End.Reason == ""
	}
	return all
}

// whole: runs follow each other, and so do the sequence numbers; nothing of a view comes after the
// next one, unless it is asynchronous.
func (c *checker) whole(l *Log, sg int, a *account, r Run) {
	if r.Latest != r.View && !l.Subgroups[sg].Async {
		c.fault("process %d, %s: message %d of view %d came when view %d was installed", l.Life, l.Subgroups[sg].Name, r.First, r.View, r.Latest)
	}
	if got, want := r.First, uint64(a.messages); got != want {
		c.fault("process %d, %s, view %d: a run begins at message %d, %d came before it", l.Life, l.Subgroups[sg].Name, r.View, got, want)
	}
	n := len(a.runs)
	if r.Seqs[0] > r.Seqs[1] || n > 0 && r.Seqs[0] <= a.runs[n-1].Seqs[1] {
		c.fault("G1: process %d, %s, view %d: sequence numbers do not grow at message %d", l.Life, l.Subgroups[sg].Name, r.View, r.First)
	}
}

// same: all accounts of a view are beginnings of one sequence, and the complete ones are all of it
// (G1, G2, G4). It returns the longest.
func (c *checker) same(sg int, id squall.ViewID, accounts []*account) *account {
	longest := slices.MaxFunc(accounts, func(a, b *account) int { return cmp.Compare(a.messages, b.messages) })
	all, n := longest.digests(), longest.messages
	for _, a := range accounts {
		switch {
		case a == longest:
		case !bytes.HasPrefix(all, a.digests()):
			c.fault("G1: %s, view %d: process %d delivered something else than process %d from message %d on",
				c.name(sg), id, a.life, longest.life, common(all, a.digests()))
		case a.complete && a.messages != n:
			c.fault("G2, G4: %s, view %d: process %d saw its end, and delivered %d messages; process %d delivered %d",
				c.name(sg), id, a.life, a.messages, longest.life, n)
		default:
			c.sameRuns(sg, id, a, longest)
		}
	}
	return longest
}

func common(a, b []byte) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func (c *checker) name(sg int) string { return c.logs[0].Subgroups[sg].Name }

// sameRuns compares the runs one by one. The last one of the shorter account may be a piece.
func (c *checker) sameRuns(sg int, id squall.ViewID, a, longest *account) {
	for i, r := range a.runs {
		if i >= len(longest.runs) || !r.within(longest.runs[i], i == len(a.runs)-1) {
			c.fault("G1: %s, view %d: processes %d and %d differ within messages %d to %d",
				c.name(sg), id, a.life, longest.life, r.First, r.First+uint64(len(r.Digests)))
			return
		}
	}
}

// within reports whether a run is another one, or, if it may be, its beginning.
func (r Run) within(other Run, beginning bool) bool {
	if len(r.Digests) == len(other.Digests) {
		return r.First == other.First && r.Hash == other.Hash && r.Seqs == other.Seqs && slices.Equal(r.Parts, other.Parts)
	}
	if !beginning || r.First != other.First || len(r.Parts) > len(other.Parts) || len(r.Digests) > len(other.Digests) {
		return false
	}
	for i, p := range r.Parts {
		if q := other.Parts[i]; p.Life != q.Life || p.From != q.From || p.Count > q.Count {
			return false
		}
	}
	return true
}

// fifo: over all views each process's messages come in its order, each once (G1).
func (c *checker) fifo(sg int, id squall.ViewID, a *account, next map[int]uint64) {
	for _, r := range a.runs {
		for _, p := range r.Parts {
			if p.From != next[p.Life] {
				c.fault("G1, FIFO: %s, view %d: process %d's message %d came where its message %d was due (at process %d)",
					c.name(sg), id, p.Life, p.From, next[p.Life], a.life)
			}
			next[p.Life] = p.From + p.Count
		}
	}
}

// nothingLost checks that every message that a process was told is accepted was delivered, if the
// process stayed, and that every delivered message was sent (G3).
func (c *checker) nothingLost(sg int, delivered map[int]uint64) {
	for _, l := range c.logs {
		if l.End == nil {
			continue
		}
		n, accepted, begun := delivered[l.Life], l.End.Accepted[sg], l.End.Begun[sg]
		if l.End.Reason == "" && n < accepted {
			c.fault("G3: %s: process %d stayed, and %d of its messages were accepted; %d were delivered", c.name(sg), l.Life, accepted, n)
		}
		if n > accepted+begun {
			c.fault("%s: process %d sent at most %d messages, and %d were delivered", c.name(sg), l.Life, accepted+begun, n)
		}
	}
}

// has reports whether a node is in the view.
func (i *Installed) has(id squall.NodeID) bool { return slices.Contains(i.Nodes(), id) }
