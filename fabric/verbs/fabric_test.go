//go:build linux

package verbs_test

import (
	"errors"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/verbs"
	"github.com/squall-go/squall/fabric/verbs/internal/fake"
	"github.com/squall-go/squall/fabric/verbs/internal/verbstest"
	"github.com/squall-go/squall/order"
)

// transports are those of a new network for the nodes of each view.
func transports(o fake.Options) verbstest.Transports {
	var net *fake.Network
	return func(t testing.TB, r order.Rank) fabric.Transport {
		if r == 0 {
			net = fake.New(o)
			t.Cleanup(net.Close)
			o.Seed++
		}
		return verbs.New(net.Device())
	}
}

func TestFabric(t *testing.T) {
	verbs.Seeds(t, 1, 3, func(_ testing.TB, seed uint64) error {
		verbstest.Run(t, transports(fake.Options{Seed: seed << 16, Goroutine: true})) // each view has the next seed
		if t.Failed() {
			return errors.New("the promises of package fabric")
		}
		return nil
	})
}

func TestMembersWithoutDeviceAreReachedByTCP(t *testing.T) {
	verbstest.Mixed(t, transports(fake.Options{Seed: 1, Goroutine: true}))
}

func TestLargeMessagesGoThroughStreams(t *testing.T) {
	verbstest.Large(t, transports(fake.Options{Seed: 1, Goroutine: true}), 3_000_001, 2)
}

func TestLongMessagesGoIntoWindowsThroughStreams(t *testing.T) {
	verbstest.Windows(t, transports(fake.Options{Seed: 4, Goroutine: true}), 3_000_001)
}

func TestJoinsAndLeavesLeaveNothing(t *testing.T) {
	verbstest.Joins(t, transports(fake.Options{Seed: 2, Goroutine: true}), 3)
}
