//go:build linux

package shm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/handshake"
	"github.com/squall-go/squall/internal/samehost"
	"golang.org/x/sys/unix"
)

// peeked is a link to a peer that is this process.
func peeked(tb testing.TB) (*sleeper, *robust) {
	s := newSleeper(tb)
	r, err := newRobust()
	if err != nil {
		tb.Fatal(err)
	}
	if s.link.robust, err = mapRobust(r.fd); err != nil {
		tb.Fatal(err)
	}
	return s, r
}

func BenchmarkPeek(b *testing.B) {
	s, r := peeked(b)
	defer r.close()
	for b.Loop() {
		if _, there := s.link.Peek(0); !there {
			b.Fatal("the peer is not there")
		}
	}
}

func TestAPeekSeesThatThePeerIsGone(t *testing.T) {
	s, r := peeked(t)
	s.turn()
	if word, there := s.link.Peek(0); word != 1 || !there {
		t.Fatalf("peeked %d, %v", word, there)
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	if _, there := s.link.Peek(0); there {
		t.Error("the peer is gone")
	}
}

// A group that is closed is absent before it gives up its files, while its tables may still make
// links.
func TestAnAbsentProcessMakesLinksAndIsNotThere(t *testing.T) {
	d := newDesk(t, os.Getuid(), patience)
	mem, row, release, err := NewRow(rowShape.RowBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	*fabric.Word(mem, 0) = 7
	links := d.await(row)
	d.Absent()
	l, err := d.Dial(t.Context(), d.spec(2), 0, row)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := (<-links).(*Link)
	defer accepted.Close()
	for _, l := range []*Link{l, accepted} {
		if word, there := l.Peek(0); word != 7 || there {
			t.Errorf("peeked %d, %v", word, there)
		}
	}
}

// threads is how many threads this process has, once that is no more than at most.
func threads(t *testing.T, most int) (n int) {
	t.Helper()
	for began := time.Now(); ; runtime.Gosched() { // threads of goroutines that have ended are about to
		entries, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		if n = len(entries); n <= most || time.Since(began) > patience/4 {
			return n
		}
	}
}

// mapped is how many segments of rows and robust words this process maps.
func mapped(t *testing.T) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(maps), "squall-")
}

// A peer hands over its row and its robust word, in this order; all else is refused, and leaves
// nothing.
func TestH1WhatIsNoRowAndNoRobustWordIsRefused(t *testing.T) {
	d := newDesk(t, os.Getuid(), patience)
	segment := func(n int) int {
		_, fd, release, err := NewRow(n)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { release() })
		return fd
	}
	row, word, huge := segment(rowShape.RowBytes), d.robust.fd, segment(64<<20)
	for name, fds := range map[string][]int{
		"the row twice": {row, row}, "the word twice": {word, word}, "the word first": {word, row}, "a huge word": {row, huge}, "a huge row": {huge, word}, "no segment": {row, 0},
	} {
		t.Run(name, func(t *testing.T) {
			before := mapped(t)
			links := d.await(row)
			conn := d.dial()
			h, err := handshake.NewHello(d.spec(2), 0, challenged(t, conn))
			if err != nil {
				t.Fatal(err)
			}
			if err := Send(conn, h); err != nil {
				t.Fatal(err)
			}
			var w handshake.Welcome
			got, err := Receive(conn, &w)
			samehost.Close(got)
			if err != nil || w.Refused != "" {
				t.Fatal(w, err)
			}
			if err := Send(conn, handover{}, fds...); err != nil {
				t.Fatal(err)
			}
			if r := <-d.rejected; !strings.Contains(r.Err.Error(), "H1") {
				t.Error(r)
			}
			expectHungUp(t, conn)
			if len(links) > 0 {
				t.Error("a link is up")
			}
			if now := mapped(t); now > before {
				t.Errorf("%d segments are mapped, %d before", now, before)
			}
		})
	}
}

func TestRobustWordsLeaveNoThreadsDescriptorsAndMappings(t *testing.T) {
	fds, maps := fdCount(t), mapped(t)
	const n = 200
	for range n {
		r, err := newRobust()
		if err != nil {
			t.Fatal(err)
		}
		page, err := mapRobust(r.fd)
		if err != nil {
			t.Fatal(err)
		}
		if !there(page) {
			t.Error("the process is not there")
		}
		r.mark()
		if there(page) {
			t.Error("the process is there")
		}
		if err := errors.Join(unix.Munmap(page), r.close(), r.close()); err != nil {
			t.Fatal(err)
		}
	}
	if now := fdCount(t); now > fds {
		t.Errorf("%d descriptors, %d before", now, fds)
	}
	if now := mapped(t); now > maps {
		t.Errorf("%d mappings, %d before", now, maps)
	}
	if now := threads(t, n/2); now > n/2 {
		t.Errorf("%d threads", now)
	}
}

func TestH1ARobustWordIsASealedSegment(t *testing.T) {
	fd, err := unix.MemfdCreate("squall-process", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Fallocate(fd, 0, 0, robustBytes); err != nil {
		t.Fatal(err)
	}
	if _, err := mapRobust(fd); err == nil {
		t.Error("a segment that its owner can shrink was mapped")
	}
	_, row, release, err := NewRow(2 * robustBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := mapRobust(row); err == nil {
		t.Error("a segment of another size was mapped")
	}
}

// Whatever ends a process, its robust word is marked when another one gets the lock that it had.
func TestH5AProcessIsNotThereWhenItsLocksAreFree(t *testing.T) {
	if path := os.Getenv("SQUALL_TEST_LOCK"); path != "" {
		holdLock(path)
		return
	}
	for name, end := range map[string]func(p *os.Process, in io.Closer){
		"killed":          func(p *os.Process, _ io.Closer) { p.Kill() },
		"terminated":      func(p *os.Process, _ io.Closer) { p.Signal(unix.SIGTERM) },
		"ended by itself": func(_ *os.Process, in io.Closer) { in.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				lockAfter(t, end)
			}
		})
	}
}

// lockAfter ends a process that has a lock, and takes the lock.
func lockAfter(t *testing.T, end func(*os.Process, io.Closer)) {
	f, err := os.CreateTemp(t.TempDir(), "lock")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestH5AProcessIsNotThereWhenItsLocksAreFree$")
	cmd.Env = append(os.Environ(), "SQUALL_TEST_LOCK="+f.Name())
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var fd int
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	} else if _, err := fmt.Sscanf(line, "robust %d\n", &fd); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	word, err := os.Open(fmt.Sprintf("/proc/%d/fd/%d", cmd.Process.Pid, fd))
	if err != nil {
		t.Fatal(err)
	}
	defer word.Close()
	page, err := mapRobust(int(word.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(page)
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil || !there(page) {
		t.Fatal("the process does not have its lock, or is not there")
	}
	end(cmd.Process, in)
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if there(page) {
		t.Fatal("the lock is free, and the process that had it is there")
	}
}

// holdLock is what the other process does, until its input ends.
func holdLock(path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	var r *robust
	if err == nil {
		r, err = newRobust()
	}
	if err != nil {
		panic(err)
	}
	fmt.Printf("robust %d\n", r.fd)
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

var _ fabric.Peeker = (*Link)(nil)
