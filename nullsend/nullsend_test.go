package nullsend

import (
	"fmt"
	"testing"

	"github.com/squall-go/squall/order"
)

// The rule as arithmetic on ranks must say the same as the order itself: the own turns before the
// last message seen.
func TestOwedFillsExactlyTheTurnsBeforeTheLastMessageSeen(t *testing.T) {
	for turns := order.Turns(1); turns <= 4; turns++ {
		got := make([]order.Index, turns)
		for n := 0; n < 5*5*5*5; n++ {
			for s, rest := 0, n; s < int(turns); s, rest = s+1, rest/5 {
				got[s] = order.Index(rest % 5)
			}
			for self := order.SenderRank(0); int(self) < int(turns); self++ {
				for sent := order.Index(0); sent <= 6; sent++ {
					if have, want := Owed(self, sent, got), owedByOrder(turns, self, sent, got); have != want {
						t.Fatalf("S=%d: Owed(%d, %d, %v) = %d, want %d", turns, self, sent, got, have, want)
					}
				}
			}
		}
	}
}

func owedByOrder(turns order.Turns, self order.SenderRank, sent order.Index, got []order.Index) order.Index {
	need := sent
	for s, c := range got {
		if order.SenderRank(s) != self && c > 0 {
			need = max(need, turns.CountBefore(turns.Seq(c-1, order.SenderRank(s)), self))
		}
	}
	return need - sent
}

func TestOwedIgnoresWhatItSeesOfItself(t *testing.T) {
	for self := order.SenderRank(0); self < 3; self++ {
		got := make([]order.Index, 3)
		got[self] = 100
		if n := Owed(self, 0, got); n != 0 {
			t.Errorf("Owed(%d, 0, %v) = %d, want 0", self, got, n)
		}
	}
}

func TestALoneSenderOwesNothing(t *testing.T) {
	if n := Owed(0, 3, []order.Index{7}); n != 0 {
		t.Fatalf("a lone sender owes %d nulls", n)
	}
}

func TestOwedAllocatesNothing(t *testing.T) {
	got := make([]order.Index, 16)
	if n := testing.AllocsPerRun(100, func() { Owed(7, 0, got) }); n != 0 {
		t.Fatalf("%v allocations per call", n)
	}
}

// N5: the words of one sender over time, and every pair of moments at which a receiver can load
// them. Turns in [sent, skipped) count as nulls for the receiver, so none of them may ever become a
// message.
func TestSkippedLoadedBeforeSentNeverHidesAMessage(t *testing.T) {
	for script := 0; script < 3*3*3*3*3; script++ {
		history, used := play(script, 5)
		if hidden := hiddenMessages(history, used, true); len(hidden) > 0 {
			t.Fatalf("script %d: skipped loaded first hides messages %v; words over time %v", script, hidden, history)
		}
	}
	// The converse shows that the test can fail: send, then skip, seen by a receiver with the loads
	// the wrong way round.
	history := []words{{0, 0}, {1, 0}, {1, 3}}
	if hidden := hiddenMessages(history, []order.Index{0}, false); len(hidden) == 0 {
		t.Fatal("sent loaded first hid nothing")
	}
}

type words struct{ sent, skipped order.Index }

// play runs a script of base-3 steps (send, skip 1, skip 2) and returns the words after each, and
// the indexes of messages.
func play(script, steps int) (history []words, used []order.Index) {
	var w words
	history = append(history, w)
	for ; steps > 0; script, steps = script/3, steps-1 {
		next := Count(w.sent, w.skipped)
		if k := order.Index(script % 3); k > 0 {
			w.skipped = next + k
		} else {
			used = append(used, next)
			w.sent = next + 1
		}
		history = append(history, w)
	}
	return history, used
}

func hiddenMessages(history []words, used []order.Index, skippedFirst bool) (hidden []order.Index) {
	for first := range history {
		for second := first; second < len(history); second++ {
			sent, skipped := history[second].sent, history[first].skipped
			if !skippedFirst {
				sent, skipped = history[first].sent, history[second].skipped
			}
			for _, i := range used {
				if i >= sent && i < skipped {
					hidden = append(hidden, i)
				}
			}
		}
	}
	return hidden
}

func BenchmarkOwed(b *testing.B) {
	for _, senders := range []int{2, 4, 16, 64} {
		b.Run(fmt.Sprintf("senders=%d", senders), func(b *testing.B) {
			got := make([]order.Index, senders)
			var total order.Index
			for i := 0; b.Loop(); i++ {
				got[i%senders]++
				total += Owed(order.SenderRank(senders/2), order.Index(i/senders), got)
			}
			b.ReportMetric(float64(total)/float64(b.N), "nulls/op")
		})
	}
}
