package tcp

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/handshake"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
)

const patience = 20 * time.Second

// desk is the connector of rank 0 of a view of three, and what its port rejects.
type desk struct {
	*Connector
	t        *testing.T
	people   [3]*trust.Identity
	port     *port.Port
	rejected chan port.Rejection
}

func newDesk(t *testing.T, borne time.Duration) *desk {
	t.Helper()
	d := &desk{t: t, rejected: make(chan port.Rejection, 1024), people: [3]*trust.Identity{trust.NewIdentity(), trust.NewIdentity(), trust.NewIdentity()}}
	var err error
	if d.port, err = port.Open(t.Context(), port.Config{Addr: "127.0.0.1:0", OnReject: func(r port.Rejection) { d.rejected <- r }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.port.Close() })
	d.Connector = newConnector(d.port, nil, borne)
	t.Cleanup(d.Close)
	return d
}

var rowShape = fabric.RowShape{ControlBytes: fabric.LineBytes, RowBytes: 2 * fabric.LineBytes}

// spec is the view as one of its members opens it.
func (d *desk) spec(self order.Rank) *fabric.Spec {
	d.t.Helper()
	parker, err := fabric.NewParker()
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { parker.Close() })
	s := &fabric.Spec{Scope: trust.Scope{Cluster: "c", View: 1, Key: "the key"}, Identity: d.people[self], Self: self, Parker: parker}
	for r, i := range d.people {
		s.Peers = append(s.Peers, fabric.Peer{ID: order.NodeID(r + 1), Addr: d.port.Addr(), Shape: rowShape, PublicKey: i.PublicKey()})
	}
	return s
}

// await awaits some ranks until the test ends, and returns the links as they come up.
func (d *desk) await(ranks ...order.Rank) <-chan fabric.Link {
	links := make(chan fabric.Link, 3)
	ctx, cancel := context.WithCancel(context.Background())
	own, spec, finished := make([]byte, rowShape.RowBytes), d.spec(0), make(chan bool)
	came := map[order.Rank]bool{}
	wants := func(r order.Rank) bool { return slices.Contains(ranks, r) && !came[r] }
	go func() {
		defer close(finished)
		d.Await(ctx, spec, wants, own, func(r order.Rank, l fabric.Link) {
			came[r] = true
			links <- l
		})
	}()
	d.t.Cleanup(func() {
		cancel()
		<-finished
		for len(links) > 0 {
			(<-links).Close()
		}
	})
	return links
}

func (d *desk) dial() net.Conn {
	d.t.Helper()
	conn, err := port.Dial(d.t.Context(), d.port.Addr(), port.KindRows, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close() })
	return conn
}

func encode(v any) []byte {
	var frame bytes.Buffer
	_ = wire.WriteMessage(&frame, v)
	return frame.Bytes()
}

// challenged is what the listener said first.
func challenged(t *testing.T, conn net.Conn) (c handshake.Challenge) {
	t.Helper()
	if err := wire.ReadMessage(conn, wire.MaxMessageBytes, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryGreetingThatIsTurnedAwayIsReportedOnce(t *testing.T) {
	// hello is what rank 1 says, with some of its view changed.
	hello := func(change func(*fabric.Spec)) func(*desk, handshake.Challenge) []byte {
		return func(d *desk, c handshake.Challenge) []byte {
			s := d.spec(1)
			change(s)
			h, err := handshake.NewHello(s, 0, c)
			if err != nil {
				d.t.Fatal(err)
			}
			return encode(h)
		}
	}
	// but returns the greeting of rank 1, changed by another process.
	but := func(change func(*handshake.Hello)) func(*desk, handshake.Challenge) []byte {
		return func(d *desk, c handshake.Challenge) []byte {
			h, err := handshake.NewHello(d.spec(1), 0, c)
			if err != nil {
				d.t.Fatal(err)
			}
			change(&h)
			return encode(h)
		}
	}
	raw := func(b []byte) func(*desk, handshake.Challenge) []byte {
		return func(*desk, handshake.Challenge) []byte { return b }
	}
	whole := hello(func(*fabric.Spec) {})
	half := func(d *desk, c handshake.Challenge) []byte { return whole(d, c)[:20] }
	for name, c := range map[string]struct {
		say    func(*desk, handshake.Challenge) []byte
		hangUp bool
		reason port.Reason
		text   string
	}{
		"another key":       {hello(func(s *fabric.Spec) { s.Scope.Key = "a guess" }), false, port.NotMember, "no member here awaits its view"},
		"another rank":      {but(func(h *handshake.Hello) { h.From = 2 }), false, port.NotMember, "does not prove"},
		"another MAC":       {but(func(h *handshake.Hello) { h.MAC[0]++ }), false, port.NotMember, "does not prove"},
		"a rank too high":   {but(func(h *handshake.Hello) { h.From = 3 }), false, port.NotMember, "from rank 3"},
		"to another member": {but(func(h *handshake.Hello) { h.To = 2 }), false, port.NotMember, "to rank 2"},
		"rows of else size": {hello(func(s *fabric.Spec) { s.Peers[1].Shape.RowBytes *= 2 }), false, port.NotMember, "rows of rank 1"},
		"connected already": {whole, false, port.NotMember, "rank 1 is connected already"},
		"half a hello":      {half, false, port.TimedOut, ""},
		"silence":           {raw(nil), false, port.TimedOut, ""},
		"half, and the end": {half, true, port.Broken, ""},
		"no greeting":       {raw(encode("JSON")), false, port.Garbage, "malformed"},
		"no MAC":            {raw(encode(map[string]string{"mac": "x"})), false, port.Garbage, "malformed"},
		"a long greeting":   {raw(append([]byte{0, 0, 1, 0}, bytes.Repeat([]byte(" "), 1<<16)...)), false, port.Garbage, "too large"},
		"a huge greeting":   {raw([]byte{0xFF, 0xFF, 0xFF, 0x7F, 0, 0, 0, 0, 1}), false, port.Garbage, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			borne := patience
			if c.reason == port.TimedOut || name == "another key" { // it might be that of the next view
				borne = 20 * time.Millisecond
			}
			d := newDesk(t, borne)
			d.await(2)
			conn := d.dial()
			conn.Write(c.say(d, challenged(t, conn)))
			if c.hangUp {
				conn.Close()
			}
			select {
			case r := <-d.rejected:
				if r.Reason != c.reason || r.Kind != port.KindRows || r.Remote != conn.LocalAddr().String() || !strings.Contains(r.Err.Error(), c.text) {
					t.Errorf("%v; want %v with %q", r, c.reason, c.text)
				}
				if strings.Contains(r.String(), "the key") {
					t.Errorf("%v gives the key away", r)
				}
			case <-time.After(patience):
				t.Fatal("nothing was reported")
			}
			d.Close()
			if len(d.rejected) > 0 {
				t.Errorf("reported again: %v", <-d.rejected)
			}
		})
	}
}

func TestCloseEndsGreetingsAndWaitingCallersAtOnce(t *testing.T) {
	before := runtime.NumGoroutine()
	d := newDesk(t, patience)
	hello := encode(handshake.Hello{Tag: "early"})
	for range 8 {
		d.dial()
		d.dial().Write(hello[:10])
		d.dial().Write(hello)
	}
	began := time.Now()
	d.Close()
	d.port.Close()
	for runtime.NumGoroutine() > before && time.Since(began) < patience {
		runtime.Gosched()
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("goroutines stay for %v", took)
	}
}

// The seats are full of strangers when the member comes, and more come meanwhile; the view is
// awaited only later.
func TestAMemberThatHadToMakeRoomComesAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t, patience)
	crowd := func() {
		for range 2 * seats {
			d.dial().Write(encode(handshake.Hello{Tag: "guessed"}))
		}
	}
	crowd()
	type result struct {
		link fabric.Link
		err  error
	}
	dialled := make(chan result, 1)
	spec, own := d.spec(1), make([]byte, rowShape.RowBytes)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		l, err := d.Dial(ctx, spec, 0, own)
		dialled <- result{l, err}
	}()
	crowd()
	links := d.await(1)
	crowd()
	r := <-dialled
	if r.err != nil {
		t.Fatal(r.err)
	}
	r.link.Close()
	select {
	case l := <-links:
		l.Close()
	case <-ctx.Done():
		t.Error("no link came up at the other end")
	}
}

// The caller knows all that a member of the view knows, and calls first.
func TestAMemberThatCallsAsAnotherTakesNothingFromIt(t *testing.T) {
	d := newDesk(t, patience)
	links := d.await(1, 2)
	evil := d.spec(1)
	for range 3 {
		conn := d.dial()
		h, err := handshake.NewHello(evil, 0, challenged(t, conn))
		if err != nil {
			t.Fatal(err)
		}
		h.From = 2
		conn.Write(encode(h))
		r := <-d.rejected
		if r.Reason != port.NotMember || !errors.Is(r.Err, fabric.ErrUnproven) {
			t.Errorf("%v", r)
		}
		conn.SetDeadline(time.Now().Add(patience))
		if n, err := conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("it is answered, or kept: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := d.Dial(ctx, d.spec(2), 0, make([]byte, rowShape.RowBytes))
	if err != nil {
		t.Fatalf("the real rank 2: %v", err)
	}
	defer l.Close()
	select {
	case l := <-links:
		l.Close()
	case <-ctx.Done():
		t.Error("no link came up at the other end")
	}
}

// A stranger replays the recorded greeting of rank 2: before rank 2 is connected, and afterwards.
func TestARecordedHelloOpensNothing(t *testing.T) {
	d := newDesk(t, patience)
	first := d.dial()
	recorded, err := handshake.NewHello(d.spec(2), 0, challenged(t, first)) // it is lost on the way
	if err != nil {
		t.Fatal(err)
	}
	links := d.await(1, 2)
	replay := func() {
		t.Helper()
		conn := d.dial()
		challenged(t, conn)
		conn.Write(encode(recorded))
		if r := <-d.rejected; !errors.Is(r.Err, fabric.ErrUnproven) {
			t.Errorf("%v", r)
		}
	}
	replay()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := d.Dial(ctx, d.spec(2), 0, make([]byte, rowShape.RowBytes))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	select {
	case there := <-links:
		defer there.Close()
	case <-ctx.Done():
		t.Fatal("no link came up at the other end")
	}
	replay()
	if _, err := l.Poll(); err != nil {
		t.Error(err)
	}
}

// A stranger listens at the former address of rank 0, and says that it gave rank 1 up.
func TestAProcessInThePlaceOfAPeerCannotRefuseForIt(t *testing.T) {
	d := newDesk(t, patience)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var tries atomic.Int32
	d.port.Handle(port.KindRows, func(conn net.Conn) {
		defer conn.Close()
		if tries.Add(1) == 4 { // the answers before were not heeded
			cancel()
			return
		}
		evil := d.spec(2)
		var h handshake.Hello
		if wire.WriteMessage(conn, handshake.Challenge{Nonce: trust.NewNonce()}) != nil || wire.ReadMessage(conn, wire.MaxMessageBytes, &h) != nil {
			return
		}
		w, _ := handshake.Answer(evil, h, fabric.ErrGivenUp)
		_ = wire.WriteMessage(conn, w)
	})
	_, err := d.Dial(ctx, d.spec(1), 0, make([]byte, rowShape.RowBytes))
	if !errors.Is(err, context.Canceled) || errors.Is(err, fabric.ErrRefused) {
		t.Errorf("%v", err)
	}
}
