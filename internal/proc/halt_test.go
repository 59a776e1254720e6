package proc

import (
	"bufio"
	"errors"
	"os/exec"
	"testing"
)

// program is a child that runs another program than this one.
func program(enter func() error, name string, args ...string) (*Child, error) {
	c := &Child{role: "program", cmd: exec.Command(name, args...), tail: newTail(0, nil), ended: make(chan struct{})}
	return c, c.run(enter)
}

// A process that stands still is not seen to go on: what it writes stops at once, and comes again
// afterwards.
func TestAChildStandsStillUntilItIsToGoOn(t *testing.T) {
	c, err := program(nil, "sh", "-c", "while echo on; do :; done")
	if err != nil {
		t.Skip("there is no shell here:", err)
	}
	lines := bufio.NewScanner(c.out)
	for range 20 {
		for range 100 {
			if !lines.Scan() {
				t.Fatal(lines.Err())
			}
		}
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := c.Stop(); err != nil {
			t.Fatal("a second time:", err)
		}
		if err := c.Continue(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	c.Kill()
	if err := c.Wait(); err == nil {
		t.Error("it ended well")
	}
	if err := c.Stop(); err == nil {
		t.Error("a child that has ended stands still")
	}
}

func TestAChildThatCannotGoWhereItIsToStartIsNotStarted(t *testing.T) {
	nowhere := errors.New("nowhere")
	if _, err := program(func() error { return nowhere }, "sh", "-c", "exit 0"); !errors.Is(err, nowhere) {
		t.Error(err)
	}
	if _, err := program(nil, "/no/such/program"); err == nil {
		t.Error("a program that is not there was started")
	}
}
