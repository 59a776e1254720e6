package join

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

var (
	// ErrOtherID is returned for a directory that belongs to another node than the named one.
	ErrOtherID = persist.ErrOtherNode
	// ErrBadID says that a directory's node id cannot be read.
	ErrBadID = errors.New("the node id in it is damaged")
	// ErrDirInUse says that another process uses a directory.
	ErrDirInUse = persist.ErrInUse
)

// Files of a node's directory.
const (
	idFile   = "node-id"
	lockFile = "lock"
	// maxIDBytes is more than any id takes.
	maxIDBytes = 32
)

// Lock keeps other processes out of a node's directory. The system releases it with the process,
// however that ends.
type Lock struct{ file *os.File }

// Close lets others use the directory. A nil Lock has nothing to close.
func (l *Lock) Close() error {
	if l == nil || l.file == nil {
		return nil
	}
	err := errors.Join(unlockDir(l.file), l.file.Close())
	l.file = nil
	return err
}

// Identity returns the identity of this process: its node id, and its incarnation, a random number
// that is new with every call. Without a directory the id is the chosen one, or a random one. With
// a directory, it is the id of the node that the directory belongs to; a directory without a node
// gets the chosen id, or a random one, before Identity returns. Identity makes the directory if it
// does not exist. No other process can use the directory until the lock is closed.
func Identity(dir string, chosen order.NodeID) (id order.NodeID, incarnation uint64, lock *Lock, err error) {
	incarnation = NewIncarnation()
	if dir == "" {
		return cmp.Or(chosen, newID()), incarnation, nil, nil
	}
	if id, lock, err = identify(dir, chosen); err != nil {
		return 0, 0, nil, fmt.Errorf("node directory: %w", unwritable(err))
	}
	return id, incarnation, lock, nil
}

// unwritable names the errors of a disk that takes nothing, and says what to do about them.
func unwritable(err error) error {
	switch {
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w: let this process write there, or name another directory", persist.ErrReadOnlyDisk, err)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w: %w: free some space there", persist.ErrDiskFull, err)
	}
	return err
}

func identify(dir string, chosen order.NodeID) (order.NodeID, *Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, nil, err
	}
	file, err := lockDir(filepath.Join(dir, lockFile))
	if err != nil {
		return 0, nil, err
	}
	lock := &Lock{file}
	id, err := keptID(filepath.Join(dir, idFile), chosen)
	if err != nil {
		return 0, nil, errors.Join(err, lock.Close())
	}
	return id, lock, nil
}

// keptID reads the id in a file, or writes one.
func keptID(path string, chosen order.NodeID) (order.NodeID, error) {
	kept, err := readID(path)
	if errors.Is(err, fs.ErrNotExist) {
		id := cmp.Or(chosen, newID())
		return id, writeID(path, id)
	}
	if err != nil {
		return 0, err
	}
	if chosen != 0 && chosen != kept {
		return 0, fmt.Errorf("%s: %w: it is that of node %d, and node %d is configured: name its own directory, or the node that it was", path, ErrOtherID, kept, chosen)
	}
	return kept, nil
}

// readID takes what writeID writes and nothing else: half an id would be another node.
func readID(path string) (order.NodeID, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	text, whole := strings.CutSuffix(string(data[:min(len(data), maxIDBytes)]), "\n")
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil || !whole || id == 0 || strconv.FormatUint(id, 10) != text {
		return 0, fmt.Errorf("%s: %w: %q (want a decimal number above 0 and a line feed)", path, ErrBadID, data[:min(len(data), maxIDBytes)])
	}
	return order.NodeID(id), nil
}

// writeID leaves either no file or a whole one, whenever the machine stops.
func writeID(path string, id order.NodeID) error {
	temporary := path + ".new" // one is enough: the directory is locked
	if err := writeSynced(temporary, strconv.FormatUint(uint64(id), 10)+"\n"); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func writeSynced(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// newID returns a random id, so that no process has to hand out ids. It has 63 bits: collisions are
// unlikely, and no language takes it for a negative number.
func newID() order.NodeID { return order.NodeID(random(1<<63 - 1)) }

// NewIncarnation tells a process apart from all others that have its node's id.
func NewIncarnation() uint64 { return random(1<<64 - 1) }

// random is a number of the bits of a mask, and not 0.
func random(mask uint64) uint64 {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // it does not fail: the program ends before that
		if n := binary.LittleEndian.Uint64(b[:]) & mask; n != 0 {
			return n
		}
	}
}
