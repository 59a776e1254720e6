package attach

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/order"
)

// histories are named after the rule that each of them would break without.
var histories = map[string]func() error{
	"an offer waits until the group is open": func() error {
		w := newWorld()
		w.connect()
		w.opens(1)
		w.all()
		w.opens(0)
		w.all()
		return w.heard("attached", "attached")
	},
	"AT1: an offer that is withdrawn while it is answered is no member that left": func() error {
		w := newWorld()
		w.opens(0)
		l := w.connect()
		w.opens(1)
		w.deliver(l, 0, 1)
		w.closes(1)
		w.all()
		if err := w.heard("", ""); err != nil {
			return err
		}
		w.opens(1) // once more
		w.all()
		return w.heard("attached", "attached")
	},
	"AT1: a dialer whose link ends before its question is answered comes by another one": func() error {
		w := newWorld()
		l := w.answered()
		w.breaks(l, 0, false, false)
		w.breaks(l, 1, false, false)
		if err := w.heard("", ""); err != nil {
			return err
		}
		w.connect()
		w.all()
		return w.heard("attached", "attached")
	},
	"AT2: a dialer that gives an acceptor up which may have the confirmation reports it": func() error {
		w := newWorld()
		l := w.answered()
		w.breaks(l, 1, true, false)
		return w.heard("", "silent")
	},
	"AT2: so does an acceptor that has it": func() error {
		w := newWorld()
		l := w.answered()
		w.deliver(l, 0, 1)
		w.breaks(l, 0, true, false)
		return w.heard("attached silent", "")
	},
	"an acceptor without the confirmation gives up the link, and not the dialer": func() error {
		w := newWorld()
		l := w.answered()
		w.breaks(l, 0, true, false)
		return w.heard("", "")
	},
	"AT3: an offer over a later link ends the tie over the earlier one": func() error {
		w := newWorld()
		l := w.answered()
		w.breaks(l, 1, false, false)
		delete(w.ways, way{l, 0}) // the confirmation, which is lost
		w.connect()
		w.all()
		return w.heard("attached", "attached")
	},
	"AT3: an acceptor that has the confirmation counts a dialer as gone that comes by a later link": func() error {
		w := newWorld()
		l := w.answered()
		w.deliver(l, 0, 1)
		w.breaks(l, 1, false, false)
		w.connect()
		w.all()
		w.elapse(1)
		return w.heard("attached gone", "gone")
	},
	"AT3: an offer over an earlier link is void": func() error {
		w := newWorld()
		w.opens(0)
		w.opens(1)
		l := w.connect()
		w.breaks(l, 1, false, false)
		later := w.connect()
		w.deliver(later, 0, 1)
		w.deliver(l, 0, 1)
		w.all()
		return w.heard("attached", "attached")
	},
	"AT2: a dialer that is not answered any more by an acceptor that it doubts counts it as gone": func() error {
		w := newWorld()
		l := w.answered()
		w.deliver(l, 0, 1)
		w.breaks(l, 0, false, false)
		w.breaks(l, 1, false, false)
		w.closes(0)
		w.connect()
		w.all()
		w.elapse(1)
		return w.heard("attached gone", "gone")
	},
	"a node that stood still gives its peer as much time anew": func() error {
		w := newWorld()
		l := w.connect()
		watch := func(now time.Duration) {
			w.do(1, func(n *Node, out *Effects) { n.Watch(l, now, 0, true, out) })
		}
		for _, quarters := range []time.Duration{0, 4, 5, 6} {
			watch(quarters * failAfter / 4)
		}
		if err := w.heard("", ""); err != nil {
			return err
		}
		watch(7 * failAfter / 4)
		return w.heard("", "silence")
	},
	"a node that stood still holds the end of a link back": func() error {
		w := newWorld()
		l := w.answered()
		w.all()
		w.breaks(l, 1, false, true)
		if err := w.heard("attached", "attached"); err != nil {
			return err
		}
		w.elapse(1)
		return w.heard("attached", "attached gone")
	},
	"also if an offer over a later link is what tells it": func() error {
		w := newWorld()
		l := w.answered()
		w.all()
		w.up[way{l, 1}] = false
		w.links++
		offer := relay.Control{Kind: relay.Attach, Channel: 1, Token: Token{7}, Word: 9}
		var err error
		w.do(0, func(n *Node, out *Effects) {
			n.Up(w.links, Proof{ID: 1}, false, failAfter, out)
			err = n.Hear(w.links, &offer, failAfter, out)
		})
		w.breaks(l, 0, false, false)
		if err = errors.Join(err, w.heard("attached", "attached")); err != nil {
			return err
		}
		w.elapse(0)
		return w.heard("attached gone", "attached")
	},
	"AT2: a node that may count another one as attached hears its last word before that leaves": func() error {
		w := newWorld()
		w.answered()
		w.closes(1)
		w.all()
		return w.heard("attached word left", "")
	},
	"an answer for a group that was closed does not wait": func() error {
		w := newWorld()
		l := w.connect()
		w.opens(0)
		w.opens(1)
		w.closes(1)
		w.deliver(l, 0, 1)
		w.all()
		if text := w.nodes[1].String(); !strings.Contains(text, ": 0 waiting") {
			return errors.New(text)
		}
		return w.heard("", "")
	},
	"a pong without a ping answers nothing": func() error {
		w := newWorld()
		l := w.connect()
		pong := relay.Control{Kind: relay.Pong}
		for _, waits := range []bool{true, false} {
			var err error
			w.do(1, func(n *Node, out *Effects) {
				if err = n.Hear(l, &pong, 0, out); waits {
					n.Watch(l, 0, 0, true, out)
				}
			})
			if err != nil || w.nodes[1].Waits(l) != waits {
				return errors.Join(err, errors.New(w.nodes[1].String()))
			}
		}
		return nil
	},
}

func TestEveryHistory(t *testing.T) {
	for name, history := range histories {
		if err := history(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatAPeerSaysIsBoundedAndJudged(t *testing.T) {
	var n Node
	var out Effects
	n.Up(1, Proof{ID: 1}, false, 0, &out)
	hear := func(c relay.Control) error { return n.Hear(1, &c, 0, &out) }
	for _, kind := range []relay.Kind{relay.Attach, relay.Leave} {
		if err := hear(relay.Control{Kind: kind}); !errors.Is(err, relay.ErrMalformed) {
			t.Errorf("%v of channel 0: %v", kind, err)
		}
	}
	for i := range MaxWaiting {
		if err := hear(relay.Control{Kind: relay.Attach, Channel: uint32(i + 1), Token: Token{byte(i), byte(i >> 8), 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := hear(relay.Control{Kind: relay.Attach, Channel: 1, Token: Token{0, 0, 1}}); err != nil {
		t.Errorf("the same offer again: %v", err)
	}
	if err := hear(relay.Control{Kind: relay.Attach, Channel: 1, Token: Token{0, 0, 2}}); !errors.Is(err, ErrCrowded) {
		t.Errorf("one more: %v", err)
	}
}

func TestAPeerThatIsNoMemberIsAStranger(t *testing.T) {
	for name, c := range map[string]struct {
		member Member
		peer   Proof
		is     bool
	}{
		"another node":        {Member{ID: 1}, Proof{ID: 2}, false},
		"no key is known":     {Member{ID: 1}, Proof{ID: 1, Key: digest(1)}, true},
		"another key":         {Member{ID: 1, Key: digest(2)}, Proof{ID: 1, Key: digest(1)}, false},
		"another certificate": {Member{ID: 1, Certificate: digest(2)}, Proof{ID: 1, Secure: true}, false},
		"without TLS":         {Member{ID: 1, Certificate: digest(2)}, Proof{ID: 1}, true},
	} {
		if c.member.Is(&c.peer) != c.is {
			t.Errorf("%s: %v", name, !c.is)
		}
	}
	w := newWorld()
	w.do(0, func(n *Node, out *Effects) {
		n.Open(Group{Token: Token{7}, Members: []Member{{ID: 0}, {ID: 1, Key: digest(1)}}}, out)
		n.Up(1, Proof{ID: 1, Key: digest(2)}, false, 0, out)
		w.err = n.Hear(1, &relay.Control{Kind: relay.Attach, Channel: 1, Token: Token{7}}, 0, out)
	})
	if err := w.heard("stranger", ""); err != nil {
		t.Error(err)
	}
	if !w.nodes[0].Misses(order.NodeID(1)) || w.nodes[0].Misses(0) {
		t.Error("the group does not wait for its member, or for itself")
	}
}

// digest is a key, or a hash.
func digest(b byte) (d [32]byte) {
	d[0] = b
	return d
}

func TestAnotherConfigurationIsReported(t *testing.T) {
	var n Node
	var out Effects
	n.Open(described(0), &out)
	n.Up(1, Proof{ID: 1}, false, 0, &out)
	c := relay.Control{Kind: relay.Attach, Channel: 1, Token: Token{7}, Word: 8}
	for range 2 {
		if err := n.Hear(1, &c, 0, &out); err != nil {
			t.Fatal(err)
		}
		c.Index = 1
	}
	if last := out[len(out)-1]; last.Do != Attached || !last.Differs || last.Channel != 1 {
		t.Errorf("%+v", last)
	}
}
