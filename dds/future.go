package dds

import (
	"context"

	"github.com/squall-go/squall/order"
)

// Version is a position in the log of the space.
type Version = order.Version

// Future is the delivery of a sample and, in a space that is Persistent, its way to the disks. At a
// client it is about the order, and the disks of the members.
type Future interface {
	// Done is closed when the sample is in the order, or when it is known that this will not be known.
	Done() <-chan struct{}
	// Wait waits until the sample is in the order, and returns its position in the log of the space. A
	// client gets the position that its relay had come to when it said so: that of the sample, or a
	// later one.
	Wait(ctx context.Context) (Version, error)
	// Persisted is Wait, and then waits until the sample is on the disk of this process or of every
	// member; of a client's sample, always of every member. It fails with ErrNotPersistent if the
	// space is not Persistent.
	Persisted(ctx context.Context, s Stage) (Version, error)
}

// Stage says which disks have a sample.
type Stage = order.Stage

// Stages. A sample that is OnEveryDisk survives even if all members end at once.
const (
	OnThisDisk  = order.OnThisDisk
	OnEveryDisk = order.OnEveryDisk
)
