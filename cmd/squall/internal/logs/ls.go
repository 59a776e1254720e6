package logs

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

func newListCommand() *cobra.Command {
	var t target
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [flags] TARGET",
		Short: "List the logs of a member or of a directory",
		Example: `  squall log ls /var/lib/squall
  squall log ls --json localhost:7400 | jq '.logs[] | {log, records, bytes}'`,
		Args:              arguments("TARGET"),
		ValidArgsFunction: oneDirectory,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := t.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return errors.Join(list(cmd.Context(), l, args[0], asJSON, cmd.OutOrStdout()), l.Close())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	t.declare(cmd)
	show.NoFiles(cmd, "timeout")
	return cmd
}

// Listing is what "squall log ls --json" prints.
type Listing struct {
	Target string  `json:"target"`
	Group  string  `json:"group,omitempty"` // whose logs these are; empty: none is known
	Logs   []Entry `json:"logs"`
}

// Entry is one log.
type Entry struct {
	Log      string         `json:"log"`
	Name     string         `json:"name"`
	Shard    int            `json:"shard"`
	Engine   string         `json:"engine"`
	Records  uint64         `json:"records"`
	First    *persist.Place `json:"first,omitempty"` // that is kept
	Last     *persist.Place `json:"last,omitempty"`
	Bytes    int64          `json:"bytes"`            // of the records, with what the log adds to them
	OnDisk   int64          `json:"bytes_on_disk"`    // that the files take
	Global   string         `json:"global,omitempty"` // every member's disk has everything up to it
	Snapshot string         `json:"snapshot,omitempty"`
}

func entryOf(i *persist.Info) Entry {
	e := Entry{Log: i.ID.String(), Name: i.ID.Name, Shard: i.ID.Shard, Engine: i.Engine, Records: i.Count, Bytes: i.Bytes, OnDisk: i.DiskBytes}
	if i.Count > 0 {
		e.First, e.Last = persist.PlaceOf(&i.First), persist.PlaceOf(&i.Last)
	}
	e.Global, e.Snapshot = versionOrNothing(i.Global), versionOrNothing(i.Snapshot)
	return e
}

func versionOrNothing(v order.Version) string {
	if v == (order.Version{}) {
		return ""
	}
	return v.String()
}

// list prints what can be read, and returns what cannot.
func list(ctx context.Context, l library, name string, asJSON bool, out io.Writer) error {
	all, err := l.List(ctx)
	if err != nil && len(all) == 0 {
		return err
	}
	group, unknown := l.Identity(ctx)
	err = errors.Join(err, unknown)
	r := Listing{Target: name, Group: group, Logs: []Entry{}}
	for i := range all {
		r.Logs = append(r.Logs, entryOf(&all[i]))
	}
	switch {
	case asJSON:
		return errors.Join(err, show.JSONLine(out, r))
	case len(all) == 0:
		_, printing := fmt.Fprintf(out, "%s has no logs\n", name)
		return errors.Join(err, printing)
	}
	text := r.table(all) + "\n"
	if r.Group != "" {
		text = "group " + r.Group + "\n" + text
	}
	_, printing := io.WriteString(out, text)
	return errors.Join(err, printing)
}

// titles are the titles of the table's columns. A repeated title spans two columns; an empty column
// is left out.
var titles = table.Row{"log", "engine", "records", "bytes", "on disk", "first", "first", "last", "last", "on all disks", "snapshot"}

func (r *Listing) table(all []persist.Info) string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.SuppressEmptyColumns()
	t.AppendHeader(titles, table.RowConfig{AutoMerge: true, AutoMergeAlign: text.AlignLeft})
	for k, e := range r.Logs {
		row := table.Row{e.Log, e.Engine, humanize.Comma(int64(e.Records)), show.Bytes(e.Bytes), show.Bytes(e.OnDisk), "", "", "", "", e.Global, e.Snapshot}
		if e.First != nil {
			row[5], row[6] = e.First.Version, briefly(all[k].First.Time)
			row[7], row[8] = e.Last.Version, briefly(all[k].Last.Time)
		}
		t.AppendRow(row)
	}
	right := func(number int) table.ColumnConfig { return table.ColumnConfig{Number: number, Align: text.AlignRight} }
	t.SetColumnConfigs([]table.ColumnConfig{right(3), right(4), right(5)})
	return t.Render()
}
