package engine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
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
	return mapped(f, info.Size(), look)
}

// MappedData is Mapped without the hole at the end of a file, which was reserved and never written,
// where the kernel tells of holes; size is that of the file. Looking through a hole costs a page
// fault for each 4 KiB.
func MappedData(f *os.File, look func(data []byte, size int) error) error {
	info, err := f.Stat()
	if err != nil {
		return Named(err, f.Name())
	}
	return mapped(f, dataEnd(f, info.Size()), func(data []byte) error { return look(data, int(info.Size())) })
}

// dataEnd is where the hole at the end of a file begins.
func dataEnd(f *os.File, size int64) (end int64) {
	const seekData, seekHole = 3, 4 // of lseek(2) on Linux; elsewhere they are other numbers
	if runtime.GOOS != "linux" {
		return size
	}
	for end < size {
		data, err := f.Seek(end, seekData)
		if errors.Is(err, syscall.ENXIO) { // nothing but a hole
			return end
		}
		if err == nil {
			end, err = f.Seek(data, seekHole)
		}
		if err != nil {
			return size
		}
	}
	return size
}

func mapped(f *os.File, size int64, look func(content []byte) error) error {
	if size == 0 {
		return look(nil)
	}
	content, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return Named(fmt.Errorf("mapping %d bytes: %w", size, err), f.Name())
	}
	var answer error
	err = Guard(f.Name(), func() error { answer = look(content); return nil })
	return errors.Join(answer, err, Named(syscall.Munmap(content), f.Name()))
}
