package directory

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
)

// When Relay and Serve return, their services are not in the directory any more: the process may
// close the group next, and then nothing withdraws them before their leases end.
func TestWhatDoesNotServeAnyMoreIsNotFound(t *testing.T) {
	ctx := testutil.Within(t)
	members := cluster(t, 2, options{})
	m, other := members[0], members[1]
	at := func(d *Directory, id ripc.ID) bool {
		places, _ := d.ResolveAll(ctx, id)
		return slices.Contains(places, m.endpoint.Place())
	}
	eventually(t, "a member does not serve", func() bool { return at(m.dir, ServiceID) && at(other.dir, ServiceID) })
	news, err := m.group.Subgroup("news")
	must(t, err)
	relaying, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { m.dir.Relay(relaying, m.endpoint, news) })
	eventually(t, "a member does not relay", func() bool { return at(m.dir, ToSubgroup("news")) })
	end()
	running.Wait()
	if at(m.dir, ToSubgroup("news")) {
		t.Error("a relay that has ended is found")
	}
	m.end()
	if at(m.dir, ServiceID) {
		t.Error("a member that does not serve any more is found")
	}
}
