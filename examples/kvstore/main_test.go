package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asStore makes this test binary the program, in the processes of a test.
const asStore = "KVSTORE_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asStore) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process is one replica in a process of its own, which is gone when the test ends.
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
	p.cmd.Env = append(os.Environ(), asStore+"=1")
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

// await is the next line that contains a text, if there is one within 30 seconds.
func (p *process) await(text string) {
	p.t.Helper()
	var passed []string
	for deadline := time.After(30 * time.Second); ; {
		select {
		case line, more := <-p.lines:
			if strings.Contains(line, text) {
				return
			}
			if passed = append(passed, line); !more {
				p.t.Fatalf("it ended without %q: %q %s", text, passed, p.errors.String())
			}
		case <-deadline:
			p.t.Fatalf("it does not say %q: %q", text, passed)
		}
	}
}

// ask gives a line to the program, whose answer begins with a text.
func (p *process) ask(line, answer string) {
	p.t.Helper()
	fmt.Fprintln(p.in, line)
	p.await(answer)
}

// peers are free addresses.
func peers(t *testing.T, n int) string {
	var addrs []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return strings.Join(addrs, ",")
}

func TestAReplicaThatWasKilledGetsTheMapAgain(t *testing.T) {
	all := peers(t, 3)
	replica := func(id int) *process { return start(t, "-id", fmt.Sprint(id), "-peers", all) }
	replicas := []*process{replica(1), replica(2), replica(3)}
	replicas[0].ask("color=blue", "color=blue, change 1:")
	replicas[1].ask("size=7", "size=7, change 1:")
	killed := replicas[2]
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.cmd.Wait()
	replicas[0].ask("color=green", "color=green, change ") // the last of view 1, or the first of view 2
	replicas[1].ask("shape=round", "shape=round, change 2:")
	again := replica(3)
	again.await("restored from node")
	again.ask("*", "3: color=green shape=round size=7")
	again.ask("color=red", "color=red, change 3:")
	replicas[1].ask("last=1", "last=1, change 3:") // behind it in the order
	replicas[1].ask("*", "4: color=red last=1 shape=round size=7")
	for _, p := range []*process{again, replicas[0], replicas[1]} {
		p.in.Close()
		for range p.lines {
		}
		if err := p.cmd.Wait(); err != nil || p.errors.Len() > 0 {
			t.Errorf("%v: %s", err, p.errors.String())
		}
	}
}

func TestReplicasWithDirectoriesHaveTheMapAfterAllOfThemEnded(t *testing.T) {
	all, dir := peers(t, 3), t.TempDir()
	replica := func(id int) *process {
		return start(t, "-id", fmt.Sprint(id), "-peers", all, "-dir", filepath.Join(dir, fmt.Sprint(id)))
	}
	replicas := []*process{replica(1), replica(2), replica(3)}
	replicas[0].ask("color=blue", "color=blue, change 1:")
	replicas[1].ask("size=7", "size=7, change 1:")
	replicas[1].ask("color=green", "color=green, change 1:")
	for _, p := range replicas {
		p.in.Close()
		for range p.lines {
		}
		if err := p.cmd.Wait(); err != nil || p.errors.Len() > 0 {
			t.Errorf("%v: %s", err, p.errors.String())
		}
	}
	for _, p := range []*process{replica(1), replica(2), replica(3)} {
		p.ask("*", "2: color=green size=7")
	}
}

func TestAMissingIdIsNamed(t *testing.T) {
	p := start(t)
	for range p.lines {
	}
	if err := p.cmd.Wait(); err == nil || !strings.Contains(p.errors.String(), "-id is 0") {
		t.Errorf("%v: %s", err, p.errors.String())
	}
}
