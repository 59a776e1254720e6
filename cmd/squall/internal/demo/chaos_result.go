package demo

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
)

// ChaosResult is what a demo with --chaos found out. It is the object that --json prints.
type ChaosResult struct {
	Nodes     int             `json:"nodes"`
	Fabric    string          `json:"fabric"` // as asked for
	Seed      uint64          `json:"seed"`
	Seconds   float64         `json:"seconds"`
	FailAfter float64         `json:"fail_after_seconds"`
	Messages  uint64          `json:"messages"` // in the one sequence
	Bytes     uint64          `json:"bytes"`
	Digest    string          `json:"digest"` // of senders and messages in order, of the whole run: a SHA-256
	Agree     bool            `json:"agree"`
	Fault     string          `json:"fault,omitempty"` // if not
	Processes []ProcessResult `json:"processes"`
	Views     []ViewResult    `json:"views"`
	Happened  []*Happening    `json:"happened"`
}

// ProcessResult is the account of one member process.
type ProcessResult struct {
	Process   int           `json:"process"`
	Node      squall.NodeID `json:"node"`
	Fate      string        `json:"fate"` // stayed, killed, evicted, cut off or left
	From      float64       `json:"from_seconds"`
	Until     float64       `json:"until_seconds"`
	FirstView squall.ViewID `json:"first_view"`
	LastView  squall.ViewID `json:"last_view"`
	Sent      *uint64       `json:"sent,omitempty"`     // messages that were accepted; unknown of killed processes
	Received  uint64        `json:"sent_and_delivered"` // messages of it in the one sequence
	Messages  uint64        `json:"messages"`           // that its state stands for; at least so many if it was killed
	Digest    string        `json:"digest,omitempty"`   // of these; unknown of killed processes
	LongestNs int64         `json:"longest_pause_ns"`   // without a delivery
}

// ViewResult is what is known of a view.
type ViewResult struct {
	ID     squall.ViewID   `json:"id"`
	Nodes  []squall.NodeID `json:"nodes"`
	End    uint64          `json:"end,omitempty"`    // how many messages there were at its end; 0 for the last one
	Digest string          `json:"digest,omitempty"` // of these
	Pauses []Pause         `json:"pauses,omitempty"` // before its first message
}

// result puts together what is known. The fault is nil if all is well.
func (r *chaosRun) result(fault error) *ChaosResult {
	res := &ChaosResult{
		Nodes: r.Nodes, Fabric: r.Fabric, Seed: r.Seed, Seconds: r.story.now().Seconds(), FailAfter: r.FailAfter.Seconds(),
		Agree: fault == nil, Processes: []ProcessResult{}, Views: []ViewResult{}, Happened: r.story.all,
	}
	if fault != nil {
		res.Fault = fault.Error()
	}
	last := r.lastAccount()
	state := last.States[0]
	res.Messages, res.Bytes, res.Digest = state.Messages, state.Bytes, state.Digest
	for _, p := range r.processes {
		res.Processes = append(res.Processes, p.suffered(last.Lives[0].Of(p.number)))
	}
	for id := squall.ViewID(1); id <= r.newest; id++ {
		if v := r.views[id]; v != nil {
			end := r.ledger.End(id)
			res.Views = append(res.Views, ViewResult{id, v.nodes, end.Messages, end.Digest, v.pauses})
		}
	}
	return res
}

func (p *process) suffered(received uint64) ProcessResult {
	res := ProcessResult{
		Process: p.number, Node: p.id, Fate: p.fate(), From: p.from.Seconds(), Until: p.until.Seconds(), FirstView: p.views[0], LastView: p.views[1],
		Received: received, Messages: p.delivered, LongestNs: int64(p.longest),
	}
	if p.account != nil {
		res.Sent, res.Digest = &p.account.Accepted[0], p.account.States[0].Digest
	}
	return res
}

// verdict compares the accounts of the processes that stayed, and the sent with the delivered
// messages.
func (r *chaosRun) verdict(context.Context) error {
	stayed := r.stayed()
	if len(stayed) == 0 {
		return fmt.Errorf("%w: no process is left", ErrDisagree)
	}
	faults := differences(stayed)
	for _, p := range r.processes {
		if fault := p.missing(stayed[0].account.Lives[0].Of(p.number)); fault != "" {
			faults = append(faults, fault)
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %s", ErrDisagree, strings.Join(faults, "; "))
	}
	return nil
}

// missing says what is wrong with the number of this process's messages that were delivered. Of one
// that was evicted some may be lost, and the last one may have been under way; of one that was
// killed nothing is known.
func (p *process) missing(delivered uint64) string {
	if p.account == nil {
		return ""
	}
	sent := p.account.Accepted[0]
	if p.account.Halted == "" && delivered != sent {
		return fmt.Sprintf("%s sent %d messages, of which %d were delivered", p.name(), sent, delivered)
	}
	if delivered > sent+1 {
		return fmt.Sprintf("%s sent %d messages, and %d were delivered", p.name(), sent, delivered)
	}
	return ""
}

// writeTable prints the result for people.
func (res *ChaosResult) writeTable(w io.Writer) error {
	t := newTable(table.Row{"process", "node", "from", "until", "fate", "views", "sent", "state, messages", "digest", "longest pause"})
	for _, p := range res.Processes {
		t.AppendRow(p.row())
	}
	_, err := fmt.Fprintf(w, "\n%s\n\n%s\n%s", t.Render(), chaosLegend, res.agreement())
	return err
}

const chaosLegend = `sent: messages that came into the sequence. State: all messages of the run so far, also those before this process; it came
from the others, as far as this one did not deliver them. A process that was killed could not say how far it was.`

func (p ProcessResult) row() table.Row {
	messages, digest := humanize.Comma(int64(p.Messages)), testlab.Short(p.Digest)
	if p.Digest == "" {
		messages, digest = "–", "–"
	}
	until, sent := seconds(p.Until), humanize.Comma(int64(p.Received))
	if p.Until == 0 { // the run ended before it did
		until, sent = "–", "–"
	}
	return table.Row{
		p.Process, p.Node, seconds(p.From), until, p.Fate, fmt.Sprintf("%d–%d", p.FirstView, p.LastView), sent,
		messages, digest, milliseconds(p.LongestNs),
	}
}

func seconds(s float64) string { return fmt.Sprintf("%.1fs", s) }

// agreement is the last line if all is well.
func (res *ChaosResult) agreement() string {
	if !res.Agree {
		return ""
	}
	return fmt.Sprintf("all %d members have the same %s messages in the same order, over %d views; nothing that a survivor sent is missing\n",
		res.Nodes, humanize.Comma(int64(res.Messages)), len(res.Views))
}
