package viewchange

import (
	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// wordBegun is the last round that a row's owner began.
const wordBegun sst.Counter[uint64] = 0

// RoundColumns is where confirmation rounds lie in each row.
type RoundColumns struct {
	line     []int // by rank
	affirmed []int // the same: a word for each rank
}

// DeclareRounds lays confirmation rounds out in every row.
func DeclareRounds(l *sst.Layout, v *views.View) (c RoundColumns) {
	c.line = l.Lines("rounds", "begun")
	for r := range v.Members {
		c.affirmed = append(c.affirmed, l.Vector(order.Rank(r), "affirmed", len(v.Members)))
	}
	return c
}

// Rounds is one member's part in the confirmation rounds of a view. By a round a member learns that
// no member had installed a later view when the round began: it raises the number of its rounds in
// its row, each member that has not wedged the view affirms that in its own row, and the round is
// confirmed when a quorum of the view did. All of it is the loop's.
type Rounds struct {
	change   *Change
	columns  RoundColumns
	lines    []*sst.Line // by rank
	answers  []*sst.Line // by rank: the one with the word that says which round of this member it affirmed
	affirmed []uint64    // by rank: the last of its rounds that this member affirmed
	begun    uint64      // the last round of this member
}

// NewRounds lays one member's part on the table of a change.
func NewRounds(c *Change, columns RoundColumns) *Rounds {
	s := &Rounds{change: c, columns: columns, lines: make([]*sst.Line, c.n), answers: make([]*sst.Line, c.n), affirmed: make([]uint64, c.n)}
	for r := range order.Rank(c.n) {
		s.Rebind(r)
	}
	return s
}

// Rebind takes a row's memory anew, after it moved.
func (s *Rounds) Rebind(r order.Rank) {
	s.lines[r] = s.change.table.Line(r, s.columns.line[r])
	off, _ := sst.Cell(s.columns.affirmed[r], int(s.change.cfg.Self))
	s.answers[r] = s.change.table.Line(r, off)
}

// DirectRound is a confirmation round that asks no member: it looks whether a quorum of the view
// has no decision, in the rows themselves, where the members of the quorum write them. So it takes
// members that share memory with this one, whose processes run. Any goroutine may use it.
type DirectRound struct {
	table   *fabric.Table
	ranks   []order.Rank // this member first
	decided []int        // by rank: the place of this word
}

// Direct returns what confirms without a round.
func (s *Rounds) Direct() *DirectRound {
	c := s.change
	d := &DirectRound{table: c.table.Table, ranks: []order.Rank{c.cfg.Self}}
	for r := range order.Rank(c.n) {
		if r != c.cfg.Self {
			d.ranks = append(d.ranks, r)
		}
		d.decided = append(d.decided, c.cfg.Columns.line[r]+8*int(wordDecided))
	}
	return d
}

// Confirmed reports whether no member had installed a later view when the call began, as far as
// that can be seen (V14).
func (d *DirectRound) Confirmed() bool {
	var undecided Ranks
	for _, r := range d.ranks {
		decision, there := d.table.Peek(r, d.decided[r])
		if mutant.Enabled && mutant.On(mutant.PeeksOver) {
			decision = 0
		}
		if !there || decision != 0 {
			continue
		}
		if undecided |= only(r); quorum(len(d.ranks), undecided) || mutant.Enabled && mutant.On(mutant.PeeksAlone) {
			return true
		}
	}
	return false
}

// Begin begins a round of this member. The one before, if it is not confirmed yet, is forgotten.
func (s *Rounds) Begin() {
	c := s.change
	s.begun++
	wordBegun.Store(s.lines[c.cfg.Self], s.begun)
	c.table.PushLine(c.to, s.columns.line[c.cfg.Self])
	s.Affirm()
}

// Affirm affirms the rounds that members began since the last call, its own rounds included,
// and returns how many there were. Once this member has wedged the view it affirms none (V14).
func (s *Rounds) Affirm() (work int) {
	c := s.change
	if c.wedged {
		return 0
	}
	for r, line := range s.lines {
		round := wordBegun.Load(line)
		if round <= s.affirmed[r] {
			continue
		}
		s.affirmed[r] = round
		off, word := sst.Cell(s.columns.affirmed[c.cfg.Self], r)
		word.Store(c.table.Line(c.cfg.Self, off), round)
		c.table.PushLine(c.to[r:r+1], off)
		work++
	}
	return work
}

// Confirmed reports whether the last round that this member began is confirmed; before the first
// one none is. A member that affirmed more rounds than there were fails (V15).
func (s *Rounds) Confirmed() bool {
	var affirmed Ranks
	_, word := sst.Cell(0, int(s.change.cfg.Self))
	for r, line := range s.answers {
		switch answer := word.Load(line); {
		case answer > s.begun:
			s.change.violated(order.Rank(r), "V15", "affirms round %d, the last one was %d", answer, s.begun)
			return false
		case answer == s.begun:
			affirmed |= only(order.Rank(r))
		}
	}
	if mutant.Enabled && mutant.On(mutant.ConfirmsAlone) {
		return true
	}
	return s.begun > 0 && s.change.quorum(affirmed)
}
