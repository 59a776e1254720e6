package squall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// Status is what one process knows of its group at one moment. AskStatus gets it from another
// process.
type Status struct {
	Cluster string `json:"cluster"`
	Group   string `json:"group"` // identity of the group: two groups with the same name have different ones
	Node    NodeID `json:"node"`
	Addr    string `json:"addr"`
	View    ViewID `json:"view"`
	// Ready reports whether every subgroup of which this process is a member is provisioned, and has
	// its state here. Reason says what is missing.
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`

	Members   []MemberStatus   `json:"members"` // of the view, in order of seniority
	Subgroups []SubgroupStatus `json:"subgroups"`
	Stats     GroupStats       `json:"stats"`
}

// MemberStatus is a member of a view, as another member sees it.
type MemberStatus struct {
	Node      NodeID        `json:"node"`
	Addr      string        `json:"addr"`
	Link      string        `json:"link"`               // "self", "shm", "tcp", "verbs", or "pending" before it is connected
	Fallback  string        `json:"fallback,omitempty"` // why the link is not one of Config.Transport of the process that reports
	Silence   time.Duration `json:"silence_ns"`         // time since its last heartbeat
	Suspected bool          `json:"suspected"`          // the next view will be without it
}

// SubgroupStatus is one shard of a subgroup.
type SubgroupStatus struct {
	Name  string `json:"name"`
	Shard int    `json:"shard"`
	Mode  string `json:"mode"`
	// Provisioned reports whether the shard has enough members to be used. Reason says what it lacks.
	Provisioned bool     `json:"provisioned"`
	Reason      string   `json:"reason,omitempty"`
	Members     []NodeID `json:"members"`
	Senders     []NodeID `json:"senders"`

	Here bool `json:"here"` // the process that reports is a member of the shard. What follows is set only then.

	Restored bool             `json:"restored"` // the state is here
	Progress []ProgressStatus `json:"progress,omitempty"`
	Log      *LogStatus       `json:"log,omitempty"`   // of a persistent subgroup
	State    *StateHash       `json:"state,omitempty"` // of an application that has SubgroupConfig.StateHash
}

// ProgressStatus is how far a member is in the order of the view. Positions count messages and
// nulls, from the start of the view.
type ProgressStatus struct {
	Node      NodeID `json:"node"`
	Sent      uint64 `json:"sent"`                // messages and nulls that the member sent
	Received  uint64 `json:"received"`            // positions that the member has
	Delivered uint64 `json:"delivered"`           // positions that the member has delivered
	Persisted uint64 `json:"persisted,omitempty"` // positions that are on the member's disk, in a persistent subgroup
}

// LogStatus is the log of a shard at one process. Versions are written as "view:position"; an empty
// one says that there is none.
type LogStatus struct {
	First      string `json:"first,omitempty"`
	Last       string `json:"last,omitempty"`
	Snapshot   string `json:"snapshot,omitempty"` // of the snapshot that stands for earlier records
	Records    uint64 `json:"records"`
	DiskBytes  int64  `json:"disk_bytes"`
	Incomplete bool   `json:"incomplete"` // the log lacks records that other members have, and is being completed
}

// StateHash is a hash of an application's state. Two members whose hashes are of the same position
// and differ have different states.
type StateHash struct {
	Position uint64 `json:"position"` // what the hash is of, as a number that all members count alike, such as the commands executed
	Sum      uint64 `json:"sum"`
}

// Status returns what this process knows of its group. It waits for the loop until ctx ends, so
// that the error says that the loop is blocked. In a callback that runs on the loop it returns
// ErrInCallback.
func (g *Group) Status(ctx context.Context) (Status, error) { return g.status(ctx, false) }

func (g *Group) status(ctx context.Context, fresh bool) (s Status, err error) {
	if err := g.upcalls.waits(); err != nil {
		return s, err
	}
	if err := g.Err(); err != nil {
		return s, err
	}
	looked := make(chan Status, 1)
	g.member.Call(func() { looked <- g.look() })
	select {
	case s = <-looked:
	case <-g.runner.Done():
		return s, cmp.Or(g.Err(), ErrClosed)
	case <-ctx.Done():
		return s, fmt.Errorf("the loop does not answer, so a callback may be blocked: %w", context.Cause(ctx))
	}
	hashes, err := g.stateHashes(ctx, fresh)
	if err != nil {
		return s, err
	}
	s.Stats = g.Stats()
	for i := range s.Subgroups {
		sg := &s.Subgroups[i]
		if sg.Here {
			g.complete(sg)
			sg.State = hashes[sg.Name]
		}
	}
	s.judge()
	return s, nil
}

// stateHashes asks the applications of the subgroups that have a StateHash function.
func (g *Group) stateHashes(ctx context.Context, fresh bool) (map[string]*StateHash, error) {
	hashes := map[string]*StateHash{}
	for i, s := range g.subs {
		f := g.cfg.Subgroups[i].StateHash
		if _, here := s.Shard(); f == nil || !here {
			continue
		}
		h, err := f(ctx, fresh)
		if err != nil && !errors.Is(err, ErrNoStateHash) {
			return nil, fmt.Errorf("hash of the state of subgroup %q: %w", s.Name(), err)
		}
		if err == nil {
			hashes[s.Name()] = &h
		}
	}
	return hashes, nil
}

// look reads the table of the view in force. Loop.
func (g *Group) look() Status {
	v := g.member.View()
	self, _ := v.RankOf(g.cfg.ID)
	s := Status{Cluster: g.cfg.Cluster, Group: v.Group, Node: g.cfg.ID, Addr: g.Addr(), View: v.ID}
	for r, m := range v.Members {
		rank := order.Rank(r)
		t := g.member.Table()
		member := MemberStatus{Node: m.ID, Addr: m.Addr, Link: t.LinkName(rank), Silence: g.member.Silence(rank), Suspected: g.member.Suspected(rank)}
		if rank != self {
			if why := t.Fallback(rank); why != nil {
				member.Fallback = why.Error()
			}
		}
		s.Members = append(s.Members, member)
	}
	unmet := g.made.unmet(v, g.cfg.declarations())
	for i, sg := range v.Subgroups {
		t := SubgroupStatus{Name: sg.Name, Shard: sg.Shard, Mode: sg.Mode.String(), Provisioned: true, Members: ids(v, sg.Members), Senders: ids(v, sg.Senders), Here: sg.Has(self)}
		for k, p := range g.member.Progress(i) {
			t.Progress = append(t.Progress, progressOf(v.Members[sg.Members[k]].ID, p))
		}
		s.Subgroups = append(s.Subgroups, t)
	}
	for _, u := range unmet {
		at := slices.IndexFunc(s.Subgroups, func(t SubgroupStatus) bool { return t.Name == u.Name && t.Shard == u.Shard })
		if at < 0 {
			at = len(s.Subgroups)
			s.Subgroups = append(s.Subgroups, SubgroupStatus{Name: u.Name, Shard: u.Shard, Mode: g.cfg.declarations()[g.declared(u.Name)].Mode.String()})
		}
		s.Subgroups[at].Provisioned, s.Subgroups[at].Reason = false, u.Reason
	}
	return s
}

func (g *Group) declared(name string) int {
	return slices.IndexFunc(g.subs, func(s *Subgroup) bool { return s.decl.Name == name })
}

func ids(v *views.View, ranks []order.Rank) []NodeID {
	all := []NodeID{}
	for _, r := range ranks {
		all = append(all, v.Members[r].ID)
	}
	return all
}

func progressOf(id NodeID, p multicast.Progress) ProgressStatus {
	return ProgressStatus{id, uint64(p.Sent), uint64(p.Received), uint64(p.Delivered), uint64(p.Persisted)}
}

// complete adds what is known outside the loop.
func (g *Group) complete(t *SubgroupStatus) {
	s := g.subs[g.declared(t.Name)]
	select {
	case <-s.Restored():
		t.Restored = true
	default:
	}
	if s.decl.Mode != Persistent {
		return
	}
	id := persist.LogID{Name: t.Name, Shard: t.Shard}
	k := g.durable.get(id)
	if k == nil { // it is being opened
		return
	}
	i := k.log.Info()
	t.Log = &LogStatus{
		First: versionText(i.First.Version), Last: versionText(i.Last.Version), Snapshot: versionText(i.Snapshot),
		Records: uint64(i.Count), DiskBytes: int64(i.DiskBytes), Incomplete: k.partial.Load(),
	}
}

func versionText(v Version) string {
	if v == (Version{}) {
		return ""
	}
	return v.String()
}

// judge decides whether the process is ready.
func (s *Status) judge() {
	s.Ready = true
	for _, t := range s.Subgroups {
		switch {
		case !t.Provisioned:
			s.Ready, s.Reason = false, fmt.Sprintf("subgroup %q, shard %d: %s", t.Name, t.Shard, t.Reason)
		case t.Here && !t.Restored:
			s.Ready, s.Reason = false, fmt.Sprintf("subgroup %q: this process does not have the state yet", t.Name)
		default:
			continue
		}
		return
	}
}
