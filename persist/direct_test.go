package persist

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// Whatever is written, and wherever, the file has what it would have had without going around the
// page cache, and zeros behind it.
func TestAppendingAroundThePageCacheLeavesWhatWasWritten(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 9))
			path := filepath.Join(t.TempDir(), "file")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			a := newAppender(osSegment{f})
			if a.direct == nil {
				t.Skip("this file system has no writes around the page cache")
			}
			want, end := make([]byte, 1<<20), 0
			for k := range 60 {
				n := 1 + r.IntN([]int{16, 3 * sectorBytes, 40 * sectorBytes}[r.IntN(3)])
				off := end
				switch r.IntN(10) {
				case 0:
					off = r.IntN(end + 1) // not behind the end
				case 1:
					if err := a.Close(); err != nil {
						t.Fatal(err)
					}
					if f, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
						t.Fatal(err)
					}
					a = newAppender(osSegment{f})
				}
				if off+n > len(want) {
					break
				}
				p := make([]byte, n)
				for i := range p {
					p[i] = byte(r.Uint32() | 1)
				}
				if m, err := a.WriteAt(p, int64(off)); m != n || err != nil {
					t.Fatalf("write %d: %d of %d bytes, %v", k, m, n, err)
				}
				copy(want[off:], p)
				end = max(end, off+n)
				got := make([]byte, n)
				if _, err := a.ReadAt(got, int64(off)); err != nil || !bytes.Equal(got, p) {
					t.Fatalf("write %d of %d bytes at %d reads otherwise: %v", k, n, off, err)
				}
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil || len(got) < end || !bytes.Equal(got[:end], want[:end]) || len(bytes.Trim(got[end:], "\x00")) > 0 {
				t.Fatalf("%d bytes, %d were written; %v", len(got), end, err)
			}
		})
	}
}
