package copy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/squall-go/squall/rdmc"
)

// staged is a stage whose files are filled.
func staged(t *testing.T, dir string, force bool, entries ...entry) *stage {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStage(root, entries, force, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close(); root.Close() })
	for i, e := range entries {
		if err := s.fill(i, strings.NewReader(strings.Repeat("n", int(e.Size)))); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// several are entries of all kinds.
func several() []entry {
	return []entry{
		{Path: "d", Kind: directory, Mode: 0o555}, {Path: "d/f", Size: 3, Mode: 0o444}, {Path: "d/e", Kind: directory, Mode: 0o700}, {Path: "d/l", Kind: link, To: "f"},
		{Path: "x/y/z", Size: 1, Mode: 0o600}, {Path: "f", Size: 2, Mode: 0o600},
	}
}

func TestC4WhatIsPlacedCanBeTakenBack(t *testing.T) {
	for _, force := range []bool{false, true} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "x/there"), 10, 1)
		if force {
			write(t, filepath.Join(dir, "f"), 10, 1)
		}
		before := tree(t, dir)
		s := staged(t, dir, force, several()...)
		if why := s.refusals(); len(why) > 0 {
			t.Fatal(why)
		}
		if err := s.place(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(got) != "nn" {
			t.Fatalf("%q, %v", got, err)
		}
		if err := errors.Join(s.rollBack(), s.close()); err != nil {
			t.Fatal(err)
		}
		after := tree(t, dir)
		for name, was := range before {
			if name != "x" && after[name] != was { // its time changed
				t.Errorf("C4: %s was %q and is %q", name, was, after[name])
			}
		}
		if len(after) != len(before) {
			t.Errorf("C4: %v is left, of %v", after, before)
		}
	}
}

func TestC4APlaceThatIsTakenMeanwhileStopsAllOfThem(t *testing.T) {
	dir := t.TempDir()
	s := staged(t, dir, false, several()...)
	if why := s.refusals(); len(why) > 0 {
		t.Fatal(why)
	}
	write(t, filepath.Join(dir, "f"), 10, 1)
	before := tree(t, dir)["f"]
	if err := s.place(); err == nil || !strings.HasPrefix(err.Error(), "f: it exists by now") {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if after := tree(t, dir); len(after) != 1 || after["f"] != before {
		t.Errorf("C3, C4: %v is left", after)
	}
}

func TestC1ALinkThatAppearsMeanwhileIsNotFollowed(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	s := staged(t, dir, true, several()...)
	if err := os.Symlink(outside, filepath.Join(dir, "x")); err != nil {
		t.Fatal(err)
	}
	if err := s.place(); err == nil {
		t.Error("C1: it was placed")
	}
	mustBeEmpty(t, outside)
}

func TestC3RefusalsNameWhatIsInTheWay(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), 10, 1)
	write(t, filepath.Join(dir, "x"), 10, 1)
	write(t, filepath.Join(dir, "d/l/inside"), 10, 1)
	want := []string{"d/l is a directory there", "x is there and no directory", "f exists (--force overwrites)"}
	if why := staged(t, dir, false, several()...).refusals(); !slices.Equal(why, want) {
		t.Errorf("C3: %q", why)
	}
	if why := staged(t, dir, true, several()...).refusals(); !slices.Equal(why, want[:2]) {
		t.Errorf("C3: forced: %q", why)
	}
}

func TestAStageThatIsInUseIsNotSwept(t *testing.T) {
	dir := t.TempDir()
	s := staged(t, dir, false, several()...)
	if err := os.Mkdir(filepath.Join(dir, stagePrefix+"left"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, stagePrefix+"left", "0"), 10, 1)
	if err := sweep(s.root); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, stagePrefix+"*")); len(left) != 1 || filepath.Base(left[0]) != s.name {
		t.Errorf("%v", left)
	}
}

// archived returns the archive of a directory with files a of 3 bytes and b of 2, and its entries.
func archived(t *testing.T) ([]byte, []entry) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "abc", "b": "de", "empty": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "d"), 0o755), os.Symlink("../a", filepath.Join(dir, "d", strings.Repeat("l", 200)))); err != nil {
		t.Fatal(err)
	}
	src, err := scan([]string{dir + "/."}, false)
	var b bytes.Buffer
	if err = errors.Join(err, src.write(&b)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), src.entries
}

// extracted extracts an archive that arrives in messages of some bytes, and compares its digest.
func extracted(t *testing.T, archive []byte, entries []entry, digest []byte, size int) error {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s, err := newStage(root, entries, false, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	ctx, end := context.WithCancelCause(t.Context())
	defer end(nil)
	total, err := checkTree(entries)
	if err != nil {
		t.Fatal(err)
	}
	a := newArchive(ctx, func(int64) {})
	var sending sync.WaitGroup
	sending.Go(func() {
		for b := range slices.Chunk(archive, size) {
			into, err := a.incoming(rdmc.Incoming{Size: int64(len(b))})
			if err != nil {
				t.Error(err)
				return
			}
			copy(into, b)
			a.completed(rdmc.Message{Data: into})
		}
		if int64(len(archive)) < total {
			end(errGone)
		}
	})
	err = s.extract(a)
	sending.Wait()
	if err != nil {
		return err
	}
	return a.verify(digest)
}

func TestC5WhatIsNotWhatWasReadGetsNoName(t *testing.T) {
	archive, entries := archived(t)
	sum := sha256.Sum256(archive)
	for _, size := range []int{1, 2, len(archive)} {
		if err := extracted(t, archive, entries, sum[:], size); err != nil {
			t.Error(err)
		}
	}
	at := bytes.Index(archive, []byte("abc"))
	wrong := slices.Clone(archive)
	wrong[at] ^= 1
	if err := extracted(t, wrong, entries, sum[:], 3); !errors.Is(err, errDigest) {
		t.Errorf("C5: a wrong byte: %v", err)
	}
	if err := extracted(t, archive[:len(archive)-1], entries, sum[:], 3); !errors.Is(err, errGone) {
		t.Errorf("C5: half an archive: %v", err)
	}
	if err := extracted(t, append(slices.Clone(archive), 1), entries, sum[:], 3); !errors.Is(err, errDigest) {
		t.Errorf("C5: an archive with more after it: %v", err)
	}
}

func TestC5AnArchiveOfOtherFilesGetsNoName(t *testing.T) {
	archive, entries := archived(t)
	sum := sha256.Sum256(archive)
	fewer, more := slices.Clone(entries), append(slices.Clone(entries), entry{Path: "x", Size: 1})
	fewer[0].Size--
	if err := extracted(t, archive, fewer, sum[:], 3); !errors.Is(err, errDigest) {
		t.Errorf("C5: fewer bytes than were sent: %v", err)
	}
	if err := extracted(t, archive, more, sum[:], 3); !errors.Is(err, errGone) {
		t.Errorf("C5: more bytes than were sent: %v", err)
	}
}
