package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// longSnapshot makes a store whose snapshot has so many bytes, most of them a hole, and a wrong
// checksum.
func longSnapshot(t *testing.T, bytes int64) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	s, err := persist.Open(t.Context(), persist.Config{Dir: dir, Cluster: "shop", Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Log(t.Context(), persist.LogConfig{ID: persist.LogID{Name: "orders"}})
	if err != nil {
		t.Fatal(err)
	}
	r := persist.Record{Version: order.Version{View: 1}, Sender: 1, Data: []byte("order 0")}
	if !l.Append(&r) {
		t.Fatal("no space")
	}
	if err := l.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.SetGlobal(r.Version)
	if err := l.Snapshot(r.Version, func(io.Writer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "logs", "orders.0", "snapshot")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	const tailBytes = 16
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	tail := binary.LittleEndian.AppendUint64(nil, uint64(bytes))
	tail = append(binary.LittleEndian.AppendUint32(tail, 1), "PANS"...)
	if _, err := f.WriteAt(tail, info.Size()-tailBytes+bytes); err != nil {
		t.Skipf("no file of %d bytes here: %v", bytes, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, path
}

// reads reports whether a process has a file open.
func reads(pid int, path string) bool {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == path {
			return true
		}
	}
	return false
}

// What takes long because a file is long ends when it is told to, with the status of an interrupt.
func TestSIGTERMEndsRepairAndVerify(t *testing.T) {
	t.Parallel()
	dir, path := longSnapshot(t, 1<<40)
	for _, args := range [][]string{{"log", "repair", "--yes", dir}, {"log", "verify", "--quiet", dir}} {
		cmd := command(t, args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for !reads(cmd.Process.Pid, path) {
			select {
			case err := <-ended:
				t.Fatalf("%v ended: %v", args, err)
			case <-time.After(time.Millisecond):
			}
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 130 {
				t.Errorf("%v after SIGTERM: %v", args, err)
			}
		case <-testutil.Within(t).Done():
			t.Fatalf("%v goes on after SIGTERM", args)
		}
	}
}
