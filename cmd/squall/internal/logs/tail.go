package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/catchup"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
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
		Example: `  squall log tail /var/lib/squall orders
  squall log tail -f -n 0 localhost:7400 orders       # only what comes
  squall log tail -f --json localhost:7400 | jq -r '.data | @base64d'`,
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
	for r, err := range l.Tail(ctx, log.ID, from) {
		if err != nil {
			return err
		}
		if err := errors.Join(put(&r), w.Flush()); err != nil { // a person waits for it
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
