package persist

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
)

// Format is the version of everything below a store's directory. A store of a later one is refused.
const Format = 1

// identity is squall.json: whose directory this is. It is the last file that is made, so a
// directory without it holds nothing yet.
type identity struct {
	Format  int          `json:"format"`
	Cluster string       `json:"cluster"`
	Node    order.NodeID `json:"node"`
}

// label is log.json: which log a directory holds, and how.
type label struct {
	Format int    `json:"format"`
	Name   string `json:"name"`
	Shard  int    `json:"shard"`
	Engine string `json:"engine"`
}

const (
	labelFile = "log.json"
)

// maxLabelBytes bounds what is read of a small file.
const maxLabelBytes = 64 << 10

// sealed is how a small file stands on disk: the checksum is that of the bytes of what it holds.
type sealed struct {
	Squall json.RawMessage `json:"squall"`
	CRC32C string          `json:"crc32c"`
}

// writeLabel replaces a small file.
func writeLabel(d disk, path string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	whole, err := json.Marshal(sealed{body, checksum(body)})
	if err != nil {
		return err
	}
	return writeAtomic(d, path, func(w io.Writer) error {
		_, err := w.Write(append(whole, '\n'))
		return err
	})
}

func checksum(b []byte) string { return fmt.Sprintf("%08x", crc.Of(b)) }

// readLabel reads a small file into v. The format is looked at before the rest: of a later one,
// nothing else may be known.
func readLabel(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return engine.Named(err, path)
	}
	defer f.Close()
	whole, err := io.ReadAll(io.LimitReader(f, maxLabelBytes))
	if err != nil {
		return engine.Named(err, path)
	}
	var s sealed
	if err := json.Unmarshal(whole, &s); err != nil {
		return engine.Damaged(path, "it is no JSON: %v", err)
	}
	if have := checksum(s.Squall); have != s.CRC32C {
		return engine.Damaged(path, "its checksum is %s, and %q stands there", have, s.CRC32C)
	}
	var format struct{ Format int }
	if err := json.Unmarshal(s.Squall, &format); err != nil || format.Format < 1 {
		return engine.Damaged(path, "it names no format")
	}
	if format.Format > Format {
		return fmt.Errorf("%s: %w: it is format %d, and this program knows %d; use the program that wrote it, or a later one",
			path, ErrNewerFormat, format.Format, Format)
	}
	if err := json.Unmarshal(s.Squall, v); err != nil {
		return engine.Damaged(path, "%v", err)
	}
	return nil
}

// readIdentity returns fs.ErrNotExist for a directory that has no owner yet.
func readIdentity(dir string) (identity, error) {
	var id identity
	err := readLabel(filepath.Join(dir, engine.IdentityFile), &id)
	return id, err
}

// check compares the identity with what a caller expects. A caller that only reads may leave it
// open.
func (id identity) check(c Config) error {
	if id.Cluster != c.Cluster && !(c.ReadOnly && c.Cluster == "") {
		return fmt.Errorf("%s: %w: it is that of cluster %q, and this one is called %q; name another directory, or the cluster as it was",
			c.Dir, ErrOtherCluster, id.Cluster, c.Cluster)
	}
	if id.Node != c.Node && !(c.ReadOnly && c.Node == 0) {
		return fmt.Errorf("%s: %w: it is that of node %d, and this one is %d; name another directory, or the node as it was",
			c.Dir, ErrOtherNode, id.Node, c.Node)
	}
	return nil
}
