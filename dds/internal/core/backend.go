package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/extension"
	"github.com/squall-go/squall/order"
)

// Backend is how a process takes part in a space: as a member of its group, or as a client of one.
// Calls wait until what they do has its position in the order.
type Backend interface {
	// Persistent reports whether the space has a log, for topics that are PERSISTENT (NotPersistent).
	Persistent() bool
	Declare(context.Context, space.TopicInfo) error
	Forget(ctx context.Context, topic string) error
	// Describe returns the topics and endpoints of the space.
	Describe() ([]space.TopicInfo, []space.EndpointInfo)
	// InSpace returns the name that an endpoint of this process has in the space.
	InSpace(space.ID) space.ID

	// Open opens an endpoint, which may be a writer with an origin at a member only. Under the lock,
	// as soon as the endpoint has its name, it calls prepare, which returns the filter of a reader, or
	// nil.
	Open(ctx context.Context, info space.EndpointInfo, prepare func(space.ID) *remote.Filter) (space.ID, error)
	// GiveUp forgets an endpoint that is open and that nobody is going to use, without waiting.
	GiveUp(space.ID)
	Change(context.Context, space.ID, qos.Set) error
	// Shut closes an endpoint.
	Shut(context.Context, space.ID) error
	// EndOrigin closes a writer whose origin has ended.
	EndOrigin(context.Context, space.ID) error
	// Matches returns how many endpoints match one of this process. The lock is held.
	Matches(space.ID) (n int, ok bool)
	// Assert says that a writer is alive, or, with the number 0, this process.
	Assert(context.Context, space.ID) error
	// Outlet returns where the samples of a writer go.
	Outlet(id space.ID, topic string, set qos.Set) Outlet
	// NewSet returns the number of a new coherent set, for Sample.Set. EndSet ends a set of which at
	// least one sample was written.
	NewSet() uint64
	EndSet(ctx context.Context, number uint64, drop bool) error

	// Roomy says that a reader of this process may have space again.
	Roomy()
	Close(context.Context) error
}

// NotPersistent is the error of a topic that needs a log where there is none.
func NotPersistent(d qos.Durability) error {
	return fmt.Errorf("%w: %v needs a space whose subgroup has the mode Persistent", qos.ErrRefused, d)
}

// Outlet takes the samples of one writer.
type Outlet interface {
	// TryWrite writes a sample. It returns ErrNoRoom if that would wait; then w.Unsent is for Write.
	// The writer's lock is held.
	TryWrite(w *Writing) (Future, error)
	// Write writes a sample that TryWrite has left, and waits for buffer space.
	Write(context.Context, *Unsent) (Future, error)
	// Claim takes room for a sample of n bytes without a key, and returns it, too.
	Claim(ctx context.Context, n int) (Claim, []byte, error)
	// Flush waits until everything that was written is in the order and, if stored, on the disk of
	// every member.
	Flush(ctx context.Context, stored bool) error
	// Changed says that the writer has other policies.
	Changed(qos.Set)
}

// ErrNoRoom is the error of TryWrite.
var ErrNoRoom = errors.New("dds: the sample waits for space")

// Writing is a sample that is being written. A writer has one, under its lock: nothing is allocated
// for a sample.
type Writing struct {
	Sample space.Sample // its operation, its key, its coherent set, and the number and time at its origin; the rest is the outlet's
	Value  Value        // of an operation that is a write
	Size   int          // how many bytes the value appends; -1: unknown
	Future bool         // a future is wanted

	// Of the outlet.
	Unsent Unsent
	Record []byte // memory
	Yield  bool   // the caller is to let other goroutines run, once it has released its lock
}

// Value is what a sample has.
type Value interface {
	// Append appends its encoding.
	Append(dst []byte) ([]byte, error)
}

// Unsent is a sample that waits for buffer space, as the outlet has left it.
type Unsent struct {
	Future bool // a future is wanted
	// Of a member: the record, one that is sent before it, or nil, and whether the sample goes without
	// an order.
	Record, First []byte
	Loose         bool
	// Of a client.
	Entry remote.Entry
}

// Future is dds.Future.
type Future interface {
	Done() <-chan struct{}
	Wait(context.Context) (order.Version, error)
	Persisted(context.Context, order.Stage) (order.Version, error)
}

// Claim is room for a sample, and where it is committed.
type Claim struct {
	Room extension.Room
	In   Committer
}

// Committer ends claims, as extension.Rooms does.
type Committer interface {
	Commit(extension.Room) error
	Abort(extension.Room) error
}
