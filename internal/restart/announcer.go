package restart

import (
	"slices"
	"time"

	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Former is a process that was a member of an earlier view of the group and is none of the view in
// force.
type Former struct {
	ID   order.NodeID `json:"id"`
	Addr string       `json:"addr"`
}

// maxFormer bounds State.Former: the latest are kept.
const maxFormer = 64

// former returns the former members of the group once a view is in force, except members without a
// valid address, to which nothing can be sent.
func (s *State) former(next *views.View) []Former {
	list := slices.Clone(s.Former)
	if s.View != nil {
		for _, m := range s.View.Members {
			list = slices.DeleteFunc(list, func(f Former) bool { return f.ID == m.ID })
			list = append(list, Former{m.ID, m.Addr})
		}
	}
	list = slices.DeleteFunc(list, func(f Former) bool {
		_, member := next.RankOf(f.ID)
		return member || f.ID == s.Node || checkAddr(f.Addr) != nil
	})
	return list[max(0, len(list)-maxFormer):]
}

// Announcer decides when a member of a group that works says hello to processes that may be looking
// for the group at addresses where it is no more. A member that was started again may have another
// address, and if it went on without the others, none of them knows that address. The most senior
// member says hello, to the addresses of Join and of former members at which no member is; a
// process that waits there asks the sender in return, and is told that the group works (Answer).
// The hello is sealed with the group's secret, so it means nothing to a process of another group,
// and it has no view's key. It is repeated with pauses that double up to a bound, for as long as
// the process is a member: a process may come back at any time. It is pure.
type Announcer struct {
	cluster string
	self    views.Member
	join    []string
	beat    time.Duration

	due   time.Duration
	pause wait.Backoff // after the next hello
	said  uint64
}

// maxPause is the longest pause between two announcements, in beats.
const maxPause = 64

// NewAnnouncer makes an announcer for a member of a group. Join are the addresses of its
// configuration.
func NewAnnouncer(cluster string, self views.Member, join []string, t Times) *Announcer {
	beat := t.withDefaults().Beat
	return &Announcer{cluster: cluster, self: self, join: join, beat: beat, pause: wait.Backoff{First: beat, Longest: maxPause * beat}}
}

// Next returns when Tick is due.
func (a *Announcer) Next() time.Duration { return a.due }

// Tick lets time pass. View is the installed view; nil: this process is no member any more.
func (a *Announcer) Tick(now time.Duration, v *views.View, former []Former) (sends []Send) {
	if now < a.due {
		return nil
	}
	a.due = now + a.pause.Next()
	if v == nil || v.Group == "" || v.Members[0].ID != a.self.ID {
		return nil
	}
	for _, addr := range a.addresses(v, former) {
		a.said++
		m := Message{
			Verb: Hello, Cluster: a.cluster, From: a.self, ViewID: v.ID, Group: v.Group, Lineage: v.Lineage, Count: a.said,
		}
		sends = append(sends, Send{addr, m.Sealed(v.Secret)})
	}
	return sends
}

// addresses returns where former members and other processes of the group may be.
func (a *Announcer) addresses(v *views.View, former []Former) (list []string) {
	add := func(addr string) {
		member := slices.ContainsFunc(v.Members, func(m views.Member) bool { return m.Addr == addr })
		if !member && len(list) < maxContacts && !slices.Contains(list, addr) {
			list = append(list, addr)
		}
	}
	for _, addr := range a.join {
		add(addr)
	}
	for _, f := range former {
		if _, member := v.RankOf(f.ID); !member {
			add(f.Addr)
		}
	}
	return list
}
