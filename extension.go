package squall

import (
	"context"
	"fmt"

	"github.com/squall-go/squall/internal/extension"
	"github.com/squall-go/squall/smc"
)

// Extend is for packages replicated and dds: programs have no value to call it with. A subgroup has
// one extension.
func (sg *SubgroupConfig) Extend(c extension.Config) {
	if e := sg.extension; e.Keeper != nil || e.Operations != nil || e.Missing != nil {
		panic(fmt.Sprintf("squall: subgroup %q is extended already", sg.Name))
	}
	sg.extension = c
}

// Ablate is for benchmarks: programs have no value to call it with.
func (c *Config) Ablate(t extension.Tuning) { c.tuning = t }

// Extension is for packages replicated and dds: programs have no value to call it with.
func (s *Subgroup) Extension(extension.Key) extension.Subgroup { return (*extended)(s) }

// extended is a subgroup as packages replicated and dds use it.
type extended Subgroup

// BeforeLeave implements extension.Subgroup.
func (e *extended) BeforeLeave(f func(context.Context)) { e.leaving.Store(&f) }

// Bound implements extension.Subgroup.
func (e *extended) Bound(ctx context.Context) context.Context { return e.group.upcalls.bound(ctx) }

// TryClaim implements extension.Rooms.
func (e *extended) TryClaim(n int) (extension.Room, error) { return roomOf(e.outbox.TryClaim(n)) }

// Claim implements extension.Rooms.
func (e *extended) Claim(ctx context.Context, n int) (extension.Room, error) {
	c, err := (*Subgroup)(e).Claim(ctx, n)
	return roomOf(c.claim, err)
}

// Commit implements extension.Rooms.
func (e *extended) Commit(r extension.Room) error {
	return e.outbox.Commit(smc.ClaimOf(r.Number, r.Bytes))
}

// Abort implements extension.Rooms.
func (e *extended) Abort(r extension.Room) error {
	return e.outbox.Abort(smc.ClaimOf(r.Number, r.Bytes))
}

func roomOf(c smc.Claim, err error) (extension.Room, error) {
	return extension.Room{Number: c.Number(), Bytes: c.Bytes}, err
}
