package testlab

import (
	"fmt"
	"slices"

	"github.com/squall-go/squall"
)

// Mark is the state of a replica after so many messages.
type Mark struct {
	At       Place
	View     squall.ViewID // that ended; 0 if that is not what it says
	Messages uint64
	Digest   string
}

// Place says where a mark is.
type Place string

// Places of marks.
const (
	AtCount   Place = "count"   // the number of messages is a round one
	AtViewEnd Place = "view"    // all messages of a view are in it
	AtRestore Place = "restore" // the state came from another member, or from the log
	AtEnd     Place = "end"     // the member has no more to deliver
)

// Ledger compares what members say of the sequence, including members that are gone. The zero value
// is ready.
type Ledger struct {
	at   map[uint64]witness        // by messages: the digest
	ends map[squall.ViewID]witness // by view: how many messages there were at its end
}

// witness is the process that reported a mark first.
type witness struct {
	who string
	Mark
}

// Note takes a mark, and returns an error if it contradicts another one.
func (l *Ledger) Note(who string, m Mark) error {
	if l.at == nil {
		l.at, l.ends = map[uint64]witness{}, map[squall.ViewID]witness{}
	}
	first, known := l.at[m.Messages]
	switch {
	case !known:
		l.at[m.Messages] = witness{who, m}
	case first.Digest != m.Digest:
		return fmt.Errorf("after %d messages %s has the digest %s, and %s has %s", m.Messages, first.who, Short(first.Digest), who, Short(m.Digest))
	}
	if m.At != AtViewEnd {
		return nil
	}
	end, known := l.ends[m.View]
	switch {
	case !known:
		l.ends[m.View] = witness{who, m}
	case end.Messages != m.Messages:
		return fmt.Errorf("view %d ended with message %d at %s, and with message %d at %s", m.View, end.Messages, end.who, m.Messages, who)
	}
	return nil
}

// End is the mark at a view's end; it has no messages if none is known.
func (l *Ledger) End(v squall.ViewID) Mark { return l.ends[v].Mark }

// shownDigits is how much of a digest people see. Digests are compared whole.
const shownDigits = 12

// Short is a digest as people see it.
func Short(digest string) string { return digest[:min(len(digest), shownDigits)] }

// Account is what a process has to say when nothing is under way any more.
type Account struct {
	Who string
	*Answer
}

// Differ says how what processes have differs from what the first one has.
func Differ(all []Account) (faults []string) {
	for _, a := range all[min(1, len(all)):] {
		first := all[0]
		for i, s := range a.States {
			f := first.States[i]
			switch {
			case s.Messages != f.Messages || s.Digest != f.Digest:
				faults = append(faults, fmt.Sprintf("%s has %d messages with digest %s, and %s has %d with %s",
					first.Who, f.Messages, Short(f.Digest), a.Who, s.Messages, Short(s.Digest)))
			case s != f || !slices.Equal(a.Lives[i], first.Lives[i]):
				faults = append(faults, fmt.Sprintf("%s has %+v of %v, and %s has %+v of %v", first.Who, f, first.Lives[i], a.Who, s, a.Lives[i]))
			}
		}
	}
	return faults
}
