package copy

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Kinds of entries.
const (
	file      = ""
	directory = "d"
	link      = "l"
)

// entry is one file, directory or symbolic link of a push. It is spoken on the wire.
type entry struct {
	Path string `json:"p"`           // from the receiver's directory, with slashes
	Kind string `json:"k,omitempty"` // file, directory or link
	Size int64  `json:"s,omitempty"` // of a file
	Mode uint32 `json:"m,omitempty"` // permissions
	Time int64  `json:"t,omitempty"` // of the last change, in ns since 1970
	To   string `json:"l,omitempty"` // what a link says
}

// Bounds of what a receiver believes.
const (
	maxEntries   = 1 << 21
	maxPathBytes = 4096
	maxNameBytes = 255
	maxPushBytes = 1 << 46 // 70 TB: its pieces can still be listed
)

var (
	errPath  = errors.New("the path leads out of the directory, or is no path")
	errLink  = errors.New("the symbolic link leads out of the directory")
	errTwice = errors.New("the path comes twice")
	errBelow = errors.New("it lies below something that is no directory")
	errEntry = errors.New("no entry that can be received")
)

// check judges an entry by itself: a receiver believes no path, and no size (C1).
func (e *entry) check() error {
	switch {
	case !goodPath(e.Path):
		return fmt.Errorf("%q: %w", e.Path, errPath)
	case e.Kind != file && e.Kind != directory && e.Kind != link,
		e.Mode&^0o777 != 0, e.Size < 0, e.Size > 0 && e.Kind != file, (e.To != "") != (e.Kind == link):
		return fmt.Errorf("%q: %w: %+v", e.Path, errEntry, *e)
	case e.Kind == link && !goodLink(e.Path, e.To):
		return fmt.Errorf("%q, which says %q: %w", e.Path, e.To, errLink)
	}
	return nil
}

// goodPath reports whether a path is a clean one that stays inside, and none of this command's own.
func goodPath(p string) bool {
	if p == "." || len(p) > maxPathBytes || path.Clean(p) != p || !filepath.IsLocal(filepath.FromSlash(p)) || !utf8.ValidString(p) {
		return false
	}
	if strings.ContainsAny(p, "\x00\\") || strings.HasPrefix(p, stagePrefix) {
		return false
	}
	for name := range strings.SplitSeq(p, "/") {
		if len(name) > maxNameBytes {
			return false
		}
	}
	return true
}

// goodLink reports whether a link at a path stays inside. It may go up only at its front: behind
// another link, ".." is not the directory before it.
func goodLink(at, to string) bool {
	if len(to) > maxPathBytes || path.IsAbs(to) || strings.ContainsRune(to, 0) || !utf8.ValidString(to) {
		return false
	}
	down := false
	for name := range strings.SplitSeq(to, "/") {
		if name == ".." && down {
			return false
		}
		down = down || name != ".." && name != "." && name != ""
	}
	return filepath.IsLocal(path.Join(path.Dir(at), to))
}

// checkTree judges entries together: each path once, and nothing below a file or a link (C1). It
// returns the bytes of all files.
func checkTree(entries []entry) (total int64, err error) {
	kinds := make(map[string]string, len(entries))
	for i := range entries {
		e := &entries[i]
		if err := e.check(); err != nil {
			return 0, err
		}
		if _, twice := kinds[e.Path]; twice {
			return 0, fmt.Errorf("%q: %w", e.Path, errTwice)
		}
		kinds[e.Path] = e.Kind
		if e.Size > maxPushBytes-total {
			return 0, fmt.Errorf("%q: %w: more than %d bytes", e.Path, errEntry, int64(maxPushBytes))
		}
		total += e.Size
	}
	for i := range entries {
		for up := path.Dir(entries[i].Path); up != "."; up = path.Dir(up) {
			if kind, known := kinds[up]; known && kind != directory {
				return 0, fmt.Errorf("%q: %w: %q", entries[i].Path, errBelow, up)
			} else if known {
				break // it was, or will be, looked at itself
			}
		}
	}
	return total, nil
}
