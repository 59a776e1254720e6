//go:build linux

package shm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/handshake"
	"github.com/squall-go/squall/internal/samehost"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"golang.org/x/sys/unix"
)

const patience = 20 * time.Second

// desk is the connector of rank 0 of a view of three, and what it rejects.
type desk struct {
	*Connector
	t        *testing.T
	people   [3]*trust.Identity
	rejected chan port.Rejection
}

func newDesk(t *testing.T, user int, borne time.Duration) *desk {
	t.Helper()
	d := &desk{t: t, rejected: make(chan port.Rejection, 1024), people: [3]*trust.Identity{trust.NewIdentity(), trust.NewIdentity(), trust.NewIdentity()}}
	var err error
	if d.Connector, err = newConnector(func(r port.Rejection) { d.rejected <- r }, user, borne); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
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
		s.Peers = append(s.Peers, fabric.Peer{ID: order.NodeID(r + 1), SHM: d.Name(), Shape: rowShape, PublicKey: i.PublicKey()})
	}
	return s
}

// await awaits rank 2 until the test ends, and returns its links as they come up.
func (d *desk) await(row int) <-chan fabric.Link {
	links := make(chan fabric.Link, 8)
	spec := d.spec(0)
	if row < 0 {
		row = 0
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan bool)
	go func() {
		defer close(done)
		d.Await(ctx, spec, func(r order.Rank) bool { return r == 2 }, row, func(_ order.Rank, l fabric.Link) { links <- l })
	}()
	d.t.Cleanup(func() {
		cancel()
		<-done
		for len(links) > 0 {
			(<-links).Close()
		}
	})
	return links
}

// challenged is what the listener said first.
func challenged(t *testing.T, conn *net.UnixConn) (c handshake.Challenge) {
	t.Helper()
	if err := Hear(conn, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func (d *desk) dial() *net.UnixConn {
	d.t.Helper()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: "@" + d.Name(), Net: "unixpacket"})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close() })
	return conn
}

func expectHungUp(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetDeadline(time.Now().Add(patience))
	for b := make([]byte, messageBytes); ; { // a refusal may come first
		if n, err := conn.Read(b); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the connection stays open")
		} else if n == 0 || err != nil {
			return
		}
	}
}

func TestEveryGreetingThatIsTurnedAwayIsReportedOnce(t *testing.T) {
	me := os.Getuid()
	// hello is what a rank says, with some of its view changed.
	hello := func(self order.Rank, change func(*fabric.Spec)) func(*desk, handshake.Challenge) []byte {
		return func(d *desk, c handshake.Challenge) []byte {
			s := d.spec(self)
			change(s)
			h, err := handshake.NewHello(s, 0, c)
			if err != nil {
				d.t.Fatal(err)
			}
			b, _ := json.Marshal(h)
			return b
		}
	}
	raw := func(b []byte) func(*desk, handshake.Challenge) []byte {
		return func(*desk, handshake.Challenge) []byte { return b }
	}
	whole := hello(2, func(*fabric.Spec) {})
	half := func(d *desk, c handshake.Challenge) []byte { return whole(d, c)[:20] }
	long := func(d *desk, c handshake.Challenge) []byte { return append(whole(d, c), make([]byte, messageBytes)...) }
	posing := func(d *desk, c handshake.Challenge) []byte {
		b := hello(1, func(*fabric.Spec) {})(d, c)
		return bytes.Replace(b, []byte(`"from":1`), []byte(`"from":2`), 1)
	}
	for name, c := range map[string]struct {
		say    func(*desk, handshake.Challenge) []byte
		fds    int // that come with it
		then   int // that follow the answer; -1: nothing follows
		user   int
		hangUp bool
		reason port.Reason
		text   string
	}{
		"another key":          {hello(2, func(s *fabric.Spec) { s.Scope.Key = "a guess" }), 0, -1, me, false, port.NotMember, "no member here awaits its view"},
		"another rank":         {posing, 0, -1, me, false, port.NotMember, "does not prove"},
		"connected already":    {hello(1, func(*fabric.Spec) {}), 0, -1, me, false, port.NotMember, "rank 1 is connected already"},
		"half a hello":         {half, 0, -1, me, false, port.Garbage, "malformed"},
		"no JSON":              {raw([]byte("JSON")), 0, -1, me, false, port.Garbage, "malformed"},
		"too long":             {long, 0, -1, me, false, port.Garbage, "more than"},
		"descriptors at once":  {whole, 2, -1, me, false, port.Garbage, "2 descriptors in its greeting"},
		"three descriptors":    {whole, 0, 3, me, false, port.Garbage, "3 descriptors"},
		"one descriptor":       {whole, 0, 1, me, false, port.Garbage, "1 descriptors"},
		"no descriptors":       {whole, 0, 0, me, false, port.Garbage, "0 descriptors"},
		"too many descriptors": {whole, 0, 9, me, false, port.Garbage, "message of more than"},
		"not a sealed segment": {whole, 0, 2, me, false, port.Garbage, "H1"},
		"silence":              {raw(nil), 0, -1, me, false, port.TimedOut, ""},
		"the end":              {raw(nil), 0, -1, me, true, port.Broken, ""},
		"another user":         {nil, 0, -1, me + 1, false, port.OtherUser, fmt.Sprintf("for user %d only", me+1)},
	} {
		t.Run(name, func(t *testing.T) {
			borne := patience
			if c.reason == port.TimedOut || name == "another key" { // it might be that of the next view
				borne = 20 * time.Millisecond
			}
			d := newDesk(t, c.user, borne)
			d.await(-1)
			conn := d.dial()
			var say []byte
			if c.say != nil {
				say = c.say(d, challenged(t, conn))
			}
			before := fdCount(t)
			if say != nil {
				if err := sendRaw(conn, say, c.fds); err != nil {
					t.Fatal(err)
				}
			}
			if c.then >= 0 {
				var w handshake.Welcome
				fds, err := Receive(conn, &w)
				samehost.Close(fds)
				if err != nil || len(fds) != ownDescriptors || w.Refused != "" {
					t.Fatalf("%d descriptors, %+v, %v", len(fds), w, err)
				}
				if err := sendRaw(conn, []byte("{}"), c.then); err != nil {
					t.Fatal(err)
				}
			}
			if c.hangUp {
				conn.Close()
			}
			select {
			case r := <-d.rejected:
				want := fmt.Sprintf("process %d (user %d)", os.Getpid(), me)
				if r.Reason != c.reason || r.Kind != port.KindRows || r.Remote != want || !strings.Contains(r.Err.Error(), c.text) {
					t.Errorf("%v; want %v of %s with %q", r, c.reason, want, c.text)
				}
			case <-time.After(patience):
				t.Fatal("nothing was reported")
			}
			if !c.hangUp {
				expectHungUp(t, conn)
			}
			d.Close()
			if len(d.rejected) > 0 {
				t.Errorf("reported again: %v", <-d.rejected)
			}
			conn.Close()
			if now := fdCount(t); now > before {
				t.Errorf("%d descriptors, %d before: descriptors that came with a greeting stay open", now, before)
			}
		})
	}
}

// A member that hangs between its greeting and its descriptors does not hold up the others.
func TestAMemberThatDoesNotGoOnHoldsUpNobody(t *testing.T) {
	d := newDesk(t, os.Getuid(), time.Hour) // that is how long it waits for each of them
	links := make(chan order.Rank, 8)
	_, row, release, err := NewRow(rowShape.RowBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	here, done := d.spec(0), make(chan bool)
	go func() {
		defer close(done)
		d.Await(ctx, here, func(order.Rank) bool { return true }, row, func(r order.Rank, l fabric.Link) { l.Close(); links <- r })
	}()
	defer func() { cancel(); <-done }()
	for range 20 {
		conn := d.dial()
		h, err := handshake.NewHello(d.spec(1), 0, challenged(t, conn))
		if err != nil {
			t.Fatal(err)
		}
		if err := Send(conn, h); err != nil {
			t.Fatal(err)
		}
	}
	l, err := d.Dial(ctx, d.spec(2), 0, row)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	select {
	case r := <-links:
		if r != 2 {
			t.Errorf("a link of rank %d", r)
		}
	case <-ctx.Done():
		t.Error("the link of rank 2 does not come up")
	}
}

// A stranger listens at the name of rank 0: it gets neither the row nor the bell of a member that
// dials.
func TestOnlyThePeerItselfGetsTheDescriptors(t *testing.T) {
	d := newDesk(t, os.Getuid(), patience)
	d.await(-1)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: "@" + d.Name() + "-evil", Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	evil, got := d.spec(1), make(chan int, 1024)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		for tries := 0; ; tries++ {
			if tries == 3 {
				cancel()
			}
			conn, err := l.AcceptUnix()
			if err != nil {
				close(got)
				return
			}
			conn.SetDeadline(time.Now().Add(patience))
			var h handshake.Hello
			Send(conn, handshake.Challenge{Nonce: trust.NewNonce()})
			fds, _ := Receive(conn, &h)
			w, _ := handshake.Answer(evil, h, nil)
			Send(conn, w, 0)
			more, _ := Receive(conn, &handover{})
			got <- len(fds) + len(more)
			samehost.Close(append(fds, more...))
			conn.Close()
		}
	}()
	victim := d.spec(2)
	victim.Peers[0].SHM += "-evil"
	if _, err := d.Dial(ctx, victim, 0, 0); !errors.Is(err, context.Canceled) || errors.Is(err, fabric.ErrRefused) {
		t.Errorf("%v", err)
	}
	l.Close()
	tried := 0
	for n := range got {
		if tried++; n > 0 {
			t.Errorf("the impostor got %d descriptors", n)
		}
	}
	if tried < 3 {
		t.Errorf("the impostor was called %d times", tried)
	}
}

func fdCount(t *testing.T) int {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

// sendRaw sends bytes and so many descriptors, which are none of a row.
func sendRaw(conn *net.UnixConn, b []byte, n int) error {
	var fds []int
	for range n {
		fds = append(fds, 0)
	}
	var rights []byte
	if n > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err := conn.WriteMsgUnix(b, rights, nil)
	return err
}

func TestCloseEndsGreetingsAndWaitingCallersAtOnce(t *testing.T) {
	before := runtime.NumGoroutine()
	d := newDesk(t, os.Getuid(), patience)
	hello, _ := json.Marshal(handshake.Hello{Tag: "early"})
	var conns []net.Conn
	for range 8 {
		silent, early := d.dial(), d.dial()
		if err := sendRaw(early, hello, 0); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, silent, early)
	}
	began := time.Now()
	d.Close()
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it took %v", took)
	}
	for _, conn := range conns {
		expectHungUp(t, conn)
	}
	for runtime.NumGoroutine() > before && time.Since(began) < patience {
		runtime.Gosched() // the goroutines that Close waited for are about to end
	}
	if now := runtime.NumGoroutine(); now > before {
		t.Errorf("%d goroutines, %d before", now, before)
	}
}

func TestARowThatCannotBeHadNamesItsSizeAndSaysWhatToDo(t *testing.T) {
	_, _, _, err := NewRow(samehost.TotalMemory() + 1)
	expectAdvice(t, err, unix.ENOMEM, samehost.TotalMemory()+1)

	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_FSIZE, &was)
	before := fdCount(t)
	_, _, _, err = NewRow(8 << 20)
	expectAdvice(t, err, unix.EFBIG, 8<<20)
	if now := fdCount(t); now > before {
		t.Errorf("%d descriptors, %d before", now, before)
	}
}

func expectAdvice(t *testing.T, err, cause error, n int) {
	t.Helper()
	if !errors.Is(err, cause) {
		t.Fatalf("error %v is not %v", err, cause)
	}
	for _, part := range []string{fmt.Sprintf("shared memory of %d bytes", n), "smaller RingBytes or fewer subgroups", "more memory"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q lacks %q", err, part)
		}
	}
}
