package main

import (
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/ripchttp"
)

// Limits of what is kept in memory.
const (
	maxFileBytes = 64 << 20 // larger files are not kept
	maxKeptBytes = 256 << 20
)

// files serves the files of a directory. It keeps them in buffers, into which clients of this host
// look: they are not copied for each request.
type files struct {
	root *os.Root
	kept *ripc.Cache[version]
}

// version is a file as it was at a time.
type version struct {
	name     string
	modified int64
	size     int64
}

func newFiles(e *ripc.Endpoint, root *os.Root) *files {
	return &files{root: root, kept: ripc.NewCache[version](e, maxKeptBytes)}
}

// ServeHTTP implements http.Handler.
func (f *files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	file, err := f.root.Open(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		http.NotFound(w, r)
		return
	}
	if size := info.Size(); size > 0 && size <= maxFileBytes {
		buffer, err := f.kept.Get(r.Context(), version{name, info.ModTime().UnixNano(), size}, int(size), func(into []byte) error {
			_, err := file.ReadAt(into, 0)
			return err
		})
		if err == nil {
			defer buffer.Release()
			http.ServeContent(w, r, name, info.ModTime(), ripchttp.NewContent(buffer))
			return
		}
	}
	http.ServeContent(w, r, name, info.ModTime(), file)
}
