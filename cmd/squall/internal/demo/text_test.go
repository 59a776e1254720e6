package demo

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestALineIsAMessageAndALongOneSeveral(t *testing.T) {
	long := strings.Repeat("x", maxMessage)
	for in, want := range map[string][]string{
		"":                 nil,
		"\n":               {""},
		"a\nb":             {"a", "b"},
		"a\n\nb\r\n":       {"a", "", "b\r"},
		long + "\n":        {long},
		long + "y\nz":      {long, "y", "z"},
		long + long + "\n": {long, long},
	} {
		var got []string
		for _, line := range split([]byte(in)) {
			got = append(got, string(line))
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%.20q: %d lines, not %d", in, len(got), len(want))
		}
	}
}

func TestSharesAreTheWholeText(t *testing.T) {
	lines := split([]byte("0\n1\n2\n3\n4\n5\n6"))
	for n := 1; n <= 9; n++ {
		found := 0
		for i := range n {
			for k, line := range (text{lines: lines}).share(i, n) {
				if string(line) != fmt.Sprint(k*n+i) {
					t.Errorf("line %d of member %d of %d is %s", k, i, n, line)
				}
				found++
			}
		}
		if found != len(lines) {
			t.Errorf("%d members send %d lines", n, found)
		}
	}
}

func TestTheBuiltInTextIsThePublicDomainOne(t *testing.T) {
	got, faults := readText(nil, nil)
	if len(faults) > 0 || len(got.lines) != 4641 || !bytes.Contains(got.lines[2], []byte("public domain")) {
		t.Fatal(len(got.lines), faults)
	}
}

func TestFilesAndStandardInputAreOneText(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, []byte("b\n"), 0o600)
	got, faults := readText([]string{"-", file}, strings.NewReader("a"))
	if len(faults) > 0 || got.name != "-, file" || len(got.lines) != 2 || string(got.lines[0])+string(got.lines[1]) != "ab" {
		t.Fatalf("%+v %v", got, faults)
	}
}

func TestAnEndlessTextIsRefused(t *testing.T) {
	if _, err := readFile("-", zeros{}, 1<<20); err == nil || !strings.Contains(err.Error(), "standard input: the demo takes at most") {
		t.Fatal(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

var _ io.Reader = zeros{}

func TestTheUsualRepeatIsAFewSecondsOfWork(t *testing.T) {
	for _, c := range []struct {
		lines, nodes, size int
		want               int
	}{
		{4641, 3, 0, 1939},
		{4641, 16, 0, 363},
		{4641, 3, 10240, 28},
		{10_000_000, 3, 0, 1},
		{1, 1, 0, maxRepeat},
	} {
		o := options{Nodes: c.nodes, Size: c.size}
		if got := o.usualRepeat(text{lines: make([][]byte, c.lines)}); got != c.want {
			t.Errorf("%+v: %d times", c, got)
		}
	}
}
