package wallog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/persist/internal/engine"
)

// The engine of segments takes the first entry that it cannot read in its last segment for the end
// of the log. After a crash that is right for the group that was being written, and wrong if
// another group was written behind it: then the disk had this one. A group begins behind the frame
// that commits the one before, so a block that does, and does not follow the last one that was
// recovered, tells the two apart.
//
//	… entry │ commit │ entry │ entry │ commit │ …
//
// Damage in the very last group is taken for a write that was interrupted, and told as such:
// nothing tells them apart, and other members have the group.

// blockMagic is what every block begins with.
var blockMagic = []byte("SQLB")

// LostTail implements engine.Driver: it is the damage of a log of segments that ends with a block,
// while its file shows that there were more; or what is left of a group whose write was
// interrupted.
func (Driver) LostTail(dir string, last uint64) (torn journal.Repaired, err error) {
	path, err := lastSegment(dir)
	if err != nil || path == "" {
		return torn, engine.Named(err, dir)
	}
	f, err := os.Open(path)
	if err != nil {
		return torn, engine.Named(err, path)
	}
	err = engine.MappedData(f, func(data []byte, size int) error {
		torn, err = tornIn(data, size, path, last)
		return err
	})
	return torn, errors.Join(err, f.Close())
}

// tornIn looks for what LostTail wants in a segment of a size, which has nothing but zeros behind
// file.
func tornIn(file []byte, size int, path string, last uint64) (torn journal.Repaired, err error) {
	end, next := segmentHead, uint64(0) // where the log ends in this segment, and the number of the record that would come next
	for at := range blocksIn(file, size) {
		switch h := at.Header; {
		case h.Index == last:
			end, next = at.at+framed(at.bytes), h.First+uint64(h.Count)
		case h.Index == last+1 && at.begins:
			torn = journal.Repaired{Blocks: 1, Record: h.First, Version: h.FirstVersion()}
		case h.Index > last+1 && at.begins:
			return journal.Repaired{}, &journal.Damage{
				Log: path, Block: last + 1, Record: h.First, Version: h.FirstVersion(),
				What: "it cannot be read, and block after block was written after it; that is no write that a crash interrupted",
			}
		}
	}
	ends := end == segmentHead || end <= len(file) && isFrame(file[end-frameHead:], commitFrame)
	if torn.Blocks == 0 && ends && end+frameHead <= len(file) && binary.LittleEndian.Uint64(file[end:]) != 0 {
		torn = journal.Repaired{Blocks: 1, Record: next} // of which nothing can be read
	}
	return torn, nil
}

// ForgetTail implements engine.Driver: it lets what stands behind the last block be no blocks any
// more. Otherwise they would be found again once some of them were written over.
func (Driver) ForgetTail(dir string, last uint64) error {
	path, err := lastSegment(dir)
	if err != nil || path == "" {
		return engine.Named(err, dir)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return engine.Named(err, path)
	}
	err = engine.MappedData(f, func(data []byte, size int) error {
		for at := range blocksIn(data, size) {
			if at.Index <= last {
				continue
			}
			if _, err := f.WriteAt(make([]byte, len(blockMagic)), int64(at.at)); err != nil {
				return err
			}
		}
		return f.Sync()
	})
	return engine.Named(errors.Join(err, f.Close()), path)
}

// lastSegment is the file that was made last; empty: there is none.
func lastSegment(dir string) (path string, err error) {
	entries, err := os.ReadDir(dir)
	newest := ""
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name(), ".wal")
		if _, id, ok := strings.Cut(name, "-"); is && ok && id > newest {
			newest, path = id, filepath.Join(dir, e.Name())
		}
	}
	return path, err
}

// foundBlock is one that was found in a segment.
type foundBlock struct {
	journal.Header
	at, bytes int
	begins    bool // a group
}

// blocksIn finds the blocks whose heads are good, whatever the frames around them say. A block may
// reach beyond file, into the zeros up to size: an interrupted write left its head alone.
func blocksIn(file []byte, size int) func(yield func(foundBlock) bool) {
	return func(yield func(foundBlock) bool) {
		end := segmentHead - frameHead // of the block before, with its frame
		for at := segmentHead + frameHead; at < len(file); {
			i := bytes.Index(file[at:], blockMagic)
			if i < 0 {
				return
			}
			at += i
			n := journal.Length(file[at:])
			if at%frameHead != 0 || n == 0 || n > size-at {
				at++
				continue
			}
			block := file[at:min(at+n, len(file))]
			if missing := n - len(block); missing > 0 {
				block = append(slices.Clone(block), make([]byte, missing)...)
			}
			h, err := journal.Look(block)
			if err != nil {
				at++
				continue
			}
			begins := at-frameHead == end+frameHead || isFrame(file[at-2*frameHead:], commitFrame) // there is room for a commit, or one
			if !yield(foundBlock{h, at, n, begins}) {
				return
			}
			end = at - frameHead + framed(n)
			at += n
		}
	}
}
