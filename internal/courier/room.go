package courier

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/squall-go/squall/internal/mapped"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/samehost"
	"github.com/squall-go/squall/rdmc"
)

// Room makes the body of a message that is to be sent: in memory that members on this host can look
// into, if they all are there.
func Room(node *rdmc.Node, size int) (*multicast.Body, error) {
	m, err := node.Alloc(size)
	if err != nil {
		return nil, err
	}
	return multicast.NewBody(m.Bytes(), "", m.Release), nil
}

// InMemory is a Config.Room.
func InMemory(_ string, size int64) (*multicast.Body, error) {
	data, err := samehost.Make(size)
	return multicast.NewBody(data, "", nil), err
}

// suffix is that of the files of bodies.
const suffix = ".large"

// InFiles returns a Config.Room that makes files in a directory.
func InFiles(dir string) func(name string, size int64) (*multicast.Body, error) {
	return func(name string, size int64) (*multicast.Body, error) {
		f, err := mapped.Create(filepath.Join(dir, name+suffix), size)
		if err != nil {
			return nil, err
		}
		return multicast.NewBody(f.Bytes(), f.Path(), func() {
			_ = f.Close()           // what is mapped for reading and writing has nothing to lose
			_ = os.Remove(f.Path()) // the application may have given it another name
		}), nil
	}
}

// Clear makes a directory for bodies, and removes what a process that ended in the middle left
// there.
func Clear(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}
