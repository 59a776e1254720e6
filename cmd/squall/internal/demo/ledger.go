package demo

import (
	"fmt"

	"github.com/squall-go/squall"
)

// ledger compares what members say of the sequence.
type ledger struct {
	at   map[uint64]witness        // by messages: the digest
	ends map[squall.ViewID]witness // by view: how many messages there were at its end
}

// witness is the process that reported something first.
type witness struct {
	who string
	mark
}

func newLedger() *ledger { return &ledger{at: map[uint64]witness{}, ends: map[squall.ViewID]witness{}} }

// note takes a mark, and returns an error if it contradicts another one.
func (l *ledger) note(who string, m mark) error {
	first, known := l.at[m.Messages]
	switch {
	case !known:
		l.at[m.Messages] = witness{who, m}
	case first.Digest != m.Digest:
		return fmt.Errorf("after %d messages %s has the digest %s, and %s has %s", m.Messages, first.who, prefix(first.Digest), who, prefix(m.Digest))
	}
	if m.What != atViewEnd {
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
