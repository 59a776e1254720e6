package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/catchup"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// The help of this command.
const (
	tailExamples = `  squall log tail /var/lib/squall orders
  squall log tail -f -n 0 localhost:7400 orders       # only what comes
  squall log tail -f --json localhost:7400 | jq -r '.data | @base64d'`
)

func newTailCommand() *cobra.Command {
	var t target
	var how style
	var follow bool
	var last uint64
	cmd := &cobra.Command{
		Use:   "tail [flags] TARGET [LOG]",
		Short: "Print the last records of a log, and follow it",
		Long: `Tail prints the last records of a log. With -f it goes on with those that come, across views, until it is interrupted. A member that
goes meanwhile is looked for until it is back, which standard error says; nothing is missed or printed twice.`,
		Example:           tailExamples,
		Args:              arguments("TARGET", "LOG"),
		ValidArgsFunction: completeTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			w := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
			put, err := how.printer(w)
			if err != nil {
				return err
			}
			l, log, err := t.chosen(cmd.Context(), args)
			if err != nil {
				return err
			}
			err = tail(cmd.Context(), l, &log, last, follow, w, put)
			return errors.Join(err, w.Flush(), l.Close())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVarP(&follow, "follow", "f", false, "go on with the records that come")
	f.Uint64VarP(&last, "lines", "n", 10, "the last so `many` records")
	how.declare(f)
	t.declare(cmd)
	show.NoFiles(cmd, "lines", "format", "timeout")
	return cmd
}

// tail prints the last records, and new ones as they come.
func tail(ctx context.Context, l library, log *persist.Info, last uint64, follow bool, w *bufio.Writer, put func(*persist.Record) error) error {
	from, err := start(ctx, l, log, last)
	if err != nil {
		return err
	}
	if _, still := l.(*directory); still && follow {
		return errStill
	}
	if !follow {
		if last == 0 || log.Count == 0 {
			return nil
		}
		return printAll(l.Range(ctx, log.ID, from, catchup.After(log.Last.Version)), 0, put) // not what comes meanwhile
	}
	behind := &lazy{w: w}
	defer behind.stop()
	for r, err := range l.Tail(ctx, log.ID, from) {
		if err != nil {
			return err
		}
		if err := behind.do(func() error { return put(&r) }); err != nil {
			return err
		}
	}
	return nil
}

// start is where the last so many records begin; they may be none.
func start(ctx context.Context, l library, log *persist.Info, last uint64) (order.Version, error) {
	switch {
	case log.Count == 0:
		return order.Version{}, nil
	case last == 0:
		return catchup.After(log.Last.Version), nil
	case last >= log.Count:
		return log.First.Version, nil
	}
	r, err := l.Nth(ctx, log.ID, log.Last.Number-last+1)
	if err != nil {
		return order.Version{}, fmt.Errorf("looking for the last %d records: %w", last, err)
	}
	return r.Version, nil
}

// flushEvery is how long a record that is followed stays in this process.
const flushEvery = 50 * time.Millisecond

// lazy flushes a writer soon after something was written to it: at once would be a system call for
// each record, and waiting until the buffer is full would hold back what a person waits for.
type lazy struct {
	w *bufio.Writer

	mu    sync.Mutex
	timer *time.Timer // nil: nothing waits
	err   error       // the first one stays
}

// do writes.
func (l *lazy) do(write func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = write()
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(flushEvery, l.flush)
	}
	return l.err
}

func (l *lazy) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	if l.err == nil {
		l.err = l.w.Flush()
	}
}

// stop lets the writer be used without lazy again.
func (l *lazy) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer = time.NewTimer(time.Hour) // a late flush finds nothing to start
	l.timer.Stop()
}
