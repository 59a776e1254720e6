package courier

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/squall-go/squall/internal/mapped"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/rdmc"
)

// suffix is that of the files of bodies.
const suffix = ".large"

// room makes the memory of a body that is announced.
func (c *Courier) room(k int, in rdmc.Incoming) (*multicast.Body, error) {
	if c.cfg.Dir == "" {
		data, err := rdmc.MakeRoom(in.Size)
		return multicast.NewBody(data, "", nil), err
	}
	name := fmt.Sprintf("%d-%d-%d-%d%s", c.cfg.View.ID, c.cfg.Subgroup, c.cfg.View.Members[c.sg.Senders[k]].ID, in.Tag, suffix)
	f, err := mapped.Create(filepath.Join(c.cfg.Dir, name), in.Size)
	if err != nil {
		return nil, err
	}
	return multicast.NewBody(f.Bytes(), f.Path(), func() {
		_ = f.Close()           // what is mapped for reading and writing has nothing to lose
		_ = os.Remove(f.Path()) // the application may have given it another name
	}), nil
}

// Clear makes a directory for bodies, and removes what a process that ended in the middle left there.
func Clear(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
