package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/squall-go/squall/cmd/squall/internal/testlab"
)

// leastFailAfter is less than what a busy machine makes of a heartbeat.
const leastFailAfter = 300 * time.Millisecond

// mixed finds flags that are for another kind of demo.
func (o options) mixed(f *pflag.FlagSet) error {
	if o.Durable {
		return errors.Join(durableMixed(f)...)
	}
	var errs []error
	if o.Chaos && f.Changed("repeat") {
		errs = append(errs, errors.New("--repeat does not go with --chaos, which takes --duration"))
	}
	for _, name := range []string{"duration", "seed", "fail-after"} {
		if f.Changed(name) && !o.Chaos {
			errs = append(errs, fmt.Errorf("--%s needs --chaos%s", name, orDurable[name]))
		}
	}
	for _, name := range []string{"engine", "dir"} {
		if f.Changed(name) {
			errs = append(errs, fmt.Errorf("--%s needs --durable", name))
		}
	}
	return errors.Join(errs...)
}

// orDurable are the flags of chaos that a durable demo takes, too.
var orDurable = map[string]string{"duration": " or --durable"}

// chaosFaults are all that is wrong with the flags of chaos.
func (o options) chaosFaults() (errs []error) {
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Nodes < leastNodes {
		fault("--nodes %d: with --chaos at least %d, so that the rest is a majority", o.Nodes, leastNodes)
	}
	if o.Size > 0 && o.Size < testlab.HeaderBytes {
		fault("--size %d: with --chaos a message has at least %d bytes; 0 leaves the lines as they are", o.Size, testlab.HeaderBytes)
	}
	if o.Duration <= 0 {
		fault("--duration %v: must be more than 0", o.Duration)
	}
	if o.FailAfter < leastFailAfter {
		fault("--fail-after %v: at least %v, or members are removed that are only slow", o.FailAfter, leastFailAfter)
	}
	return errs
}

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
