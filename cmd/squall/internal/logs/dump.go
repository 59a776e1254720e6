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

// The help of this command.
const (
	dumpHelp = `Dump takes out all that it takes to rebuild a state as it was: the snapshot, if the log has one, and the records after it, up to
a time or a version, or all of them. As lines of JSON these are one of kind log, the snapshot in pieces of kind snapshot, the records
like those of "squall log cat --json" with kind record, and one of kind end, without which the dump is not complete.

With --out DIR/ the snapshot is the file DIR/snapshot, as it is, and everything else DIR/dump.jsonl. What is there already is not overwritten.`
	dumpExamples = `  squall log dump /var/lib/squall orders --at 2026-03-04T05:06:07Z --out orders.jsonl
  squall log dump localhost:7400 orders --version 3:1200 --out orders-dump/
  squall log dump localhost:7400 orders | jq -r 'select(.kind == "record") | .data | @base64d'`
)

func newDumpCommand() *cobra.Command {
	var t target
	var d dumping
	cmd := &cobra.Command{
		Use:               "dump [flags] TARGET [LOG]",
		Short:             "Take out what a log says up to a time or a version",
		Long:              dumpHelp,
		Example:           dumpExamples,
		Args:              arguments("TARGET", "LOG"),
		ValidArgsFunction: completeTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.command(cmd.Context(), &t, args, cmd.OutOrStdout())
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
	show.NoFiles(cmd, "at", "version", "timeout")
	return cmd
}

func (d *dumping) command(ctx context.Context, t *target, args []string, out io.Writer) error {
	end, err := d.complete(time.Now())
	if err != nil {
		return err
	}
	l, log, err := t.chosen(ctx, args)
	if err != nil {
		return err
	}
	var r *Dumped
	if err = end.ready(ctx, t, l, &log); err == nil {
		r, err = d.run(ctx, l, &log, end, out)
	}
	if err = errors.Join(err, l.Close()); err != nil || d.out == "" {
		return err
	}
	if d.json {
		return show.JSONLine(out, r)
	}
	_, err = fmt.Fprintln(out, r)
	return err
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
	text := fmt.Sprintf("%s: %s of log %s, %s", d.Out, show.Counted(int(d.Records), "record", "records"), d.Log, show.Bytes(d.Bytes))
	if d.Snapshot != "" {
		text += fmt.Sprintf(", after the snapshot of %s, %s", d.Snapshot, show.Bytes(d.SnapshotBytes))
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

// dump writes the records of one log.
type dump struct {
	ctx   context.Context
	l     library
	log   *persist.Info
	until bound
	to    *outlet
	r     Dumped
}

// headLine is the first line of a dump.
type headLine struct {
	Kind     string         `json:"kind"` // log
	Log      string         `json:"log"`
	Name     string         `json:"name"`
	Shard    int            `json:"shard"`
	Snapshot *persist.Place `json:"snapshot,omitempty"` // the last record that it stands for
}

// pieceLine is a part of the snapshot.
type pieceLine struct {
	Kind string `json:"kind"` // snapshot
	Data []byte `json:"data"`
}

// recordLine is a record.
type recordLine struct {
	Kind string `json:"kind"` // record
	line
}

// endLine is the last line.
type endLine struct {
	Kind          string `json:"kind"` // end
	Records       uint64 `json:"records"`
	Bytes         int64  `json:"bytes"`
	SnapshotBytes int64  `json:"snapshot_bytes"`
}

// pieceBytes is how much of a snapshot is on a line. It is a multiple of three, so that base64
// needs no filling in between.
const pieceBytes = 48 << 10

func (d *dump) everything() error {
	from, err := d.snapshot()
	if err != nil {
		return err
	}
	for r, err := range d.l.Range(d.ctx, d.log.ID, from, order.Version{}) {
		if err != nil {
			return err
		}
		if !d.until.covers(&r) {
			break
		}
		if err := show.JSONLine(d.to.lines, recordLine{"record", lineOf(&r)}); err != nil {
			return err
		}
		d.r.Records, d.r.Bytes, d.r.Last = d.r.Records+1, d.r.Bytes+int64(len(r.Data)), r.Version.String()
	}
	return show.JSONLine(d.to.lines, endLine{"end", d.r.Records, d.r.Bytes, d.r.SnapshotBytes})
}

// snapshot takes out the snapshot, if there is one, and returns where records begin that it does
// not stand for.
func (d *dump) snapshot() (from order.Version, err error) {
	head := headLine{Kind: "log", Log: d.log.ID.String(), Name: d.log.ID.Name, Shard: d.log.ID.Shard}
	at, r, err := d.l.Snapshot(d.ctx, d.log.ID)
	if errors.Is(err, persist.ErrNotFound) {
		if err := d.begins(); err != nil {
			return from, err
		}
		return from, show.JSONLine(d.to.lines, head)
	}
	if err != nil {
		return from, err
	}
	defer r.Close()
	if !d.until.covers(&at) {
		return from, fmt.Errorf("log %v: what came before its snapshot of %v at %v is not kept one by one; ask for that or later", d.log.ID, at.Version, at.Time)
	}
	head.Snapshot, d.r.Snapshot, d.r.Last = persist.PlaceOf(&at), at.Version.String(), at.Version.String()
	if err := show.JSONLine(d.to.lines, head); err != nil {
		return from, err
	}
	from = order.Version{View: at.Version.View, Seq: at.Version.Seq + 1}
	if d.to.snapshot != "" {
		return from, d.file(r)
	}
	return from, d.pieces(r)
}

// begins refuses a state that cannot be rebuilt, because records were dropped without a snapshot.
func (d *dump) begins() error {
	if d.log.First.Number > 0 && !d.until.covers(&d.log.First) {
		return fmt.Errorf("log %v: its first record is %v at %v; ask for that or later", d.log.ID, d.log.First.Version, d.log.First.Time)
	}
	return nil
}

// file writes the snapshot as it is.
func (d *dump) file(r io.Reader) error {
	f, err := create(d.to.snapshot)
	if err != nil {
		return err
	}
	d.to.made = append(d.to.made, d.to.snapshot)
	d.r.SnapshotBytes, err = io.Copy(f, r)
	return errors.Join(err, f.Sync(), f.Close())
}

// pieces writes it as lines.
func (d *dump) pieces(r io.Reader) error {
	piece := make([]byte, pieceBytes)
	for {
		n, err := io.ReadFull(r, piece)
		if n > 0 {
			d.r.SnapshotBytes += int64(n)
			if err := show.JSONLine(d.to.lines, pieceLine{"snapshot", piece[:n]}); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF, err == io.ErrUnexpectedEOF: // as ReadFull says it; a source that broke off wraps its own
			return nil
		case err != nil:
			return err
		}
	}
}
