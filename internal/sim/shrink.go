package sim

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/order"
)

// Shrinker makes failing plans smaller, as long as they fail in the same way: with a violation that
// the same checker finds of the same promise, of the same invariant, or with the same panic. It is
// greedy: it removes parts, the large ones first, and keeps each plan that still fails, until no
// part can be removed. The same plan gives the same result, unless Stop ends it.
type Shrinker struct {
	Options Options
	// Stop, if not nil, ends the work once it is closed: the smallest plan so far is returned.
	Stop <-chan struct{}
	// Progress, if not nil, is told of every plan that was tried.
	Progress func(tried int, smallest *Plan)
	// Play plays a plan; nil: Run. Tests put something in its place.
	Play func(*Plan) Result

	tried int
	way   string // in which the plan fails
	best  *Plan
	text  []byte // best, as a file keeps it
	err   error  // how that failed
}

// Shrink returns the smallest plan that it found, and how that fails. A plan that does not fail is
// returned as it is.
func (s *Shrinker) Shrink(p *Plan) (*Plan, error) {
	if s.Play == nil {
		s.Play = func(p *Plan) Result { return Run(p, s.Options) }
	}
	r := s.Play(p)
	if s.best, s.err, s.way = p, r.Err, r.way(); r.Err == nil {
		return p, nil
	}
	s.text = p.text()
	for progress := true; progress && !s.stopped(); {
		progress = false
		for _, list := range shrinkable {
			progress = s.thin(list) || progress
		}
		for _, f := range features {
			progress = s.try(f) || progress
		}
	}
	return s.best, s.err
}

// Tried is how many plans were played.
func (s *Shrinker) Tried() int { return s.tried }

func (s *Shrinker) stopped() bool {
	select {
	case <-s.Stop:
		return true
	default:
		return false
	}
}

// rolls is how many dice a plan is played with that lacks a part of a list: without it everything
// comes a little earlier or later, and what fails only at the right moment needs other dice to meet
// that.
const rolls = 4

// try plays the smallest plan so far with a change, and keeps it if it fails in the same way. A
// change reports whether it found something to change.
func (s *Shrinker) try(change func(*Plan) bool) bool { return s.roll(change, 0) }

func (s *Shrinker) roll(change func(*Plan) bool, roll uint64) bool {
	p := new(Plan)
	if err := p.UnmarshalJSON(s.text); err != nil || s.stopped() || !change(p) || p.check() != nil {
		return false
	}
	p.Seed += roll << 48
	s.tried++
	r := s.Play(p)
	fails := r.Err != nil && r.way() == s.way
	if fails {
		s.best, s.text, s.err = p, p.text(), r.Err
	}
	if s.Progress != nil {
		s.Progress(s.tried, s.best)
	}
	return fails
}

// thin removes elements of a list: halves of it, then quarters, and single ones in the end.
func (s *Shrinker) thin(list part) (progress bool) {
	for size := max(1, list.count(s.best)); size > 0; size /= 2 {
		for at := 0; at < list.count(s.best) && !s.stopped(); {
			removed := false
			for roll := uint64(0); roll < rolls && !removed; roll++ {
				removed = s.roll(func(p *Plan) bool { return list.remove(p, at, min(at+size, list.count(p))) }, roll)
			}
			if progress = progress || removed; !removed {
				at += size
			}
		}
	}
	return progress
}

// digits are what differs between two violations of one kind.
var digits = regexp.MustCompile(`[0-9]+`)

// way is what has to stay the same of a failure.
func (r *Result) way() string {
	var broken invariants.Violation
	switch {
	case r.Err == nil:
		return ""
	case errors.As(r.Err, &broken):
		return "invariant " + broken.ID
	}
	text := r.Err.Error()
	_, text, _ = strings.Cut(text, ": ") // behind the time
	if id, _, ok := strings.Cut(text, " is violated: "); ok {
		return r.Checker + ": " + id
	}
	text, _, _ = strings.Cut(text, "\n")
	return r.Checker + ": " + digits.ReplaceAllString(text, "n")
}

// Size is how large a plan is, for people.
func (p *Plan) Size() string {
	messages := 0
	for _, a := range p.Apps {
		messages += a.Messages
	}
	return fmt.Sprintf("%d initial members, %d joiners, %d subgroups, %d faults, %d messages", p.Initial, len(p.Nodes)-p.Initial, len(p.Decls), len(p.Faults), messages)
}

// part is a list in a plan. remove takes the elements from … to-1 out, with all that is about them,
// or reports false if the plan needs one of them.
type part struct {
	count  func(*Plan) int
	remove func(p *Plan, from, to int) bool
}

// shrinkable are the lists of a plan, in the order in which they are thinned.
var shrinkable = []part{
	{func(p *Plan) int { return len(p.Faults) }, func(p *Plan, from, to int) bool {
		p.Faults = slices.Delete(p.Faults, from, to)
		return true
	}},
	{func(p *Plan) int { return len(p.Nodes) }, (*Plan).removeNodes},
	{func(p *Plan) int { return len(p.Decls) }, (*Plan).removeDecls},
	{func(p *Plan) int { return len(p.Apps) }, func(p *Plan, from, to int) (changed bool) {
		for i := from; i < to; i++ {
			changed = changed || p.Apps[i].Messages > 0
			p.Apps[i].Messages = 0
		}
		return changed
	}},
	{func(p *Plan) int { return len(p.Nodes) }, func(p *Plan, from, to int) (changed bool) {
		for i := from; i < to; i++ {
			for k := range p.Inboxes[i] {
				in := &p.Inboxes[i][k]
				changed = changed || in.ShutIn > 0 || in.MaxRun > 0 || in.Keep > 0 || in.Cost > 0
				in.ShutIn, in.MaxRun, in.Keep, in.Cost = 0, 0, 0, 0
			}
		}
		return changed
	}},
	{func(p *Plan) int { return len(p.Nodes) }, func(p *Plan, from, to int) (changed bool) {
		for i := from; i < to; i++ {
			changed = changed || p.Nodes[i].Times > 0
			p.Nodes[i].Times, p.Nodes[i].Returns = 0, 0
		}
		return changed
	}},
}

// removeNodes takes places for processes out of a plan.
func (p *Plan) removeNodes(from, to int) bool {
	gone := func(place int) bool { return place >= from && place < to }
	if to-from >= len(p.Nodes) || p.Initial <= max(0, min(to, p.Initial)-from) {
		return false // at least one node has to bootstrap the group
	}
	place := func(i int) int {
		if i >= to {
			return i - (to - from)
		}
		return i
	}
	set := func(s uint64) uint64 { return s&(1<<from-1) | s>>to<<from }
	for _, n := range p.Nodes[from:to] {
		if !p.undeclare(n.ID) {
			return false
		}
	}
	p.Initial -= max(0, min(to, p.Initial)-from)
	p.Nodes, p.Inboxes = slices.Delete(p.Nodes, from, to), slices.Delete(p.Inboxes, from, to)
	p.Net.Kinds, p.Net.Delays = slices.Delete(p.Net.Kinds, from, to), slices.Delete(p.Net.Delays, from, to)
	if len(p.Keep.Disks) > 0 {
		p.Keep.Disks = slices.Delete(p.Keep.Disks, from, to)
	}
	for i := range p.Nodes {
		p.Net.Kinds[i], p.Net.Delays[i] = slices.Delete(p.Net.Kinds[i], from, to), slices.Delete(p.Net.Delays[i], from, to)
		ask := slices.DeleteFunc(p.Nodes[i].Ask, gone)
		for k := range ask {
			ask[k] = place(ask[k])
		}
		p.Nodes[i].Ask = ask
	}
	p.Apps = slices.DeleteFunc(p.Apps, func(a App) bool { return gone(a.Node) })
	for i := range p.Apps {
		p.Apps[i].Node = place(p.Apps[i].Node)
	}
	p.moveFaults(gone, place, set)
	return true
}

// undeclare takes a node out of the subgroups, unless a list of nodes had no other one: an empty
// list means all.
func (p *Plan) undeclare(gone order.NodeID) bool {
	for k := range p.Decls {
		d := &p.Decls[k]
		for _, ids := range []*[]order.NodeID{&d.Members, &d.Senders} {
			left := slices.DeleteFunc(slices.Clone(*ids), func(id order.NodeID) bool { return id == gone })
			if len(left) == 0 && len(*ids) > 0 {
				return false
			}
			*ids = left
		}
	}
	return true
}

// moveFaults takes faults of nodes that are gone out of a plan, and gives the others the places
// that the nodes have now.
func (p *Plan) moveFaults(gone func(int) bool, place func(int) int, set func(uint64) uint64) {
	p.Faults = slices.DeleteFunc(p.Faults, func(f Fault) bool {
		return gone(f.Node) && f.On == NoMove && f.Kind != Partition && f.Kind != Blackout || gone(f.Peer) && (f.Kind == OneWayCut || f.Kind == Accuse)
	})
	for i := range p.Faults {
		f := &p.Faults[i]
		if f.Node = place(f.Node); f.Node >= len(p.Nodes) || gone(f.Node) {
			f.Node = 0
		}
		if f.Kind == OneWayCut || f.Kind == Accuse {
			f.Peer = place(f.Peer)
		}
		if f.Kind == Partition || f.Kind == Blackout || f.Kind == Reset {
			f.Set = set(f.Set)
		}
	}
}

// removeDecls takes subgroups out of a plan.
func (p *Plan) removeDecls(from, to int) bool {
	if to-from >= len(p.Decls) {
		return false
	}
	kept := p.keeps()
	set := func(s uint64) uint64 { return s&(1<<from-1) | s>>to<<from }
	p.Decls = slices.Delete(p.Decls, from, to)
	for i := range p.Inboxes {
		p.Inboxes[i] = slices.Delete(p.Inboxes[i], from, to)
	}
	p.Apps = slices.DeleteFunc(p.Apps, func(a App) bool { return a.Decl >= from && a.Decl < to })
	for i := range p.Apps {
		if p.Apps[i].Decl >= to {
			p.Apps[i].Decl -= to - from
		}
	}
	p.States, p.Keep.After = set(p.States), set(p.Keep.After)
	for i := range p.Faults {
		if f := &p.Faults[i]; f.Kind == SlowDisk || f.Kind == DamagedLogs || f.Kind == FullDisk {
			f.Peer = min(f.Peer, len(p.Decls)-1)
		}
	}
	return !kept || p.keeps() || p.forgetDisks()
}

// forgetDisks takes all out of a plan that is about logs.
func (p *Plan) forgetDisks() bool {
	p.Keep = Keep{}
	p.Faults = slices.DeleteFunc(p.Faults, func(f Fault) bool {
		return f.Kind == Blackout || f.Kind >= SyncCut && f.Kind <= DamagedLogs || f.Kind == ClockBack || f.Kind == Stranger || f.On >= Promises
	})
	return true
}
