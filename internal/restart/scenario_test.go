package restart

import (
	"testing"
	"time"
)

// quiet is a world of three in which nothing breaks by itself; all are members of view 1, and down.
func quiet() *world {
	w := newWorld(0, 3)
	w.calm = true
	for _, n := range w.nodes {
		w.enter(n, w.groups["key1"].view)
		n.crash()
	}
	return w
}

// until lets time pass until something is so, or for ten seconds.
func (w *world) until(so func() bool) bool {
	for end := w.now + 10*time.Second; w.now < end && w.err == nil && !so(); {
		for range 40 {
			if w.deliver(); so() {
				return true
			}
		}
		for _, n := range w.nodes {
			if n.core != nil {
				n.reconcile()
			}
		}
		w.pass(20 * time.Millisecond)
	}
	return w.err == nil && so()
}

func never() bool { return false }

// forgottenVote: node 1 decides with the vote of node 2, which does not hear of it and starts again; then node 1 is cut off from the others.
func forgottenVote(t *testing.T) error {
	w := quiet()
	w.lose = func(p packet) bool { return p.msg.Verb == Decided }
	w.node(1).start()
	w.node(2).start()
	if !w.until(func() bool { return w.node(1).view != nil }) {
		t.Fatalf("nothing was decided: %v%s", w.err, w.describe())
	}
	w.net, w.lose, w.sides = nil, nil, []bool{true, false, false}
	w.node(2).start()
	w.node(3).start()
	w.until(never)
	return w.err
}

// forgottenPromise: node 3 promises for node 2's ballot, is started again, and then gets what node 1 asked it to vote for in a lower one.
func forgottenPromise(t *testing.T) error {
	w := quiet()
	held := map[bool]packet{} // by whether it is of node 2
	w.lose = func(p packet) bool {
		if p.msg.Verb == Accept {
			held[p.msg.From.ID == 2] = p
		}
		return p.msg.Verb == Accept
	}
	w.node(1).start()
	w.node(3).start()
	if !w.until(func() bool { return held[false].to != "" }) {
		t.Fatalf("nothing was put to the vote: %v%s", w.err, w.describe())
	}
	w.net, w.sides = nil, []bool{true, false, false}
	w.node(2).start()
	if !w.until(func() bool { return held[true].to != "" }) {
		t.Fatalf("nobody took over: %v%s", w.err, w.describe())
	}
	w.sides = nil
	w.node(3).start()
	w.lose = func(p packet) bool { return p.msg.Verb != Vote && p.msg.Verb != Accept }
	w.net = []packet{held[false]}
	w.deliver()
	w.deliver()
	w.net = append(w.net, held[true])
	w.until(never)
	return w.err
}

func TestAVoteOutlivesItsProcess(t *testing.T) {
	if err := forgottenVote(t); err != nil {
		t.Fatal(err)
	}
}

func TestAPromiseOutlivesItsProcess(t *testing.T) {
	if err := forgottenPromise(t); err != nil {
		t.Fatal(err)
	}
}
