package demo

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	style "github.com/jedib0t/go-pretty/v6/text"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
)

// ErrLost is the verdict when something is missing that was acknowledged.
var ErrLost = errors.New("something acknowledged is lost")

// Account is what a demo with --chaos or --durable found out. It is the object that --json prints.
type Account struct {
	Nodes     int             `json:"nodes"`
	Fabric    string          `json:"fabric"` // as asked for
	Seconds   float64         `json:"seconds"`
	Messages  uint64          `json:"messages"` // in the one sequence
	Bytes     uint64          `json:"bytes"`
	Digest    string          `json:"digest"` // of senders and messages in order, of the whole run: a SHA-256
	Agree     bool            `json:"agree"`
	Fault     string          `json:"fault,omitempty"` // if not
	Processes []ProcessResult `json:"processes"`
	Views     []ViewResult    `json:"views"`
	Happened  []Happening     `json:"happened"`

	*Chaos
	*Durable

	header             table.Row
	row                func(ProcessResult) table.Row
	legend, conclusion string
}

// Chaos is what only a demo with --chaos has.
type Chaos struct {
	Seed      uint64  `json:"seed"`
	FailAfter float64 `json:"fail_after_seconds"`
}

// Durable is what only a demo with --durable has.
type Durable struct {
	Engine       string  `json:"engine"`
	Restart      float64 `json:"restart_seconds"`          // from the first process that started again to all in a view, with their state
	Acknowledged uint64  `json:"acknowledged"`             // messages that were on every disk, as their senders were told
	Before       uint64  `json:"acknowledged_before_kill"` // of these
	OnDisks      uint64  `json:"on_every_disk"`            // read from the logs at the end, record by record
}

// ProcessResult is the account of one member process.
type ProcessResult struct {
	Process      int           `json:"process"`
	Node         squall.NodeID `json:"node"`
	Fate         string        `json:"fate"` // stayed, killed, evicted, cut off or left
	From         float64       `json:"from_seconds"`
	Until        float64       `json:"until_seconds"` // 0: the run ended before it did
	FirstView    squall.ViewID `json:"first_view"`
	LastView     squall.ViewID `json:"last_view"`
	Sent         *uint64       `json:"sent,omitempty"`         // messages that were accepted; unknown of killed processes
	Acknowledged uint64        `json:"acknowledged,omitempty"` // of these
	Delivered    uint64        `json:"sent_and_delivered"`     // messages of it in the one sequence
	Recovered    *uint64       `json:"recovered,omitempty"`    // messages of all that its log told of when it started
	Messages     uint64        `json:"messages"`               // that its state stands for; at least so many if it was killed
	Digest       string        `json:"digest,omitempty"`       // of these; unknown of killed processes
	LongestNs    int64         `json:"longest_pause_ns"`       // without a delivery; unknown of killed processes
}

// ViewResult is what is known of a view.
type ViewResult struct {
	ID     squall.ViewID   `json:"id"`
	Nodes  []squall.NodeID `json:"nodes"`
	End    uint64          `json:"end,omitempty"`    // how many messages there were at its end; 0 for the last one
	Digest string          `json:"digest,omitempty"` // of these
}

// told puts together what is known. The fault is nil if all is well.
func (t *trial) told(fault error) *Account {
	last := t.lastAccount()
	state := last.States[0]
	a := &Account{
		Nodes: t.Nodes, Fabric: t.Fabric, Seconds: t.story.now().Seconds(), Messages: state.Messages, Bytes: state.Bytes, Digest: state.Digest,
		Agree: fault == nil, Processes: []ProcessResult{}, Views: []ViewResult{}, Happened: t.story.all,
	}
	if fault != nil {
		a.Fault = fault.Error()
	}
	for _, p := range t.processes {
		a.Processes = append(a.Processes, p.result(last.Lives[0].Of(p.number)))
	}
	for id := squall.ViewID(1); id <= t.newest; id++ {
		if nodes := t.views[id]; nodes != nil {
			end := t.ledger.End(id)
			a.Views = append(a.Views, ViewResult{id, nodes, end.Messages, end.Digest})
		}
	}
	return a
}

func (p *process) result(delivered uint64) ProcessResult {
	r := ProcessResult{
		Process: p.number, Node: p.id, Fate: p.fate(), From: p.from.Seconds(), Until: p.until.Seconds(), FirstView: p.views[0], LastView: p.views[1],
		Acknowledged: p.acked, Delivered: delivered, Recovered: p.recovered, Messages: p.delivered,
	}
	if p.account != nil {
		r.Sent, r.Messages, r.Digest = &p.account.Accepted[0], p.account.States[0].Messages, p.account.States[0].Digest
		r.LongestNs = int64(p.account.Longest)
	}
	return r
}

// verdict compares the accounts of the processes that stayed, and what all processes sent with what
// was delivered.
func (t *trial) verdict(context.Context) error {
	stayed := t.stayed()
	if len(stayed) == 0 {
		return fmt.Errorf("%w: no process is left", ErrDisagree)
	}
	var faults []error
	for _, fault := range differences(stayed) {
		faults = append(faults, fmt.Errorf("%w: %s", ErrDisagree, fault))
	}
	for _, p := range t.processes {
		faults = append(faults, p.missing(stayed[0].account.Lives[0].Of(p.number)))
	}
	return errors.Join(faults...)
}

// missing is what is wrong with the number of this process's messages that were delivered. Of one
// that was evicted some may be lost, and the last one may have been in flight; of one that was
// killed only the acknowledged ones are known.
func (p *process) missing(delivered uint64) error {
	if delivered < p.acked {
		return fmt.Errorf("%w: %s was acknowledged %d messages, of which %d are left", ErrLost, p.name(), p.acked, delivered)
	}
	if p.account == nil {
		return nil
	}
	sent := p.account.Accepted[0]
	if p.account.Halted == "" && delivered != sent {
		return fmt.Errorf("%w: %s sent %d messages, of which %d were delivered", ErrDisagree, p.name(), sent, delivered)
	}
	if delivered > sent+1 {
		return fmt.Errorf("%w: %s sent %d messages, and %d were delivered", ErrDisagree, p.name(), sent, delivered)
	}
	return nil
}

// writeTable prints the result for people.
func (a *Account) writeTable(w io.Writer) error {
	t := newTable(a.header)
	for _, p := range a.Processes {
		t.AppendRow(a.row(p))
	}
	conclusion := ""
	if a.Agree {
		conclusion = a.conclusion + "\n"
	}
	_, err := fmt.Fprintf(w, "\n%s\n\n%s\n%s", t.Render(), a.legend, conclusion)
	return err
}

// unless is a text of a table, or – if it is not known.
func unless(unknown bool, text string) string {
	if unknown {
		return "–"
	}
	return text
}

// state is what a process has, for a table.
func (p ProcessResult) state() (messages, digest string) {
	return unless(p.Digest == "", comma(p.Messages)), unless(p.Digest == "", testlab.Short(p.Digest))
}

func seconds(s float64) string { return fmt.Sprintf("%.1fs", s) }

// finding is what a demo found out, of any kind.
type finding interface {
	writeTable(io.Writer) error
}

// conclude prints what a demo found out, for programs or for people, unless it was interrupted. It
// returns err, how the demo went.
func (o options) conclude(ctx context.Context, found finding, out io.Writer, err error) error {
	switch {
	case ctx.Err() != nil:
		return err
	case o.JSON:
		return errors.Join(show.JSON(out, found), err)
	}
	return errors.Join(found.writeTable(out), err)
}

// newTable is a table of numbers that fits into 110 columns. Where the first of two headers says
// the same of neighbours, it says it once.
func newTable(headers ...table.Row) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = style.FormatDefault
	t.Style().Options.DrawBorder, t.Style().Options.SeparateColumns = false, false
	for i, h := range headers {
		t.AppendHeader(h, table.RowConfig{AutoMerge: i < len(headers)-1})
	}
	var columns []table.ColumnConfig
	for i := range headers[0] {
		columns = append(columns, table.ColumnConfig{Number: i + 1, Align: style.AlignRight, AlignHeader: style.AlignRight})
	}
	t.SetColumnConfigs(columns)
	return t
}
