package copy

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
		if e.Kind == file && e.Size > 0 {
			if err := s.write(i, []byte(strings.Repeat("n", int(e.Size)))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.complete(); err != nil {
		t.Fatal(err)
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
		if err := errors.Join(s.takeBack(), s.close()); err != nil {
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

func TestC5WhatIsNotWhatWasReadGetsNoName(t *testing.T) {
	entries := []entry{{Path: "a", Size: 3}, {Path: "b"}, {Path: "c", Kind: directory}, {Path: "d", Size: 2}}
	sums := []digest{sha256.Sum256([]byte("abc")), sha256.Sum256(nil), {}, sha256.Sum256([]byte("de"))}
	pieces := cut(entries)
	verify := func(arrived string, all []byte, said digest) error {
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		s, err := newStage(root, entries, false, false)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		in := newIntake(s, pieces, func(int) {})
		in.queue <- []byte(arrived)
		in.queue <- all
		in.work()
		return errors.Join(in.err, in.verify(said[:]), in.end())
	}
	all := joinDigests(entries, sums)
	if err := verify("abcde", all, sha256.Sum256(all)); err != nil {
		t.Error(err)
	}
	if err := verify("abcdE", all, sha256.Sum256(all)); !errors.Is(err, errDigest) || !strings.Contains(err.Error(), "d has SHA-256") {
		t.Errorf("C5: a wrong byte: %v", err)
	}
	other := slices.Clone(all)
	copy(other[64:], func() []byte { d := sha256.Sum256([]byte("dE")); return d[:] }())
	if err := verify("abcdE", other, sha256.Sum256(all)); !errors.Is(err, errDigest) {
		t.Errorf("C5: a wrong byte with its digest: %v", err)
	}
}
