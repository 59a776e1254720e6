package testutil

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// programVariable tells this executable that a test started it to be a Program.
const programVariable = "SQUALL_TEST_PROGRAM"

// tie is the descriptor that a program finds open for as long as the test's process lives.
const tie = 3

// BecomeProgram returns at once, unless StartProgram started this process: then it runs main, and
// ends. It is the first that a TestMain calls.
func BecomeProgram(main func()) {
	if os.Getenv(programVariable) == "" {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(tie, "tie"))
		os.Exit(1)
	}()
	main()
	os.Exit(0)
}

// BecomeProgramOf is BecomeProgram for a function that gets the arguments and may fail.
func BecomeProgramOf(run func(args []string) error) {
	BecomeProgram(func() {
		if err := run(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	})
}

// Program is this executable once more, as the program that the TestMain of its package names. It
// is gone when the test ends. Its methods are called from one goroutine, but for Kill and Signal.
type Program struct {
	In io.WriteCloser // its standard input

	t     testing.TB
	cmd   *exec.Cmd
	lines chan string // that it printed; closed at their end
	errs  bytes.Buffer
	wait  func() error
}

// StartProgram starts a program with arguments. As others share the machine, it gets one core.
func StartProgram(t testing.TB, args ...string) *Program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Program{t: t, cmd: exec.Command(self, args...), lines: make(chan string, 1000)}
	p.cmd.Env = append(os.Environ(), programVariable+"=1", "GOMAXPROCS=1")
	p.cmd.Stderr = &p.errs
	tied, here, errTie := os.Pipe()
	out, errOut := p.cmd.StdoutPipe()
	p.In, err = p.cmd.StdinPipe()
	p.cmd.ExtraFiles = []*os.File{tied}
	if err := errors.Join(err, errTie, errOut, p.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	_ = tied.Close()
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	p.wait = sync.OnceValue(func() error { return errors.Join(p.cmd.Wait(), here.Close()) })
	t.Cleanup(func() {
		if p.Kill(); t.Failed() {
			t.Logf("program %q: %s", args, p.errs.String())
		}
	})
	return p
}

// Next is the next line that the program prints.
func (p *Program) Next() string {
	p.t.Helper()
	return p.Await("")
}

// Await is the next line that contains a text.
func (p *Program) Await(text string) string {
	p.t.Helper()
	var passed []string
	for late := time.After(patience); ; {
		select {
		case line, more := <-p.lines:
			if !more {
				p.t.Fatalf("the program ended without %q: %q, %v", text, passed, p.wait())
			}
			if strings.Contains(line, text) {
				return line
			}
			passed = append(passed, line)
		case <-late:
			p.t.Fatalf("the program does not say %q: %q", text, passed)
		}
	}
}

// Ask writes a line to the program, and waits for a line that contains its answer.
func (p *Program) Ask(line, answer string) {
	p.t.Helper()
	fmt.Fprintln(p.In, line)
	p.Await(answer)
}

// Signal sends the program a signal.
func (p *Program) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// Kill ends the program at once, if it still runs.
func (p *Program) Kill() {
	_ = p.cmd.Process.Kill()
	_, _ = p.end()
}

// End waits until the program has ended by itself. It returns the lines that it still printed, and
// what it wrote to its standard error. Only a program that did well may say nothing there.
func (p *Program) End() (lines []string, errs string) {
	p.t.Helper()
	hung := time.AfterFunc(patience, func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) }) // it shows where
	defer hung.Stop()
	lines, err := p.end()
	if errs = p.errs.String(); (err == nil) != (errs == "") {
		p.t.Errorf("the program ended with %v, and said %q", err, errs)
	}
	return lines, errs
}

// Interrupt sends the program a signal on which it ends well, whatever it logs, and waits for that.
func (p *Program) Interrupt(s os.Signal) {
	p.t.Helper()
	p.Signal(s)
	hung := time.AfterFunc(patience, func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) })
	defer hung.Stop()
	if _, err := p.end(); err != nil {
		p.t.Errorf("after %v the program ended with %v, and said %q", s, err, p.errs.String())
	}
}

func (p *Program) end() (lines []string, err error) {
	for line := range p.lines {
		lines = append(lines, line)
	}
	return lines, p.wait()
}

// AwaitGone waits until no process with a number runs, and ends it if that takes long.
func AwaitGone(t testing.TB, pid int) {
	t.Helper()
	within := Within(t)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for running(pid) {
		select {
		case <-tick.C:
		case <-within.Done():
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d runs", pid)
		}
	}
}

// running reports whether a process is there and not merely waiting to be reaped.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// Finish closes the input of the program, which must end well.
func (p *Program) Finish() (lines []string) {
	p.t.Helper()
	p.In.Close()
	lines, errs := p.End()
	if errs != "" {
		p.t.Error(errs)
	}
	return lines
}
