package child

import (
	"bufio"
	"os/exec"
	"testing"
)

// Whoever stands still has nobody see it go on: what it writes stops at once, and comes again afterwards.
func TestAChildStandsStillUntilItIsToGoOn(t *testing.T) {
	c := exec.Command("sh", "-c", "while echo on; do :; done")
	DieWithParent(c)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Skip("there is no shell here:", err)
	}
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
	if err := c.Wait(); err == nil {
		t.Error("it ended well")
	}
	if err := Stop(c.Process); err == nil {
		t.Error("a child that has ended stands still")
	}
}
