package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests; none of them comes near it unless something is broken.
const patience = 20 * time.Second

var slow = Times{Dial: patience, Silence: patience, Stall: patience, Pulse: time.Millisecond}

// two are both sides of a conversation.
func two(t *testing.T, times Times) (here, there *Conn) {
	t.Helper()
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	return New(a, times, 1<<20), New(b, slow, 1<<20)
}

func TestPulsesGoBetweenMessages(t *testing.T) {
	here, there := two(t, slow)
	stop := there.Pulses()
	for k := range 3 { // a pulse, and not the next message
		if kind, _, err := here.Next(); kind != Pulse || err != nil {
			t.Fatal(k, kind, err)
		}
	}
	said := make(chan error, 1)
	go func() { said <- there.Say("hello") }()
	var got string
	if err := here.Hear(&got); err != nil || got != "hello" {
		t.Fatal(got, err)
	}
	if err := <-said; err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, here.Conn)
	stop()
}

// CV3: a peer that trickles bytes gains no time, neither in a greeting of many messages nor within
// a frame.
func TestCV3ATricklingPeerIsGivenUp(t *testing.T) {
	times := Times{Dial: 50 * time.Millisecond, Silence: 50 * time.Millisecond}
	f := append(NewFrame(1000), make([]byte, 1000)...)
	seal(Message, f)
	for name, c := range map[string]struct {
		greets bool
		sends  func(int) []byte
	}{
		"a frame, byte by byte": {false, func(k int) []byte { return f[k%len(f):][:1] }},
		"pulse after pulse, greeting": {true, func(int) []byte {
			pulse := NewFrame(0)
			seal(Pulse, pulse)
			return pulse
		}},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := two(t, times)
			over := make(chan struct{})
			go func() {
				defer close(over)
				for k := 0; ; k++ {
					if _, err := there.Write(c.sends(k)); err != nil {
						return
					}
					time.Sleep(time.Millisecond) // the trickle
				}
			}()
			if c.greets {
				here.Greet()
			}
			var got any
			if err := here.Hear(&got); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			here.Close()
			<-over
		})
	}
}

// CV2: memory is at most as far ahead of the bytes that arrived as the largest frame before.
func TestCV2AnAnnouncedLengthTakesNoMemory(t *testing.T) {
	announced := NewFrame(0)
	seal(Message, announced)
	announced[2] = 16 // 1 MiB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		f := frames{in: bytes.NewReader(announced), most: 1 << 20}
		if _, _, err := f.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 100; each > 4*leastAhead { // the race detector needs some itself
		t.Fatalf("%d bytes were allocated for 9 that came", each)
	}
}

// CV5: a stream arrives whole, in whichever pieces it was written and comes.
func TestCV5AStreamArrivesWholeOrNotAtAll(t *testing.T) {
	want := bytes.Repeat([]byte("squall"), 50_000)
	for name, spoil := range map[string]func(*Ending){
		"whole":         nil,
		"a byte less":   func(e *Ending) { e.Count-- },
		"another sum":   func(e *Ending) { e.Sum++ },
		"it breaks off": func(e *Ending) { e.Code, e.Text = "broken", "disk full" },
	} {
		t.Run(name, func(t *testing.T) {
			here, there := two(t, slow)
			sent := make(chan error, 1)
			go func() {
				w := there.NewWriter(10_000)
				for piece := range slices.Chunk(want, 7_777) {
					if _, err := w.Write(piece); err != nil {
						sent <- err
						return
					}
				}
				e, err := w.Finish()
				if spoil != nil {
					spoil(&e)
				}
				sent <- errors.Join(err, there.SayAs(End, e))
			}()
			r := NewReader(func(e *Ending) (Kind, []byte, error) { return here.Frame(e, nil) })
			got, err := io.ReadAll(iotest.OneByteReader(r))
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			var remote *Remote
			switch {
			case spoil == nil && (err != nil || !bytes.Equal(got, want) || !r.Ended() || r.Finish() != nil):
				t.Fatalf("%d of %d bytes: %v", len(got), len(want), err)
			case name == "it breaks off" && (!errors.As(err, &remote) || remote.Code != "broken"):
				t.Fatal(err)
			case spoil != nil && remote == nil && !errors.Is(err, ErrCorrupt):
				t.Fatal(err)
			case spoil != nil && r.Finish() == nil:
				t.Fatal("it counts as whole")
			}
		})
	}
}

// CV1: one bit that changed on its way, wherever it is, is found.
func TestCV1AFrameThatChangedOnItsWayIsNotTaken(t *testing.T) {
	f := append(NewFrame(4), "1234"...)
	seal(Message, f)
	for bit := range 8 * len(f) {
		changed := bytes.Clone(f)
		changed[bit/8] ^= 1 << (bit % 8)
		in := frames{in: bytes.NewReader(changed), most: 1 << 20}
		if _, _, err := in.next(); !errors.Is(err, ErrCorrupt) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("bit %d: %v", bit, err)
		}
	}
}

// What was written arrives while the writer waits for what comes next, and a writer whose reader is
// gone learns it with its next bytes.
func TestPulsesOfAStreamBringWhatIsGathered(t *testing.T) {
	here, there := two(t, slow)
	w := there.NewWriter(1 << 20)
	stop := w.Pulses()
	defer stop()
	if _, err := io.WriteString(w, "the first bytes"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("the first bytes"))
	if _, err := io.ReadFull(NewReader(func(e *Ending) (Kind, []byte, error) { return here.Frame(e, nil) }), got); err != nil {
		t.Fatal(err)
	}
	here.Close()
	for end := time.Now().Add(patience); there.Broken() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no pulse found out that the reader is gone")
		}
	}
	if _, err := io.WriteString(w, "more"); err == nil {
		t.Error("what is written after the end of the connection is gathered")
	}
}

// FuzzReader: a stream is over with an error, or it was confirmed as a whole (CV5).
func FuzzReader(f *testing.F) {
	whole := func(parts ...string) []byte {
		var on bytes.Buffer
		c := New(&fixed{Writer: &on}, slow, 1<<20)
		w := c.NewWriter(4)
		for _, p := range parts {
			_, _ = io.WriteString(w, p)
		}
		_ = w.Close()
		return on.Bytes()
	}
	f.Add(whole("a stream", " of two parts"))
	f.Add(whole())
	f.Add(whole("cut off")[:20])
	f.Add([]byte{255, 255, 255, 255, 0, 0, 0, 0, 3})
	f.Fuzz(func(t *testing.T, sent []byte) {
		c := New(&fixed{Reader: bytes.NewReader(sent), Writer: io.Discard}, slow, 1<<16)
		r := NewReader(func(e *Ending) (Kind, []byte, error) { return c.Frame(e, nil) })
		n, err := io.Copy(io.Discard, r)
		if (err == nil) != r.Ended() || uint64(n) != r.Total() {
			t.Fatalf("CV5: %d bytes of %d, %v, %v", n, r.Total(), err, r.Err())
		}
		if (r.Finish() == nil) != (err == nil) {
			t.Fatal("two opinions")
		}
	})
}

// fixed is a connection on which certain bytes arrive.
type fixed struct {
	io.Reader
	io.Writer
}

func (fixed) Close() error                     { return nil }
func (fixed) LocalAddr() net.Addr              { return nil }
func (fixed) RemoteAddr() net.Addr             { return nil }
func (fixed) SetDeadline(time.Time) error      { return nil }
func (fixed) SetReadDeadline(time.Time) error  { return nil }
func (fixed) SetWriteDeadline(time.Time) error { return nil }
