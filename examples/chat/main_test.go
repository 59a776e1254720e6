package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

func TestMain(m *testing.M) {
	testutil.BecomeProgram(main)
	os.Exit(m.Run())
}

// process is one member in a process of its own.
type process struct {
	*testutil.Program
	t *testing.T
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	return &process{testutil.StartProgram(t, args...), t}
}

// startThree starts the members of a list, and returns the list too.
func startThree(t *testing.T) (list string, talkers []*process) {
	t.Helper()
	list = strings.Join([]string{testutil.FreeAddress(t), testutil.FreeAddress(t), testutil.FreeAddress(t)}, ",")
	for _, id := range []string{"1", "2", "3"} {
		talkers = append(talkers, start(t, "-id", id, "-members", list))
	}
	return list, talkers
}

// said is the next n lines that members said.
func (p *process) said(n int) (lines []string) {
	p.t.Helper()
	for len(lines) < n {
		if line := p.Next(); !strings.HasPrefix(line, "*") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestAllReadTheSameTalk(t *testing.T) {
	const each = 20
	_, talkers := startThree(t)
	for k := range each {
		for i, p := range talkers {
			fmt.Fprintf(p.In, "line %d of %d\n", k, i+1)
		}
	}
	want := talkers[0].said(3 * each)
	for i, p := range talkers[1:] {
		if got := p.said(3 * each); !slices.Equal(got, want) {
			t.Errorf("member %d read\n%q\nand member 1\n%q", i+2, got, want)
		}
	}
	for i := range talkers {
		for k, at := 0, 0; k < each; k++ {
			found := slices.Index(want[at:], fmt.Sprintf("%d: line %d of %d", i+1, k, i+1))
			if found < 0 {
				t.Fatalf("line %d of member %d is missing, or out of turn: %q", k, i+1, want)
			}
			at += found
		}
	}
	for _, p := range talkers {
		p.leave()
	}
}

// leave is the end of the input. The process ends well, and says nothing but how the group goes on
// meanwhile.
func (p *process) leave() {
	p.t.Helper()
	for _, line := range p.Finish() {
		if !strings.Contains(line, "* view ") {
			p.t.Errorf("read at last: %s", line)
		}
	}
}

func TestTheTalkGoesOnWithoutThoseWhoLeaveAndWithThoseWhoCome(t *testing.T) {
	list, talkers := startThree(t)
	first, second, third := talkers[0], talkers[1], talkers[2]
	fmt.Fprintln(first.In, "hello")
	for _, p := range []*process{first, second, third} {
		if got := p.said(1); got[0] != "1: hello" {
			t.Errorf("%q", got)
		}
	}
	first.leave()
	fourth := start(t, "-id", "4", "-members", list, "-listen", testutil.FreeAddress(t))
	fmt.Fprintln(fourth.In, "anybody there?")
	for _, p := range []*process{second, third, fourth} {
		if got := p.said(1); got[0] != "4: anybody there?" {
			t.Errorf("%q", got)
		}
	}
	for _, p := range []*process{third, second, fourth} {
		p.leave()
	}
}

func TestAMissingIdIsNamed(t *testing.T) {
	if _, errs := start(t).End(); !strings.Contains(errs, "ID is 0") {
		t.Error(errs)
	}
}
