package auto

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
)

// errGivenUp ends the attempts to reach a peer whose row was frozen, or whose table was closed.
var errGivenUp = errors.New("the link was given up")

// connecting implements fabric.Connecting: a goroutine for each peer that this member dials, one
// for each transport on which the others call, and one for each peer that finds out whether the
// peer's process ended. They end with Close; the goroutines of one peer end as soon as its link is
// up, or known not to come.
type connecting struct {
	spec    *fabric.Spec
	table   *fabric.Table
	ctx     context.Context
	stop    context.CancelCauseFunc
	peers   []context.Context         // by rank: until the link is here, or is given up
	cancels []context.CancelCauseFunc // of peers
	busy    sync.WaitGroup
}

func newConnecting(spec *fabric.Spec) *connecting {
	c := &connecting{spec: spec}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	for range spec.Peers {
		ctx, cancel := context.WithCancelCause(c.ctx)
		c.peers, c.cancels = append(c.peers, ctx), append(c.cancels, cancel)
	}
	return c
}

// arrive hands a link over, or the reason why there will be none: the goroutines that look for the
// peer end.
func (c *connecting) arrive(r order.Rank, l fabric.Link, err error) {
	c.table.Arrive(r, l, err)
	c.cancels[r](errArrived)
}

// errArrived ends what else is done to reach a peer.
var errArrived = errors.New("its link is decided")

// dial calls the peers of lower rank among some.
func (c *connecting) dial(peers []order.Rank, dial func(context.Context, order.Rank) (fabric.Link, error)) {
	for _, r := range peers {
		if r > c.spec.Self {
			continue
		}
		c.busy.Go(func() {
			l, err := dial(c.peers[r], r)
			c.arrive(r, l, err)
		})
	}
}

// await takes the calls of the peers of higher rank among some.
func (c *connecting) await(peers []order.Rank, await func(context.Context, func(order.Rank) bool, func(order.Rank, fabric.Link, error))) {
	callers := slices.DeleteFunc(slices.Clone(peers), func(r order.Rank) bool { return r < c.spec.Self })
	if len(callers) == 0 {
		return
	}
	c.busy.Go(func() {
		wants := func(r order.Rank) bool { return slices.Contains(callers, r) && c.table.Wants(r) }
		await(c.ctx, wants, c.arrive)
	})
}

// watch looks out for the ends of peers' processes, as far as it is known which processes they are.
func (c *connecting) watch(peers []order.Rank, watch func(context.Context, fabric.Peer) error) {
	for _, r := range peers {
		if c.spec.Peers[r].Incarnation == 0 {
			continue
		}
		c.busy.Go(func() {
			if err := watch(c.peers[r], c.spec.Peers[r]); err != nil {
				c.arrive(r, nil, fmt.Errorf("node %d at %s: %w", c.spec.Peers[r].ID, c.spec.Peers[r].Addr, err))
			}
		})
	}
}

// Cancel implements fabric.Connecting. A peer that calls is refused from now on, because the table
// wants it no longer.
func (c *connecting) Cancel(r order.Rank) { c.cancels[r](errGivenUp) }

// Close implements fabric.Connecting.
func (c *connecting) Close() {
	c.stop(errGivenUp)
	c.busy.Wait()
}
