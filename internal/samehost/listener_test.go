//go:build linux

package samehost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-go/squall/internal/testutil"
)

// looker has views, and leaves nothing mapped.
func looker(t *testing.T) *Views {
	t.Helper()
	vs := NewViews()
	t.Cleanup(func() {
		vs.Close()
		if len(vs.open) > 0 {
			t.Errorf("%d segments stay mapped", len(vs.open))
		}
	})
	return vs
}

// written is memory with something in it, and its place.
func written(t *testing.T, s *Space, text string) (*Memory, Place) {
	t.Helper()
	m := alloc(t, s, len(text))
	copy(m.Bytes(), text)
	_, p, _ := s.Hold(m.Bytes())
	return m, p
}

// segmentDescriptors is how many descriptors of segments this process has.
func segmentDescriptors(t *testing.T) (count int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.Contains(to, "memfd:squall-large") {
			count++
		}
	}
	return count
}

func TestWhatTheOwnerWritesIsSeen(t *testing.T) {
	s, vs := shares(t), looker(t)
	before := segmentDescriptors(t)
	m, p := written(t, s, "hello")
	for range 3 {
		v, err := vs.Open(testutil.Within(t), s.Name(), p, 5)
		if err != nil || string(v.Bytes()) != "hello" {
			t.Fatal(err)
		}
		m.Bytes()[0] = 'j'
		if v.Bytes()[0] != 'j' {
			t.Fatal("it is a copy")
		}
		m.Bytes()[0] = 'h'
		v.Close()
	}
	if len(vs.open) != 1 {
		t.Fatalf("one segment is mapped %d times", len(vs.open))
	}
	if after := segmentDescriptors(t); after != before+1 { // the owner's: a view needs none
		t.Fatalf("%d descriptors of segments, there were %d", after, before)
	}
}

func TestASegmentThatIsMappedIsOpenedWithoutAsking(t *testing.T) {
	s, vs := shares(t), looker(t)
	_, p := written(t, s, "hello")
	if vs.OpenMapped(s.Name(), p, 5) != nil {
		t.Fatal("a segment is in view that no process mapped")
	}
	v, err := vs.Open(testutil.Within(t), s.Name(), p, 5)
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
	again := vs.OpenMapped(s.Name(), p, 5)
	if again == nil || string(again.Bytes()) != "hello" {
		t.Fatal("it is not in view")
	}
	again.Close()
	if vs.OpenMapped(s.Name(), p, 1<<30) != nil || vs.OpenMapped("other", p, 5) != nil {
		t.Error("bytes beyond the segment, or of another owner, are in view")
	}
	if vs.open[0].users != 0 {
		t.Errorf("%d users are left", vs.open[0].users)
	}
}

func TestE1NobodyButItsOwnerWritesASegment(t *testing.T) {
	s, vs := shares(t), looker(t)
	m, p := written(t, s, "hello")
	fd := m.seg.fd
	if err := unix.Ftruncate(fd, 1); !errors.Is(err, unix.EPERM) {
		t.Errorf("it can be truncated: %v", err)
	}
	if _, err := unix.Pwrite(fd, []byte{1}, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("it can be written: %v", err)
	}
	if err := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096); !errors.Is(err, unix.EPERM) {
		t.Errorf("it can be punched: %v", err)
	}
	if _, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, unix.EPERM) {
		t.Errorf("it can be mapped to be written: %v", err)
	}
	v, err := vs.Open(testutil.Within(t), s.Name(), p, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if err := unix.Mprotect(v.of.mem, unix.PROT_READ|unix.PROT_WRITE); !errors.Is(err, unix.EACCES) {
		t.Errorf("a view can be made to be written: %v", err)
	}
	if !faults(func() { v.Bytes()[0] = 'x' }) || string(m.Bytes()) != "hello" {
		t.Error("a view was written")
	}
}

// faults reports whether something hits memory that it must not.
func faults(f func()) (is bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { is = recover() != nil }()
	f()
	return false
}

func TestE1WhatIsNotSealedIsNotMapped(t *testing.T) {
	fd, err := unix.MemfdCreate("squall-test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := mapSegment(fd); !errors.Is(err, ErrRefused) {
		t.Errorf("mapped: %v", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, Seals); err != nil {
		t.Fatal(err)
	}
	if _, err := mapSegment(fd); !errors.Is(err, ErrRefused) {
		t.Errorf("an empty one is mapped: %v", err)
	}
	sparse, err := unix.MemfdCreate("squall-test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(sparse)
	if err := unix.Ftruncate(sparse, 1<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(sparse), unix.F_ADD_SEALS, Seals); err != nil {
		t.Fatal(err)
	}
	if _, err := mapSegment(sparse); !errors.Is(err, ErrRefused) {
		t.Errorf("one without memory is mapped: %v", err)
	}
}

// knock calls a space without manners.
func knock(t *testing.T, s *Space) *net.UnixConn {
	t.Helper()
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: "@" + s.Name(), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestE3ASegmentIsGivenToWhoKnowsItsName(t *testing.T) {
	type reject struct {
		remote string
		err    error
	}
	rejects := make(chan reject, 10)
	s := NewSpace(func(remote string, err error) { rejects <- reject{remote, err} })
	defer s.Close()
	if s.Name() == "" {
		t.Skip("this system has no shared memory for segments")
	}
	m, p := written(t, s, "secret")
	m.Bytes()[0] = 's'
	guess := p.ID
	guess[15]++
	question := append([]byte{version}, guess[:]...)
	for name, c := range map[string]struct {
		say  []byte
		want error
	}{
		"a guess":         {question, ErrRefused},
		"another version": {append([]byte{version + 1}, p.ID[:]...), ErrMalformed},
		"too little":      {question[:9], ErrMalformed},
		"too much":        {append(question, 0), ErrMalformed},
	} {
		conn := knock(t, s)
		if _, err := conn.Write(c.say); err != nil {
			t.Fatal(err)
		}
		if fd, err := descriptorOf(conn); err == nil {
			t.Errorf("%s: got descriptor %d", name, fd)
		}
		r := <-rejects
		if !errors.Is(r.err, c.want) || !strings.Contains(r.remote, fmt.Sprintf("process %d (user %d)", os.Getpid(), os.Getuid())) {
			t.Errorf("%s: turned away %s: %v", name, r.remote, r.err)
		}
	}
	d, err := newListener(s, os.Getuid()+1, func(remote string, err error) { rejects <- reject{remote, err} })
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := Reach(testutil.Within(t), d.name()); err == nil {
		t.Error("another user is answered")
	}
	if r := <-rejects; !errors.Is(r.err, ErrRefused) {
		t.Errorf("another user: %v", r.err)
	}
}

func TestE4CallersWhoSayNothingDoNotKeepOthersOut(t *testing.T) {
	s, vs := shares(t), looker(t)
	_, p := written(t, s, "hello")
	for range 3 * maxCallers {
		knock(t, s)
	}
	v, err := vs.Open(testutil.Within(t), s.Name(), p, 5)
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
	last := knock(t, s)
	if there, ok := s.listener.callers.Enter(last); !ok || there > maxCallers {
		t.Errorf("%d callers are served", there)
	}
	s.listener.callers.Leave(last)
}

func TestE5AViewStaysWhenItsOwnerIsGone(t *testing.T) {
	s, vs := shares(t), looker(t)
	m, p := written(t, s, "hello")
	v, err := vs.Open(testutil.Within(t), s.Name(), p, 5)
	if err != nil {
		t.Fatal(err)
	}
	Hold{m}.Drop(true)
	m.Release()
	s.Close()
	if string(v.Bytes()) != "hello" {
		t.Fatal("it has changed")
	}
	vs.Close()
	if string(v.Bytes()) != "hello" {
		t.Fatal("it has changed")
	}
	v.Close()
	if _, err := vs.Open(testutil.Within(t), s.Name(), p, 5); !errors.Is(err, ErrGone) {
		t.Fatalf("the owner is gone: %v", err)
	}
}

func TestE4ViewsThatNobodyHoldsAreBounded(t *testing.T) {
	s, vs := shares(t), looker(t)
	for range 2 * maxIdleViews {
		_, p := written(t, s, "hello")
		v, err := vs.Open(testutil.Within(t), s.Name(), p, 5)
		if err != nil {
			t.Fatal(err)
		}
		v.Close()
	}
	if len(vs.open) != maxIdleViews {
		t.Fatalf("%d are mapped", len(vs.open))
	}
	vs.mu.Lock()
	vs.trim(time.Now().Add(idleViewTime))
	vs.mu.Unlock()
	if len(vs.open) != 0 {
		t.Fatalf("%d are mapped for ever", len(vs.open))
	}
}

func TestBytesBeyondASegmentAreNotInView(t *testing.T) {
	s, vs := shares(t), looker(t)
	_, p := written(t, s, "hello")
	for _, c := range []struct{ offset, size int64 }{{0, leastBytes + 1}, {leastBytes + 1, 0}, {1, leastBytes}, {1 << 62, 1 << 62}, {-1, 1}, {0, -1}} {
		if _, err := vs.Open(testutil.Within(t), s.Name(), Place{p.ID, c.offset}, c.size); !errors.Is(err, ErrMalformed) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestOnlySocketsForSegmentsAreCalled(t *testing.T) {
	for _, name := range []string{"", "squall-", namePrefix, "/tmp/.X11-unix/X0", namePrefix + strings.Repeat("0", 33)} {
		if err := Reach(testutil.Within(t), name); !errors.Is(err, ErrRefused) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := Reach(testutil.Within(t), namePrefix+strings.Repeat("0", 32)); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("no process: %v", err)
	}
	if err := Reach(testutil.Within(t), shares(t).Name()); err != nil {
		t.Error(err)
	}
}

func TestManyLookAtOneSegmentAtATime(t *testing.T) {
	s, vs := shares(t), looker(t)
	_, p := written(t, s, "hello")
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 20 {
				v, err := vs.Open(context.Background(), s.Name(), p, 5)
				if err != nil || !bytes.Equal(v.Bytes(), []byte("hello")) {
					t.Error(err)
					return
				}
				v.Close()
			}
		})
	}
	all.Wait()
}

func TestE4SegmentsAreBounded(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 2*maxSegments {
		t.Skipf("this process may have %d descriptors", limit.Cur)
	}
	s := shares(t)
	all := make([]*Memory, maxSegments)
	for i := range all {
		all[i] = alloc(t, s, 1)
	}
	for range 2 {
		m, err := s.Alloc(1)
		if err != nil || m.Shared() {
			t.Fatalf("with %d segments in use there is one more: %v", maxSegments, err)
		}
	}
	all[0].Release()
	alloc(t, s, 1)
}
