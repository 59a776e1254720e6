// Package hooks gives packages replicated and dds what they need of packages squall and ripc and
// programs do not. Those packages set the functions.
package hooks

import "context"

var (
	// BeforeLeave has f called when the process is about to leave the group, before the
	// *squall.Subgroup refuses messages.
	BeforeLeave func(subgroup any, f func(context.Context))
	// Bound returns the context of a wait for a *squall.Subgroup to take messages: one that has ended
	// with squall.ErrInUpcall in an upcall which the subgroup waits for, and otherwise ctx.
	Bound func(ctx context.Context, subgroup any) context.Context
	// NewReplies returns replies that callers get together.
	NewReplies func() Replies
	// Keep has the application of a *squall.SubgroupConfig, whose mode is Ordered and which has
	// DeliverSome, read the data of messages after the upcall.
	Keep func(config any, k Keeper)
	// RoomsOf returns the rooms of a *squall.Subgroup.
	RoomsOf func(subgroup any) Rooms
	// Operate sets the commands that this process can execute on the object of a
	// *squall.SubgroupConfig, and a function that returns which of the commands in use are not among
	// the given ones. The function is called on any goroutine, and does not block.
	Operate func(config any, operations []string, missing func([]string) []string)
)

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

// Replies are replies to requests of package ripc, which need not wake their callers one by one. It
// is for one goroutine.
type Replies interface {
	// Reply answers a *ripc.Message, as its method does. The caller's process may sleep until Flush.
	Reply(message any, answer []byte) error
	// Flush has the processes of all callers look.
	Flush()
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
