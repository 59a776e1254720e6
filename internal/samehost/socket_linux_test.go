package samehost

import (
	"net"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/squall-go/squall/internal/descriptors"
)

// pair returns both ends of a connection.
func pair(t *testing.T) (near, far *net.UnixConn) {
	t.Helper()
	l, name, err := Listen("squall-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if far, err = Dial(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if near, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

func send(t *testing.T, conn *net.UnixConn, text string, fds ...int) {
	t.Helper()
	if _, _, err := conn.WriteMsgUnix([]byte(text), unix.UnixRights(fds...), nil); err != nil {
		t.Fatal(err)
	}
}

func TestAPacketIsReceivedOnce(t *testing.T) {
	near, far := pair(t)
	send(t, far, "first", 0, 1)
	send(t, far, "second")
	far.Close()
	b := make([]byte, 5)
	for _, want := range []struct {
		text string
		fds  int
		cut  bool
	}{{"first", 2, false}, {"secon", 0, true}, {"", 0, false}} {
		n, fds, cut, err := Receive(near, b, 2)
		if err != nil || string(b[:n]) != want.text || len(fds) != want.fds || cut != want.cut {
			t.Errorf("%q with %d descriptors, cut %v, error %v; want %+v", b[:n], len(fds), cut, err, want)
		}
		for _, fd := range fds {
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("a program that is started would get the descriptor: %v", err)
			}
		}
		Close(fds)
	}
}

func TestMoreDescriptorsThanAskedForAreCut(t *testing.T) {
	near, far := pair(t)
	send(t, far, "x", 0, 1, 2, 0, 1)
	_, fds, cut, err := Receive(near, make([]byte, 1), 1)
	if err != nil || !cut {
		t.Errorf("cut %v, error %v", cut, err)
	}
	Close(fds)
}

// FD1: another goroutine takes what the reserve gives back.
func TestDescriptorsOfAPacketAreReceivedThoughTheProcessHasNoneLeft(t *testing.T) {
	near, far := pair(t)
	var share descriptors.Share
	if err := share.Resize(16, 0, "a test"); err != nil {
		t.Fatal(err)
	}
	defer share.Resize(0, 0, "")
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	var files []int
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
		Close(files)
	}()
	open := func() (int, error) { return unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0) }
	above, err := open() // the reserve took lower numbers
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, above)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(above) + 100, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	for {
		fd, err := open()
		if descriptors.IsLack(err) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		files = append(files, fd)
	}
	send(t, far, "rows", 0, 1)
	stolen := make(chan []int)
	done := make(chan struct{})
	go func() { // it takes the first four that become free, unless Receive is faster
		var got []int
		for len(got) < 4 {
			if fd, err := open(); err == nil {
				got = append(got, fd)
			}
			select {
			case <-done:
				stolen <- got
				return
			default:
			}
		}
		stolen <- got
	}()
	n, fds, cut, err := Receive(near, make([]byte, 10), 2)
	close(done)
	files = slices.Concat(files, <-stolen, fds)
	if n != 4 || len(fds) != 2 || cut || err != nil {
		t.Errorf("%d bytes with %d descriptors, cut %v, error %v", n, len(fds), cut, err)
	}
}
