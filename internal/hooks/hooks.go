// Package hooks gives package replicated what it needs of a subgroup and programs do not. Package squall sets the functions.
package hooks

import "context"

var (
	// BeforeLeave has f called when the process is about to leave the group, before the *squall.Subgroup refuses messages.
	BeforeLeave func(subgroup any, f func(context.Context))
	// Bound returns the context of a wait for a *squall.Subgroup to take messages: one that has ended with squall.ErrInUpcall in an
	// upcall which the subgroup waits for, and otherwise ctx.
	Bound func(ctx context.Context, subgroup any) context.Context
)
