package status

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// print prints the members, a table for each shard, and the verdict.
func (r *Report) print(w io.Writer) {
	fmt.Fprintf(w, "group %s, view %d\n", show.Text(r.Cluster), r.View)
	r.printMembers(w)
	for _, t := range r.shards() {
		t.print(w)
	}
	if len(r.Problems) == 0 {
		fmt.Fprintf(w, "all %s ready\n", show.Counted(len(r.Members), "member is", "members are"))
		return
	}
	for _, p := range r.Problems {
		fmt.Fprintf(w, "problem: %s\n", show.Line(p))
	}
}

func (r *Report) printMembers(w io.Writer) {
	t := show.Table(w, "member", "address", "view", "ready", "link to member "+fmt.Sprint(r.asked()), "last heartbeat")
	var notes []string
	for _, m := range r.Members {
		view, ready, link, heartbeat := "-", "no answer", "-", "-"
		if s := find(r.Statuses, m.Node); s != nil {
			view, ready = fmt.Sprint(s.View), yes(s.Ready)
		}
		for _, seen := range r.seen() {
			if seen.Node == m.Node && seen.Link != "self" {
				link, heartbeat = seen.Link, ago(seen.Silence)
				if seen.Fallback != "" {
					notes = append(notes, fmt.Sprintf("link to member %d: %s: %s", m.Node, seen.Link, show.Line(seen.Fallback)))
				}
			}
		}
		t.AppendRow(table.Row{m.Node, show.Text(m.Addr), view, ready, link, heartbeat})
	}
	t.Render()
	for _, note := range notes {
		fmt.Fprintln(w, note)
	}
}

// asked is the member whose links are shown.
func (r *Report) asked() squall.NodeID {
	if len(r.Statuses) == 0 {
		return 0
	}
	return r.Statuses[0].Node
}

func (r *Report) seen() []squall.MemberStatus {
	if len(r.Statuses) == 0 {
		return nil
	}
	return r.Statuses[0].Members
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func ago(d time.Duration) string { return d.Round(time.Millisecond).String() + " ago" }

func (t *shard) print(w io.Writer) {
	title := fmt.Sprintf("subgroup %s, %s", show.Text(t.Name), t.Mode)
	if t.Shard > 0 {
		title += fmt.Sprintf(", shard %d", t.Shard)
	}
	if !t.Provisioned {
		fmt.Fprintf(w, "%s: not provisioned: %s\n", title, show.Text(t.Reason))
		return
	}
	fmt.Fprintln(w, title)
	persistent := t.Mode == "persistent"
	header := table.Row{"member", "sent", "not received", "not delivered"}
	if persistent {
		header = append(header, "not on disk", "records", "last version", "disk")
	}
	header = append(header, "state")
	out := show.Table(w, header...)
	for _, m := range t.rows {
		line := table.Row{m.node, "-", "-", "-"}
		if m.known {
			line = table.Row{m.node, m.progress.Sent, t.lag(received, m), t.lag(delivered, m)}
		}
		if persistent {
			line = append(line, t.persisted(m)...)
		}
		out.AppendRow(append(line, m.state()))
	}
	out.Render()
}

func received(p squall.ProgressStatus) uint64  { return p.Received }
func delivered(p squall.ProgressStatus) uint64 { return p.Delivered }
func persisted(p squall.ProgressStatus) uint64 { return p.Persisted }

// persisted is what a row shows of a log.
func (t *shard) persisted(m row) table.Row {
	line := table.Row{"-", "-", "-", "-"}
	if m.known {
		line[0] = t.lag(persisted, m)
	}
	if m.own != nil && m.own.Log != nil {
		l := m.own.Log
		line[1], line[2], line[3] = l.Records, show.Text(l.Last), humanize.IBytes(uint64(max(l.DiskBytes, 0)))
		if l.Incomplete {
			line[1] = fmt.Sprintf("%d, incomplete", l.Records)
		}
	}
	return line
}

// state is what a row shows of the application's state.
func (m row) state() string {
	var parts []string
	switch {
	case m.own == nil:
		return "-"
	case !m.own.Restored:
		parts = append(parts, "being restored")
	case m.own.State == nil:
		parts = append(parts, "here")
	}
	if h := m.own.State; h != nil {
		parts = append(parts, fmt.Sprintf("%016x at %d", h.Sum, h.Position))
	}
	return strings.Join(parts, ", ")
}
