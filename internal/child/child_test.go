package child

import (
	"bufio"
	"errors"
	"os/exec"
	"testing"
)

// A process that stands still is not seen to go on: what it writes stops at once, and comes again
// afterwards.
func TestAChildStandsStillUntilItIsToGoOn(t *testing.T) {
	c := exec.Command("sh", "-c", "while echo on; do :; done")
	ended := make(chan error, 1)
	in, out, err := Start(c, nil, func(err error) { ended <- err })
	if err != nil {
		t.Skip("there is no shell here:", err)
	}
	defer in.Close()
	defer out.Close()
	lines := bufio.NewScanner(out)
	for range 20 {
		for range 100 {
			if !lines.Scan() {
				t.Fatal(lines.Err())
			}
		}
		if err := Stop(c.Process); err != nil {
			t.Fatal(err)
		}
		if err := Stop(c.Process); err != nil {
			t.Fatal("a second time:", err)
		}
		if err := Continue(c.Process); err != nil {
			t.Fatal(err)
		}
	}
	if err := Stop(c.Process); err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("it ended well")
	}
	if err := Stop(c.Process); err == nil {
		t.Error("a child that has ended stands still")
	}
}

func TestAChildThatCannotGoWhereItIsToStartIsNotStarted(t *testing.T) {
	nowhere := errors.New("nowhere")
	_, _, err := Start(exec.Command("sh", "-c", "exit 0"), func() error { return nowhere }, func(error) { t.Error("it ended") })
	if !errors.Is(err, nowhere) {
		t.Error(err)
	}
	if _, _, err := Start(exec.Command("/no/such/program"), nil, func(error) { t.Error("it ended") }); err == nil {
		t.Error("a program that is not there was started")
	}
}
