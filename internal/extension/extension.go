// Package extension has the types through which packages replicated and dds, and benchmarks, use
// package squall beyond its API. Programs cannot import it, so that they cannot call the methods
// that take a value of one of these types.
package extension

import "context"

// Config is the part of a squall.SubgroupConfig that programs do not set.
type Config struct {
	// Keeper reads the data of messages after the upcall. Nil: the application keeps no message. The
	// mode is Ordered, and DeliverSome is set.
	Keeper Keeper
	// Operations are the commands that this process can execute. They are part of the declaration.
	Operations []string
	// Missing returns which of the commands in use are not among the given ones. It is called on any
	// goroutine, and does not block. Nil: the subgroup is no object.
	Missing func(operations []string) []string
}

// Tuning switches parts of the protocol off, to measure what they are worth. The zero value has
// everything on. A group that runs so is slower, or stands still where one that does not goes on.
type Tuning struct {
	OneSend    bool // publish one message per cycle instead of all that is committed
	OneReceive bool // receive one message per sender and cycle instead of all that is visible
	OneDeliver bool // deliver one message per cycle instead of all that is stable
	NoNulls    bool // never send nulls: a silent sender stalls the order
}

// Keeper keeps messages: it reads their data after the upcall.
type Keeper interface {
	// Offer is called before the upcall, on the loop, if the data of the messages that it is about to
	// get stay as long as they are kept.
	Offer()
	// Kept returns the position of the first message of the view that it keeps, and math.MaxUint64 if
	// it keeps none. Any goroutine.
	Kept() uint64
	// LetGo has it keep no message.
	LetGo()
}

// Key lets a package get the Subgroup of a *squall.Subgroup.
type Key struct{}

// Subgroup is what a *squall.Subgroup does for packages replicated and dds only.
type Subgroup interface {
	Rooms
	// BeforeLeave has f called when the process is about to leave the group, before the subgroup
	// refuses messages.
	BeforeLeave(f func(context.Context))
	// Bound returns the context of a wait for the subgroup to take messages: one that has ended with
	// squall.ErrInCallback in an upcall which the subgroup waits for, and otherwise ctx.
	Bound(ctx context.Context) context.Context
}

// Room is room for a message: a squall.Claim in a form that needs no package squall.
type Room struct {
	Number uint64
	Bytes  []byte // to be filled
}

// Rooms has rooms in the ring of a subgroup. Its methods are those of a subgroup and a claim.
type Rooms interface {
	TryClaim(n int) (Room, error)
	Claim(ctx context.Context, n int) (Room, error)
	Commit(Room) error
	Abort(Room) error
}
