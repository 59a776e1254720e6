package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// selection says which records of a log are printed. Empty text is no bound.
type selection struct {
	version, at, from, to, since, until string
	limit                               uint64
}

// The help of this command.
const (
	catHelp = `Cat prints the records of a log, in their order: all that are kept, or those that the flags say. Each takes a line with its version,
time, sender, size and data; --json, --raw, --hex and --format print them otherwise. A range has its first bound and not its second
one. Times are UTC.`
	catExamples = `  squall log cat /var/lib/squall orders
  squall log cat --from 3 --to 4 localhost:7400 orders         # what view 3 delivered
  squall log cat --version 3:1200 --raw localhost:7400 orders  # the data of one record
  squall log cat --at '2026-03-04 05:06' /var/lib/squall       # the last one before then, or at that instant
  squall log cat --since 10m --json localhost:7400 orders | jq -r '.data | @base64d'
  squall log cat --limit 5 --format '{{.Sender}}: {{.Data}}' /var/lib/squall`
)

func newCatCommand() *cobra.Command {
	var t target
	var s selection
	var how style
	cmd := &cobra.Command{
		Use:               "cat [flags] TARGET [LOG]",
		Short:             "Print records of a log",
		Long:              catHelp,
		Example:           catExamples,
		Args:              arguments("TARGET", "LOG"),
		ValidArgsFunction: completeTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			w := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
			put, errStyle := how.printer(w)
			chosen, errSelection := s.complete(time.Now())
			if err := errors.Join(errSelection, errStyle); err != nil {
				return err
			}
			l, log, err := t.chosen(cmd.Context(), args)
			if err != nil {
				return err
			}
			if err = t.settle(cmd.Context(), l, log.ID, chosen.settled); err == nil {
				err = printAll(chosen.records(cmd.Context(), l, log.ID), s.limit, put)
			}
			return errors.Join(err, w.Flush(), l.Close())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	s.declare(f)
	how.declare(f)
	t.declare(cmd)
	show.NoFiles(cmd, "version", "at", "from", "to", "since", "until", "limit", "format", "timeout")
	return cmd
}

func (s *selection) declare(f *pflag.FlagSet) {
	f.StringVar(&s.from, "from", "", "from this `version` on: VIEW:SEQ, or VIEW for its beginning")
	f.StringVar(&s.to, "to", "", "to this `version`, without it")
	f.StringVar(&s.version, "version", "", "only the record at this `version`")
	f.StringVar(&s.at, "at", "", "only the last record at or before this `time`: like 2026-03-04T05:06:07Z, or how long ago, like 90s")
	f.StringVar(&s.since, "since", "", "from this `time` on")
	f.StringVar(&s.until, "until", "", "to this `time`, without it")
	f.Uint64Var(&s.limit, "limit", 0, "print the first `N` records at most; 0 prints all (default: all)")
}

// choice is what a selection means.
type choice struct {
	records func(ctx context.Context, l library, id persist.LogID) iter.Seq2[persist.Record, error]
	settled order.Time // must be before there is an answer; 0: nothing has to
}

// complete reads the flags, and reports all faults at once.
func (s *selection) complete(now time.Time) (choice, error) {
	var faults errs.Faults
	parseTime := func(text string) (order.Time, error) { return parseTime(text, now) }
	v, at := parsed(&faults, "version", s.version, parseVersion), parsed(&faults, "at", s.at, parseTime)
	from, to := parsed(&faults, "from", s.from, parseVersion), parsed(&faults, "to", s.to, parseVersion)
	since, until := parsed(&faults, "since", s.since, parseTime), parsed(&faults, "until", s.until, parseTime)
	kinds := 0
	for _, on := range []bool{s.version != "", s.at != "", s.from != "" || s.to != "", s.since != "" || s.until != ""} {
		if on {
			kinds++
		}
	}
	faults.If(kinds > 1, "--version, --at, --from and --to, --since and --until: use one of the four")
	faults.If(to != (order.Version{}) && !from.Before(to), "--from %s, --to %s: nothing lies between", s.from, s.to)
	faults.If(until > 0 && since >= until, "--since %s, --until %s: nothing lies between", s.since, s.until)
	records := func(ctx context.Context, l library, id persist.LogID) iter.Seq2[persist.Record, error] {
		switch {
		case s.version != "":
			return single(l.Get(ctx, id, v))
		case s.at != "":
			return single(l.At(ctx, id, at))
		case s.since != "" || s.until != "":
			return l.Between(ctx, id, since, until)
		}
		return l.Range(ctx, id, from, to)
	}
	return choice{records, max(at+1, until, 1) - 1}, faults.Err()
}

// parsed is what a flag says; the zero value if it is not given.
func parsed[T any](faults *errs.Faults, flag, text string, parse func(string) (T, error)) (v T) {
	if text != "" {
		var err error
		v, err = parse(text)
		faults.Wrap("--"+flag, err)
	}
	return v
}

func single(r persist.Record, err error) iter.Seq2[persist.Record, error] {
	return func(yield func(persist.Record, error) bool) { yield(r, err) }
}

// printAll prints records, up to a limit; 0 is none.
func printAll(records iter.Seq2[persist.Record, error], limit uint64, put func(*persist.Record) error) error {
	count := uint64(0)
	for r, err := range records {
		if err != nil {
			return err
		}
		if err := put(&r); err != nil {
			return err
		}
		if count++; count == limit {
			return nil
		}
	}
	return nil
}

// parseVersion reads VIEW:SEQ, or VIEW for its beginning.
func parseVersion(text string) (order.Version, error) {
	view, seq, both := strings.Cut(text, ":")
	if !both {
		seq = "0"
	}
	v, errView := strconv.ParseUint(view, 10, 64)
	q, errSeq := strconv.ParseUint(seq, 10, 64)
	if errView != nil || errSeq != nil || v == 0 {
		return order.Version{}, fmt.Errorf("%q is no version: use VIEW:SEQ, for instance 3:1200, or VIEW alone for its beginning", text)
	}
	return order.Version{View: order.ViewID(v), Seq: order.Seq(q)}, nil
}

// layouts of times, all in UTC unless they say otherwise.
var layouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly}

// lastYear is the last whole year whose times fit an int64 in nanoseconds.
const lastYear = 2261

// parseTime reads a time, now, or how long ago. It is never 0, which would be no bound.
func parseTime(text string, now time.Time) (order.Time, error) {
	if text == "now" {
		return order.TimeOf(now), nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return max(1, order.TimeOf(now.Add(-ago))), nil
	}
	for _, layout := range layouts {
		t, err := time.Parse(layout, text)
		switch {
		case err != nil:
		case t.Year() < 1970 || t.Year() > lastYear:
			return 0, fmt.Errorf("%q lies before 1970 or after %d, where no log is", text, lastYear)
		default:
			return max(1, order.TimeOf(t)), nil
		}
	}
	return 0, fmt.Errorf("%q is no time: use 2026-03-04T05:06:07Z, 2026-03-04 05:06 (UTC), 2026-03-04, now, or how long ago, like 90s or 2h", text)
}
