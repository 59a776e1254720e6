package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
)

// ErrLost is the verdict when something is missing that was acknowledged.
var ErrLost = errors.New("something acknowledged is lost")

// DurableResult is what a demo with --durable found out. It is the object that --json prints.
type DurableResult struct {
	Nodes        int              `json:"nodes"`
	Fabric       string           `json:"fabric"` // as asked for
	Engine       string           `json:"engine"`
	Seconds      float64          `json:"seconds"`
	Restart      float64          `json:"restart_seconds"`          // from the first process that started again to all in a view, with their state
	Messages     uint64           `json:"messages"`                 // in the one sequence
	Digest       string           `json:"digest"`                   // of senders and messages in order: a SHA-256
	Acknowledged uint64           `json:"acknowledged"`             // messages that were on every disk, as their senders were told
	Before       uint64           `json:"acknowledged_before_kill"` // of these
	OnDisks      uint64           `json:"on_every_disk"`            // read from the logs at the end, record by record
	Agree        bool             `json:"agree"`
	Fault        string           `json:"fault,omitempty"` // if not
	Processes    []DurableProcess `json:"processes"`
	Happened     []*Happening     `json:"happened"`
}

// DurableProcess is the account of one member process.
type DurableProcess struct {
	Process      int           `json:"process"`
	Node         squall.NodeID `json:"node"`
	Fate         string        `json:"fate"`                // killed or stayed
	Sent         *uint64       `json:"sent,omitempty"`      // messages that were accepted; unknown of killed processes
	Acknowledged uint64        `json:"acknowledged"`        // of these
	Kept         uint64        `json:"kept"`                // messages of it in the one sequence
	Recovered    *uint64       `json:"recovered,omitempty"` // messages of all that its log told of when it started
	Messages     uint64        `json:"messages,omitempty"`  // that its state stands for
	Digest       string        `json:"digest,omitempty"`    // of these
}

// result puts together what is known. The fault is nil if all is well.
func (r *durableRun) result(fault error) *DurableResult {
	res := &DurableResult{
		Nodes: r.Nodes, Fabric: r.Fabric, Engine: r.Engine, Seconds: r.story.now().Seconds(), Restart: r.restart.Seconds(),
		Before: r.acked, OnDisks: r.onDisks, Agree: fault == nil, Processes: []DurableProcess{}, Happened: r.story.all,
	}
	if fault != nil {
		res.Fault = fault.Error()
	}
	last := r.lastAccount()
	res.Messages, res.Digest = last.States[0].Messages, last.States[0].Digest
	for _, p := range r.processes {
		res.Acknowledged += p.acked
		res.Processes = append(res.Processes, p.kept(last.Lives[0].Of(p.number)))
	}
	return res
}

func (p *process) kept(kept uint64) DurableProcess {
	res := DurableProcess{
		Process: p.number, Node: p.id, Fate: p.fate(), Sent: p.stopped, Acknowledged: p.acked, Kept: kept, Recovered: p.recovered,
	}
	if p.account != nil {
		res.Messages, res.Digest = p.account.States[0].Messages, p.account.States[0].Digest
	}
	return res
}

// verdict compares what the members say that stayed, with each other and with what was
// acknowledged.
func (r *durableRun) verdict(context.Context) error {
	stayed := r.stayed()
	var faults []error
	for _, fault := range differences(stayed) {
		faults = append(faults, fmt.Errorf("%w: %s", ErrDisagree, fault))
	}
	first := stayed[0].account
	for _, p := range r.processes {
		if n := first.Lives[0].Of(p.number); n < p.acked {
			faults = append(faults, fmt.Errorf("%w: %s was acknowledged %d messages, of which %d are left", ErrLost, p.name(), p.acked, n))
		} else if p.stopped != nil && n != *p.stopped {
			faults = append(faults, fmt.Errorf("%w: %s sent %d messages, of which %d were delivered", ErrDisagree, p.name(), *p.stopped, n))
		}
	}
	if have := first.States[0].Messages; r.onDisks != have {
		faults = append(faults, fmt.Errorf("%w: the members have %d messages, and %d are on every disk", ErrDisagree, have, r.onDisks))
	}
	return errors.Join(faults...)
}

// writeTable prints the result for people.
func (res *DurableResult) writeTable(w io.Writer) error {
	t := newTable(table.Row{"process", "node", "fate", "from the log", "acknowledged", "kept", "state, messages", "digest"})
	for _, p := range res.Processes {
		t.AppendRow(p.row())
	}
	_, err := fmt.Fprintf(w, "\n%s\n\n%s\n%s", t.Render(), durableLegend, res.agreement())
	return err
}

const durableLegend = `acknowledged: messages of the process that it knows to be on every disk. Kept: messages of it in the one sequence;
one that was killed had some in flight, which may be there or not. From the log: messages of all that its log told of.`

func (p DurableProcess) row() table.Row {
	number := func(n uint64) string { return humanize.Comma(int64(n)) }
	recovered, messages, digest := "–", "–", "–"
	if p.Recovered != nil {
		recovered = number(*p.Recovered)
	}
	if p.Digest != "" {
		messages, digest = number(p.Messages), testlab.Short(p.Digest)
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
