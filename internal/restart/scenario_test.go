package restart

import (
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/order"
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

// forgottenVote: node 1 decides with the vote of node 2, which does not hear of it and starts
// again; then node 1 is cut off from the others.
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

// forgottenPromise: node 3 promises for node 2's ballot, is started again, and then gets what node
// 1 asked it to vote for in a lower one.
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
		t.Fatalf("no process took over: %v%s", w.err, w.describe())
	}
	w.sides = nil
	w.node(3).start()
	w.lose = func(p packet) bool { return p.msg.Verb != Vote && p.msg.Verb != Accept }
	again := func(p packet) packet { // what its leader says to the new process of node 3
		p.msg.To = w.node(3).inc
		p.msg = p.msg.Sealed(w.node(3).disk.Secret)
		return p
	}
	w.net = []packet{again(held[false])}
	w.deliver()
	w.deliver()
	w.net = append(w.net, again(held[true]))
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

// A change within view 1 took node 3 out and had four versions delivered of it. Node 2 delivered
// them, and one of view 2, while the disks of the others were behind: what is on every disk is two
// versions. No disk knows how many there were to be.
func TestARestartBehindAChangeTakesTheLongestLogAndAsksForNoTrim(t *testing.T) {
	for name, c := range map[string]struct {
		back []order.NodeID
		want []order.Version
	}{
		"the process that delivered up to the trim is back":     {[]order.NodeID{1, 2, 3}, versions(4, 1)},
		"all of them but for that one":                          {[]order.NodeID{1, 3}, versions(2, 0)}, // three are in the log of node 3, which is no member any more
		"the process that delivered up to the trim comes first": {[]order.NodeID{2, 1}, versions(4, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			w := quiet()
			first, id := w.groups["key1"].view, LogID{Name: "orders"}
			next, err := w.place(first, first.Members[:2])
			if err != nil {
				t.Fatal(err)
			}
			for i, list := range [][]order.Version{versions(2, 0), versions(4, 1), versions(3, 0)} {
				w.nodes[i].logs[id] = &worldLog{list, len(list)}
			}
			for _, n := range w.nodes[:2] {
				if err := n.disk.echo(first.ID, 1<<8, next); err != nil {
					t.Fatal(err)
				}
			}
			w.acked[id] = versions(2, 0)[1]
			for _, node := range c.back {
				w.node(node).start()
			}
			if !w.until(func() bool { return w.node(1).view != nil }) {
				t.Fatalf("%v%s", w.err, w.describe())
			}
			if v, got := w.node(1).view, w.node(1).log(id).list; v.ID != 3 || !slices.Equal(got, c.want) {
				t.Errorf("view %d begins with %v, want view 3 with %v", v.ID, got, c.want)
			}
		})
	}
}

// versions are the first ones of view 1, and then of view 2.
func versions(of ...int) (list []order.Version) {
	for i, n := range of {
		for seq := range n {
			list = append(list, order.Version{View: order.ViewID(i + 1), Seq: order.Seq(seq)})
		}
	}
	return list
}
