package sim

import (
	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/views"
)

// Offsets within a row. Package member declares its line first, then comes the line of the view
// change, then the columns of the subgroups that the row's owner is in. A test compares all of it
// with a dump.
const (
	memberLine = fabric.LineBytes
	viewLine   = 2 * fabric.LineBytes
	firstGroup = 3 * fabric.LineBytes
)

// Words of the view line.
const (
	wordSuspected = iota
	wordLeaving
	wordMute
	wordProposed
	wordAcked
	wordInstalled
	wordDecided
	wordRevision
)

// Words of a subgroup's line.
const (
	wordSkipped = iota
	wordSent
	wordPosition
	wordPersisted
	wordWhole
	wordDelivered
	wordReceived
)

// storeOrder is the order in which one step stores the words of a subgroup's line: rounds are
// skipped before the step, and what is on disk was delivered in an earlier one.
var storeOrder = [fabric.WordsPerLine]int{wordSkipped, wordPosition, wordSent, wordReceived, wordDelivered, wordWhole, wordPersisted, 7}

// words is a control line of the process's own row.
func (s *seat) words(off int) (line [fabric.WordsPerLine]uint64) {
	for k := range line {
		line[k] = *fabric.Word(s.own, off+8*k)
	}
	return line
}

// line is its line of a subgroup that it is in.
func (s *seat) line(subgroup int) [fabric.WordsPerLine]uint64 { return s.words(s.lineOff(subgroup)) }

// lineOff is where that line is.
func (s *seat) lineOff(subgroup int) int {
	off := firstGroup
	for i := range subgroup {
		sg := &s.record.view.Subgroups[i]
		if !sg.Has(s.self) {
			continue
		}
		off += fabric.LineBytes
		if sg.Mode == views.Unordered {
			off += (len(sg.Senders) + fabric.WordsPerLine - 1) / fabric.WordsPerLine * fabric.LineBytes
		}
	}
	return off
}
