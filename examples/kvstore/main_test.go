package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

func TestMain(m *testing.M) {
	testutil.BecomeProgram(main)
	os.Exit(m.Run())
}

// peers are free addresses.
func peers(t *testing.T, n int) string {
	var addrs []string
	for range n {
		addrs = append(addrs, testutil.FreeAddress(t))
	}
	return strings.Join(addrs, ",")
}

func TestAReplicaThatWasKilledGetsTheMapAgain(t *testing.T) {
	all := peers(t, 3)
	replica := func(id int) *testutil.Program { return testutil.StartProgram(t, "-id", fmt.Sprint(id), "-peers", all) }
	replicas := []*testutil.Program{replica(1), replica(2), replica(3)}
	replicas[0].Ask("color=blue", "color=blue, change 1:")
	replicas[1].Ask("size=7", "size=7, change 1:")
	replicas[2].Kill()
	replicas[0].Ask("color=green", "color=green, change ") // the last of view 1, or the first of view 2
	replicas[1].Ask("shape=round", "shape=round, change 2:")
	again := replica(3)
	again.Await("restored from node")
	again.Ask("*", "3: color=green shape=round size=7")
	again.Ask("color=red", "color=red, change 3:")
	replicas[1].Ask("last=1", "last=1, change 3:") // behind it in the order
	replicas[1].Ask("*", "4: color=red last=1 shape=round size=7")
	for _, p := range []*testutil.Program{again, replicas[0], replicas[1]} {
		p.Finish()
	}
}

func TestReplicasWithDirectoriesHaveTheMapAfterAllOfThemEnded(t *testing.T) {
	all, dir := peers(t, 3), t.TempDir()
	replica := func(id int) *testutil.Program {
		return testutil.StartProgram(t, "-id", fmt.Sprint(id), "-peers", all, "-dir", filepath.Join(dir, fmt.Sprint(id)))
	}
	replicas := []*testutil.Program{replica(1), replica(2), replica(3)}
	replicas[0].Ask("color=blue", "color=blue, change 1:")
	replicas[1].Ask("size=7", "size=7, change 1:")
	replicas[1].Ask("color=green", "color=green, change 1:")
	for _, p := range replicas {
		p.Finish()
	}
	for _, p := range []*testutil.Program{replica(1), replica(2), replica(3)} {
		p.Ask("*", "2: color=green size=7")
	}
}

func TestAMissingIdIsNamed(t *testing.T) {
	if _, errs := testutil.StartProgram(t).End(); !strings.Contains(errs, "-id is 0") {
		t.Error(errs)
	}
}
