//go:build linux

package shm

import (
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
	"github.com/squall-go/squall/order"
	"golang.org/x/sys/unix"
)

const patience = 20 * time.Second

// desk is the connector of rank 0 of a view of three, and what it rejects.
type desk struct {
	*Connector
	t        *testing.T
	rejected chan port.Rejection
}

func newDesk(t *testing.T, user int, borne time.Duration) *desk {
	t.Helper()
	d := &desk{t: t, rejected: make(chan port.Rejection, 1024)}
	var err error
	if d.Connector, err = newConnector(func(r port.Rejection) { d.rejected <- r }, user, borne); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

var rowShape = fabric.RowShape{ControlBytes: fabric.LineBytes, RowBytes: 2 * fabric.LineBytes}

// await awaits rank 2, which does not come, until the test ends.
func (d *desk) await() {
	parker, err := fabric.NewParker()
	if err != nil {
		d.t.Fatal(err)
	}
	spec := &fabric.Spec{Cluster: "c", View: 1, Key: "the key", Parker: parker, Peers: make([]fabric.Peer, 3)}
	for r := range spec.Peers {
		spec.Peers[r] = fabric.Peer{ID: order.NodeID(r + 1), Shape: rowShape}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan bool)
	go func() {
		defer close(done)
		d.Await(ctx, spec, func(r order.Rank) bool { return r == 2 }, 0, func(_ order.Rank, l fabric.Link) { l.Close() })
	}()
	d.t.Cleanup(func() {
		cancel()
		<-done
		parker.Close()
	})
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
	hello := fabric.Hello{Cluster: "c", View: 1, Key: "the key", From: 2, Shape: rowShape}
	but := func(change func(*fabric.Hello)) []byte {
		h := hello
		change(&h)
		b, _ := json.Marshal(h)
		return b
	}
	whole := but(func(*fabric.Hello) {})
	for name, c := range map[string]struct {
		say    []byte
		fds    int
		user   int
		hangUp bool
		reason port.Reason
		text   string
	}{
		"another cluster":      {but(func(h *fabric.Hello) { h.Cluster = "d" }), 1, me, false, port.NotMember, `cluster "d", this is "c"`},
		"another key":          {but(func(h *fabric.Hello) { h.Key = "a guess" }), 1, me, false, port.NotMember, "nobody here awaits its view"},
		"a rank too high":      {but(func(h *fabric.Hello) { h.From = 3 }), 1, me, false, port.NotMember, "from rank 3"},
		"connected already":    {but(func(h *fabric.Hello) { h.From = 1 }), 1, me, false, port.NotMember, "rank 1 is connected already"},
		"half a hello":         {whole[:20], 1, me, false, port.Garbage, "malformed"},
		"no JSON":              {[]byte("JSON"), 1, me, false, port.Garbage, "malformed"},
		"too long":             {append(whole, make([]byte, messageBytes)...), 1, me, false, port.Garbage, "more than"},
		"two descriptors":      {whole, 2, me, false, port.Garbage, "2 descriptors"},
		"no descriptors":       {whole, 0, me, false, port.Garbage, "0 descriptors"},
		"too many descriptors": {whole, 9, me, false, port.Garbage, "message of more than"},
		"not a sealed segment": {whole, 1, me, false, port.Garbage, "H1"},
		"silence":              {nil, 0, me, false, port.TimedOut, ""},
		"the end":              {nil, 0, me, true, port.Broken, ""},
		"another user":         {nil, 0, me + 1, false, port.OtherUser, fmt.Sprintf("for user %d only", me+1)},
	} {
		t.Run(name, func(t *testing.T) {
			before := fdCount(t)
			borne := patience
			if c.reason == port.TimedOut || name == "another key" { // it might be that of the next view
				borne = 20 * time.Millisecond
			}
			d := newDesk(t, c.user, borne)
			d.await()
			conn := d.dial()
			if c.say != nil {
				if err := sendRaw(conn, c.say, c.fds); err != nil {
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
			if now := fdCount(t); now > before+awaiting {
				t.Errorf("%d descriptors, %d before: those that came with a greeting stay open", now, before)
			}
		})
	}
}

// awaiting is the number of descriptors that a parker holds.
const awaiting = 2

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
	hello, _ := json.Marshal(fabric.Hello{Key: "early"})
	var conns []net.Conn
	for range 8 {
		silent, early := d.dial(), d.dial()
		if err := sendRaw(early, hello, 1); err != nil {
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
		runtime.Gosched() // those that Close waited for are about to end
	}
	if now := runtime.NumGoroutine(); now > before {
		t.Errorf("%d goroutines, %d before", now, before)
	}
}

func TestARowThatCannotBeHadNamesItsSizeAndSaysWhatToDo(t *testing.T) {
	_, _, _, err := NewRow(totalMemory() + 1)
	expectAdvice(t, err, unix.ENOMEM, totalMemory()+1)

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
