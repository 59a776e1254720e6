//go:build linux

package shm

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"golang.org/x/sys/unix"
)

// sleeper is a peer as a link sees it: its parked word and its bell.
type sleeper struct {
	t    *testing.T
	word *uint64
	bell int
	link *Link
}

func newSleeper(t *testing.T) *sleeper {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(pair[1]) })
	f := os.NewFile(uintptr(pair[0]), "")
	conn, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	parker, err := fabric.NewParker()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { parker.Close() })
	bell, err := unix.Eventfd(0, unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	heard, err := unix.Dup(bell) // the link closes its own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(heard) })
	row, err := unix.Mmap(-1, 0, fabric.LineBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	s := &sleeper{t: t, word: fabric.Word(row, 0), bell: heard}
	if s.link, err = newLink(conn.(*net.UnixConn), row, bell, parker); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.link.Close() })
	return s
}

// turn puts the peer to sleep, or wakes it.
func (s *sleeper) turn() { atomic.AddUint64(s.word, 1) }

// bells is how often the bell was rung since it was asked last.
func (s *sleeper) bells() uint64 {
	var b [8]byte
	switch _, err := unix.Read(s.bell, b[:]); err {
	case nil:
		return binary.NativeEndian.Uint64(b[:])
	case unix.EAGAIN:
		return 0
	default:
		s.t.Fatal(err)
		return 0
	}
}

// write pushes and flushes so many times.
func (s *sleeper) write(times int) {
	s.t.Helper()
	for range times {
		s.link.Push(fabric.LineBytes, 8)
		s.link.PushLine(0)
		if _, err := s.link.Flush(); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *sleeper) expectBells(when string, want uint64) {
	s.t.Helper()
	if got := s.bells(); got != want {
		s.t.Errorf("H2: %s: %d bells, not %d", when, got, want)
	}
}

func TestH2OneBellAtMostForEachTimeThatAPeerSleeps(t *testing.T) {
	s := newSleeper(t)
	s.write(10)
	s.expectBells("ten writes to a peer that is awake", 0)
	s.turn()
	s.expectBells("it sleeps, and nobody writes", 0)
	if sent, err := s.link.Flush(); sent || err != nil {
		t.Errorf("a flush of nothing: %v, %v", sent, err)
	}
	s.expectBells("a flush of nothing", 0)
	s.write(10)
	s.expectBells("ten writes to a peer that sleeps", 1)
	s.write(10)
	s.expectBells("ten more while it still sleeps", 0)
	s.turn()
	s.write(10)
	s.expectBells("ten writes when it is awake again", 0)
	s.turn()
	s.write(10)
	s.expectBells("it sleeps a second time", 1)
	s.turn()
	s.turn()
	s.write(10)
	s.expectBells("it was awake in between, and nobody saw it", 1)
}

func TestH2HoldsWhateverTheOrderOfSleepsAndWrites(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	s := newSleeper(t)
	want := uint64(0) // sleeps in which something was written
	counted := uint64(0)
	for range 10000 {
		if rng.IntN(2) == 0 {
			s.turn()
			continue
		}
		s.write(1)
		if sleep := atomic.LoadUint64(s.word); sleep%2 == 1 && sleep != counted {
			counted = sleep
			want++
		}
	}
	s.expectBells("in all", want)
}
