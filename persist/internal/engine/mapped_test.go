package engine

import (
	"os"
	"path/filepath"
	"testing"
)

// What was reserved at the end of a file and never written is not looked through. A hole between
// data is.
func TestTheHoleAtTheEndOfAFileIsNotMapped(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size, last = 1 << 20, 300_000
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{10, last} {
		if _, err := f.WriteAt([]byte{1}, at); err != nil {
			t.Fatal(err)
		}
	}
	if end := dataEnd(f, size); end == size {
		t.Skip("this file system does not tell of holes")
	}
	err = MappedData(f, func(content []byte, whole int) error {
		if whole != size {
			t.Errorf("%d bytes of a file of %d", whole, size)
		}
		if n := len(content); n <= last || n > last+64<<10 {
			t.Errorf("%d bytes of a file whose last byte is at %d", n, last)
		} else if content[10] != 1 || content[last] != 1 {
			t.Error("what was written is not there")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
