package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/order"
)

const patience = 20 * time.Second

// desk is the connector of rank 0 of a view of three, and what its port rejects.
type desk struct {
	*Connector
	t        *testing.T
	port     *port.Port
	rejected chan port.Rejection
}

func newDesk(t *testing.T, borne time.Duration) *desk {
	t.Helper()
	d := &desk{t: t, rejected: make(chan port.Rejection, 1024)}
	var err error
	if d.port, err = port.Listen(port.Config{Addr: "127.0.0.1:0", OnReject: func(r port.Rejection) { d.rejected <- r }}); err != nil {
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
	s := &fabric.Spec{Cluster: "c", View: 1, Key: "the key", Self: self, Parker: parker}
	for r := range 3 {
		s.Peers = append(s.Peers, fabric.Peer{ID: order.NodeID(r + 1), Addr: d.port.Addr(), Shape: rowShape})
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

func encode(h fabric.Hello) []byte {
	body, _ := json.Marshal(h)
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func TestEveryGreetingThatIsTurnedAwayIsReportedOnce(t *testing.T) {
	hello := fabric.Hello{Cluster: "c", View: 1, Key: "the key", From: 1, Shape: rowShape}
	but := func(change func(*fabric.Hello)) []byte {
		h := hello
		change(&h)
		return encode(h)
	}
	for name, c := range map[string]struct {
		say    []byte
		hangUp bool
		reason port.Reason
		text   string
	}{
		"another cluster":   {but(func(h *fabric.Hello) { h.Cluster = "d" }), false, port.NotMember, `cluster "d", this is "c"`},
		"another key":       {but(func(h *fabric.Hello) { h.Key = "a guess" }), false, port.NotMember, "nobody here awaits its view"},
		"another view":      {but(func(h *fabric.Hello) { h.View = 2 }), false, port.NotMember, "not a member of view 1"},
		"a rank too high":   {but(func(h *fabric.Hello) { h.From = 3 }), false, port.NotMember, "from rank 3"},
		"to somebody else":  {but(func(h *fabric.Hello) { h.To = 2 }), false, port.NotMember, "to rank 2"},
		"rows of else size": {but(func(h *fabric.Hello) { h.Shape.RowBytes *= 2 }), false, port.NotMember, "rows of rank 1"},
		"connected already": {encode(hello), false, port.NotMember, "rank 1 is connected already"},
		"half a hello":      {encode(hello)[:20], false, port.TimedOut, ""},
		"silence":           {nil, false, port.TimedOut, ""},
		"half, and the end": {encode(hello)[:20], true, port.Broken, ""},
		"no JSON":           {append([]byte{4, 0, 0, 0}, "JSON"...), false, port.Garbage, "malformed"},
		"a long greeting":   {append([]byte{0, 0, 1, 0}, bytes.Repeat([]byte(" "), 1<<16)...), false, port.Garbage, "more than"},
		"a huge greeting":   {[]byte{0xFF, 0xFF, 0xFF, 0x7F}, false, port.Garbage, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			borne := patience
			if c.reason == port.TimedOut || name == "another key" { // it might be that of the next view
				borne = 20 * time.Millisecond
			}
			d := newDesk(t, borne)
			d.await(2)
			conn := d.dial()
			conn.Write(c.say)
			if c.hangUp {
				conn.Close()
			}
			select {
			case r := <-d.rejected:
				if r.Reason != c.reason || r.Kind != port.KindRows || r.Remote != conn.LocalAddr().String() || !strings.Contains(r.Err.Error(), c.text) {
					t.Errorf("%v; want %v with %q", r, c.reason, c.text)
				}
				if strings.Contains(r.String(), hello.Key) {
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
	hello := encode(fabric.Hello{Key: "early"})
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

// The seats are full of strangers when the member comes, and more come meanwhile; the view is awaited only later.
func TestAMemberThatHadToMakeRoomComesAgain(t *testing.T) {
	d := newDesk(t, patience)
	crowd := func() {
		for range 2 * seats {
			d.dial().Write(encode(fabric.Hello{Key: "guessed"}))
		}
	}
	crowd()
	type result struct {
		link *Link
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
