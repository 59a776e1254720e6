package squall

import (
	"context"

	"github.com/squall-go/squall/internal/member"
)

// Future is the delivery of a message that this process sent and, in a persistent subgroup, its way
// to the members' disks. It survives view changes.
type Future struct {
	future member.Future
	group  *Group
}

func (g *Group) newFuture() *Future { return &Future{future: member.MakeFuture(), group: g} }

// Done is closed when the message was delivered here, or when it is known that it will not be.
func (f *Future) Done() <-chan struct{} { return f.future.Done() }

// Wait waits until the message was delivered to this process's application, and returns its
// position in the order: every member of that view that goes on delivers the message there. With
// ErrLeftShard the position is valid and the others deliver the message, but this process left the
// shard before its own application, which waits for all disks, was given it. Any other error than
// the context's is the reason of a halt: the others may have delivered the message, or not.
func (f *Future) Wait(ctx context.Context) (Version, error) {
	select {
	case <-f.future.Done():
		return f.future.Wait(ctx)
	default:
		return f.future.Wait(f.group.upcalls.bound(ctx))
	}
}

// Persisted is Wait, and then waits until the message is on this process's disk, or on every
// member's. It fails with ErrNotPersistent if the subgroup has no log.
func (f *Future) Persisted(ctx context.Context, s Stage) (Version, error) {
	if v, err := f.Wait(ctx); err != nil {
		return v, err
	}
	return f.future.Persisted(f.group.upcalls.bound(ctx), member.Stage(s))
}
