package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/squall-go/squall"
)

// durableDuration is how long the members send by default: their logs are read four times
// afterwards.
const durableDuration = 4 * time.Second

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
