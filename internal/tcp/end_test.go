package tcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
)

// linkOverTCP is a link, with goroutines or without, and the other end of its connection.
func linkOverTCP(t *testing.T, streamed bool) (*Link, net.Conn) {
	t.Helper()
	h := newHostile(t)
	if !streamed {
		return h.link, h.Conn
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	there, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { there.Close() })
	here, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	link, err := NewLink(here, h.link.cfg.withoutParker())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { link.Close() })
	return link, there
}

func (c Config) withoutParker() Config {
	c.Parker = nil
	return c
}

// A connection that is closed while the peer's writes are unread is reset, and what the peer has
// not read is lost. So is it if the peer writes on. A frozen link must not do that.
func TestWhatWasFlushedArrivesAheadOfTheEndOfAFrozenLink(t *testing.T) {
	for name, streamed := range map[string]bool{"polled": false, "streamed": true} {
		t.Run(name, func(t *testing.T) {
			link, peer := linkOverTCP(t, streamed)
			stale := frame{ranges: at(4*fabric.LineBytes, 4096), view: hostileView - 1}.encode()
			if _, err := peer.Write(stale); err != nil {
				t.Fatal(err)
			}
			link.PushLine(fabric.LineBytes)
			if work, err := link.Flush(); !work || err != nil {
				t.Fatal(work, err)
			}
			link.PushLine(2 * fabric.LineBytes) // not flushed: it stays here
			link.Freeze()
			peer.SetDeadline(time.Now().Add(patience))
			if _, err := peer.Write(stale); err != nil {
				t.Fatal(err)
			}
			said, err := io.ReadAll(peer)
			if want := headBytes + lineBytes; err != nil || len(said) != want {
				t.Errorf("%d bytes arrived, not %d: %v", len(said), want, err)
			}
			if work, err := link.Flush(); work || err != nil {
				t.Errorf("a frozen link flushes: %v, %v", work, err)
			}
			if work, err := link.Poll(); work || err != nil || !bytes.Equal(link.Freeze(), bytes.Repeat([]byte{link.Freeze()[0]}, hostileShape.RowBytes)) {
				t.Errorf("a frozen link takes in: %v, %v", work, err)
			}
		})
	}
}

// mute is a connection to a peer that reads nothing, so that every write waits, and the last one
// most of all.
type mute struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (m *mute) CloseWrite() error {
	<-m.closed
	return net.ErrClosed
}

func (m *mute) Write([]byte) (int, error) {
	<-m.closed
	return 0, net.ErrClosed
}

func (m *mute) Close() error {
	m.once.Do(func() { close(m.closed) })
	return m.Conn.Close()
}

func TestFreezeWaitsForNothingAndCloseNotForLong(t *testing.T) {
	for name, busy := range map[string]bool{"before its last write": true, "before its end": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here, there := net.Pipe()
			defer there.Close()
			conn := &mute{Conn: here, closed: make(chan struct{})}
			own, free, err := fabric.NewMemory(hostileShape.RowBytes)
			if err != nil {
				t.Fatal(err)
			}
			defer free()
			link, err := NewLink(conn, Config{Own: own, OwnShape: hostileShape, PeerShape: hostileShape})
			if err != nil {
				t.Fatal(err)
			}
			if busy {
				link.PushLine(0)
				link.Flush()
			}
			link.Freeze()
			select {
			case <-link.sock.(*stream).written:
				t.Error("the writer is done, and the peer did not read")
			default: // Freeze is back, the writer waits
			}
			began := time.Now()
			if err := link.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > patience/2 {
				t.Errorf("Close took %v", took)
			}
		})
	}
}

// closing is a connection to a peer that has closed: writes fail, and what the peer wrote last is
// still to be read.
type closing struct {
	net.Conn
	said   chan []byte   // what the peer wrote last; closed: its end
	failed chan struct{} // closed when a write has failed and the reader has its deadline
}

var errReset = errors.New("reset by the peer")

func (c *closing) Write([]byte) (int, error) { return 0, errReset }

func (c *closing) SetReadDeadline(time.Time) error {
	close(c.failed)
	return nil
}

func (c *closing) Read(b []byte) (int, error) {
	said, ok := <-c.said
	switch {
	case !ok:
		return 0, io.EOF
	case said == nil:
		return 0, os.ErrDeadlineExceeded
	}
	return copy(b, said), nil
}

// A peer may say why it goes, and close. A write that fails because of that is not the end as long
// as the reader has not read what the peer said.
func TestAWriteThatFailsDoesNotHideWhatThePeerWroteLast(t *testing.T) {
	for name, end := range map[string]error{"to the end": io.EOF, "in time": errReset} {
		t.Run(name, func(t *testing.T) {
			here, there := net.Pipe()
			defer there.Close()
			conn := &closing{Conn: here, said: make(chan []byte), failed: make(chan struct{})}
			own, free, err := fabric.NewMemory(hostileShape.RowBytes)
			if err != nil {
				t.Fatal(err)
			}
			defer free()
			link, err := NewLink(conn, Config{View: hostileView, Own: own, OwnShape: hostileShape, PeerShape: hostileShape})
			if err != nil {
				t.Fatal(err)
			}
			defer link.sock.(*stream).conn.Close()
			link.PushLine(0)
			link.Flush()
			<-conn.failed
			link.PushLine(fabric.LineBytes)
			if _, err := link.Flush(); err != nil {
				t.Fatalf("before the peer's last words: %v", err)
			}
			conn.said <- frame{ranges: at(4*fabric.LineBytes, 16), view: hostileView}.encode()
			until := func(what string, poll func() (bool, error)) error {
				for deadline := time.Now().Add(patience); time.Now().Before(deadline); runtime.Gosched() {
					if work, err := poll(); work || err != nil {
						return err
					}
				}
				t.Fatalf("%s does not come", what)
				return nil
			}
			if err := until("what the peer said", link.Poll); err != nil {
				t.Fatalf("what the peer said: %v", err)
			}
			if _, err := link.Flush(); err != nil {
				t.Fatalf("before the peer's end: %v", err)
			}
			if end == io.EOF {
				close(conn.said)
			} else {
				conn.said <- nil
			}
			for name, call := range map[string]func() (bool, error){"Flush": link.Flush, "Poll": link.Poll} {
				if err := until("the end", call); !errors.Is(err, fabric.ErrPeerGone) || !errors.Is(err, end) {
					t.Errorf("%s at the end: %v", name, err)
				}
			}
		})
	}
}

// F2: lines say which bytes are valid, so they go with the last of the bytes that were pushed
// before them, however many frames these bytes take.
func TestLinesGoWithTheLastOfManyRanges(t *testing.T) {
	const count, apart = 2*maxRanges + 10, 16
	shape := fabric.RowShape{ControlBytes: fabric.LineBytes, RowBytes: fabric.LineBytes + count*apart}
	own, free, err := fabric.NewMemory(shape.RowBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	pending := fabric.NewPending(shape.ControlBytes)
	for k := range count {
		pending.Push(fabric.LineBytes+k*apart, 8)
	}
	pending.PushLine(0)
	var tx sender
	var frames []string
	for !pending.Empty() {
		tx.frame(&pending, Config{Own: own, OwnShape: shape})
		frames = append(frames, fmt.Sprintf("%d+%d", binary.LittleEndian.Uint16(tx.head), binary.LittleEndian.Uint16(tx.head[2:])))
	}
	if want := []string{"500+0", "500+0", "10+1"}; !slices.Equal(frames, want) {
		t.Errorf("ranges and lines of the frames: %v, want %v", frames, want)
	}
}

// A loop that sleeps while a socket is full goes on writing when the peer has read.
func TestRoomInAFullSocketWakesTheLoop(t *testing.T) {
	h := newHostile(t)
	p := h.link.cfg.Parker
	for range 3 { // of few sockets the loop tries each, without a poller
		quiet, other, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer quiet.Close()
		defer other.Close()
		if _, err := p.Watch(int(quiet.Fd()), true); err != nil {
			t.Fatal(err)
		}
	}
	flush := func() {
		if _, err := h.link.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(patience); !h.link.tx.busy(); {
		h.link.Push(4*fabric.LineBytes, 4096)
		if flush(); time.Now().After(deadline) {
			t.Fatal("a socket that is not read takes everything")
		}
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, h.Conn)
		read <- err
	}()
	for deadline := time.Now().Add(patience); h.link.tx.busy(); {
		p.Announce()
		p.Sleep(time.Second)
		p.Retract()
		if flush(); time.Now().After(deadline) {
			t.Fatal("the peer reads, and nothing more is written")
		}
	}
	h.Close()
	<-read
}
