package wallog

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
	t.Parallel()
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 9))
			path := filepath.Join(t.TempDir(), "file")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			want, end := make([]byte, 1<<20), 0
			a := newAppender(osSegment{f}, len(want))
			if a.direct == nil {
				t.Skip("this file system has no writes around the page cache")
			}
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
					a = newAppender(osSegment{f}, len(want))
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

// direct counts what is written around the page cache.
type direct struct {
	osSegment
	bytes, writes int
	end           int64
}

func (d *direct) Direct() SegmentFile { return d }

func (d *direct) WriteAt(p []byte, off int64) (int, error) {
	d.bytes, d.writes, d.end = d.bytes+len(p), d.writes+1, max(d.end, off+int64(len(p)))
	return d.osSegment.WriteAt(p, off)
}

func TestZerosBehindSmallWritesAreNoMoreThanTheWritesAndStayWithinTheRoom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		bytes []int // of the writes, again and again
		zeros bool  // there are to be some
	}{
		{"small", []int{3000}, true},
		{"of a sector", []int{sectorBytes}, true},
		{"large", []int{largeGroup}, false},
		{"in turn", []int{largeGroup - 1, 3 * largeGroup}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "file"))
			if err != nil {
				t.Fatal(err)
			}
			d := &direct{osSegment: osSegment{f}}
			const room = 4 << 20
			a := newAppender(d, room)
			written, ahead := 0, 0 // bytes of whole sectors, and the writes that are as long as they would be without zeros
			for k, off := 0, int64(0); ; k++ {
				p := bytes.Repeat([]byte{1}, c.bytes[k%len(c.bytes)])
				first, behind := off&^(sectorBytes-1), (off+int64(len(p))+sectorBytes-1)&^(sectorBytes-1)
				if behind > room {
					break
				}
				before := d.bytes
				if _, err := a.WriteAt(p, off); err != nil {
					t.Fatal(err)
				}
				written += int(behind - first)
				ahead += d.bytes - before - int(behind-first)
				off += int64(len(p))
			}
			if ahead > written || ahead > 0 != c.zeros || d.end > room {
				t.Errorf("%d bytes of zeros after %d, up to %d of %d", ahead, written, d.end, room)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
