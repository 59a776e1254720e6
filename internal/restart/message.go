package restart

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Verb names a message.
type Verb string

// What processes say. Any message may be lost, come twice, or late.
const (
	Hello    Verb = "hello"    // to all, again and again: this process is here; with Next, the sender's view, for a receiver that has an older one
	Prepare  Verb = "prepare"  // from the leader: promise to vote in no lower ballot
	Promise  Verb = "promise"  // with what was accepted or echoed before, and the ends of the logs
	Plan     Verb = "plan"     // with Next and Plan: bring the logs to these ends
	Ready    Verb = "ready"    // they are there, durably
	Accept   Verb = "accept"   // with Next: vote for it
	Vote     Verb = "vote"     // accepted, durably
	Decided  Verb = "decided"  // with Next: it is in force, and its members enter it if Enter says so
	Outvoted Verb = "outvoted" // with Promised: a higher ballot was promised
	Running  Verb = "running"  // from a member of a group that works: with Peers, and Next for a receiver that is a member of it
	Refuse   Verb = "refuse"   // with Text: not of this cluster
)

// Message is what processes say to each other. All of them have Verb, Cluster and From.
type Message struct {
	Verb    Verb         `json:"verb"`
	Cluster string       `json:"cluster"`
	From    views.Member `json:"from"`
	// ViewID and Key name the view that the sender speaks about: the last one that it knows to be
	// in force.
	ViewID order.ViewID `json:"view_id,omitempty"`
	Key    string       `json:"key,omitempty"`
	// Group and Lineage are taken from that view; empty: there is no view, or it is of an earlier
	// format.
	Group   string `json:"group,omitempty"`
	Lineage string `json:"lineage,omitempty"`
	// To is the incarnation of the process that the message is for; 0: whichever is at the address.
	// Count is that of what the sender said so far.
	To    uint64 `json:"to,omitempty"`
	Count uint64 `json:"count,omitempty"`
	Sum   []byte `json:"sum,omitempty"` // of all the rest, under the group's secret

	Ballot Ballot    `json:"ballot,omitzero"`
	Next   Successor `json:"next,omitzero"`

	// Of Hello.
	Counts bool     `json:"counts,omitempty"` // the sender's disk is that of a member of its view
	Able   bool     `json:"able,omitempty"`   // the sender sees enough others to lead
	Lacks  []LogID  `json:"lacks,omitempty"`  // its logs that are not complete
	Peers  []string `json:"peers,omitempty"`  // addresses of processes that are here; of Running: of the group's members

	// Of Promise.
	Accepted *Accepted `json:"accepted,omitempty"`
	Echo     *Echo     `json:"echo,omitempty"`
	Logs     []LogEnd  `json:"logs,omitempty"`
	LogsFor  string    `json:"ready,omitempty"` // of Ready, too: the key of the view for which the sender's logs are where they were agreed to be

	Plan     []Agreed `json:"plan,omitempty"`    // of Plan
	Enter    bool     `json:"enter,omitempty"`   // of Decided
	Promised Ballot   `json:"promised,omitzero"` // of Outvoted
	Text     string   `json:"text,omitempty"`    // of Refuse
}

// Agreed is a log as it has to be before the next view: up to End what its sources have, and
// nothing else.
type Agreed struct {
	ID      LogID         `json:"id"`
	End     order.Version `json:"end"`     // zero: it is empty
	Sources []Source      `json:"sources"` // the processes whose log ends there, perhaps the process itself
}

// Source is a process that has a log up to where it was agreed upon.
type Source struct {
	Node order.NodeID `json:"node"`
	Addr string       `json:"addr"`
}

// Bounds on what a message may carry, whichever process sent it.
const (
	maxPeers   = 64 // addresses in a message
	maxSources = 4  // of a log
	maxText    = 1024
	// maxLead is how far a ballot may be ahead of the ballots that a process has seen, so that no
	// process can use up all of them.
	maxLead = 1 << 32
)

// check says what is wrong with a message that came over the wire.
func (m *Message) check() error {
	if err := checkMember(m.From); err != nil {
		return err
	}
	if len(m.Group) > views.MaxTextBytes || len(m.Lineage) > views.MaxTextBytes || len(m.Key) > views.MaxTextBytes || len(m.Sum) > views.MaxTextBytes {
		return fmt.Errorf("a group, lineage, key or sum of %d, %d, %d and %d bytes", len(m.Group), len(m.Lineage), len(m.Key), len(m.Sum))
	}
	if len(m.Peers) > maxPeers || len(m.Logs) > views.MaxSubgroups || len(m.Lacks) > views.MaxSubgroups || len(m.Plan) > views.MaxSubgroups {
		return fmt.Errorf("%d peers, %d logs, %d that lack something, a plan of %d", len(m.Peers), len(m.Logs), len(m.Lacks), len(m.Plan))
	}
	for _, addr := range m.Peers {
		if err := checkAddr(addr); err != nil {
			return err
		}
	}
	for _, a := range m.Plan {
		for _, s := range a.Sources[:min(len(a.Sources), maxSources)] {
			if err := checkAddr(s.Addr); err != nil {
				return err
			}
		}
		if len(a.Sources) == 0 || len(a.Sources) > maxSources {
			return fmt.Errorf("log %.64q: %d sources, 1 to %d", a.ID.Name, len(a.Sources), maxSources)
		}
	}
	return m.checkViews()
}

func (m *Message) checkViews() error {
	all := []*views.View{m.Next.View}
	if m.Accepted != nil {
		if m.Accepted.View == nil {
			return errors.New("a vote for nothing")
		}
		all = append(all, m.Accepted.View)
	}
	if m.Echo != nil {
		all = append(all, m.Echo.View)
	}
	for _, v := range all {
		if v == nil {
			continue
		}
		if err := v.Validate(); err != nil {
			return err
		}
		if v.Cluster != m.Cluster {
			return fmt.Errorf("view %d is of cluster %q", v.ID, clip(v.Cluster))
		}
	}
	switch m.Verb {
	case Plan, Accept, Decided:
		if m.Next.View == nil {
			return fmt.Errorf("%q without a view", m.Verb)
		}
	}
	return nil
}

func checkMember(m views.Member) error {
	if m.ID == 0 || len(m.Host) > views.MaxTextBytes || len(m.SHM) > views.MaxTextBytes {
		return fmt.Errorf("node %d: no id, or a host or socket that is too long", m.ID)
	}
	return checkAddr(m.Addr)
}

func checkAddr(addr string) error {
	if len(addr) > views.MaxTextBytes {
		return fmt.Errorf("an address of %d bytes", len(addr))
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return fmt.Errorf("address %q: %w", addr, err)
	}
	return nil
}

// clip bounds a text that goes into a message or an error.
func clip(text string) string { return wire.Clip(text, maxText) }

// String is for traces.
func (m Message) String() string {
	text := fmt.Sprintf("%s of node %d about view %d", m.Verb, m.From.ID, m.ViewID)
	if m.Ballot != (Ballot{}) {
		text += fmt.Sprintf(", ballot %v", m.Ballot)
	}
	if m.Next.View != nil {
		text += fmt.Sprintf(", view %d of %s", m.Next.View.ID, ids(m.Next.View.Members))
	}
	return text
}

func ids(members []views.Member) string {
	var list []string
	for _, m := range members {
		list = append(list, fmt.Sprint(m.ID))
	}
	return "nodes " + strings.Join(list, ", ")
}
