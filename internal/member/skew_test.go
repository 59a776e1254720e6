package member_test

import (
	"errors"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// today is some time of this century, as a wall clock shows it.
const today = order.Time(1_800_000_000_000_000_000)

// skewed is a persistent world whose wall clocks differ from today by so much.
func skewed(t *testing.T, by ...time.Duration) *world {
	w := newWorldOf(t, views.Persistent, len(by), 16)
	for i, d := range by {
		w.clocks[i] = today + order.Time(d)
	}
	return w
}

// B10: a member whose messages have times far ahead of all wall clocks moves neither the clocks of
// the others nor the times in their logs.
func TestAMemberWhoseClockIsFarAheadFails(t *testing.T) {
	const years = 200 * 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		ahead time.Duration
		early bool // before the members heard each other's clocks
	}{"three days": {3 * member.MaxSkew, false}, "at once": {3 * member.MaxSkew, true}, "near the last time there is": {years, false}} {
		t.Run(name, func(t *testing.T) {
			w := skewed(t, 0, time.Second, c.ahead)
			if !c.early {
				w.pass(3 * heartbeat)
			}
			if err := w.send(2); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				w.sync(0, 1)
				w.pass(heartbeat)
			}
			w.agree(2, []order.NodeID{1, 2}, 0, 1)
			if len(w.downs[0]) != 1 || !errors.Is(w.downs[0][0].Err, fabric.ErrViolation) && !errors.Is(w.downs[0][0].Err, viewchange.ErrAccused) {
				t.Errorf("node 1 suspects %v", w.downs[0])
			}
			if err := w.send(0); err != nil {
				t.Fatal(err)
			}
			w.pass(heartbeat)
			for i := range 2 {
				records := w.logs[i].records
				if len(records) != 1 || records[0].Sender != 1 || records[0].Time > today+order.Time(member.MaxSkew) || w.members[i].Now() > today+order.Time(member.MaxSkew) {
					t.Errorf("node %d has %v, and its clock is at %v", i+1, records, w.members[i].Now())
				}
			}
		})
	}
}

// A member whose wall clock is far behind all others finds that it is the only one, and suspects no
// member. No member suspects it.
func TestAMemberWhoseClockIsFarBehindAccusesNobody(t *testing.T) {
	for name, sender := range map[string]int{"it receives": 1, "it sends": 0} {
		t.Run(name, func(t *testing.T) {
			w := skewed(t, -50*365*24*time.Hour, 0, time.Second)
			if err := w.send(sender); err != nil { // before it heard of their clocks
				t.Fatal(err)
			}
			w.pass(3 * heartbeat)
			if err := w.send(2); err != nil {
				t.Fatal(err)
			}
			w.pass(3 * heartbeat)
			w.unchanged("with a clock in the past")
			w.delivered(2, 0, 1, 2)
		})
	}
}

// Clocks that differ by less than MaxSkew are no fault of a member, and draw each other along.
func TestClocksFollowTheMessagesOfOthers(t *testing.T) {
	const ahead = member.MaxSkew - time.Hour
	w := skewed(t, 0, 0, ahead)
	for i := range 3 {
		w.pass(2 * heartbeat)
		if err := w.send(2 - i); err != nil {
			t.Fatal(err)
		}
	}
	w.pass(2 * heartbeat)
	w.unchanged("with a clock that is ahead by less than a day")
	for i := range 3 {
		if records := w.logs[i].records; len(records) != 3 || w.members[i].Now() < today+order.Time(ahead) {
			t.Errorf("node %d has %d records, and its clock is at %v", i+1, len(records), w.members[i].Now())
		}
	}
}

// A clock that is set back leaves the group's times where they were: what was believed is believed
// for as long as the process runs.
func TestClocksThatAreSetBackAreNobodysFault(t *testing.T) {
	w := skewed(t, 0, 0, 0)
	w.pass(3 * heartbeat)
	for i := range 3 {
		if err := w.send(i); err != nil {
			t.Fatal(err)
		}
	}
	w.pass(3 * heartbeat)
	for i := range 3 {
		w.clocks[i] -= order.Time(365 * 24 * time.Hour)
	}
	for i := range 3 {
		w.pass(3 * heartbeat)
		if err := w.send(i); err != nil {
			t.Fatal(err)
		}
	}
	w.pass(3 * heartbeat)
	w.unchanged("with clocks that were set back")
	w.delivered(6, 0, 1, 2)
}
