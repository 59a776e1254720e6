//go:build unix

package descriptors

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// FD1
func TestAReservedDescriptorIsGivenBackWhereOneLacks(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	var share Share
	if err := share.Resize(8, 8, "a test"); err != nil {
		t.Fatal(err)
	}
	defer share.Resize(0, 0, "")
	highest := 0
	for _, fd := range reserve.held {
		highest = max(highest, fd)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(highest + 1), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
		for _, f := range files {
			f.Close()
		}
	}()
	open := func() (*os.File, error) { return os.Open(os.DevNull) }
	fill := func(open func() (*os.File, error)) (n int) {
		for {
			f, err := open()
			if IsLack(err) {
				return n
			} else if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
			n++
		}
	}
	fill(open)
	if err := Check(1, "a file"); !errors.Is(err, ErrTooFew) {
		t.Errorf("none is free: %v", err)
	}
	if n := fill(func() (*os.File, error) { return Retry(open) }); n != 8 {
		t.Errorf("%d of 8 reserved descriptors were given back", n)
	}
	for _, f := range files {
		f.Close()
	}
	files = nil
	reserve.refill()
	if len(reserve.held) != 8 {
		t.Errorf("%d of 8 descriptors are held again", len(reserve.held))
	}
}
