package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
)

// ErrDisagree is returned if not all members delivered the same sequence.
var ErrDisagree = errors.New("the members disagree")

// Result is what a demo found out. It is the object that --json prints.
type Result struct {
	Nodes     int            `json:"nodes"`
	Fabric    string         `json:"fabric"` // as asked for
	Text      string         `json:"text"`
	Lines     int            `json:"lines"`
	Repeat    int            `json:"repeat"`
	SizeBytes int            `json:"size_bytes"` // 0: the lines' own
	Messages  uint64         `json:"messages"`   // of all members
	Agree     bool           `json:"agree"`
	Members   []MemberResult `json:"members"`
	Links     []Link         `json:"links"`
}

// MemberResult is one member's account.
type MemberResult struct {
	ID             int             `json:"id"`
	Messages       uint64          `json:"messages"` // delivered under load
	Bytes          uint64          `json:"bytes"`
	Digest         string          `json:"digest"` // of senders and messages in order: a SHA-256
	Seconds        float64         `json:"seconds"`
	MsgsPerSecond  float64         `json:"msgs_per_second"`
	BytesPerSecond float64         `json:"bytes_per_second"`
	Loaded         testlab.Latency `json:"loaded"`
	Unloaded       testlab.Latency `json:"unloaded"`
	Batch          testlab.Batches `json:"mean_batch"`
}

// Link is the fabric between two members.
type Link struct {
	Between [2]int `json:"between"`
	Fabric  string `json:"fabric"`
}

// result puts the members' reports together. The fault is nil if they agree.
func (r *run) result(fault error) *Result {
	res := &Result{
		Nodes: r.Nodes, Fabric: r.Fabric, Text: r.text.name, Lines: len(r.text.lines), Repeat: r.Repeat, SizeBytes: r.Size,
		Messages: r.total, Links: []Link{},
	}
	for _, p := range r.processes {
		s, loaded, unloaded := p.account.States[0], p.account.Timing, p.probed.Timing
		seconds := loaded.Took.Seconds()
		res.Members = append(res.Members, MemberResult{
			ID: p.number, Messages: s.Messages, Bytes: s.Bytes, Digest: s.Digest, Seconds: seconds,
			MsgsPerSecond: float64(s.Messages) / seconds, BytesPerSecond: float64(s.Bytes) / seconds,
			Loaded: loaded.Latency, Unloaded: unloaded.Latency, Batch: unloaded.Batch,
		})
		for other := p.number + 1; other <= r.Nodes; other++ {
			res.Links = append(res.Links, Link{[2]int{p.number, other}, unloaded.Links[other-1]})
		}
	}
	res.Agree = fault == nil
	return res
}

// verdict compares what the members delivered.
func (r *run) verdict(context.Context) error {
	if faults := differences(r.processes); len(faults) > 0 {
		return fmt.Errorf("%w: %s", ErrDisagree, strings.Join(faults, "; "))
	}
	return nil
}

const legend = `latency: from a message's Send to its delivery at the sender. Loaded, all send at once and most of it is waiting
for space; unloaded, one message is in flight at a time. Mean batch: messages per step that found any.`

// writeTable prints the result for people.
func (r *Result) writeTable(w io.Writer) error {
	t := newTable(
		table.Row{"", "", "", "throughput", "throughput", "latency, loaded", "latency, loaded", "latency, unloaded", "latency, unloaded",
			"mean batch", "mean batch", "mean batch"},
		table.Row{"member", "messages", "digest", "msgs/s", "MB/s", "p50", "p99", "p50", "p99", "send", "receive", "deliver"})
	for _, m := range r.Members {
		t.AppendRow(table.Row{
			m.ID, comma(m.Messages), testlab.Short(m.Digest), humanize.Comma(int64(m.MsgsPerSecond)), decimal(m.BytesPerSecond / 1e6),
			short(m.Loaded.P50Ns), short(m.Loaded.P99Ns), short(m.Unloaded.P50Ns), short(m.Unloaded.P99Ns),
			decimal(m.Batch.Send), decimal(m.Batch.Receive), decimal(m.Batch.Deliver),
		})
	}
	_, err := fmt.Fprintf(w, "%s\n\n%s\n\n%s\n%s\n%s", r.title(), t.Render(), legend, r.fabrics(), r.agreement())
	return err
}

func (r *Result) title() string {
	size := ""
	if r.SizeBytes > 0 {
		size = fmt.Sprintf(" of %s bytes", humanize.Comma(int64(r.SizeBytes)))
	}
	return fmt.Sprintf("%s: %s%s, sent %s by %s", r.Text, show.Counted(r.Lines, "line", "lines"), size,
		show.Counted(r.Repeat, "time", "times"), show.Counted(r.Nodes, "member", "members"))
}

// fabrics says which fabric each pair used, in a line.
func (r *Result) fabrics() string {
	pairs := map[string][]string{}
	var names []string
	for _, l := range r.Links {
		if pairs[l.Fabric] == nil {
			names = append(names, l.Fabric)
		}
		pairs[l.Fabric] = append(pairs[l.Fabric], fmt.Sprintf("%d–%d", l.Between[0], l.Between[1]))
	}
	slices.Sort(names)
	for i, name := range names {
		if names[i] = name + " between " + strings.Join(pairs[name], " "); len(pairs) == 1 && r.Nodes > 2 {
			names[i] = name + " between all members"
		}
	}
	if len(names) == 0 {
		return "fabric: none, one member alone"
	}
	return "fabric: " + strings.Join(names, ", ")
}

// agreement is the last line if all is well.
func (r *Result) agreement() string {
	if !r.Agree {
		return ""
	}
	if r.Nodes == 1 {
		return fmt.Sprintf("the only member delivered its %s messages\n", comma(r.Messages))
	}
	return fmt.Sprintf("all %d members delivered the same %s messages in the same order\n", r.Nodes, comma(r.Messages))
}

// decimal prints a number with about three digits.
func decimal(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return humanize.Comma(int64(v + 0.5))
}

// short prints a time with about three digits.
func short(ns int64) string {
	switch d := time.Duration(ns); {
	case d < time.Microsecond:
		return d.String()
	case d < time.Millisecond:
		return decimal(float64(d)/1e3) + "µs"
	case d < time.Second:
		return decimal(float64(d)/1e6) + "ms"
	}
	return decimal(float64(ns)/1e9) + "s"
}
