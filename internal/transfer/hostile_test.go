package transfer

import (
	"errors"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// asking is a connection on which a node of the view says a request to an old member, changed by
// change after it was signed with a node's key.
func (w *world) asking(i int, as, of order.NodeID, change func(*request)) *wire.Conn {
	w.t.Helper()
	talk := w.dial(i)
	var c challenge
	if err := talk.Hear(&c); err != nil {
		w.t.Fatal(err)
	}
	q := request{View: 5, Subgroup: 1, Node: as, Nonce: trust.NewNonce()}
	change(&q)
	k, err := key(w.ids[of], w.view, of, order.NodeID(i+1))
	if err != nil {
		w.t.Fatal(err)
	}
	q.sign(k, c)
	if err := talk.Say(q); err != nil {
		w.t.Fatal(err)
	}
	return talk
}

// dial opens a conversation with an old member.
func (w *world) dial(i int) *wire.Conn {
	w.t.Helper()
	c, err := port.Dial(within(w.t), w.old[i].port.Addr(), port.KindState, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	return wire.New(c, slow, maxFrameBytes)
}

func unchanged(*request) {}

// Node 2 is a member of the view and of the subgroup, and stranger is none.
func TestX2NobodyGetsAStateButTheFreshMember(t *testing.T) {
	stranger := order.NodeID(77)
	for name, c := range map[string]struct {
		as, of order.NodeID // the node that it claims to be, and the node that it is
		change func(*request)
	}{
		"a member that is not fresh":                 {2, 2, unchanged},
		"a member that is not fresh says done":       {2, 2, func(q *request) { q.Done = true }},
		"a member in the fresh one's name":           {3, 2, unchanged},
		"a member says that the fresh one is done":   {3, 2, func(q *request) { q.Done = true }},
		"a stranger in the fresh one's name":         {3, stranger, unchanged},
		"a stranger says that the fresh one is done": {3, stranger, func(q *request) { q.Done = true }},
		"a stranger":        {stranger, stranger, unchanged},
		"the source itself": {1, 2, unchanged},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, 100)
			w.takeAll()
			w.ids[stranger] = trust.NewIdentity()
			if c.of == stranger { // it knows the view, and puts itself in it
				theirs := *w.view
				theirs.Members = append(slices.Clone(theirs.Members), views.Member{ID: stranger, PublicKey: w.ids[stranger].PublicKey()})
				mine := w.view
				w.view = &theirs
				defer func() { w.view = mine }()
			}
			talk := w.asking(0, c.as, c.of, c.change)
			var a answer
			if err := talk.Hear(&a); err != nil || a.Refused == "" {
				t.Errorf("%+v, %v", a, err)
			}
			if n, _ := io.Copy(io.Discard, talk.Conn); n > 0 {
				t.Errorf("it got %d bytes", n)
			}
			w.rejected(0, errStranger)
			if c.of != stranger {
				w.arrives()
			}
			if len(w.old[0].offers.kept.Waits()) != 1 {
				t.Error("the fresh member's waiting has ended")
			}
		})
	}
}

func TestX2ARequestThatWasRecordedIsOfNoUse(t *testing.T) {
	w := newWorld(t, 1, 100)
	w.takeAll()
	k, err := key(w.ids[w.fresh], w.view, w.fresh, 1)
	if err != nil {
		t.Fatal(err)
	}
	recorded := request{View: 5, Subgroup: 1, Node: w.fresh, Done: true, Nonce: trust.NewNonce()}
	recorded.sign(k, challenge{trust.NewNonce()})
	talk := w.dial(0)
	var c challenge
	var a answer
	if err := errors.Join(talk.Hear(&c), talk.Say(recorded), talk.Hear(&a)); err != nil || a.Refused == "" {
		t.Errorf("%+v, %v", a, err)
	}
	w.rejected(0, errStranger)
	w.arrives()
}

// A stranger listens at a source's former address, and knows all but its private key: it gives
// another state, or says that there is none.
func TestX5NobodyAnswersForASource(t *testing.T) {
	for name, a := range map[string]answer{"a state": {}, "a refusal": {Refused: "no"}} {
		w := newWorld(t, 2, 1000)
		w.takeAll()
		w.old[0].port.Handle(port.KindState, func(c net.Conn) {
			defer c.Close()
			talk := wire.New(c, slow, maxGreetingBytes)
			var q request
			if talk.Say(challenge{trust.NewNonce()}) != nil || talk.Hear(&q) != nil {
				return
			}
			k, err := key(w.ids[2], w.view, 2, q.Node) // node 2 in the place of node 1
			if err != nil {
				return
			}
			a := a
			a.sign(k, q)
			_ = talk.Say(a)
			s := talk.NewWriter(frameBytes)
			_, _ = s.Write([]byte("forged"))
			_ = s.Close()
		})
		_, got := w.arrives()
		if got.Source != 2 || len(w.failed[1]) != 1 || !errors.Is(w.failed[1][0], trust.ErrUnproven) || errors.Is(w.failed[1][0], ErrRefused) {
			t.Errorf("%s: from node %d; %v", name, got.Source, w.failed)
		}
	}
}

// X4: a fresh member that opens stream after stream has one.
func TestX4AMemberHasOneStreamAtATime(t *testing.T) {
	w := newWorld(t, 1, 0)
	begun := make(chan struct{}, 64)
	w.old[0].Put(5, 1, func(out io.Writer) error {
		begun <- struct{}{}
		for {
			if _, err := out.Write(make([]byte, 1000)); err != nil {
				return err
			}
		}
	})
	const streams = 3 * maxStreams
	for k := range streams {
		for { // a stream that was cut may still have its place
			talk := w.asking(0, w.fresh, w.fresh, unchanged)
			var a answer
			if err := talk.Hear(&a); err != nil {
				t.Fatal(err)
			}
			if a.Later == "" {
				break
			}
		}
		<-begun
		if k > 0 {
			if given := <-w.old[0].given; given.Err == nil {
				t.Errorf("%+v", given)
			}
		}
	}
}
