package samehost

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryIsThereWhetherItIsSharedOrNot(t *testing.T) {
	for _, s := range []*Space{NewSpace(nil), NewSpace(func(string, error) {})} {
		for _, size := range []int{0, 1, leastBytes, 3<<20 + 1} {
			m, err := s.Alloc(size)
			if err != nil || len(m.Bytes()) != size {
				t.Fatalf("%d bytes instead of %d: %v", len(m.Bytes()), size, err)
			}
			for i := range m.Bytes() {
				m.Bytes()[i] = 1
			}
			if _, _, ok := s.Hold(m.Bytes()); ok != m.Shared() {
				t.Fatalf("held: %v, shared: %v", ok, m.Shared())
			}
			m.Release()
			m.Release() // a second time is nothing
		}
		s.Close()
		if _, err := s.Alloc(1); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	}
}

func TestMemoryThatNobodyHasIsRefused(t *testing.T) {
	s := NewSpace(nil)
	defer s.Close()
	for _, size := range []int{-1, math.MaxInt} {
		if m, err := s.Alloc(size); err == nil {
			t.Fatalf("%d bytes of %d", len(m.Bytes()), size)
		}
	}
}

func TestAPlaceReadsAsItWasWritten(t *testing.T) {
	if err := quick.Check(func(id ID, offset int64) bool {
		p := Place{id, offset & math.MaxInt64}
		got, err := ParsePlace(p.String())
		return err == nil && got == p
	}, nil); err != nil {
		t.Fatal(err)
	}
}

func FuzzParsePlace(f *testing.F) {
	f.Add(Place{Offset: 17}.String())
	for _, text := range []string{"", "/", "00/0", Place{}.String() + " ", Place{}.String()[:33] + "-1", Place{}.String()[:33] + "99999999999999999999"} {
		f.Add(text)
		if _, err := ParsePlace(text); !errors.Is(err, ErrMalformed) {
			f.Errorf("%q: %v", text, err)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := ParsePlace(text); err == nil && (p.String() != text || p.Offset < 0) {
			t.Errorf("%q is read as %v", text, p)
		}
	})
}

// shares makes a space, and skips the test if the system gives it no shared memory.
func shares(t *testing.T) *Space {
	t.Helper()
	s := NewSpace(func(remote string, err error) { t.Logf("turned away %s: %v", remote, err) })
	t.Cleanup(s.Close)
	if s.Name() == "" {
		t.Skip("this system has no shared memory for segments")
	}
	return s
}

func alloc(t *testing.T, s *Space, size int) *Memory {
	t.Helper()
	m, err := s.Alloc(size)
	if err != nil || !m.Shared() {
		t.Fatalf("memory of %d bytes: %v", size, err)
	}
	return m
}

func TestE2MemoryIsUsedAgainWhenNobodyCanSeeItAnyMore(t *testing.T) {
	s := shares(t)
	m := alloc(t, s, 100_000)
	first := m.seg
	h1, p1, ok1 := s.Hold(m.Bytes()[:10])
	h2, p2, ok2 := s.Hold(m.Bytes()[99_990:])
	if !ok1 || !ok2 || p1 != (Place{first.id, 0}) || p2 != (Place{first.id, 99_990}) {
		t.Fatal(p1, ok1, p2, ok2)
	}
	m.Release()
	h1.Drop(false)
	if o := alloc(t, s, 100_000); o.seg == first {
		t.Fatal("it is used again while a message lies in it")
	}
	h2.Drop(false)
	m = alloc(t, s, 99_000)
	if m.seg != first {
		t.Fatal("it is not used again")
	}
	h1, _, _ = s.Hold(m.Bytes())
	h1.Drop(true)
	m.Release()
	if s.lend(first.id, func(int) {}) {
		t.Fatal("what may be looked at for ever is kept")
	}
}

func TestWhatLiesBesideSharedMemoryIsNotInIt(t *testing.T) {
	s := shares(t)
	var all []*Memory
	for range 20 {
		all = append(all, alloc(t, s, 1+rand.IntN(3*leastBytes)))
	}
	for _, m := range all {
		if _, p, ok := s.Hold(m.Bytes()[len(m.Bytes())/2:]); !ok || p.ID != m.seg.id || p.Offset != int64(len(m.Bytes())/2) {
			t.Fatalf("the middle of %d bytes is at %v", len(m.Bytes()), p)
		}
	}
	if _, _, ok := s.Hold(make([]byte, 100)); ok {
		t.Fatal("the heap is shared")
	}
}

func TestE4WhatIsIdleIsBounded(t *testing.T) {
	s := shares(t)
	var all []*Memory
	for range 2 * maxIdle {
		all = append(all, alloc(t, s, 1))
	}
	for _, m := range all {
		m.Release()
	}
	if len(s.idle) != maxIdle || len(s.all) != maxIdle {
		t.Fatalf("%d of %d are idle", len(s.idle), len(s.all))
	}
	s.mu.Lock()
	s.trim(time.Now().Add(idleTime))
	s.mu.Unlock()
	if len(s.all) > 0 {
		t.Fatalf("%d are idle for ever", len(s.all))
	}
}

// Memory that is used again shows a viewer only what the same viewer saw, and anybody nothing.
func TestMemoryShowsNoViewerWhatAnotherSaw(t *testing.T) {
	s := NewSpace(func(string, error) {})
	defer s.Close()
	fill := func(size int, viewer uint64) (all []byte) {
		m, err := s.AllocFor(size, viewer)
		if err != nil {
			t.Fatal(err)
		}
		if !m.Shared() {
			t.Skip("memory is not shared here")
		}
		defer m.Release()
		all = append(all, m.seg.mem[:leastBytes]...)
		for i := range m.Bytes() {
			m.Bytes()[i] = byte(viewer)
		}
		return all
	}
	for _, step := range []struct {
		viewer uint64
		size   int
		behind int  // bytes from size on that may be of the viewer
		zero   bool // all of it is zero
	}{{1, 1000, 0, true}, {1, 100, 900, false}, {2, 50, 0, false}, {2, 2000, 0, false}, {3, 1000, 0, false}, {0, 3000, 0, true}, {4, 10, 0, false}, {0, 1, 0, true}} {
		all := fill(step.size, step.viewer)
		for i, b := range all {
			own := b == byte(step.viewer) && i < step.size+step.behind && step.viewer != 0
			overwritten := i < step.size && step.viewer != 0
			if b != 0 && (step.zero || !own && !overwritten) {
				t.Fatalf("viewer %d of %d bytes sees %d at %d", step.viewer, step.size, b, i)
			}
		}
	}
}
