package descriptors

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A detached connection stays open and does not block, and no epoll instance of the process watches
// it: that of Go's runtime would.
func TestNobodyWatchesADetachedConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { held = int(fd) })
	}
	if err != nil {
		t.Fatal(err)
	}
	if !isWatched(t, held) {
		t.Fatal("nobody watches a connection of package net: this test does not see who does")
	}
	fd, err := Detach(conn.(*net.TCPConn))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	conn.Close()
	if isWatched(t, fd) {
		t.Error("the runtime's poller watches the detached descriptor")
	}
	if _, err := unix.Read(fd, make([]byte, 1)); err != unix.EAGAIN {
		t.Errorf("a read of the detached descriptor: %v, not %v", err, unix.EAGAIN)
	}
}

// isWatched reports whether an epoll instance of this process watches a descriptor.
func isWatched(t *testing.T, fd int) bool {
	t.Helper()
	infos, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range infos {
		info, _ := os.ReadFile(name) // a descriptor that was closed meanwhile
		for line := range strings.Lines(string(info)) {
			var of int
			if _, err := fmt.Sscanf(line, "tfd: %d", &of); err == nil && of == fd {
				return true
			}
		}
	}
	return false
}
