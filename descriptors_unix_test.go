//go:build unix

package squall_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-go/squall"
)

// limited runs a test in a process of its own, whose limit of descriptors the test lowers for good.
func limited(t *testing.T) (here bool) {
	t.Helper()
	const mark = "SQUALL_TEST_LIMITED"
	if os.Getenv(mark) == t.Name() {
		return true
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mark+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// limit lowers how many descriptors this process may have.
func limit(t *testing.T, n uint64) {
	t.Helper()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}); err != nil {
		t.Fatal(err)
	}
}

// useUp opens files until no descriptor is left, and returns what closes them.
func useUp(t *testing.T) (free func()) {
	t.Helper()
	var files []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if errors.Is(err, unix.EMFILE) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return func() {
		for _, f := range files {
			f.Close()
		}
	}
}

func TestAGroupGoesOnWhenItsProcessHasNoDescriptorLeft(t *testing.T) {
	if !limited(t) {
		return
	}
	limit(t, 600)
	for name, fabric := range map[string]squall.Fabric{"auto": squall.FabricAuto, "tcp": squall.FabricTCP} {
		js := newJournals(3)
		groups := cluster(t, 3, func(i int, c *squall.Config) {
			c.Fabric = fabric
			c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: js[i].deliver}}
		})
		everybodySends(t, "a", 10, groups...)
		same(t, 30, js...)
		free := useUp(t)
		if err := groups[2].Leave(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		eventually(t, "the view without node 3", func() bool { return len(groups[0].View().Members) == 2 && len(groups[1].View().Members) == 2 })
		everybodySends(t, "a", 10, groups[:2]...)
		same(t, 50, js[:2]...)
		free()
		for _, g := range groups {
			if err := g.Err(); g != groups[2] && err != nil {
				t.Errorf("%s: node %d: %v", name, g.ID(), err)
			}
		}
		closeAll(groups...)
	}
}

func TestOpenSaysWhenThereAreTooFewDescriptors(t *testing.T) {
	if !limited(t) {
		return
	}
	limit(t, 80)
	_, err := squall.Open(t.Context(), squall.Config{
		Cluster: t.Name(), ID: 1, Listen: "127.0.0.1:0", InitialMembers: 5,
		Subgroups: []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}},
	})
	if !errors.Is(err, squall.ErrTooFewDescriptors) || !strings.Contains(err.Error(), "limit of 80") {
		t.Error(err)
	}
}
