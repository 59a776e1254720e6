package nullsend

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
)

// The proofs of N1 to N4 by exploration. A world is a few senders, a number of messages that
// applications will send and a number of skips they will declare; the search visits every state
// that some interleaving reaches. One step is:
//
//	send     any sender sends a message of its application
//	skip     any sender declares its next one or two turns skipped
//	receive  any node takes the next message of any other sender, FIFO, then pays what the rule says it owes
//
// Taking one message at a time loses nothing: the rule is a maximum, so a batch ends in the state
// that its messages one by one end in. Nodes that do not send only receive and change nothing for
// others, so senders are all there is to explore. That a receiver learns of a skip is no step of
// its own, because skips do not enter the rule: what is checked of them (N2) is checked when
// everything has arrived.
//
// The states of 4 senders and 6 messages are too many to be visited one by one: with all counts at
// 6, the twelve got counters alone have 7^12 values. But a receive that causes no null changes
// nothing that others can see, disables nothing and stays possible, so it may as well happen at
// once (a partial-order reduction): the eager search does, and is left with the choices that
// matter. Where the full search is affordable, a test compares the two.

// maxSenders bounds the arrays of a state.
const maxSenders = 4

// endless is the count that stands for "the nulls never stop". No rule under test that stops comes
// near it.
const endless = 40

type rule func(self order.SenderRank, sent order.Index, got []order.Index) order.Index

type world struct {
	senders, messages, skips int
	rule                     rule
	eager                    bool
	check                    string // ids of the invariants to check
}

const everything = "N1 N2 N3 N4"

func (w world) String() string {
	return fmt.Sprintf("senders=%d/messages=%d/skips=%d", w.senders, w.messages, w.skips)
}

// visible is the part of a state that the eager search keeps apart.
type visible struct {
	sent, skipped [maxSenders]uint8
	real          uint8 // half-open: one past the highest position that holds an application's message
	messages      uint8 // still to be sent
	skips         uint8 // still to be declared
}

type state struct {
	visible
	got [maxSenders][maxSenders]uint8 // got[r][s] is what r has of s; in flight from s to r is sent[s] − got[r][s]
}

// explore visits every reachable state and returns them, or the first violation.
func explore(w world) (map[state]struct{}, error) {
	first := state{visible: visible{messages: uint8(w.messages), skips: uint8(w.skips)}}
	seen, todo := map[state]struct{}{first: {}}, []state{first}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if err := w.verify(&at); err != nil {
			return seen, fmt.Errorf("%v: %w in %+v", w, err, at)
		}
		w.steps(&at, func(next state) {
			if w.eager {
				w.settle(&next)
			}
			if _, old := seen[next]; !old {
				seen[next] = struct{}{}
				todo = append(todo, next)
			}
		})
	}
	return seen, nil
}

// steps calls visit with every state that one step leads to.
func (w world) steps(at *state, visit func(state)) {
	for s := range w.senders {
		if at.messages > 0 {
			next := *at
			w.send(&next, s)
			visit(next)
		}
		for k := uint8(1); k <= 2 && at.skips > 0; k++ {
			next := *at
			next.skips--
			next.skipped[s] = at.count(s) + k
			visit(next)
		}
		for r := range w.senders {
			if r != s && at.got[r][s] < at.sent[s] {
				next := *at
				w.receive(&next, r, s)
				visit(next)
			}
		}
	}
}

func (w world) send(at *state, s int) {
	index := at.count(s)
	at.messages--
	at.sent[s] = index + 1
	at.real = max(at.real, uint8(order.Turns(w.senders).Seq(order.Index(index), order.SenderRank(s)))+1)
}

func (w world) receive(at *state, r, s int) {
	at.got[r][s]++
	if owed := w.owed(at, r); owed > 0 {
		at.sent[r] = at.count(r) + uint8(min(owed, endless))
	}
}

// settle takes everything that can be received without causing a null.
func (w world) settle(at *state) {
	for r := range w.senders {
		for s := range w.senders {
			for r != s && at.got[r][s] < at.sent[s] {
				at.got[r][s]++
				if w.owed(at, r) > 0 {
					at.got[r][s]--
					break
				}
			}
		}
	}
}

func (w world) owed(at *state, r int) order.Index {
	var got [maxSenders]order.Index
	for s := range w.senders {
		got[s] = order.Index(at.got[r][s])
	}
	return w.rule(order.SenderRank(r), order.Index(at.count(r)), got[:w.senders])
}

func (v *visible) count(s int) uint8 {
	return uint8(Count(order.Index(v.sent[s]), order.Index(v.skipped[s])))
}

// quiet reports whether nothing is in flight. Every sender pays on receipt, so no sender owes a
// null either; verify checks that.
func (w world) quiet(at *state) bool {
	for r := range w.senders {
		for s := range w.senders {
			if r != s && at.got[r][s] != at.sent[s] {
				return false
			}
		}
	}
	return true
}

// verify checks the invariants that w.check names on one state.
func (w world) verify(at *state) error {
	quiet := w.quiet(at)
	for _, c := range []struct {
		id string
		ok bool
	}{
		// N1: every receive uses up something in flight, so only counts that grow for ever keep it
		// going.
		{"N1", w.bounded(at) && w.paid(at)},
		{"N2", !quiet || w.complete(at)},
		{"N3", w.withinARound(at) && (!quiet || w.even(at))},
		{"N4", w.needed(at)},
	} {
		if !c.ok && strings.Contains(w.check, c.id) {
			return violation(c.id)
		}
	}
	return nil
}

type violation string

func (v violation) Error() string { return string(v) + " does not hold" }

func (w world) bounded(at *state) bool {
	for s := range w.senders {
		if at.sent[s] >= endless {
			return false
		}
	}
	return true
}

func (w world) paid(at *state) bool {
	for r := range w.senders {
		if w.owed(at, r) > 0 {
			return false
		}
	}
	return true
}

// complete is N2 where everything has arrived: the same counts are everywhere, so one node speaks
// for all.
func (w world) complete(at *state) bool {
	var counts [maxSenders]order.Index
	for s := range w.senders {
		counts[s] = order.Index(at.count(s))
	}
	return order.Turns(w.senders).Received(counts[:w.senders]) >= order.Seq(at.real)
}

// withinARound is the second half of N3: a sender is at most one round behind what it has seen, and
// not even that if its turn comes first.
func (w world) withinARound(at *state) bool {
	for r := range w.senders {
		for s := range w.senders {
			if r < s && at.count(r) < at.got[r][s] || r > s && at.count(r)+1 < at.got[r][s] {
				return false
			}
		}
	}
	return true
}

// even is the first half of N3.
func (w world) even(at *state) bool {
	for s := range w.senders {
		want := w.upToLast(at, s)
		if at.count(s) < want || at.skipped[s] == 0 && at.sent[s] != want {
			return false
		}
	}
	return true
}

// needed is N4: whatever was sent lies before the last message of an application, or is that
// message.
func (w world) needed(at *state) bool {
	for s := range w.senders {
		if at.sent[s] > w.upToLast(at, s) {
			return false
		}
	}
	return true
}

func (w world) upToLast(at *state, s int) uint8 {
	return uint8(order.Turns(w.senders).CountBefore(order.Seq(at.real), order.SenderRank(s)))
}

// N1, N2, N3 and N4 in every state of the full search, which moves every message on its own.
func TestEveryInterleavingOfASmallGroupIsQuietAndComplete(t *testing.T) {
	worlds := []world{
		{senders: 1, messages: 3, skips: 1}, {senders: 2, messages: 6}, {senders: 2, messages: 5, skips: 2},
		{senders: 3, messages: 3, skips: 0}, {senders: 4, messages: 1},
	}
	if !testing.Short() {
		larger := []world{{senders: 3, messages: 3, skips: 1}, {senders: 4, messages: 2}, {senders: 3, messages: 6}}
		worlds = append(worlds, larger[:testutil.Seeds(2, 3)]...)
	}
	for _, w := range worlds {
		w.rule, w.check = Owed, everything
		t.Run(w.String(), func(t *testing.T) {
			full, err := explore(w)
			if err != nil {
				t.Fatal(err)
			}
			w.eager = true
			eager, err := explore(w)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d states, %d in the eager search", len(full), len(eager))
			sameVisible(t, full, eager)
		})
	}
}

// sameVisible is the licence of the eager search: it must reach what the full search reaches, no
// less and no more.
func sameVisible(t *testing.T, full, eager map[state]struct{}) {
	a, b := map[visible]bool{}, map[visible]bool{}
	for at := range full {
		a[at.visible] = true
	}
	for at := range eager {
		b[at.visible] = true
		if !a[at.visible] {
			t.Fatalf("only the eager search reaches %+v", at.visible)
		}
	}
	if len(a) != len(b) {
		t.Fatalf("the full search reaches %d visible states, the eager one %d", len(a), len(b))
	}
}

// N1, N2, N3 and N4 in every state of the eager search, at the sizes that the full one cannot do.
func TestEveryInterleavingThatMattersOfALargerGroup(t *testing.T) {
	worlds := []world{{senders: 2, messages: 6, skips: 3}, {senders: 3, messages: 6}, {senders: 4, messages: 4}}
	if !testing.Short() {
		larger := []world{{senders: 4, messages: 6}, {senders: 3, messages: 6, skips: 2}, {senders: 4, messages: 6, skips: 1}}
		worlds = append(worlds, larger[:testutil.Seeds(1, 3)]...)
	}
	for _, w := range worlds {
		w.rule, w.check, w.eager = Owed, everything, true
		t.Run(w.String(), func(t *testing.T) {
			seen, err := explore(w)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d states", len(seen))
		})
	}
}

// N4 from the other side: no null can be left out of the rule, and none added. Too few stall the
// order (N2). Too many from a sender whose turn comes first provoke each other for ever (N1). Too
// many from one whose turn comes later end, and stall nothing: they fill the last round although no
// sender waits for it, which is what N4 itself finds.
func TestEveryRuleThatIsOffByOneIsCaught(t *testing.T) {
	for _, m := range []struct {
		name          string
		lower, higher int // what the mutant asks of a sender of lower and of higher rank, relative to the count seen
		id            string
	}{
		{"one less of lower ranks", -1, -1, "N2"},
		{"one more of lower ranks", +1, -1, "N1"},
		{"one less of higher ranks", 0, -2, "N2"},
		{"one more of higher ranks", 0, 0, "N4"},
		{"one less of both", -1, -2, "N2"},
		{"one more of both", +1, 0, "N1"},
		{"nothing at all", -100, -100, "N2"},
	} {
		t.Run(m.name, func(t *testing.T) {
			w := world{senders: 3, messages: 2, rule: offBy(m.lower, m.higher), eager: true, check: "N1 N2"}
			if m.id == "N4" {
				if _, err := explore(w); err != nil {
					t.Fatalf("quiet and complete was expected: %v", err)
				}
				w.check = "N4"
			}
			_, err := explore(w)
			if want := violation(m.id); !errors.Is(err, want) {
				t.Fatalf("%v, want %v", err, want)
			}
		})
	}
	if _, err := explore(world{senders: 3, messages: 2, rule: offBy(0, -1), check: everything}); err != nil {
		t.Fatalf("the rule itself, written as a mutant: %v", err)
	}
}

func offBy(lower, higher int) rule {
	return func(self order.SenderRank, sent order.Index, got []order.Index) order.Index {
		need := int(sent)
		for s, c := range got {
			switch {
			case c == 0 || order.SenderRank(s) == self:
			case self < order.SenderRank(s):
				need = max(need, int(c)+lower)
			default:
				need = max(need, int(c)+higher)
			}
		}
		return order.Index(need) - sent
	}
}
