package port

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/wire"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests; none of them comes near it unless something is broken.
const patience = 10 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// listen opens a port whose rejections come out of the channel.
func listen(t *testing.T, c Config) (*Port, <-chan Rejection) {
	t.Helper()
	rejections := make(chan Rejection, 64)
	c.OnReject = func(r Rejection) { rejections <- r }
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
	}
	p, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, rejections
}

func echo(conn net.Conn) {
	defer conn.Close()
	_, _ = io.Copy(conn, conn)
}

func checkEcho(t *testing.T, conn net.Conn) {
	t.Helper()
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	got := make([]byte, 5)
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
		t.Fatalf("echo of hello: %q, %v", got, err)
	}
}

// knock opens a bare TCP connection and sends bytes.
func knock(t *testing.T, addr string, sent []byte) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write(sent); err != nil {
		t.Fatal(err)
	}
	return conn
}

func expectRejection(t *testing.T, rejections <-chan Rejection, reason Reason) Rejection {
	t.Helper()
	select {
	case r := <-rejections:
		if r.Reason != reason || r.Remote == "" || r.Err == nil {
			t.Fatalf("got %q, want reason %v", r, reason)
		}
		return r
	case <-time.After(patience):
		t.Fatalf("no rejection with reason %v", reason)
		return Rejection{}
	}
}

func expectClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	_, err := io.Copy(io.Discard, conn)
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		t.Fatal("the port did not close the connection")
	}
}

func TestOnePortServesEveryKindWithItsOwnHandler(t *testing.T) {
	p, _ := listen(t, Config{})
	p.Handle(KindRows, echo)
	p.Handle(KindControl, func(conn net.Conn) {
		defer conn.Close()
		_ = wire.WriteMessage(conn, "control")
	})
	rows, err := Dial(within(t), p.Addr(), KindRows, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkEcho(t, rows)
	control, err := Dial(within(t), p.Addr(), KindControl, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	var said string
	if err := wire.ReadMessage(control, wire.MaxMessageBytes, &said); err != nil || said != "control" {
		t.Fatalf("read %q, %v", said, err)
	}
}

func TestIPv6AndHostNamesWork(t *testing.T) {
	for _, addr := range []string{"[::1]:0", "localhost:0"} {
		t.Run(addr, func(t *testing.T) {
			if l, err := net.Listen("tcp", addr); err != nil {
				t.Skipf("this machine does not listen on %s: %v", addr, err)
			} else {
				l.Close()
			}
			p, _ := listen(t, Config{Addr: addr})
			p.Handle(KindRows, echo)
			conn, err := Dial(within(t), p.Addr(), KindRows, nil)
			if err != nil {
				t.Fatal(err)
			}
			checkEcho(t, conn)
		})
	}
	p, _ := listen(t, Config{Addr: "127.0.0.1:0", Advertise: "localhost:0"})
	p.Handle(KindRows, echo)
	if !strings.HasPrefix(p.Addr(), "localhost:") || strings.HasSuffix(p.Addr(), ":0") {
		t.Fatalf("advertised %s", p.Addr())
	}
	conn, err := Dial(within(t), p.Addr(), KindRows, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkEcho(t, conn)
}

func TestAListenerOnAHostNameAdvertisesTheName(t *testing.T) {
	p, _ := listen(t, Config{Addr: "localhost:0"})
	if host, number, err := net.SplitHostPort(p.Addr()); err != nil || host != "localhost" || number == "0" {
		t.Fatalf("advertised %s, %v", p.Addr(), err)
	}
}

func TestAnUnspecifiedListenerAdvertisesAnAddressThatCanBeDialled(t *testing.T) {
	p, _ := listen(t, Config{Addr: "0.0.0.0:0"})
	p.Handle(KindRows, echo)
	conn, err := Dial(within(t), p.Addr(), KindRows, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkEcho(t, conn)
}

func TestOwnAddressPrefersTheNamedInterfaceAndLoopbackLast(t *testing.T) {
	parse := func(list string) (ips []netip.Addr) {
		for s := range strings.FieldsSeq(list) {
			ips = append(ips, netip.MustParseAddr(s))
		}
		return ips
	}
	for _, c := range []struct {
		interfaces, named string
		only4             bool
		want              string
	}{
		{"127.0.0.1 10.0.0.5 192.168.1.7", "192.168.1.7", false, "192.168.1.7"},
		{"127.0.0.1 10.0.0.5 192.168.1.7", "127.0.1.1", false, "10.0.0.5"},
		{"127.0.0.1 10.0.0.5", "203.0.113.9", false, "10.0.0.5"},
		{"127.0.0.1 fe80::1 2001:db8::1 10.0.0.5", "", false, "2001:db8::1"},
		{"127.0.0.1 fe80::1 2001:db8::1 10.0.0.5", "2001:db8::1", true, "10.0.0.5"},
		{"127.0.0.1 ::1 fe80::1", "127.0.1.1", false, "127.0.0.1"},
		{"", "", false, "127.0.0.1"},
	} {
		if got := ownAddress(parse(c.interfaces), parse(c.named), c.only4); got.String() != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}

func TestAnAddressInUseIsNamedAndTheErrorSaysWhatToDo(t *testing.T) {
	p, _ := listen(t, Config{})
	_, err := Open(t.Context(), Config{Addr: p.Addr()})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), p.Addr()) || !strings.Contains(err.Error(), "choose another port") {
		t.Fatalf("error %v does not name %s, or not what to do", err, p.Addr())
	}
}

func TestAHandlerReportsWhatItTurnsAway(t *testing.T) {
	p, rejections := listen(t, Config{})
	for err, reason := range map[error]Reason{
		fabric.ErrRefused: NotMember, fabric.ErrNotAwaited: NotMember, fabric.ErrCrowded: TooMany, fabric.ErrViolation: Garbage,
		wire.ErrMalformed: Garbage, wire.ErrTooLarge: Garbage, wire.ErrChecksum: Garbage, os.ErrDeadlineExceeded: TimedOut, io.EOF: Broken,
	} {
		p.Reject(NewRejection(KindRows, "somewhere", fmt.Errorf("here: %w", err)))
		if got := expectRejection(t, rejections, reason).String(); !strings.HasPrefix(got, "connection for rows from somewhere rejected: "+reason.String()+": here") {
			t.Error(got)
		}
	}
	p.Close()
	p.Reject(NewRejection(KindRows, "somewhere", io.EOF))
	select {
	case r := <-rejections:
		t.Errorf("after Close: %v", r)
	default:
	}
}

func TestAdvertisingAnUnspecifiedHostIsRefused(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:1", "[::]:1", ":1", "host"} {
		if p, err := Open(t.Context(), Config{Addr: "127.0.0.1:0", Advertise: addr}); err == nil {
			p.Close()
			t.Errorf("advertised %s", addr)
		}
	}
}

func TestGarbageIsClosedAndReported(t *testing.T) {
	p, rejections := listen(t, Config{})
	conn := knock(t, p.Addr(), []byte("GET / HTTP/1.1\r\n\r\n"))
	if r := expectRejection(t, rejections, Garbage); !errors.Is(r.Err, ErrNotSquall) {
		t.Fatal(r)
	}
	expectClosed(t, conn)
}

// FP3, in time.
func TestHalfAPreambleAndSilenceTimeOut(t *testing.T) {
	p, rejections := listen(t, Config{HandshakeTimeout: 20 * time.Millisecond})
	for _, sent := range []string{"", "SQUA"} {
		conn := knock(t, p.Addr(), []byte(sent))
		expectRejection(t, rejections, TimedOut)
		expectClosed(t, conn)
	}
}

func TestHalfAPreambleAndACloseIsReportedAsBroken(t *testing.T) {
	p, rejections := listen(t, Config{})
	knock(t, p.Addr(), []byte("SQUA")).Close()
	expectRejection(t, rejections, Broken)
}

// FP3, and what it must not cost: strangers that say nothing keep no member out.
func TestANewcomerTakesThePlaceOfTheOldestPendingConnection(t *testing.T) {
	p, rejections := listen(t, Config{MaxPending: 2, HandshakeTimeout: time.Hour})
	p.Handle(KindRows, echo)
	silent := []net.Conn{knock(t, p.Addr(), nil), knock(t, p.Addr(), nil)}
	conn, err := Dial(within(t), p.Addr(), KindRows, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkEcho(t, conn)
	if r := expectRejection(t, rejections, TooMany); r.Remote != silent[0].LocalAddr().String() {
		t.Fatalf("%v, but the oldest is %v", r, silent[0].LocalAddr())
	}
	expectClosed(t, silent[0])
}

// FP3, in number.
func TestAFloodBeyondMaxPendingIsClosedAtOnceAndThePortRecovers(t *testing.T) {
	p, rejections := listen(t, Config{MaxPending: 4, HandshakeTimeout: patience})
	p.Handle(KindRows, echo)
	var silent []net.Conn
	for range 12 {
		silent = append(silent, knock(t, p.Addr(), nil))
	}
	for range 8 {
		if r := expectRejection(t, rejections, TooMany); !errors.Is(r.Err, ErrTooManyPending) {
			t.Fatal(r)
		}
	}
	for _, conn := range silent {
		conn.Close()
	}
	for range 4 {
		expectRejection(t, rejections, Broken)
	}
	// The last place is freed right after its rejection was reported, so the first attempts may
	// still be one too many.
	for range 1000 {
		conn, err := Dial(within(t), p.Addr(), KindRows, nil)
		if err == nil {
			checkEcho(t, conn)
			return
		}
		expectRejection(t, rejections, TooMany)
	}
	t.Fatal("the port did not recover")
}

func TestConnectionsThatWereHandedOverDoNotCountAsPending(t *testing.T) {
	p, _ := listen(t, Config{MaxPending: 1})
	handed := make(chan struct{})
	p.Handle(KindRows, func(conn net.Conn) {
		handed <- struct{}{}
		echo(conn)
	})
	for range 5 {
		conn, err := Dial(within(t), p.Addr(), KindRows, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		<-handed
	}
}

func TestAnUnknownKindIsRefusedOnBothSides(t *testing.T) {
	p, rejections := listen(t, Config{})
	p.Handle(KindRows, echo)
	for _, kind := range []Kind{KindControl, 77, kindRefused} {
		if conn, err := Dial(within(t), p.Addr(), kind, nil); !errors.Is(err, ErrKindRefused) {
			t.Fatalf("dial: %v, %v", conn, err)
		}
		if kind == KindControl {
			continue // a member that is early: it is not reported
		}
		if r := expectRejection(t, rejections, UnknownKind); !errors.Is(r.Err, ErrKindRefused) || !strings.Contains(r.Err.Error(), kind.String()) {
			t.Fatal(r)
		}
	}
	p.Handle(KindRows, nil)
	if conn, err := Dial(within(t), p.Addr(), KindRows, nil); !errors.Is(err, ErrKindRefused) {
		t.Fatalf("dial of a removed kind: %v, %v", conn, err)
	}
}

// FP1, on both sides.
func TestAVersionMismatchNamesBothVersionsOnBothSides(t *testing.T) {
	p, rejections := listen(t, Config{})
	p.Handle(KindRows, echo)
	other := preamble{version: 9, kind: KindRows}.encode()
	conn := knock(t, p.Addr(), other[:])
	r := expectRejection(t, rejections, VersionDiffers)
	checkBothVersions(t, r.Err)
	var answer [preambleBytes]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil || answer[versionOffset] != ProtocolVersion {
		t.Fatalf("answer %q, %v", answer, err)
	}
	expectClosed(t, conn)

	_, err := Dial(within(t), answering(t, other[:]), KindRows, nil)
	checkBothVersions(t, err)
}

func checkBothVersions(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrProtocolVersion) || !strings.Contains(err.Error(), "version 9") || !strings.Contains(err.Error(), fmt.Sprintf("version %d", ProtocolVersion)) {
		t.Fatalf("error %v does not name both versions", err)
	}
}

// answering is a server that reads a preamble and answers with the given bytes.
func answering(t *testing.T, answer []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.CopyN(io.Discard, conn, int64(preambleBytes))
		_, _ = conn.Write(answer)
		_, _ = io.Copy(io.Discard, conn)
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func TestADialerRecognizesAServerThatIsNoNode(t *testing.T) {
	if _, err := Dial(within(t), answering(t, []byte("220 smtp ready")), KindRows, nil); !errors.Is(err, ErrNotSquall) {
		t.Fatal(err)
	}
	swapped := preamble{version: ProtocolVersion, kind: KindControl}.encode()
	if _, err := Dial(within(t), answering(t, swapped[:]), KindRows, nil); !errors.Is(err, ErrNotSquall) {
		t.Fatal(err)
	}
}

func TestDialHonoursItsContextWhileThePeerIsSilent(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, answering(t, nil), KindRows, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	reason := errors.New("changed my mind")
	gone, giveUp := context.WithCancelCause(context.Background())
	giveUp(reason)
	if _, err := Dial(gone, "127.0.0.1:1", KindRows, nil); !errors.Is(err, reason) {
		t.Fatal(err)
	}
}

func TestCloseClosesWhatIsPendingAndIsNotNews(t *testing.T) {
	p, rejections := listen(t, Config{MaxPending: 2, HandshakeTimeout: time.Hour})
	pending := []net.Conn{knock(t, p.Addr(), nil), knock(t, p.Addr(), []byte("SQ"))}
	pending = append(pending, knock(t, p.Addr(), nil))
	expectRejection(t, rejections, TooMany) // so that both others were accepted
	expectClosed(t, pending[0])
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Fatal(err)
	}
	for _, conn := range pending[1:] {
		expectClosed(t, conn)
	}
	if len(rejections) != 0 {
		t.Fatal(<-rejections)
	}
}

// FP2: no deadline is left on it.
func TestAConnectionThatWasHandedOverOutlivesTheHandshakesTimeout(t *testing.T) {
	const timeout = 250 * time.Millisecond
	p, _ := listen(t, Config{HandshakeTimeout: timeout})
	p.Handle(KindRows, echo)
	conn, err := Dial(within(t), p.Addr(), KindRows, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(timeout)
	checkEcho(t, conn)
}

// FP2: no byte was read ahead of the handler.
func TestAPeerThatSentItsTrafficEarlyLosesNothing(t *testing.T) {
	p, _ := listen(t, Config{})
	p.Handle(KindRows, echo)
	ours := preamble{version: ProtocolVersion, kind: KindRows}.encode()
	conn := knock(t, p.Addr(), append(ours[:], "early"...))
	got := make([]byte, preambleBytes+5)
	if _, err := io.ReadFull(conn, got); err != nil || string(got[preambleBytes:]) != "early" {
		t.Fatalf("%q, %v", got, err)
	}
	conn.Close()
}

func FuzzPreamble(f *testing.F) {
	f.Add([]byte("SQUALL\x01\x01"))
	f.Add([]byte("SQUALL\x02\x01"))
	f.Add([]byte("GET / HT"))
	f.Add([]byte("SQ"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := bytes.NewReader(sent)
		p, err := readPreamble(r)
		if read := len(sent) - r.Len(); read > preambleBytes {
			t.Fatalf("read %d bytes", read)
		}
		if err == nil {
			if b := p.encode(); !bytes.Equal(b[:], sent[:preambleBytes]) || p.version != ProtocolVersion {
				t.Fatalf("%q was taken for %+v", sent, p)
			}
		} else if len(sent) >= preambleBytes && !errors.Is(err, ErrNotSquall) && !errors.Is(err, ErrProtocolVersion) {
			t.Fatal(err)
		}
	})
}
