//go:build linux

package ibverbs_test

import (
	"errors"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/verbs/ibverbs"
	"github.com/squall-go/squall/fabric/verbs/internal/verbstest"
	"github.com/squall-go/squall/order"
)

// transports are those of the first device of this host; without one, the test is skipped.
func transports(t *testing.T) verbstest.Transports {
	shared, err := ibverbs.Open("")
	if errors.Is(err, ibverbs.ErrNotBuilt) || errors.Is(err, ibverbs.ErrNoDevice) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(testing.TB, order.Rank) fabric.Transport { return shared }
}

func TestFabric(t *testing.T) { verbstest.Run(t, transports(t)) }

func TestMembersWithoutDeviceAreReachedByTCP(t *testing.T) { verbstest.Mixed(t, transports(t)) }

func TestLargeMessagesGoThroughStreams(t *testing.T) {
	verbstest.Large(t, transports(t), atMost(64<<20), 2)
}

func TestLongMessagesGoIntoWindowsThroughStreams(t *testing.T) {
	verbstest.Windows(t, transports(t), atMost(16<<20))
}

// atMost is a size that is smaller in a short run.
func atMost(size int) int {
	if testing.Short() {
		return 3_000_001
	}
	return size
}

func TestJoinsAndLeavesLeaveNothing(t *testing.T) {
	times := 200
	if testing.Short() {
		times = 5
	}
	verbstest.Joins(t, transports(t), times)
}
