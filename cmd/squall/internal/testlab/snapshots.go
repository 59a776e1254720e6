package testlab

import (
	"context"

	"github.com/squall-go/squall"
)

// snapshotter takes a replica's snapshots, each when it is due.
type snapshotter struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func newSnapshotter(r *replica, s *squall.Subgroup) *snapshotter {
	ctx, cancel := context.WithCancel(context.Background())
	t := &snapshotter{cancel, make(chan struct{})}
	go func() {
		defer close(t.done)
		for {
			select {
			case <-r.due:
			case <-ctx.Done():
				return
			}
			_, err := s.TakeSnapshot(ctx)
			switch {
			case err == nil:
			case ctx.Err() != nil || kindOf(err) == HaltedEvicted || kindOf(err) == HaltedPartitioned:
				return
			default:
				r.fail("taking a snapshot: %v", err)
				return
			}
		}
	}()
	return t
}

func (t *snapshotter) close() {
	t.cancel()
	<-t.done
}
