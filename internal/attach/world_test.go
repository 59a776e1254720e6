package attach

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/order"
)

// world is two nodes, of which node 1 dials node 0, and the links between them. A test says when
// what arrives.
type world struct {
	nodes [2]Node
	news  [2][]string // what the groups of each heard
	timer [2][]Timer
	ways  map[way][]relay.Control
	up    map[way]bool
	links Link
	err   error
}

// way is a link, as far as it leads to a node.
type way struct {
	link Link
	to   int
}

const failAfter = time.Second

func newWorld() *world {
	w := &world{ways: map[way][]relay.Control{}, up: map[way]bool{}}
	for i := range w.nodes {
		w.nodes[i].FailAfter = failAfter
	}
	return w
}

// do gives a node an input.
func (w *world) do(node int, input func(n *Node, out *Effects)) {
	var out Effects
	input(&w.nodes[node], &out)
	for _, e := range out {
		switch e.Do {
		case Say:
			if w.up[way{e.Link, node}] {
				w.ways[way{e.Link, 1 - node}] = append(w.ways[way{e.Link, 1 - node}], e.Frame)
			}
		case Await:
			w.timer[node] = append(w.timer[node], e.Timer)
		case Attached:
			w.hear(node, "attached")
		case Left:
			w.hear(node, "left")
		case Gone:
			w.hear(node, "gone")
		case Silent:
			w.hear(node, "silent")
		case GiveUp:
			w.hear(node, "silence")
		case Stranger:
			w.hear(node, "stranger")
		}
	}
}

func (w *world) hear(node int, news string) { w.news[node] = append(w.news[node], news) }

func described(self int) Group {
	return Group{Token: Token{7}, Digest: 9, Self: self, Members: []Member{{ID: 0}, {ID: 1}}}
}

func (w *world) opens(node int) {
	w.do(node, func(n *Node, out *Effects) { n.Open(described(node), out) })
}

func (w *world) closes(node int) {
	last := relay.Control{Kind: relay.Closed}
	w.do(node, func(n *Node, out *Effects) { n.Close(Token{7}, &last, out) })
}

// connect makes a link.
func (w *world) connect() Link {
	w.links++
	for node := range w.nodes {
		w.up[way{w.links, node}] = true
	}
	for node := range w.nodes {
		w.do(node, func(n *Node, out *Effects) { n.Up(w.links, Proof{ID: order.NodeID(1 - node)}, node == 1, 0, out) })
	}
	return w.links
}

// deliver has up to so many frames arrive over a link.
func (w *world) deliver(l Link, to, most int) {
	for range most {
		q := w.ways[way{l, to}]
		if len(q) == 0 || !w.up[way{l, to}] {
			return
		}
		c := q[0]
		w.ways[way{l, to}] = q[1:]
		w.do(to, func(n *Node, out *Effects) {
			switch c.Kind {
			case relay.Attach, relay.Leave, relay.Ping, relay.Pong:
				if err := n.Hear(l, &c, 0, out); err != nil {
					w.err = err
				}
			default:
				n.Speaks(l, c.Channel, out)
			}
		})
		if c.Kind == relay.Closed {
			w.hear(to, "word")
		}
	}
}

// all has everything arrive.
func (w *world) all() {
	for range 10 {
		for l := Link(1); l <= w.links; l++ {
			for to := range w.nodes {
				w.deliver(l, to, 100)
			}
		}
	}
}

// breaks is the end of a link at one side.
func (w *world) breaks(l Link, at int, silent, slept bool) {
	w.up[way{l, at}] = false
	w.do(at, func(n *Node, out *Effects) {
		now := time.Duration(0)
		if slept {
			now = failAfter
		}
		n.link(l).silent = silent
		n.Down(l, now, out)
	})
}

func (w *world) elapse(node int) {
	for _, t := range w.timer[node] {
		w.do(node, func(n *Node, out *Effects) { n.Elapsed(t, out) })
	}
	w.timer[node] = nil
}

// heard compares what the groups heard, blanks between the news.
func (w *world) heard(node0, node1 string) error {
	for node, want := range []string{node0, node1} {
		if got := w.news[node]; !slices.Equal(got, strings.Fields(want)) {
			return fmt.Errorf("node %d heard %q, not %q\n%v\n%v", node, got, want, &w.nodes[0], &w.nodes[1])
		}
	}
	return w.err
}

// answered has the dialer offer, and the acceptor answer, over a link, as far as the dialer.
func (w *world) answered() Link {
	w.opens(0)
	w.opens(1)
	l := w.connect()
	w.deliver(l, 0, 1)
	w.deliver(l, 1, 1)
	return l
}
