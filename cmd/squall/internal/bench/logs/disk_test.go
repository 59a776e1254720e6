package logs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// around is a directory whose file system takes writes around the page cache.
func around(t *testing.T) string {
	t.Helper()
	dir := disk(t)
	if err := checkAround(dir); errors.Is(err, errNotAround) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPiecesLieOnTheBoundaryOfASector(t *testing.T) {
	for _, n := range []int{1, smallPiece, largePiece} {
		b := aligned(n)
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(b))); len(b) != n || at%sectorBytes != 0 {
			t.Errorf("%d bytes, not %d, at %#x", len(b), n, at)
		}
	}
}

func TestPiecesStandBehindEachOtherInARoomThatIsSetAside(t *testing.T) {
	for _, p := range []pieces{{Bytes: largePiece}, {Bytes: largePiece, Around: true}} {
		dir := disk(t)
		if p.Around {
			dir = around(t)
		}
		w, err := newWriter(filepath.Join(dir, "pieces"), p)
		if err != nil {
			t.Fatal(err)
		}
		defer w.file.Close()
		for range 3 {
			if err := w.write(); err != nil {
				t.Fatal(err)
			}
		}
		if info, err := w.file.Stat(); err != nil || info.Size() != setAside || w.at != 3*largePiece {
			t.Errorf("%+v: at %d of %v: %v", p, w.at, info, err)
		}
	}
}

func TestAFileSystemThatRefusesWritesAroundThePageCacheIsKnownByThem(t *testing.T) {
	dir := around(t)
	err := tryAround(filepath.Join(dir, "pieces"), aligned(2 * sectorBytes)[1:sectorBytes]) // which is no whole sector, from no boundary of one
	if err == nil {
		t.Skip("this file system takes any write")
	}
	if !refused(err) {
		t.Error(err)
	}
	if err := checkAround(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) || errors.Is(err, errNotAround) {
		t.Error(err)
	}
}

func TestALimitThatThisDiskDoesNotHaveIsToldInItsRow(t *testing.T) {
	spec := defaultSpec()
	s := streamSet(spec)
	var all []Series
	for _, c := range s.Cases {
		all = append(all, Series{Case: c})
	}
	all[2].Err = errNotAround
	rows := s.Rows(all)
	if rows[0].Verdict != "–" || rows[1].Verdict != errNotAround.Error() || !errors.Is(errNotAround, bench.ErrAbsent) {
		t.Errorf("%+v", rows)
	}
}
