package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/catchup"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// dumping are the flags of "squall log dump".
type dumping struct {
	at, version, out string
	json             bool
}

func newDumpCommand() *cobra.Command {
	var t target
	var d dumping
	cmd := &cobra.Command{
		Use:   "dump [flags] TARGET [LOG]",
		Short: "Take out what a log says up to a time or a version",
		Long: `Dump takes out all that it takes to rebuild a state as it was: the snapshot, if the log has one, and the records after it, up to
a time or a version, or all of them. As lines of JSON these are one of kind log, the snapshot in pieces of kind snapshot, the records
like those of "squall log cat --json" with kind record, and one of kind end, without which the dump is not complete.

With --out DIR/ the snapshot is the file DIR/snapshot, as it is, and everything else DIR/dump.jsonl. What is there already is not overwritten.`,
		Example: `  squall log dump /var/lib/squall orders --at 2026-03-04T05:06:07Z --out orders.jsonl
  squall log dump localhost:7400 orders --version 3:1200 --out orders-dump/
  squall log dump localhost:7400 orders | jq -r 'select(.kind == "record") | .data | @base64d'`,
		Args:              arguments("TARGET", "LOG"),
		ValidArgsFunction: completeTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			end, err := d.complete(time.Now())
			if err != nil {
				return err
			}
			l, log, err := t.chosen(cmd.Context(), args)
			if err != nil {
				return err
			}
			var r *Dumped
			if err = end.ready(cmd.Context(), &t, l, &log); err == nil {
				r, err = d.run(cmd.Context(), l, &log, end, cmd.OutOrStdout())
			}
			if err = errors.Join(err, l.Close()); err != nil || d.out == "" {
				return err
			}
			if d.json {
				return show.JSONLine(cmd.OutOrStdout(), r)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), r)
			return err
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&d.at, "at", "", "up to this `time`, with what happened at it: like 2026-03-04T05:06:07Z, or how long ago, like 90s")
	f.StringVar(&d.version, "version", "", "up to this `version`, VIEW:SEQ, with the record at it")
	f.StringVarP(&d.out, "out", "o", "", "`file` to write to, or directory if it ends with / (default: standard output)")
	f.BoolVar(&d.json, "json", false, "with --out: print the result as one JSON object")
	t.declare(cmd)
	cmd.MarkFlagsMutuallyExclusive("at", "version")
	noFiles(cmd, "at", "version", "timeout")
	return cmd
}

// Dumped is what "squall log dump --out … --json" prints.
type Dumped struct {
	Log           string `json:"log"`
	Out           string `json:"out"`
	Snapshot      string `json:"snapshot,omitempty"`
	SnapshotBytes int64  `json:"snapshot_bytes"`
	Records       uint64 `json:"records"`
	Bytes         int64  `json:"bytes"` // of their data
	Last          string `json:"last,omitempty"`
}

func (d *Dumped) String() string {
	text := fmt.Sprintf("%s: %s of log %s, %s", d.Out, show.Counted(int(d.Records), "record", "records"), d.Log, size(int(d.Bytes)))
	if d.Snapshot != "" {
		text += fmt.Sprintf(", after the snapshot of %s, %s", d.Snapshot, size(int(d.SnapshotBytes)))
	}
	if d.Last != "" {
		text += "; up to " + d.Last
	}
	return text
}

// bound is where a dump ends: half-open, zero is no bound.
type bound struct {
	version order.Version
	time    order.Time
}

// covers reports whether a record lies before the bound.
func (b bound) covers(r *persist.Record) bool {
	return (b.version == order.Version{} || r.Version.Before(b.version)) && (b.time == 0 || r.Time < b.time)
}

// ready waits until everything before a bound is settled, and refuses a bound that the log does not
// reach, so that an earlier state is not taken for the requested one.
func (b bound) ready(ctx context.Context, t *target, l library, log *persist.Info) error {
	if b.time > 0 {
		if err := t.settle(ctx, l, log.ID, b.time-1); err != nil {
			return err
		}
		now, err := pick(ctx, l, t.name, log.ID.String()) // it went on meanwhile
		*log = now
		return err
	}
	return b.reached(log)
}

// reached refuses a version behind the last one of a log.
func (b bound) reached(log *persist.Info) error {
	last := log.Last.Version
	if last.Before(log.Snapshot) {
		last = log.Snapshot
	}
	if b.version == (order.Version{}) || !catchup.After(last).Before(b.version) {
		return nil
	}
	ends := "it is empty"
	if last != (order.Version{}) {
		ends = fmt.Sprintf("it ends at %v", last)
	}
	asked := order.Version{View: b.version.View, Seq: b.version.Seq - 1}
	return fmt.Errorf("log %v: version %v: %w: %s", log.ID, asked, persist.ErrNotFound, ends)
}

func (d *dumping) complete(now time.Time) (b bound, err error) {
	switch {
	case d.json && d.out == "":
		return b, errors.New("--json: needs --out; what goes to standard output is JSON already")
	case d.at != "":
		t, err := parseTime(d.at, now)
		if err != nil {
			return b, fmt.Errorf("--at: %w", err)
		}
		return bound{time: t + 1}, nil
	case d.version != "":
		v, err := parseVersion(d.version)
		if err != nil {
			return b, fmt.Errorf("--version: %w", err)
		}
		return bound{version: catchup.After(v)}, nil
	}
	return b, nil
}

// run takes a log out. What was begun of files is removed if it fails.
func (d *dumping) run(ctx context.Context, l library, log *persist.Info, until bound, stdout io.Writer) (*Dumped, error) {
	to, err := d.begin(stdout)
	if err != nil {
		return nil, err
	}
	p := &dump{ctx: ctx, l: l, log: log, until: until, to: to, r: Dumped{Log: log.ID.String(), Out: d.out}}
	err = errors.Join(p.everything(), to.finish())
	if err != nil {
		to.undo()
		return nil, err
	}
	return &p.r, nil
}

// outlet is where a dump goes to.
type outlet struct {
	lines    *bufio.Writer
	snapshot string // file for it; empty: it goes to the lines
	made     []string
	file     *os.File
}

func (d *dumping) begin(stdout io.Writer) (*outlet, error) {
	if d.out == "" {
		return &outlet{lines: bufio.NewWriterSize(stdout, 64<<10)}, nil
	}
	o := &outlet{}
	name := d.out
	if i, err := os.Stat(name); os.IsPathSeparator(name[len(name)-1]) || err == nil && i.IsDir() {
		if err := os.Mkdir(name, 0o750); err == nil {
			o.made = append(o.made, name)
		} else if !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("--out: %w", err)
		}
		name, o.snapshot = filepath.Join(name, "dump.jsonl"), filepath.Join(name, "snapshot")
	}
	var err error
	if o.file, err = create(name); err != nil {
		o.undo()
		return nil, err
	}
	o.made = append(o.made, name)
	o.lines = bufio.NewWriterSize(o.file, 64<<10)
	return o, nil
}

// create makes a file that is not there.
func create(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("--out: %s: is there already; remove it, or name another one", name)
	}
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return f, nil
}

func (o *outlet) finish() error {
	err := o.lines.Flush()
	if o.file == nil {
		return err
	}
	return errors.Join(err, o.file.Sync(), o.file.Close())
}

// undo removes what was made, the last first.
func (o *outlet) undo() {
	for i := len(o.made) - 1; i >= 0; i-- {
		_ = os.Remove(o.made[i])
	}
}
