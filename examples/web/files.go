package main

import (
	"io"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/ripchttp"
)

// Limits of what is kept in memory.
const (
	maxFileBytes = 64 << 20 // larger files are not kept
	maxKeptBytes = 256 << 20
)

// files serves the files of a directory. It keeps them in buffers, into which clients of this host look: they are not copied for each request.
type files struct {
	endpoint *ripc.Endpoint
	root     *os.Root

	mu    sync.Mutex
	kept  map[string]*kept
	bytes int64
}

// kept is a file as it was at a time.
type kept struct {
	buffer   *ripc.Buffer
	modified time.Time
	size     int64
}

func newFiles(e *ripc.Endpoint, root *os.Root) *files {
	return &files{endpoint: e, root: root, kept: map[string]*kept{}}
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
	if k, err := f.keep(name, file, info); err == nil {
		defer k.buffer.Release()
		http.ServeContent(w, r, name, k.modified, ripchttp.NewContent(k.buffer))
		return
	}
	http.ServeContent(w, r, name, info.ModTime(), file)
}

// keep returns a file that is kept, with a reference for the caller.
func (f *files) keep(name string, file *os.File, info os.FileInfo) (*kept, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.kept[name]
	if k != nil && k.modified.Equal(info.ModTime()) && k.size == info.Size() {
		k.buffer.Retain()
		return k, nil
	}
	if info.Size() == 0 || info.Size() > maxFileBytes {
		return nil, ripc.ErrTooLarge
	}
	buffer, err := f.endpoint.Alloc(int(info.Size()))
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(file, buffer.Bytes()); err != nil {
		buffer.Release()
		return nil, err
	}
	if k != nil {
		f.forget(name)
	}
	for other := range f.kept { // any
		if f.bytes+info.Size() <= maxKeptBytes {
			break
		}
		f.forget(other)
	}
	k = &kept{buffer, info.ModTime(), info.Size()}
	f.kept[name] = k
	f.bytes += k.size
	buffer.Retain()
	return k, nil
}

func (f *files) forget(name string) {
	k := f.kept[name]
	delete(f.kept, name)
	f.bytes -= k.size
	k.buffer.Release()
}

func (f *files) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.kept {
		f.forget(name)
	}
}
