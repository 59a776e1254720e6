package invoke

import (
	"context"
	"errors"
	"fmt"

	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/order"
)

// Callee has a Target.
type Callee interface {
	Callee() Target
}

// Target executes operations: an object of this process, or a member that a client calls.
type Target interface {
	// InHandler returns an error if the caller is a handler of the object's group, which must not wait
	// for it.
	InHandler() error
	// Now returns the target at which an operation is called now: of a shard, the member that has it.
	Now(ctx context.Context) (Target, error)
	// Command has a command ordered. P is completed and signalled when its outcome is known, unless
	// Command returns an error. It may wait for the outcome itself.
	Command(ctx context.Context, name string, args Encoder, p Pending) error
	// Start is like Command, and does not wait for the outcome.
	Start(ctx context.Context, name string, args Encoder, p Pending) error
	// Replies has a command ordered and yields what the members answer. The error of a command that
	// was not executed is a *Refusal.
	Replies(ctx context.Context, name string, args Encoder, n int, yield func(Reply) bool) error
	// Query runs a query.
	Query(ctx context.Context, name string, c Consistency, r Reading) error
	// Past runs a query about the past.
	Past(ctx context.Context, name string, at Moment, r Reading) error
	// Events returns events after a cursor whose topics begin with prefix, and the cursor after all
	// that it looked at. It waits a while if there is none, and may return none.
	Events(ctx context.Context, after Cursor, prefix string) ([]Event, Cursor, error)
	// Latest returns the cursor after every event of commands that were answered before.
	Latest(ctx context.Context) (Cursor, error)
}

// Sharded is a Target that may have shards.
type Sharded interface {
	// ShardCount returns how many shards there are, at least 1.
	ShardCount(ctx context.Context) (int, error)
	// ShardAt returns a shard, from 0.
	ShardAt(n int) Target
}

// Forwarder is a Target at other processes, which takes what handlers of this process sent.
type Forwarder interface {
	// Forward sends a request, and returns nil if the command was executed.
	Forward(ctx context.Context, operation string, request []byte) error
}

// Consistency is what a query may see.
type Consistency uint8

// What a query may see. Requests carry the numbers.
const (
	Linearizable Consistency = iota // every command that was answered before
	Local                           // the copy as it is
)

// Moment is what a query about the past asks for: a version, or a time.
type Moment struct {
	Timed   bool
	Version order.Version
	Time    order.Time
}

func (m Moment) String() string {
	if m.Timed {
		return fmt.Sprint("time ", m.Time)
	}
	return fmt.Sprint("version ", m.Version)
}

// Errors of calls that are made again, and so seldom reach a caller.
var (
	// ErrElsewhere says that nothing was done, because the member is not in the shard any more.
	ErrElsewhere = fmt.Errorf("nothing was done, call it again: %w", errs.ErrLeftShard)
	// ErrAway says that a member cannot serve a client now.
	ErrAway = errors.New("the member cannot serve")
	// ErrFull says that a command was not executed, because too many replies are not acknowledged.
	ErrFull = errors.New("too many replies are not acknowledged")
)

// Retry reports whether a call that failed is made again: its member left the shard before it did
// anything.
func Retry(ctx context.Context, err error) bool {
	return err != nil && errors.Is(err, ErrElsewhere) && ctx.Err() == nil
}

// Refusal is the outcome of a record that was not executed.
type Refusal struct {
	Operation string
	Status    Status
	Reply     []byte
}

func (e *Refusal) Error() string { return fmt.Sprintf("replicated: %s: %s", e.Operation, e.Status) }
