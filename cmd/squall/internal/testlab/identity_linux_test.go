package testlab

import (
	"errors"
	"testing"

	"github.com/squall-go/squall/cmd/squall/internal/testlab/faultfs"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/testutil"
)

// An id that a node has told another process survives a loss of power, and a loss at any step
// before leaves a directory in which the node can begin.
func TestAnIDSurvivesALossOfPower(t *testing.T) {
	seed := testutil.Seed(t)
	t.Log("seed", seed)
	for at := 1; ; at++ {
		disk := faultfs.New(seed + uint64(at))
		disk.Fail(faultfs.Faults{CutAt: at})
		told, done := powered(t, disk)
		disk.Settle(faultfs.Nothing)
		disk.Fail(faultfs.Faults{})
		kept, again := powered(t, disk)
		if !again || done && kept != told {
			t.Fatalf("cut at step %d: it was node %d (%v), and is node %d (%v)", at, told, done, kept, again)
		}
		if done {
			if at < 5 {
				t.Errorf("it took %d steps", at)
			}
			return
		}
	}
}

// powered finds the id on a disk, whose power goes then.
func powered(t *testing.T, disk *faultfs.Disk) (id uint64, ok bool) {
	t.Helper()
	power := faultfs.NewPower()
	m, err := disk.Mount(power)
	if errors.Is(err, faultfs.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	node, _, lock, err := join.Identity(m.Dir, 0)
	lock.Close()
	power.Cut()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return uint64(node), err == nil
}
