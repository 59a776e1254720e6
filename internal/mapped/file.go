package mapped

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
)

var (
	// ErrFull says that the disk, or a quota on it, has no room for the file.
	ErrFull = errors.New("no space left on the disk")
	// ErrNotRegular says that the name is a directory's, or a device's: only files can be mapped.
	ErrNotRegular = errors.New("not a regular file")
)

// File is a file that is mapped. It is used by one goroutine at a time; its bytes are memory like
// any other.
type File struct {
	file *os.File // nil once closed
	path string
	data []byte
}

// Create makes a file of size bytes, all zero, with its room on the disk reserved, and maps it for
// reading and writing. A name that is taken is an error, fs.ErrExist, and so is a full disk,
// ErrFull; then there is no file.
func Create(path string, size int64) (*File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, fmt.Errorf("mapped: create: %w", err)
	}
	if err := Reserve(file, size); err != nil {
		return nil, errors.Join(err, discard(file, path))
	}
	f, err := Use(file, true)
	if err != nil {
		return nil, errors.Join(err, discard(file, path))
	}
	return f, nil
}

// discard takes back a file that could not be made.
func discard(file *os.File, path string) error {
	return errors.Join(file.Close(), os.Remove(path))
}

// Use maps all of a file that is open already, for writing too if it was opened so. The file is the
// File's from then on, unless Use fails.
func Use(file *os.File, writable bool) (*File, error) {
	path := file.Name()
	fault := func(err error) (*File, error) { return nil, fmt.Errorf("mapped: map %s: %w", path, err) }
	info, err := file.Stat()
	if err != nil {
		return fault(err)
	}
	if !info.Mode().IsRegular() {
		return fault(fmt.Errorf("%w: %v", ErrNotRegular, info.Mode()))
	}
	if info.Size() > math.MaxInt {
		return fault(fmt.Errorf("%d bytes are more than this machine can address", info.Size()))
	}
	f := &File{file: file, path: path, data: []byte{}}
	if info.Size() == 0 { // the system maps nothing that is empty
		return f, nil
	}
	if f.data, err = mapFile(file, int(info.Size()), writable); err != nil {
		return fault(fmt.Errorf("%d bytes: %w", info.Size(), err))
	}
	return f, nil
}

// Reserve makes an empty file size bytes long, and sees to it that the disk has room for all of
// them.
func Reserve(file *os.File, size int64) error {
	if size < 0 {
		return fmt.Errorf("mapped: reserve %d bytes in %s: %w", size, file.Name(), fs.ErrInvalid)
	}
	if size == 0 { // there is nothing to reserve, and the system refuses to
		return nil
	}
	err := reserve(file, size)
	if errors.Is(err, errors.ErrUnsupported) {
		err = fill(file, size)
	}
	switch {
	case err == nil:
		return nil
	case isFull(err):
		return fmt.Errorf("mapped: reserve %d bytes in %s: %w: %w", size, file.Name(), ErrFull, err)
	}
	return fmt.Errorf("mapped: reserve %d bytes in %s: %w", size, file.Name(), err)
}

// fillBytes is how much is written at a time where room cannot be reserved in another way.
const fillBytes = 1 << 20

// fill writes zeros: slower, but afterwards the room is there too.
func fill(file *os.File, size int64) error {
	zeros := make([]byte, min(size, fillBytes))
	for at := int64(0); at < size; {
		n, err := file.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at)
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrShortWrite
		}
		at += int64(n)
	}
	return nil
}

// Path is the name under which the file was created or opened.
func (f *File) Path() string { return f.path }

// Bytes are the file's contents, until it is closed.
func (f *File) Bytes() []byte { return f.data }

// Close gives the memory back; Bytes must not be used any more. What was written is in the file,
// and not synced. Closing again does nothing.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	var err error
	if len(f.data) > 0 {
		err = unmap(f.data)
	}
	err = errors.Join(err, f.file.Close())
	f.data, f.file = nil, nil
	if err != nil {
		return fmt.Errorf("mapped: close %s: %w", f.path, err)
	}
	return nil
}
