package wait

import (
	"time"

	"golang.org/x/sys/unix"
)

// kernel reads the file schedstat of the thread on which it is called, which stays open until the
// caller runs on another thread.
type kernel struct {
	thread, file int // file is one more than the descriptor; 0: none
}

// Usage returns what the kernel says of this thread.
func (k *kernel) Usage() Usage {
	thread := unix.Gettid()
	if k.thread != thread {
		k.Close()
		fd, err := unix.Open("/proc/thread-self/schedstat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		k.thread = thread
		if err != nil {
			return Usage{}
		}
		k.file = fd + 1
	}
	if k.file == 0 {
		return Usage{}
	}
	var text [64]byte
	n, err := unix.Pread(k.file-1, text[:], 0)
	if err != nil {
		return Usage{}
	}
	ran, rest := number(text[:n])
	delayed, _ := number(rest)
	return Usage{thread, ran, delayed}
}

// Idle returns for how long the cores were idle, together, or less than 0 if the kernel does not
// say it.
func (k *kernel) Idle() time.Duration {
	const field, tick = 3, 10 * time.Millisecond // behind "cpu  user nice system"
	fd, err := unix.Open("/proc/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	defer unix.Close(fd)
	var text [256]byte
	n, err := unix.Read(fd, text[:])
	if err != nil || n < len("cpu  ") {
		return -1
	}
	rest := text[len("cpu  "):n]
	for range field {
		_, rest = number(rest)
	}
	idle, rest := number(rest)
	waiting, _ := number(rest) // for a disk: as idle
	return (idle + waiting) * tick
}

// number reads a number, and skips what stands behind them.
func number(text []byte) (n time.Duration, rest []byte) {
	for i, c := range text {
		if c < '0' || c > '9' {
			return n, text[i+1:]
		}
		n = 10*n + time.Duration(c-'0')
	}
	return n, nil
}

func (k *kernel) Close() {
	if k.file > 0 {
		unix.Close(k.file - 1)
	}
	k.thread, k.file = 0, 0
}
