package boltlog

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/squall-go/squall/persist/internal/engine"
)

// withoutSync runs a function on a thread on which fsync fails. The thread ends with it. The error
// says why there is no such thread.
func withoutSync(f func()) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the system call
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_FSYNC},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
		}
		if err != nil {
			done <- fmt.Errorf("a filter of system calls: %w", err)
			return
		}
		f()
		done <- nil
	}()
	return <-done
}

// The process before may have ended between a write and its sync. What is read then may be in
// memory alone, and counts as durable.
func TestALogIsSyncedAsItIsOpened(t *testing.T) {
	dir := t.TempDir()
	for _, o := range []engine.Opening{{Create: true}, {}} {
		log, err := Driver{}.Open(o, dir)
		if err == nil {
			err = log.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var failed error
	err := withoutSync(func() {
		log, err := Driver{}.Open(engine.Opening{}, dir)
		if failed = err; err == nil {
			_ = log.Close()
		}
	})
	if err != nil {
		t.Skip(err)
	}
	if !errors.Is(failed, unix.EIO) {
		t.Errorf("opening a log whose file cannot be synced: %v", failed)
	}
}
