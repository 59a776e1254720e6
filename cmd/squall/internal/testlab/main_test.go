//go:build system

package testlab

import (
	"flag"
	"os"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/proc"
)

// roles are what this executable is started as, too.
var roles = []proc.Program{Program}

func TestMain(m *testing.M) {
	proc.Become(roles...)
	flag.BoolVar(&KeepLogs, "keep", false, "keep the logs of good runs, too")
	flag.Parse()
	os.Exit(m.Run())
}

// takesTime skips a test that waits for seconds, and of whose kind others run.
func takesTime(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("waits for seconds: runs without -short")
	}
}

// mixed is node 1 with connections to all others, which share memory.
func mixed(id squall.NodeID) squall.Fabric {
	if id == 1 {
		return squall.FabricTCP
	}
	return squall.FabricAuto
}

func all(f squall.Fabric) func(squall.NodeID) squall.Fabric {
	return func(squall.NodeID) squall.Fabric { return f }
}

// fabrics are the ways in which the processes of a cluster reach each other.
var fabrics = []struct {
	name string
	of   func(squall.NodeID) squall.Fabric
}{{"shm", all(squall.FabricSHM)}, {"tcp", all(squall.FabricTCP)}, {"mixed", mixed}}
