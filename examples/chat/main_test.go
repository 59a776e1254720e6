package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// asChat makes this test binary the program, in the processes of a test.
const asChat = "CHAT_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asChat) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process is one member in a process of its own, which is gone when the test ends.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string // what it printed
	errors bytes.Buffer
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), self, args...), lines: make(chan string, 1000)}
	p.cmd.Env = append(os.Environ(), asChat+"=1")
	p.cmd.Stderr = &p.errors
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	return p
}

// next is the next line, if there is one within 20 seconds.
func (p *process) next() string {
	p.t.Helper()
	select {
	case line, more := <-p.lines:
		if !more {
			p.t.Fatalf("it ended: %s", p.errors.String())
		}
		return line
	case <-time.After(20 * time.Second):
		p.t.Fatal("it says nothing")
	}
	return ""
}

// said is the next n lines that members said.
func (p *process) said(n int) (lines []string) {
	p.t.Helper()
	for len(lines) < n {
		if line := p.next(); !strings.HasPrefix(line, "*") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestAllReadTheSameTalk(t *testing.T) {
	const each = 20
	first := start(t, "-id", "1")
	addr := first.address()
	talkers := []*process{first, start(t, "-id", "2", "-join", addr), start(t, "-id", "3", "-join", addr)}
	for k := range each {
		for i, p := range talkers {
			fmt.Fprintf(p.in, "line %d of %d\n", k, i+1)
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
	p.in.Close()
	for line := range p.lines {
		if !strings.Contains(line, "* view ") {
			p.t.Errorf("read at last: %s", line)
		}
	}
	if err := p.cmd.Wait(); err != nil || p.errors.Len() > 0 {
		p.t.Errorf("%v\n%s", err, p.errors.String())
	}
}

// address is where it listens, which it says first.
func (p *process) address() string {
	p.t.Helper()
	_, addr, _ := strings.Cut(p.next(), "* listening on ")
	return addr
}

func TestTheTalkGoesOnWithoutThoseWhoLeaveAndWithThoseWhoCome(t *testing.T) {
	first := start(t, "-id", "1")
	founder := first.address()
	second, third := start(t, "-id", "2", "-join", founder), start(t, "-id", "3", "-join", founder)
	later := third.address()
	fmt.Fprintln(first.in, "hello")
	for _, p := range []*process{first, second, third} {
		if got := p.said(1); got[0] != "1: hello" {
			t.Errorf("%q", got)
		}
	}
	first.leave()
	fourth := start(t, "-id", "4", "-join", later)
	fmt.Fprintln(fourth.in, "anybody there?")
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
	p := start(t)
	for range p.lines {
	}
	if err := p.cmd.Wait(); err == nil || !strings.Contains(p.errors.String(), "ID is 0") {
		t.Errorf("%v: %s", err, p.errors.String())
	}
}
