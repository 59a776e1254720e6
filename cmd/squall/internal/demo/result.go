package demo

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

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

// result puts the members' reports together.
func (r *run) result() *Result {
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
	res.Agree = res.verdict() == nil
	return res
}

// verdict returns nil if all members delivered the same sequence, and otherwise ErrDisagree with
// the sequences of the members.
func (r *Result) verdict() error {
	type sequence struct {
		messages uint64
		digest   string
	}
	camps := map[sequence][]int{} // members by what they delivered
	var order []sequence
	for _, m := range r.Members {
		what := sequence{m.Messages, m.Digest}
		if camps[what] == nil {
			order = append(order, what)
		}
		camps[what] = append(camps[what], m.ID)
	}
	if len(camps) == 1 {
		return nil
	}
	var texts []string
	for _, what := range order {
		texts = append(texts, fmt.Sprintf("%s %s messages with digest %s", those(camps[what], "delivered", "delivered"),
			humanize.Comma(int64(what.messages)), testlab.Short(what.digest)))
	}
	return fmt.Errorf("%w: %s", ErrDisagree, strings.Join(texts, "; "))
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
			m.ID, humanize.Comma(int64(m.Messages)), testlab.Short(m.Digest), humanize.Comma(int64(m.MsgsPerSecond)), decimal(m.BytesPerSecond / 1e6),
			short(m.Loaded.P50Ns), short(m.Loaded.P99Ns), short(m.Unloaded.P50Ns), short(m.Unloaded.P99Ns),
			decimal(m.Batch.Send), decimal(m.Batch.Receive), decimal(m.Batch.Deliver),
		})
	}
	_, err := fmt.Fprintf(w, "%s\n\n%s\n\n%s\n%s\n%s", r.title(), t.Render(), legend, r.fabrics(), r.agreement())
	return err
}

func (r *Result) title() string {
	size, times := "", "once"
	if r.SizeBytes > 0 {
		size = fmt.Sprintf(" of %s bytes", humanize.Comma(int64(r.SizeBytes)))
	}
	if r.Repeat > 1 {
		times = count(r.Repeat, "time")
	}
	return fmt.Sprintf("%s: %s%s, sent %s by %s", r.Text, count(r.Lines, "line"), size, times, count(r.Nodes, "member"))
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
		return fmt.Sprintf("the only member delivered its %s messages\n", humanize.Comma(int64(r.Messages)))
	}
	return fmt.Sprintf("all %d members delivered the same %s messages in the same order\n", r.Nodes, humanize.Comma(int64(r.Messages)))
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return humanize.Comma(int64(n)) + " " + what
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

var units = map[time.Duration]string{time.Second: "s", time.Millisecond: "ms", time.Microsecond: "µs"}

// short prints a time with about three digits.
func short(ns int64) string {
	d := time.Duration(ns)
	for unit := time.Second; unit >= time.Microsecond; unit /= 1000 {
		if d >= unit {
			return decimal(float64(d)/float64(unit)) + units[unit]
		}
	}
	return fmt.Sprintf("%dns", ns)
}
