package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
)

// durableDuration is how long the members send by default: their logs are read four times
// afterwards.
const durableDuration = 4 * time.Second

// durableFaults are all that is wrong with the flags of a durable demo.
func (o options) durableFaults() (errs []error) {
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, ok := testlab.Engines[o.Engine]; !ok {
		fault("--engine %q: use bolt or wal", o.Engine)
	}
	if o.Size > 0 && o.Size < testlab.HeaderBytes {
		fault("--size %d: with --durable a message has at least %d bytes; 0 leaves the lines as they are", o.Size, testlab.HeaderBytes)
	}
	if o.Duration <= 0 {
		fault("--duration %v: must be more than 0", o.Duration)
	}
	if left, err := os.ReadDir(o.Dir); o.Dir != "" && err == nil && len(left) > 0 {
		fault("--dir %s: it is not empty; the logs of an earlier demo would be taken for logs of this one", o.Dir)
	}
	return errs
}

// durableMixed finds flags that are for another kind of demo than a durable one.
func durableMixed(f *pflag.FlagSet) (errs []error) {
	for _, name := range []string{"repeat", "chaos", "seed", "fail-after"} {
		if f.Changed(name) {
			errs = append(errs, fmt.Errorf("--%s does not go with --durable", name))
		}
	}
	return errs
}

// runDurable does the whole demo with --durable: standard output gets the story and the table, or
// the one JSON object.
func (o options) runDurable(ctx context.Context, t text, out, errs io.Writer) (err error) {
	asked := o
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "squall-durable-"); err != nil {
			return err
		}
	}
	result, err := newDurableRun(newTrial(o, t, out, errs)).run(ctx)
	return o.conclude(ctx, result, out, asked.tidy(ctx, err, o.Dir, "the members' logs are in"))
}

// nodeDir is what a node keeps.
func nodeDir(dir string, id squall.NodeID) string {
	return filepath.Join(dir, fmt.Sprintf("node-%d", id))
}
