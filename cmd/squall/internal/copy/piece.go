package copy

import (
	"crypto/sha256"
	"io"

	"github.com/squall-go/squall/cmd/squall/internal/show"
)

const (
	// pieceBytes is the size of the largest message: large enough for a pipeline of blocks, small
	// enough that a few of them fit in the memory of any machine.
	pieceBytes = 32 << 20
	// smallBytes is the size below which files share a message: a message of its own would be
	// mostly waiting.
	smallBytes = 1 << 20
	// bundleBytes and bundleFiles bound what is in such a message.
	bundleBytes = 8 << 20
	bundleFiles = 4096
	// ahead is how many pieces the pusher may be ahead of what the slowest receiver has hashed and
	// written. It bounds the memory at both ends.
	ahead = 4
)

// part is some bytes of a file.
type part struct {
	entry  int
	offset int64
	bytes  int64
}

// piece is what one message carries: many small files, or a part of a large one; or, the last one,
// the digests of all files.
type piece struct {
	parts []part
	bytes int64
	last  bool
}

// large reports whether a piece belongs to a file that has pieces of its own.
func (p *piece) large(entries []entry) bool { return !p.last && isLarge(&entries[p.parts[0].entry]) }

func isLarge(e *entry) bool { return e.Kind == file && e.Size >= smallBytes }

// cut is how a push becomes messages: first the small files, then the large ones, then the digests.
// Both ends compute it from the same entries, so nothing about it has to be said. Without bytes
// there are no messages.
func cut(entries []entry) (pieces []piece) {
	pieces = cutSmall(entries)
	for i := range entries {
		if e := &entries[i]; isLarge(e) {
			for at := int64(0); at < e.Size; at += pieceBytes {
				n := min(pieceBytes, e.Size-at)
				pieces = append(pieces, piece{parts: []part{{i, at, n}}, bytes: n})
			}
		}
	}
	if len(pieces) > 0 {
		pieces = append(pieces, piece{bytes: int64(files(entries)) * sha256.Size, last: true})
	}
	return pieces
}

// cutSmall bundles the small files. Empty ones travel in none.
func cutSmall(entries []entry) (pieces []piece) {
	var bundle piece
	end := func() {
		if len(bundle.parts) > 0 {
			pieces = append(pieces, bundle)
		}
		bundle = piece{}
	}
	for i := range entries {
		e := &entries[i]
		if e.Kind != file || e.Size == 0 || isLarge(e) {
			continue
		}
		if bundle.bytes+e.Size > bundleBytes || len(bundle.parts) == bundleFiles {
			end()
		}
		bundle.parts = append(bundle.parts, part{i, 0, e.Size})
		bundle.bytes += e.Size
	}
	end()
	return pieces
}

// files counts them.
func files(entries []entry) (n int) {
	for i := range entries {
		if entries[i].Kind == file {
			n++
		}
	}
	return n
}

// digest is a SHA-256.
type digest = [sha256.Size]byte

// joinDigests is the last message: the digests of all files, in the order of the entries.
func joinDigests(entries []entry, of []digest) []byte {
	all := make([]byte, 0, len(entries)*sha256.Size)
	for i := range entries {
		if entries[i].Kind == file {
			all = append(all, of[i][:]...)
		}
	}
	return all
}

// bytesOf is how much pieces are together.
func bytesOf(pieces []piece) (total int64) {
	for i := range pieces {
		total += pieces[i].bytes
	}
	return total
}

// newProgress shows how many bytes are done with.
func newProgress(w io.Writer, what string, pieces []piece) *show.Progress {
	return show.NewProgress(show.ProgressConfig{To: w, What: what, Total: bytesOf(pieces), Bytes: true})
}
