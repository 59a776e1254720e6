//go:build linux

package shm

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/samehost"
	"github.com/squall-go/squall/internal/testutil"
	"golang.org/x/sys/unix"
)

// sleeper is a peer as a link sees it: its parked word and its end of the socket.
type sleeper struct {
	t      testing.TB
	word   *uint64
	end    int
	link   *Link
	parker *fabric.Parker
}

func newSleeper(t testing.TB) *sleeper {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &sleeper{t: t, end: pair[1]}
	t.Cleanup(func() { unix.Close(s.end) })
	f := os.NewFile(uintptr(pair[0]), "")
	conn, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if s.parker, err = fabric.NewParker(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.parker.Close() })
	row, err := unix.Mmap(-1, 0, fabric.LineBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	s.word = fabric.Word(row, 0)
	if s.link, err = newLink(conn.(*net.UnixConn), row, s.parker); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.link.Close() })
	return s
}

// turn puts the peer to sleep, or wakes it.
func (s *sleeper) turn() { atomic.AddUint64(s.word, 1) }

// bells is how often the bell was rung since it was asked last.
func (s *sleeper) bells() (n uint64) {
	for {
		var b [8]byte
		switch _, _, err := unix.Recvfrom(s.end, b[:], unix.MSG_DONTWAIT); err {
		case nil:
			n++
		case unix.EAGAIN:
			return n
		default:
			s.t.Fatal(err)
		}
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
	s.expectBells("it sleeps, and no peer writes", 0)
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
	s.expectBells("it was awake in between, and no peer saw it", 1)
}

func TestH2HoldsWhateverTheOrderOfSleepsAndWrites(t *testing.T) {
	seed := testutil.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	s := newSleeper(t)
	want := uint64(0) // sleeps in which something was written
	counted, heard := uint64(0), uint64(0)
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
		heard += s.bells()
	}
	if heard != want {
		t.Errorf("H2: %d bells in all, not %d", heard, want)
	}
}

// The peer may leave its bells unread, make its end a blocking one, or close it: a bell returns at
// once, and is no failure. That the peer is gone is for Poll to tell.
func TestH4ABellNeverWaits(t *testing.T) {
	s := newSleeper(t)
	rings := func(what string) {
		t.Helper()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 10000 {
				s.turn() // it sleeps
				s.write(1)
				s.turn()
			}
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatalf("H4: %s: a bell waits", what)
		}
	}
	rings("bells that are not read")
	if err := unix.SetNonblock(s.end, false); err != nil {
		t.Fatal(err)
	}
	rings("bells for a blocking socket that is not read")
	if n := s.bells(); n == 0 {
		t.Error("H4: nothing wakes the peer")
	}
	if err := unix.Shutdown(s.end, unix.SHUT_RD); err != nil {
		t.Fatal(err)
	}
	rings("bells for a socket that takes none")
	if _, err := s.link.Poll(); err != nil {
		t.Errorf("a peer that takes no bells: %v", err)
	}
	unix.Close(s.end)
	s.end = -1
	rings("bells for a peer that is gone")
	s.parker.Look()
	if _, err := s.link.Poll(); !errors.Is(err, fabric.ErrPeerGone) {
		t.Errorf("Poll of a peer that is gone: %v", err)
	}
}

// P2: what the step examined before it polled may have been written since, and the bell for it is
// gone now.
func TestABellIsWork(t *testing.T) {
	s := newSleeper(t)
	for range 3 {
		if work, err := s.link.Poll(); work || err != nil {
			t.Fatalf("nothing happened: %v, %v", work, err)
		}
		if _, err := unix.Write(s.end, []byte{7}); err != nil {
			t.Fatal(err)
		}
		s.parker.Sleep(-1)
		if work, err := s.link.Poll(); !work || err != nil {
			t.Fatalf("a bell rang: %v, %v", work, err)
		}
	}
	if _, err := unix.Write(s.end, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	s.parker.Sleep(-1)
	if _, err := s.link.Poll(); !errors.Is(err, fabric.ErrViolation) {
		t.Errorf("a packet that is no bell: %v", err)
	}
}

func TestH1ARowWithoutAllOfItsMemoryIsNotMapped(t *testing.T) {
	const n = 4 << 20 // also a multiple of a huge page
	segment := func(flags, allocated int) int {
		t.Helper()
		fd, err := unix.MemfdCreate("squall-test", flags|unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Skipf("memfd with flags %#x: %v", flags, err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		if err := unix.Ftruncate(fd, n); err != nil {
			t.Fatal(err)
		}
		if allocated > 0 {
			if err := unix.Fallocate(fd, 0, 0, int64(allocated)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, samehost.Seals); err != nil {
			t.Fatal(err)
		}
		return fd
	}
	for name, c := range map[string]struct {
		flags, allocated int
		whole            bool
	}{
		"all of it":    {0, n, true},
		"none of it":   {0, 0, false},
		"but one page": {0, n - os.Getpagesize(), false},
		"huge pages":   {unix.MFD_HUGETLB | unix.MFD_HUGE_2MB, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			mem, err := mapRow(segment(c.flags, c.allocated), n)
			if c.whole != (err == nil) || !c.whole && !errors.Is(err, fabric.ErrViolation) {
				t.Errorf("H1: mapped with %v", err)
			}
			if mem != nil {
				unix.Munmap(mem)
			}
		})
	}
}

// H3, D4: the owner goes on while its row is frozen. What is loaded first lies first, so the copy
// is made from the start.
func TestH3ARowIsFrozenFromItsStart(t *testing.T) {
	row, release, err := fabric.NewMemory(64 << 10)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	stop, ended := make(chan struct{}), make(chan struct{})
	first, last := 0, len(row)-8
	go func() {
		defer close(ended)
		for n := uint64(1); ; n++ {
			atomic.StoreUint64(fabric.Word(row, last), n)
			atomic.StoreUint64(fabric.Word(row, first), n)
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for range 200 {
		frozen := (&Link{peer: row, fd: -1}).Freeze()
		if a, b := *fabric.Word(frozen, first), *fabric.Word(frozen, last); a > b {
			t.Errorf("H3: the first word is %d, and the last one, which is stored before it, is %d", a, b)
			break
		}
	}
	close(stop)
	<-ended
}
