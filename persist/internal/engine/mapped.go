package engine

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Timeout is how long an engine waits for the lock of its file. The store's own lock was taken
// before, so the process that holds this one is no Squall.
const Timeout = time.Second

// Mapped gives the content of a file for the time of a call. A segment is too long to be read into
// memory for each log that is opened.
func Mapped(f *os.File, look func(content []byte) error) error {
	info, err := f.Stat()
	if err != nil {
		return Named(err, f.Name())
	}
	if info.Size() == 0 {
		return look(nil)
	}
	content, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return Named(fmt.Errorf("mapping %d bytes: %w", info.Size(), err), f.Name())
	}
	var answer error
	err = Guard(f.Name(), func() error { answer = look(content); return nil })
	return errors.Join(answer, err, Named(syscall.Munmap(content), f.Name()))
}
