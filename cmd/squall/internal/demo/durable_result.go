package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	style "github.com/jedib0t/go-pretty/v6/text"

	"github.com/squall-go/squall"
)

// ErrLost is the verdict when something is missing that was acknowledged.
var ErrLost = errors.New("something acknowledged is lost")

// DurableResult is what a demo with --durable found out. It is the object that --json prints.
type DurableResult struct {
	Nodes        int            `json:"nodes"`
	Fabric       string         `json:"fabric"` // as asked for
	Engine       string         `json:"engine"`
	Seconds      float64        `json:"seconds"`
	Restart      float64        `json:"restart_seconds"`          // from the first process that started again to all in a view, with their state
	Messages     uint64         `json:"messages"`                 // in the one sequence
	Digest       string         `json:"digest"`                   // of senders and messages in order: a SHA-256
	Acknowledged uint64         `json:"acknowledged"`             // messages that were on every disk, as their senders were told
	Before       uint64         `json:"acknowledged_before_kill"` // of those
	OnDisks      uint64         `json:"on_every_disk"`            // read from the logs at the end, record by record
	Agree        bool           `json:"agree"`
	Fault        string         `json:"fault,omitempty"` // if not
	Processes    []KeeperResult `json:"processes"`
	Happened     []*Happening   `json:"happened"`
}

// KeeperResult is the account of one member process.
type KeeperResult struct {
	Process      int           `json:"process"`
	Node         squall.NodeID `json:"node"`
	Fate         string        `json:"fate"`                // killed or stayed
	Sent         *uint64       `json:"sent,omitempty"`      // messages that were accepted; unknown of those that were killed
	Acknowledged uint64        `json:"acknowledged"`        // of those
	Kept         uint64        `json:"kept"`                // messages of it in the one sequence
	Recovered    *uint64       `json:"recovered,omitempty"` // messages of all that its log told of when it started
	Messages     uint64        `json:"messages,omitempty"`  // that its state stands for
	Digest       string        `json:"digest,omitempty"`    // of those
}

// result puts together what is known. The fault is nil if all is well.
func (r *comeback) result(fault error) *DurableResult {
	res := &DurableResult{
		Nodes: r.Nodes, Fabric: r.FabricAs, Engine: r.Engine.String(), Seconds: r.story.now().Seconds(), Restart: r.restart.Seconds(),
		Before: r.acked, OnDisks: r.onDisks, Agree: fault == nil, Processes: []KeeperResult{}, Happened: r.story.all,
	}
	if fault != nil {
		res.Fault = fault.Error()
	}
	last := &account{}
	for _, k := range r.members {
		if k.account != nil {
			last = k.account
		}
	}
	res.Messages, res.Digest = last.Mark.Messages, last.Mark.Digest
	for _, k := range r.members {
		res.Acknowledged += k.acked
		res.Processes = append(res.Processes, k.result(last))
	}
	return res
}

func (k *keeping) result(last *account) KeeperResult {
	res := KeeperResult{
		Process: k.number, Node: k.id, Fate: "stayed", Sent: k.stopped, Acknowledged: k.acked, Kept: last.of(k.number), Recovered: k.recovered,
	}
	if k.killed {
		res.Fate = "killed"
	}
	if k.account != nil {
		res.Messages, res.Digest = k.account.Mark.Messages, k.account.Mark.Digest
	}
	return res
}

// verdict compares what the members say that stayed, with each other and with what was acknowledged.
func (r *comeback) verdict() error {
	stayed := r.present()
	first := stayed[0].account
	var faults []error
	for _, k := range stayed[1:] {
		if k.account.Mark != first.Mark || !slices.Equal(k.account.Delivered, first.Delivered) {
			faults = append(faults, fmt.Errorf("%w: %s has %d messages with digest %s, and %s has %d with %s", ErrDisagree, stayed[0].who(), first.Mark.Messages,
				prefix(first.Mark.Digest), k.who(), k.account.Mark.Messages, prefix(k.account.Mark.Digest)))
		}
	}
	for _, k := range r.members {
		if n := first.of(k.number); n < k.acked {
			faults = append(faults, fmt.Errorf("%w: %s was acknowledged %d messages, of which %d are left", ErrLost, k.who(), k.acked, n))
		} else if k.stopped != nil && n != *k.stopped {
			faults = append(faults, fmt.Errorf("%w: %s sent %d messages, of which %d were delivered", ErrDisagree, k.who(), *k.stopped, n))
		}
	}
	if r.onDisks != first.Mark.Messages {
		faults = append(faults, fmt.Errorf("%w: the members have %d messages, and %d are on every disk", ErrDisagree, first.Mark.Messages, r.onDisks))
	}
	return errors.Join(faults...)
}

// WriteJSON prints the result for programs.
func (res *DurableResult) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(res)
}

// WriteTable prints the result for people.
func (res *DurableResult) WriteTable(w io.Writer) error {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = style.FormatDefault
	t.Style().Options.DrawBorder, t.Style().Options.SeparateColumns = false, false
	header := table.Row{"process", "node", "fate", "from the log", "acknowledged", "kept", "state, messages", "digest"}
	t.AppendHeader(header)
	var columns []table.ColumnConfig
	for i := range header {
		columns = append(columns, table.ColumnConfig{Number: i + 1, Align: style.AlignRight, AlignHeader: style.AlignRight})
	}
	t.SetColumnConfigs(columns)
	for _, p := range res.Processes {
		t.AppendRow(p.row())
	}
	_, err := fmt.Fprintf(w, "\n%s\n\n%s\n%s", t.Render(), durableLegend, res.agreement())
	return err
}

const durableLegend = `acknowledged: messages of the process of which it was told that they are on every disk. Kept: messages of it in the one sequence;
one that was killed had some on their way, which may be there or not. From the log: messages of all that its log told of.`

func (p KeeperResult) row() table.Row {
	number := func(n uint64) string { return humanize.Comma(int64(n)) }
	recovered, messages, digest := "–", "–", "–"
	if p.Recovered != nil {
		recovered = number(*p.Recovered)
	}
	if p.Digest != "" {
		messages, digest = number(p.Messages), prefix(p.Digest)
	}
	return table.Row{p.Process, p.Node, p.Fate, recovered, number(p.Acknowledged), number(p.Kept), messages, digest}
}

// agreement is the last line if all is well.
func (res *DurableResult) agreement() string {
	if !res.Agree {
		return ""
	}
	members := fmt.Sprintf("all %d members have the same %s messages", res.Nodes, humanize.Comma(int64(res.Messages)))
	if res.Nodes == 1 {
		members = strings.Replace(members, "all 1 members have the same", "the only member has its", 1)
	}
	return fmt.Sprintf("%s in order, on their disks too; nothing acknowledged is lost, %s of it before all were killed\n",
		members, humanize.Comma(int64(res.Before)))
}
