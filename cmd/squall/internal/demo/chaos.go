package demo

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
)

// runChaos does the whole demo with --chaos: standard output gets the story and the table, or the
// one JSON object.
func (o options) runChaos(ctx context.Context, t text, out, errs io.Writer) error {
	if o.Seed == 0 {
		o.Seed = uint64(rand.Uint32()) + 1
	}
	dir, err := os.MkdirTemp("", "squall-chaos-")
	if err != nil {
		return err
	}
	result, err := newChaosRun(newTrial(o, t, out, errs), dir).run(ctx)
	return o.conclude(ctx, result, out, o.tidy(ctx, err, dir, "what happened to each member is in"))
}

// host is the loopback address to use.
func (o options) host() string {
	if o.IPv6 {
		return "::1"
	}
	return "127.0.0.1"
}
