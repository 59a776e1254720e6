package faultfs

import (
	"errors"
	"os"
	"path/filepath"
)

// Export copies all that programs see on the disk to a directory, which is made anew.
func (d *Disk) Export(to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return d.nodes[rootNode].export(to)
}

func (n *node) export(to string) error {
	if !n.dir {
		return n.seen.export(to)
	}
	err := os.Mkdir(to, 0o750)
	for name, child := range n.names {
		if err == nil {
			err = child.export(filepath.Join(to, name))
		}
	}
	return err
}

// export leaves holes where nothing was written.
func (c *content) export(to string) error {
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	for i, page := range c.pages {
		if err == nil {
			_, err = f.WriteAt(page, i*pageBytes)
		}
	}
	if err == nil {
		err = f.Truncate(c.size)
	}
	return errors.Join(err, f.Close())
}
