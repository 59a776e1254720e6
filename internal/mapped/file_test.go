package mapped

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// create makes a file that is closed with the test.
func create(t *testing.T, size int64) *File {
	t.Helper()
	f, err := Create(filepath.Join(t.TempDir(), "file"), size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// reopen maps a file for reading.
func reopen(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := Use(file, false)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

func TestWhatIsWrittenToTheBytesIsInTheFile(t *testing.T) {
	f := create(t, 3<<20+17)
	if len(f.Bytes()) != 3<<20+17 || !bytes.Equal(f.Bytes(), make([]byte, 3<<20+17)) {
		t.Fatalf("%d bytes, and not all zero", len(f.Bytes()))
	}
	want := bytes.Repeat([]byte("squall "), 1000)
	copy(f.Bytes()[1<<20:], want)
	path := f.Path()
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || len(got) != 3<<20+17 || !bytes.Equal(got[1<<20:][:len(want)], want) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	again, err := reopen(path)
	if err != nil || !bytes.Equal(again.Bytes(), got) {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAnEmptyFileHasNoBytes(t *testing.T) {
	f := create(t, 0)
	if f.Bytes() == nil || len(f.Bytes()) != 0 {
		t.Fatalf("%v", f.Bytes())
	}
	again, err := reopen(f.Path())
	if err != nil || len(again.Bytes()) != 0 {
		t.Fatal(err)
	}
	if err := errors.Join(again.Close(), os.Remove(f.Path())); err != nil {
		t.Fatal(err)
	}
}

func TestRoomIsReservedBeforeAByteIsWritten(t *testing.T) {
	f := create(t, 1<<20)
	if have := allocated(t, f.Path()); have < 1<<20 {
		t.Fatalf("%d bytes of %d are on the disk", have, 1<<20)
	}
}

func TestRoomCanBeReservedByWritingZeros(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const size = 2*fillBytes + 5
	if err := fill(file, size); err != nil {
		t.Fatal(err)
	}
	if info, err := file.Stat(); err != nil || info.Size() != size {
		t.Fatalf("%v, %v", info.Size(), err)
	}
}

func TestAnOpenFileCanBeMapped(t *testing.T) {
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "file"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := Reserve(file, 100); err != nil {
		t.Fatal(err)
	}
	f, err := Use(file, true)
	if err != nil {
		t.Fatal(err)
	}
	f.Bytes()[99] = 7
	if err := errors.Join(f.Close(), os.Remove(f.Path())); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file.Name()); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("it is still there")
	}
}

func TestAFileThatIsThereIsNotCreated(t *testing.T) {
	f := create(t, 10)
	copy(f.Bytes(), "0123456789")
	if _, err := Create(f.Path(), 5); !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(f.Path()); string(got) != "0123456789" {
		t.Fatalf("%q", got)
	}
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	if _, err := reopen(dir); !errors.Is(err, ErrNotRegular) {
		t.Error(err)
	}
	if _, err := reopen(os.DevNull); !errors.Is(err, ErrNotRegular) {
		t.Error(err)
	}
	if _, err := Create(dir, 1); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if _, err := Create(filepath.Join(missing, "file"), 1); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Create(missing, -1); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestAClosedFileHasNoBytes(t *testing.T) {
	f := create(t, 1)
	if err := f.Close(); err != nil || f.Bytes() != nil {
		t.Fatal(err)
	}
}
