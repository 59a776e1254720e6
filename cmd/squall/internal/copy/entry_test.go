package copy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/squall-go/squall/internal/wire"
)

func TestC1NoPathLeadsOut(t *testing.T) {
	for _, good := range []string{"a", "a/b", "..a", "a..b/c", "ü/名", strings.Repeat("x", 255)} {
		if !goodPath(good) {
			t.Errorf("%q is refused", good)
		}
	}
	for _, bad := range []string{
		"", ".", "..", "/", "/a", "../a", "a/../b", "a/../../b", "a//b", "a/", "./a", "a/.", "a\x00b", `a\b`, "a\xff", stagePrefix + "1", stagePrefix + "1/0",
		strings.Repeat("x", 256), strings.Repeat("a/", 3000) + "a",
	} {
		if goodPath(bad) {
			t.Errorf("C1: %q is taken", bad)
		}
	}
}

func TestC1NoLinkLeadsOut(t *testing.T) {
	for _, good := range [][2]string{{"a", "b"}, {"d/a", "../b"}, {"d/e/a", "../../b/c"}, {"a", "b/c/d"}, {"d/a", "./b"}} {
		if !goodLink(good[0], good[1]) {
			t.Errorf("%q is refused", good)
		}
	}
	for _, bad := range [][2]string{
		{"a", "/etc/passwd"}, {"a", ".."}, {"a", "../b"}, {"d/a", "../../b"}, {"d/a", "x/../../b"}, {"d/e/a", "l/../../../b"}, {"a", "b\x00"},
		{"a", strings.Repeat("b", 5000)},
	} {
		if goodLink(bad[0], bad[1]) {
			t.Errorf("C1: %q is taken", bad)
		}
	}
}

func TestC1EntriesThatContradictEachOtherAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		entries []entry
		err     error
	}{
		"twice":              {[]entry{{Path: "a"}, {Path: "a"}}, errTwice},
		"below a file":       {[]entry{{Path: "a/b/c"}, {Path: "a"}}, errBelow},
		"below a link":       {[]entry{{Path: "a", Kind: link, To: "x"}, {Path: "a/b"}}, errBelow},
		"far below":          {[]entry{{Path: "a", Kind: link, To: "x"}, {Path: "a/b", Kind: directory}, {Path: "a/b/c"}}, errBelow},
		"a size below zero":  {[]entry{{Path: "a", Size: -1}}, errEntry},
		"a large directory":  {[]entry{{Path: "a", Kind: directory, Size: 1}}, errEntry},
		"more than there is": {[]entry{{Path: "a", Size: maxPushBytes}, {Path: "b", Size: 1}}, errEntry},
		"an overflow":        {[]entry{{Path: "a", Size: maxPushBytes}, {Path: "b", Size: 1<<63 - 1}}, errEntry},
		"a setuid program":   {[]entry{{Path: "a", Mode: 0o4755}}, errEntry},
		"an unknown kind":    {[]entry{{Path: "a", Kind: "x"}}, errEntry},
		"a link to nothing":  {[]entry{{Path: "a", Kind: link}}, errEntry},
		"a file that links":  {[]entry{{Path: "a", To: "b"}}, errEntry},
		"a way out":          {[]entry{{Path: "../a"}}, errPath},
		"a link out":         {[]entry{{Path: "a", Kind: link, To: "../b"}}, errLink},
	} {
		if _, err := checkTree(c.entries); !errors.Is(err, c.err) {
			t.Errorf("C1: %s: %v", name, err)
		}
	}
	total, err := checkTree([]entry{{Path: "a", Kind: directory}, {Path: "a/b", Size: 5}, {Path: "c/d", Size: 6}})
	if err != nil || total != 11 {
		t.Errorf("%d, %v", total, err)
	}
}

func TestAScanNamesEverythingOnce(t *testing.T) {
	dir := variety(t, 2<<20)
	for arg, want := range map[string]string{
		dir: "variety/small", dir + "/": "variety/small", dir + "/.": "small", filepath.Join(dir, "small"): "small", filepath.Join(dir, "deep/link"): "link",
		filepath.Join(dir, "deep/../deep"): "deep/er/large",
	} {
		s, err := scan([]string{arg}, false)
		found := false
		for i := range s.entries {
			found = found || s.entries[i].Path == want
		}
		if err != nil || !found || len(s.paths) != len(s.entries) {
			t.Errorf("%s: %v, %+v", arg, err, s.entries)
		}
	}
}

func TestWhatCannotBePushedIsExplained(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("one/file"), 10, 1)
	write(t, at("two/file"), 10, 1)
	for _, err := range []error{
		os.Mkdir(at("out"), 0o755), os.Symlink("/etc/passwd", at("out/link")), os.Mkdir(at("loop"), 0o755), os.Symlink(".", at("loop/again")),
		os.Mkdir(at("pipe"), 0o755), syscall.Mkfifo(at("pipe/pipe"), 0o600), os.Mkdir(at("bad"), 0o755), os.WriteFile(at("bad/\xff"), nil, 0o600),
	} {
		if err != nil {
			t.Skipf("this file system cannot have that: %v", err)
		}
	}
	for words, args := range map[string][]string{
		"no such file":                   {at("missing")},
		"comes twice":                    {at("one/file"), at("two/file")},
		"with --follow, what it points":  {at("out")},
		"no file, directory or symbolic": {at("pipe")},
		"no name that every machine has": {at("bad")},
		"has no name of its own":         {".."},
	} {
		if _, err := scan(args, false); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v: %v, nothing of %q", args, err, words)
		}
	}
	if _, err := scan([]string{at("loop")}, true); err == nil || !strings.Contains(err.Error(), "a directory that it is in") {
		t.Errorf("a loop: %v", err)
	}
	if s, err := scan([]string{at("out")}, true); err != nil || len(s.entries) != 2 || s.entries[1].Kind != file || s.entries[1].Size == 0 {
		t.Errorf("what a link points to: %+v, %v", s, err)
	}
}

func TestEntriesFitIntoMessages(t *testing.T) {
	entries := make([]entry, 5000)
	for i := range entries {
		entries[i] = entry{Path: strings.Repeat("\x01", 4000), Kind: link, To: strings.Repeat("<", 4000)}
	}
	if n := fitting(entries); n < 10 || n > wire.MaxMessageBytes/(6*8000) {
		t.Errorf("%d of the longest entries", n)
	}
	if n := fitting(entries[:3]); n != 3 {
		t.Errorf("%d of 3", n)
	}
}
