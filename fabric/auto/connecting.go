package auto

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
)

// errGivenUp ends the attempts to reach a peer whose row was frozen, or whose table was closed.
var errGivenUp = errors.New("the link was given up")

// connecting implements fabric.Connecting: a goroutine for each peer that this member dials, and one for each way on which the
// others call. They end with Close, those that dial as soon as they have an answer.
type connecting struct {
	spec    *fabric.Spec
	table   *fabric.Table
	ctx     context.Context
	stop    context.CancelCauseFunc
	cancels []context.CancelCauseFunc // by rank; of those that are dialed
	busy    sync.WaitGroup
}

func newConnecting(spec *fabric.Spec) *connecting {
	c := &connecting{spec: spec, cancels: make([]context.CancelCauseFunc, len(spec.Peers))}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	return c
}

// dial calls the peers of lower rank among some.
func (c *connecting) dial(peers []order.Rank, dial func(context.Context, order.Rank) (fabric.Link, error)) {
	for _, r := range peers {
		if r > c.spec.Self {
			continue
		}
		ctx, cancel := context.WithCancelCause(c.ctx)
		c.cancels[r] = cancel
		c.busy.Go(func() {
			defer cancel(nil)
			l, err := dial(ctx, r)
			c.table.Arrive(r, l, err)
		})
	}
}

// await takes the calls of the peers of higher rank among some.
func (c *connecting) await(peers []order.Rank, await func(context.Context, func(order.Rank) bool, func(order.Rank, fabric.Link))) {
	callers := slices.DeleteFunc(slices.Clone(peers), func(r order.Rank) bool { return r < c.spec.Self })
	if len(callers) == 0 {
		return
	}
	c.busy.Go(func() {
		wants := func(r order.Rank) bool { return slices.Contains(callers, r) && c.table.Wants(r) }
		await(c.ctx, wants, func(r order.Rank, l fabric.Link) { c.table.Arrive(r, l, nil) })
	})
}

// Cancel implements fabric.Connecting. A peer that calls is refused from now on, because the table wants it no longer.
func (c *connecting) Cancel(r order.Rank) {
	if cancel := c.cancels[r]; cancel != nil {
		cancel(errGivenUp)
	}
}

// Close implements fabric.Connecting.
func (c *connecting) Close() {
	c.stop(errGivenUp)
	c.busy.Wait()
}
