package benchrdmc

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/squall-go/squall/rdmc"
)

// blocks is a member's part in a run by a schedule: a group per root.
type blocks struct {
	*member
	groups []*rdmc.Group // by place in task.Roots
	data   [][]byte
	ended  chan error // one per message that has to come, and per one that has to leave

	mu    sync.Mutex
	start instant
	done  map[int]instant
}

func newBlocks(m *member) *blocks {
	n := len(m.task.Roots)
	return &blocks{member: m, groups: make([]*rdmc.Group, n), data: make([][]byte, n), ended: make(chan error, 2*n), done: map[int]instant{}}
}

// prepare opens the groups, all at once, because each waits for all members.
func (b *blocks) prepare(ctx context.Context) error {
	errs := make(chan error, len(b.groups))
	for i, root := range b.task.Roots {
		var err error
		if b.data[i], err = b.buffers.get(i, b.task.Bytes); err != nil {
			return err
		}
		if root == b.Node-1 {
			fill(b.data[i], b.task.seed(root))
		}
		go func() {
			var err error
			b.groups[i], err = b.node.Create(ctx, b.config(i))
			errs <- err
		}()
	}
	var all []error
	for range b.groups {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

func (b *blocks) config(i int) rdmc.GroupConfig {
	t, root := b.task, b.task.Roots[i]
	return rdmc.GroupConfig{
		Name: fmt.Sprintf("run %d from %d", t.Number, root), Key: "bench", Members: t.Peers, Root: root,
		Algorithm: t.Algorithm, BlockBytes: t.BlockBytes,
		Incoming: b.incoming(i),
		Completed: func(m rdmc.Message) {
			at := now()
			b.mu.Lock()
			defer b.mu.Unlock()
			b.done[root], b.data[i] = at, m.Data
			b.ended <- nil
		},
		Aborted: func(_ rdmc.Incoming, err error) { b.ended <- err },
		Failed:  func(err error) { b.ended <- err },
	}
}

// incoming gives a group its buffer; nodes that share memory bring their own.
func (b *blocks) incoming(i int) func(rdmc.Incoming) ([]byte, error) {
	if b.task.Shared {
		return nil
	}
	return func(rdmc.Incoming) ([]byte, error) { return b.data[i], nil }
}

func (b *blocks) run(ctx context.Context, at instant) error {
	if err := sleepUntil(ctx, at); err != nil {
		return err
	}
	for i, root := range b.task.Roots {
		if root == b.Node-1 {
			b.mu.Lock()
			b.start = now()
			b.mu.Unlock()
			_, err := b.groups[i].Start(rdmc.Outgoing{Data: b.data[i], Filled: -1, Everywhere: func(err error) { b.ended <- err }})
			if err != nil {
				return err
			}
		}
	}
	for range b.groups {
		select {
		case err := <-b.ended:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// finish leaves the groups, checks what came, and tells when it was there.
func (b *blocks) finish(ctx context.Context, r *report) error {
	var errs []error
	for _, g := range b.groups {
		if g != nil {
			errs = append(errs, g.Close(ctx))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r.Start, r.Done = b.start, b.done
	for i, root := range b.task.Roots {
		if _, ok := b.done[root]; ok {
			errs = append(errs, check(b.data[i], b.task.seed(root)))
		}
	}
	return errors.Join(errs...)
}
