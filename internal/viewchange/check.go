package viewchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// read takes a ballot's record out of a row. there is false while the record is not there as a
// whole.
func (c *Change) read(r order.Rank, areas []sst.Area, b Ballot, v any) (there bool, err error) {
	text, ok := recordText(c.area(r, areas), b)
	if !ok {
		return false, nil
	}
	if own, ok := v.(json.Unmarshaler); ok {
		return true, own.UnmarshalJSON(text) // which checks the text itself
	}
	return true, json.Unmarshal(text, v)
}

// check compares what a leader proposes with what the view lets it propose (V7).
func (c *Change) check(b Ballot, from order.Rank, next *views.View, removed, left []order.Rank) error {
	if b.Leader() != from || b.Attempt() == 0 {
		return fmt.Errorf("ballot %d is not one of rank %d", b, from)
	}
	return c.checkNext(next, removed, left)
}

func (c *Change) checkNext(next *views.View, removed, left []order.Rank) error {
	gone := slices.Concat(removed, left)
	slices.Sort(gone)
	if n := len(gone); n > 0 && (gone[0] < 0 || int(gone[n-1]) >= c.n) || len(slices.Compact(gone)) < n {
		return fmt.Errorf("ranks %v that failed and %v that left are not distinct ranks below %d", removed, left, c.n)
	}
	if !c.quorum(all(c.n) &^ ranksOf(removed)) {
		return fmt.Errorf("%d of %d members failed, which leaves no quorum", len(removed), c.n) // V13
	}
	stay := c.members((all(c.n) &^ ranksOf(gone)).List())
	if next == nil {
		if len(stay) > 0 {
			return fmt.Errorf("no view, and %d members that stay", len(stay))
		}
		return nil
	}
	v := c.cfg.View
	switch {
	case next.ID != v.ID+1 || next.Cluster != v.Cluster || next.Key() == "" || next.Key() == v.Key():
		return fmt.Errorf("view %d of %q after view %d of %q, or its key is not a new one", next.ID, next.Cluster, v.ID, v.Cluster)
	case !next.Follows(v):
		return fmt.Errorf("view %d of group %.64q, which does not follow from view %d of group %q", next.ID, next.Group, v.ID, v.Group) // V12
	case len(stay) == 0 || len(next.Members) < len(stay) || !slices.Equal(next.Members[:len(stay)], stay):
		return fmt.Errorf("members %v, while the members that stay are %v", next.Members, stay)
	case !slices.EqualFunc(next.Subgroups, v.Subgroups, sameDeclaration):
		return fmt.Errorf("subgroups that differ from the subgroups of view %d", v.ID)
	case len(next.Muted) != len(next.Members):
		return fmt.Errorf("%d mute words for %d members", len(next.Muted), len(next.Members))
	}
	if c.cfg.Latest != nil {
		if latest, known := c.cfg.Latest(); known && next.Time > latest {
			return fmt.Errorf("view %d begins at %v, and no clock is after %v", next.ID, next.Time, latest) // B10
		}
	}
	return next.Validate()
}

// sameDeclaration reports whether two views speak of the same subgroup.
func sameDeclaration(a, b views.Subgroup) bool {
	return a.Name == b.Name && a.Shard == b.Shard && a.Mode == b.Mode && a.RingBytes == b.RingBytes && a.Window == b.Window
}

func (c *Change) checkDecision(b Ballot, from order.Rank, d *Decision) error {
	if err := c.checkNext(d.View, d.Removed, d.Left); err != nil {
		return err
	}
	if d.View != nil {
		d.View.Secret = c.cfg.View.Secret // which is in no record
	}
	if !c.fits(encode((&proposal{d.View, d.Removed, d.Left}).fields())) {
		return errTooLarge // to be copied; what was written may be shorter than what is made of it here
	}
	if len(d.Trim) != len(c.cfg.View.Subgroups) {
		return fmt.Errorf("trims of %d subgroups, the view has %d", len(d.Trim), len(c.cfg.View.Subgroups))
	}
	if err := c.checkTrim(d); err != nil {
		return err
	}
	for i, sg := range c.cfg.View.Subgroups {
		some := (ranksOf(sg.Members) &^ ranksOf(d.Removed)) != 0
		if d.Trim[i] != nil && len(d.Trim[i]) != len(sg.Senders) || d.Trim[i] == nil && some && len(sg.Senders) > 0 {
			return fmt.Errorf("a trim of %d senders in subgroup %q, which has %d", len(d.Trim[i]), sg.Name, len(sg.Senders))
		}
	}
	return nil
}

// checkTrim makes sure that this member could deliver what a decision says, and that it leaves only
// if it wants to.
func (c *Change) checkTrim(d *Decision) error {
	self := only(c.cfg.Self)
	if ranksOf(d.Left)&self != 0 && c.own[wordLeaving] == 0 {
		return errors.New("this member leaves, and does not want to")
	}
	if ranksOf(d.Removed)&self != 0 || mutant.Enabled && mutant.On(mutant.TrimByMaximum) {
		return nil
	}
	for i, here := range c.here {
		for s := range min(len(here), len(d.Trim[i])) {
			if d.Trim[i][s] > here[s] {
				return fmt.Errorf("subgroup %q: the trim of sender %d is %d, and %d are here", c.cfg.View.Subgroups[i].Name, s, d.Trim[i][s], here[s]) // V9
			}
		}
	}
	for i := range c.here {
		for s, told := range c.told(i, c.cfg.Self) {
			if s < len(d.Trim[i]) && d.Trim[i][s] < told {
				return fmt.Errorf("%w: subgroup %q: the trim of sender %d is %d, and of its messages %d were stable", errTakesBack, c.cfg.View.Subgroups[i].Name, s, d.Trim[i][s], told) // V9
			}
		}
	}
	return nil
}

// errTakesBack says that a trim lies before what was stable at this member, which may be delivered.
var errTakesBack = errors.New("it takes back what was stable")

func (c *Change) told(subgroup int, r order.Rank) []order.Index {
	if c.cfg.Told == nil || !c.cfg.View.Subgroups[subgroup].Has(r) {
		return nil
	}
	return c.cfg.Told(subgroup, r)
}

// takenBack finds out whose fault it is that a decision takes back what was stable here: each
// member told this one that it has all of that, so one whose vectors say less has lied; if there is
// none, the leader has made the trims up. This member cannot follow the decision, and others may:
// so it stops when it meets it again.
func (c *Change) takenBack(l order.Rank, d *Decision, why error) {
	if c.refuses(d) {
		c.outvoted(why)
		return
	}
	c.refused = d.key()
	guilty := false
	for _, r := range (all(c.n) &^ ranksOf(d.Removed) &^ c.Suspected() &^ only(c.cfg.Self)).List() {
		if _, err := c.vectors(r); errors.Is(err, errLess) {
			c.violated(r, "V9", "has what cannot be: %v", err)
			guilty = true
		}
	}
	if !guilty {
		c.violated(l, "V9", "decides what cannot be: %v", why)
	}
}

// refuses reports whether a decision is one that this member refused because of its trims.
func (c *Change) refuses(d *Decision) bool { return c.refused != "" && c.refused == d.key() }

func (c *Change) outvoted(why error) {
	c.err = fmt.Errorf("%w: what follows view %d may be decided without what was delivered here: %w", ErrEvicted, c.cfg.View.ID, why)
}

// Stopped is what is wrong with what a member said it has, if it stopped the view already: what it
// tells of its progress from then on cannot be.
func (c *Change) Stopped(r order.Rank) error {
	if wordAcked.Load(c.lines[r]) == 0 {
		return nil
	}
	_, err := c.vectors(r)
	return err
}

// errLess says that a member has less than it told before.
var errLess = errors.New("less than it told before")

// checkVectors makes sure that a member's vectors are about the subgroups that it is in, and say no
// less than its words did.
func (c *Change) checkVectors(r order.Rank, here [][]order.Index) error {
	if len(here) != len(c.cfg.View.Subgroups) {
		return fmt.Errorf("vectors of %d subgroups, the view has %d", len(here), len(c.cfg.View.Subgroups))
	}
	for i, sg := range c.cfg.View.Subgroups {
		want := 0
		if sg.Has(r) {
			want = len(sg.Senders)
		}
		if len(here[i]) != want {
			return fmt.Errorf("a vector of %d senders in subgroup %q, want %d", len(here[i]), sg.Name, want)
		}
		for s, told := range c.told(i, r) {
			if here[i][s] < told { // V9
				return fmt.Errorf("%w: %d indexes of sender %d in subgroup %q, and it told that it has %d", errLess, here[i][s], s, sg.Name, told)
			}
		}
	}
	return nil
}
