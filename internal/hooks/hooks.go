// Package hooks gives package replicated what it needs of packages squall and ripc and programs do not. Those packages set the functions.
package hooks

import "context"

var (
	// BeforeLeave has f called when the process is about to leave the group, before the *squall.Subgroup refuses messages.
	BeforeLeave func(subgroup any, f func(context.Context))
	// Bound returns the context of a wait for a *squall.Subgroup to take messages: one that has ended with squall.ErrInUpcall in an
	// upcall which the subgroup waits for, and otherwise ctx.
	Bound func(ctx context.Context, subgroup any) context.Context
	// NewReplies returns replies that callers get together.
	NewReplies func() Replies
)

// Replies are replies to requests of package ripc, which need not wake their callers one by one. It is for one goroutine.
type Replies interface {
	// Reply answers a *ripc.Message, as its method does. The caller's process may sleep until Flush.
	Reply(message any, answer []byte) error
	// Flush has the processes of all callers look.
	Flush()
}
