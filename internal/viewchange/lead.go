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

// lead is the leader's part: it proposes when there is something to change, decides when all
// members have acked, and begins anew when a member failed before that, or follows a higher ballot.
func (c *Change) lead() bool {
	if c.Leader() != c.cfg.Self {
		return false
	}
	decided := c.nextAt != 0 && Ballot(c.own[wordDecided]) == c.nextAt
	if c.nextAt == 0 || !decided && ranksOf(c.proposal.Removed) != c.suspect {
		return c.due() && c.propose()
	}
	waiting := false
	for r, line := range c.lines {
		if c.suspect.Has(order.Rank(r)) {
			continue
		}
		switch acked := wordAcked.Load(line); {
		case acked > c.nextAt && acked.Leader() == c.cfg.Self:
			c.violated(order.Rank(r), "V6", "acks ballot %v, which was never proposed", acked)
			return true
		case acked > c.nextAt:
			return c.propose()
		case acked < c.nextAt:
			waiting = true
		}
	}
	return !waiting && !decided && !c.unrecorded(c.nextAt) && c.decide()
}

// due reports whether there is anything to change, or some member began to change it.
func (c *Change) due() bool {
	if c.suspect != 0 || c.leaving() != 0 || len(c.admissible(c.cfg.View.Members)) > 0 {
		return true
	}
	for r, line := range c.lines {
		if wordProposed.Load(line)|wordAcked.Load(line)|wordDecided.Load(line) != 0 {
			return true
		}
		if mute := wordMute.Load(line); mute&muteSaid != 0 && mute&^muteSaid != muted(c.cfg.View, order.Rank(r)) {
			return true
		}
	}
	return c.refills()
}

// refills reports whether the same members fill a shard in the next view that has none in this one,
// and no shard is without members for that: a member has got a log since this view began, or a
// restart made the view. That view is the one that is proposed: a Layout that is not a function of
// its input would place the members differently another time, and the leader would look for them
// again in each view.
func (c *Change) refills() bool {
	if !c.refill || mutant.Enabled && mutant.On(mutant.NoRefill) {
		return false
	}
	c.refill = false
	p, _, err := c.plan()
	if err != nil {
		return false // as it would be proposed, it would halt this member
	}
	more := false
	for i, sg := range p.View.Subgroups {
		was := c.cfg.View.Subgroups[i].Provisioned()
		if was && !sg.Provisioned() {
			return false
		}
		more = more || !was && sg.Provisioned()
	}
	if more {
		c.filling = p
	}
	return more
}

// propose writes a proposal of all that is pending, with a ballot above all that were ever seen,
// and acks it.
func (c *Change) propose() bool {
	p, text, err := c.plan()
	if err != nil {
		c.err = fmt.Errorf("view %d cannot be made: %w", c.cfg.View.ID+1, err)
		return true
	}
	c.proposal, c.nextAt = p, newBallot(c.attempts()+1, c.cfg.Self)
	c.pushRecord(c.cfg.Columns.proposals, putText(c.area(c.cfg.Self, c.cfg.Columns.proposals), c.nextAt, text))
	set(c, wordProposed, c.nextAt)
	c.emit(Proposed{Ballot: c.nextAt, View: p.View, Removed: c.members(p.Removed), Left: c.members(p.Left)})
	c.ack(c.nextAt)
	return true
}

// maxLead is the largest number of attempts by which the ballots of a row may be ahead of the
// ballots in all other rows. Correct leaders are ahead by one; an incorrect row must not use up the
// attempts of all later leaders.
const maxLead = 1 << 16

// attempts returns the highest attempt that is seen in the row of any member that is not suspected:
// these members have to ack a higher one. A row with impossible ballots fails.
func (c *Change) attempts() (highest uint64) {
	for r, line := range c.lines {
		at := c.attemptIn(line)
		if c.Suspected().Has(order.Rank(r)) || at <= highest {
			continue
		}
		if line != c.own && at > highest+maxLead && at > c.attemptBeside(order.Rank(r))+maxLead {
			c.violated(order.Rank(r), "V6", "is at attempt %d, far ahead of all others", at)
			continue
		}
		highest = at
	}
	return highest
}

// attemptBeside returns the highest attempt in all rows but one.
func (c *Change) attemptBeside(r order.Rank) (highest uint64) {
	for q, line := range c.lines {
		if order.Rank(q) != r && !c.Suspected().Has(order.Rank(q)) {
			highest = max(highest, c.attemptIn(line))
		}
	}
	return highest
}

func (c *Change) attemptIn(line *sst.Line) (highest uint64) {
	return max(wordProposed.Load(line), wordAcked.Load(line), wordDecided.Load(line)).Attempt()
}

func (c *Change) members(ranks []order.Rank) (members []views.Member) {
	for _, r := range ranks {
		members = append(members, c.cfg.View.Members[r])
	}
	return members
}

// plan makes the next view: without the suspects and the members that leave, with as many of the
// joiners as fit; or what refills has just found. The text is the proposal's record, for which
// there is room.
func (c *Change) plan() (p *proposal, text []byte, err error) {
	if p, c.filling = c.filling, nil; p != nil {
		return p, encode(p.fields()), nil
	}
	left := c.leaving() &^ c.suspect
	p = &proposal{Removed: c.suspect.List(), Left: left.List()}
	stay := c.members((all(c.n) &^ c.suspect &^ left).List())
	if len(stay) == 0 {
		return p, encode(p.fields()), nil // there is room for a proposal without a view
	}
	joiners := c.admissible(stay)
	for {
		p.View, err = c.place(append(slices.Clone(stay), joiners...))
		if err == nil {
			if text = encode(p.fields()); c.fits(text) {
				return p, text, nil
			}
		}
		if len(joiners) == 0 {
			return nil, nil, or(err, errTooLarge)
		}
		joiners = joiners[:len(joiners)-1]
	}
}

// errTooLarge says that a view does not fit the area that was laid out for it.
var errTooLarge = errors.New("its record is too large")

func or(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// admissible are the joiners of this change: none whose id is a member's still, none that is too
// large for a record, and no more than a view holds.
func (c *Change) admissible(stay []views.Member) (joiners []views.Member) {
	for _, j := range c.joiners {
		taken := func(m views.Member) bool { return m.ID == j.ID }
		if slices.ContainsFunc(stay, taken) || slices.ContainsFunc(joiners, taken) || len(stay)+len(joiners) == views.MaxMembers || len(joiners) == maxJoins || !Small(j) {
			continue
		}
		joiners = append(joiners, j)
	}
	return joiners
}

// Small reports whether a record of a change has room for a joiner. It has for every joiner whose
// strings are names and addresses.
func Small(m views.Member) bool {
	text, err := json.Marshal(m)
	return err == nil && len(text) <= joinerBytes
}

// muted returns the declarations in which a member said that it does not want to send.
func muted(v *views.View, r order.Rank) uint64 {
	if v.Muted == nil {
		return 0
	}
	return v.Muted[r]
}

// place has the next view laid out, with what its members said of where they want to send.
func (c *Change) place(members []views.Member) (*views.View, error) {
	wish := func(id order.NodeID) uint64 {
		r, ok := c.cfg.View.RankOf(id)
		if !ok {
			return 0
		}
		if mute := wordMute.Load(c.lines[r]); mute&muteSaid != 0 {
			return mute &^ muteSaid
		}
		return muted(c.cfg.View, r)
	}
	v, err := c.cfg.Next(members, func(id order.NodeID, declaration int) bool { return wish(id)>>declaration&1 != 0 })
	if err != nil {
		return nil, err
	}
	v.Follow(c.cfg.View)
	v.Muted = nil
	for _, m := range v.Members {
		v.Muted = append(v.Muted, wish(m.ID))
	}
	v.TakeOver(c.cfg.View, c.cfg.Whole)
	return v, nil
}

// fits reports whether there is room for the text of a proposal, and for the decision that it may
// become.
func (c *Change) fits(text []byte) bool {
	room := len(c.area(c.cfg.Self, c.cfg.Columns.decisions))
	return recordHeaderBytes+len(text)+vectorBytes(c.cfg.View)+ballotBytes <= room
}

// ballotBytes is what a decision says of its ballot.
const ballotBytes = 64

// decide takes over the decision of the highest ballot that is found in any row, or makes one:
// every member that took part delivers what all of them have.
func (c *Change) decide() bool {
	d, ok := c.adopted()
	if !ok {
		return true
	}
	if d == nil {
		if d = c.compute(); d == nil {
			return false
		}
	}
	if ranksOf(d.Removed).Has(c.cfg.Self) {
		c.err = fmt.Errorf("%w: view %d was decided without this member", ErrEvicted, c.cfg.View.ID+1)
		return true
	}
	return c.decides(c.nextAt, d)
}

// adopted looks for a decision that a member may have acted upon. If there is one, it is in a row
// of every quorum, and so in one of the members that acked: what suspects hold is not needed. A
// member that acked has pushed its decision before, so that it is readable now (F2).
func (c *Change) adopted() (found *Decision, ok bool) {
	if mutant.Enabled && mutant.On(mutant.NoAdoption) {
		return nil, true
	}
	var highest Ballot
	for r, line := range c.lines {
		b := wordDecided.Load(line)
		if b <= highest || c.Suspected().Has(order.Rank(r)) {
			continue
		}
		var d Decision
		there, err := c.read(order.Rank(r), c.cfg.Columns.decisions, b, &d)
		if there && err == nil {
			err = c.checkDecision(b, order.Rank(r), &d)
		}
		if there && errors.Is(err, errTakesBack) && c.refuses(&d) {
			c.outvoted(err)
			return nil, false
		}
		if !there || err != nil {
			c.violated(order.Rank(r), "V7", "holds what cannot be a decision: %v", or(err, errUnreadable))
			return nil, false
		}
		found, highest = &d, b
	}
	return found, true
}

// errUnreadable says that a record is not there although its guard is.
var errUnreadable = errors.New("it cannot be read")

// errNoVectors says that a member acked, and what comes before an ack is not here (F2).
var errNoVectors = errors.New("an ack without vectors")

// compute makes the decision about the proposal, or returns nil if the vectors of a member are not
// valid.
func (c *Change) compute() *Decision {
	d := &Decision{View: c.proposal.View, Removed: c.proposal.Removed, Left: c.proposal.Left, Trim: make([][]order.Index, len(c.cfg.View.Subgroups))}
	for r := range order.Rank(c.n) {
		if ranksOf(d.Removed).Has(r) {
			continue
		}
		vectors, err := c.vectors(r)
		if err != nil {
			c.violated(r, "V7", "has what cannot be: %v", err)
			return nil
		}
		for i, here := range vectors {
			d.Trim[i] = least(d.Trim[i], here)
		}
	}
	return d
}

// vectors are what a member that acked said is here.
func (c *Change) vectors(r order.Rank) ([][]order.Index, error) {
	var v vectors
	there, err := c.read(r, c.cfg.Columns.vectors, vectorsBallot, &v)
	switch {
	case !there:
		err = errNoVectors
	case err == nil:
		err = c.checkVectors(r, v.Here)
	}
	return v.Here, err
}

// least is the minimum of two vectors, sender by sender; an empty one is none.
func least(trim, here []order.Index) []order.Index {
	if len(trim) == 0 || len(here) == 0 {
		return slices.Concat(trim, here)
	}
	for s := range trim {
		if mutant.Enabled && mutant.On(mutant.TrimByMaximum) {
			trim[s] = max(trim[s], here[s])
			continue
		}
		trim[s] = min(trim[s], here[s])
	}
	return trim
}
