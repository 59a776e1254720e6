package views

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
)

// Mode says how a subgroup delivers.
type Mode uint8

const (
	// Ordered delivers in total order, once every member holds the message (G1, G2).
	Ordered Mode = iota
	// Unordered delivers each sender's messages in its order as they arrive, without waiting for
	// other members.
	Unordered
	// Persistent is Ordered, and every message is kept in the log of each member (G6).
	Persistent
)

func (m Mode) String() string {
	switch m {
	case Ordered:
		return "ordered"
	case Unordered:
		return "unordered"
	case Persistent:
		return "persistent"
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// Member is one process of a view.
type Member struct {
	ID order.NodeID `json:"id"`
	// Incarnation tells a node's processes apart: one that was started again is another member.
	Incarnation uint64 `json:"incarnation,omitempty"`
	Addr        string `json:"addr"` // host:port its peers connect to
	// Host is equal for processes that can share memory; empty if the member does not offer it.
	Host string `json:"host,omitempty"`
	// SHM is the name of the member's abstract unix socket; empty if it has none.
	SHM string `json:"shm,omitempty"`
	// Disk tells apart what the node keeps its logs on: one that was replaced, or lost something,
	// is another disk. 0: it keeps none.
	Disk uint64 `json:"disk,omitempty"`
	// GaveUp has marks of disks whose logs an operator gave up: see Subgroup.Mark. Empty: of none.
	GaveUp string `json:"gave_up,omitempty"`
	// PublicKey is the process's own, made when it started: by it the others recognise the process
	// when they connect.
	PublicKey trust.PublicKey `json:"public_key,omitzero"`
	// Certificate is, with TLS, the hash of the public key of its certificate: no other certificate
	// is accepted for this member.
	Certificate trust.Digest `json:"certificate,omitzero"`
}

// Party is the member as keys of pairs take it in.
func (m Member) Party() trust.Party {
	return trust.Party{Node: uint64(m.ID), Incarnation: m.Incarnation, PublicKey: m.PublicKey}
}

// Subgroup is a shard of a declaration, placed in a view.
type Subgroup struct {
	Name      string       `json:"name"`
	Shard     int          `json:"shard,omitempty"`
	Members   []order.Rank `json:"members"` // ascending; empty: not provisioned
	Senders   []order.Rank `json:"senders"` // ascending, possibly none; the place in this list is the SenderRank
	Mode      Mode         `json:"mode"`
	RingBytes int          `json:"ring_bytes"`
	Window    int          `json:"window"`
	// Fresh are the members that enter it with this view while others have its state or its log:
	// they need to get that.
	Fresh []order.Rank `json:"fresh,omitempty"`
	// Partial lists the members of which it is not known that they have the state, or all of the
	// log: the fresh ones, and the members that were fresh before and have not said since that they
	// have got it.
	Partial []order.Rank `json:"partial,omitempty"`
	// Holders are, while it is not provisioned, the processes that have its state, or all of its
	// log, as it was when it last was.
	Holders []Holder `json:"keepers,omitempty"`
	// Lost says that the subgroup had members before, and that no process has its state any more:
	// its members begin anew with this view. While it is not provisioned, the next members will. A
	// persistent subgroup is never lost: it waits for its log.
	Lost bool `json:"lost,omitempty"`
}

// Provisioned reports whether the subgroup has members in this view. If not, no process can send to
// it.
func (s Subgroup) Provisioned() bool { return len(s.Members) > 0 }

// SenderRank returns the place of rank r among the senders, or false if it does not send.
func (s Subgroup) SenderRank(r order.Rank) (order.SenderRank, bool) {
	i, ok := slices.BinarySearch(s.Senders, r)
	return order.SenderRank(i), ok
}

// Has reports whether rank r is a member.
func (s Subgroup) Has(r order.Rank) bool {
	_, ok := slices.BinarySearch(s.Members, r)
	return ok
}

// View is one membership of a group. It is never changed after it was made.
type View struct {
	ID      order.ViewID `json:"id"`
	Cluster string       `json:"cluster"`
	// Group is the identity of the group: a random text that its first member made, the same in all
	// of its views. A process that bootstraps the group anew makes another one. Empty: the view is
	// of an earlier format.
	Group string `json:"group,omitempty"`
	// Secret is known to the members of the group alone, the same in all of its views. It is no
	// part of the JSON.
	Secret Secret `json:"-"`
	// Lineage is the end of the chain of views, by which a view shows which others it follows from.
	Lineage   string     `json:"lineage,omitempty"`
	Members   []Member   `json:"members"` // by rank
	Subgroups []Subgroup `json:"subgroups"`
	// Muted has, by rank, a bit for each declaration in which the member does not want to send;
	// nil: all want.
	Muted []uint64 `json:"muted,omitempty"`
	// Time is, if there are persistent subgroups, not before any time up to which a member of the
	// view before can have called the order settled: no clock in this view may be before it.
	Time order.Time `json:"time,omitempty"`

	key string // see Key
}

// Key is known to the members of the view only: it enters the keys with which they authenticate
// each other. It is not an exported field, and neither the JSON nor the text of a View contains it,
// so that an application that logs a view does not disclose the key.
func (v *View) Key() string { return v.key }

// SetKey gives a key to a view that is being made.
func (v *View) SetKey(key string) { v.key = key }

// WithKey is SetKey, and returns the view.
func (v *View) WithKey(key string) *View {
	v.key = key
	return v
}

// String describes the view in a line.
func (v View) String() string {
	return fmt.Sprintf("view %d of %q: %s", v.ID, v.Cluster, names(v.Members))
}

// Format writes String, whatever the verb: no verb shows the key.
func (v View) Format(f fmt.State, _ rune) { io.WriteString(f, v.String()) }

// Scope is where the keys of this view's pairs are valid.
func (v *View) Scope() trust.Scope {
	return trust.Scope{Group: v.Group, Cluster: v.Cluster, View: uint64(v.ID), Key: v.key}
}

// Persistent reports whether any subgroup is.
func (v *View) Persistent() bool {
	return slices.ContainsFunc(v.Subgroups, func(sg Subgroup) bool { return sg.Mode == Persistent })
}

// RankOf returns the rank of a node, or false if it is not a member.
func (v *View) RankOf(id order.NodeID) (order.Rank, bool) {
	for r := range v.Members { // by index: a Member is large, and this is asked often
		if v.Members[r].ID == id {
			return order.Rank(r), true
		}
	}
	return -1, false
}

// Shards returns the subgroups of a name, by shard; none if the name is not declared.
func (v *View) Shards(name string) []Subgroup {
	first := max(0, slices.IndexFunc(v.Subgroups, func(sg Subgroup) bool { return sg.Name == name }))
	end := first
	for end < len(v.Subgroups) && v.Subgroups[end].Name == name {
		end++
	}
	return v.Subgroups[first:end:end]
}

// Declared returns the index of a subgroup's declaration among all of them.
func (v *View) Declared(subgroup int) (declaration int) {
	for i := 1; i <= subgroup; i++ {
		if v.Subgroups[i].Name != v.Subgroups[i-1].Name {
			declaration++
		}
	}
	return declaration
}

// Validate checks V1 to V4 and the limits, and reports every fault at once. What it reports is
// bounded, whatever arrived.
func (v *View) Validate() error {
	faults := v.memberFaults()
	if len(v.Subgroups) > MaxSubgroups {
		faults.add("%d subgroups, shards counted: at most %d", len(v.Subgroups), MaxSubgroups)
	} else {
		faults = append(faults, v.subgroupFaults()...)
	}
	for i, err := range faults {
		faults[i] = fmt.Errorf("view %d: %w", v.ID, err)
	}
	return errors.Join(faults...)
}

func (v *View) memberFaults() (faults faults) {
	if v.ID == 0 || len(v.Members) == 0 || len(v.Members) > MaxMembers {
		faults.add("%d members (1 to %d), id %d", len(v.Members), MaxMembers, v.ID)
		return faults
	}
	faults.long("the cluster's name", v.Cluster)
	faults.long("the key", v.key)
	faults.long("the group's identity", v.Group)
	faults.long("the group's secret", v.Secret.text)
	faults.long("the lineage", v.Lineage)
	if v.Muted != nil && len(v.Muted) != len(v.Members) {
		faults.add("mute words of %d members, there are %d", len(v.Muted), len(v.Members))
	}
	for r, m := range v.Members {
		if first, _ := v.RankOf(m.ID); int(first) < r {
			faults.add("node %d is a member twice", m.ID)
		}
		for _, text := range [...]string{m.Addr, m.Host, m.SHM, m.GaveUp} {
			if len(text) > MaxTextBytes {
				faults.long(fmt.Sprintf("node %d: its address, host, socket or marks", m.ID), text)
			}
		}
	}
	return faults
}

func (v *View) subgroupFaults() (faults faults) {
	names := map[string]bool{}
	var used []order.Rank // by the shards of the present name
	for i, sg := range v.Subgroups {
		if sg.Shard == 0 {
			used = nil
		}
		if sg.Shard == 0 && names[sg.Name] || sg.Shard != 0 && (i == 0 || !sg.follows(v.Subgroups[i-1])) {
			faults.add("%s is there twice, or does not follow the shard before it", sg.label()) // V4
		}
		if slices.ContainsFunc(sg.Members, func(r order.Rank) bool { return slices.Contains(used, r) }) {
			faults.add("%s: some of its members %v are in another shard, too", sg.label(), brief(sg.Members)) // V4
		}
		names[sg.Name], used = true, append(used, sg.Members[:min(len(sg.Members), MaxMembers)]...)
		for _, err := range sg.faults(len(v.Members)) {
			faults.add("%s: %w", sg.label(), err)
		}
	}
	return faults
}

// follows reports whether s is the next shard after another one.
func (s Subgroup) follows(before Subgroup) bool {
	return s.Name == before.Name && s.Shard == before.Shard+1 &&
		s.Mode == before.Mode && s.RingBytes == before.RingBytes && s.Window == before.Window
}

// faults looks at one subgroup by itself, in a view of so many members.
func (s Subgroup) faults(members int) (faults faults) {
	if !ascending(s.Fresh, members) || slices.ContainsFunc(s.Fresh, func(r order.Rank) bool { return !s.Has(r) }) {
		faults.add("fresh members %v are not ascending ranks of its members %v", brief(s.Fresh), brief(s.Members)) // V2
	}
	if slices.ContainsFunc(s.Fresh, func(r order.Rank) bool { return !slices.Contains(s.Partial, r) }) ||
		!ascending(s.Partial, members) || slices.ContainsFunc(s.Partial, func(r order.Rank) bool { return !s.Has(r) }) {
		faults.add("members %v have a part of the log: ascending ranks of its members %v, and the fresh ones %v", brief(s.Partial), brief(s.Members), brief(s.Fresh)) // V2
	}
	if s.Mode == Persistent && s.Provisioned() && len(s.Partial) >= len(s.Members) {
		faults.add("%d of %d members of a %v subgroup have a part of the log", len(s.Partial), len(s.Members), s.Mode) // V11
	}
	faults.name(s.Name)
	if !ascending(s.Members, members) {
		faults.add("members %v are not ascending ranks below %d", brief(s.Members), members)
	}
	if !ascending(s.Senders, members) || slices.ContainsFunc(s.Senders, func(r order.Rank) bool { return !s.Has(r) }) {
		faults.add("senders %v are not ascending ranks of its members %v", brief(s.Senders), brief(s.Members))
	}
	if len(s.Holders) > MaxMembers || len(s.Holders) > 0 && s.Provisioned() {
		faults.add("%d holders of a subgroup with %d members: only one without members has any", len(s.Holders), len(s.Members))
	}
	if s.Lost && (s.Mode == Persistent || len(s.Holders)+len(s.Fresh)+len(s.Partial) > 0) {
		faults.add("the state of a %v subgroup with %d holders, %d fresh and %d partial members is lost", s.Mode, len(s.Holders), len(s.Fresh), len(s.Partial))
	}
	if s.Mode > Persistent {
		faults.add("unknown %v", s.Mode)
	}
	if err := CheckSizes(s.RingBytes, s.Window); err != nil {
		faults.add("%w", err)
	}
	return faults
}

// label names the subgroup, and its shard if it is not the first or only one.
func (s Subgroup) label() string {
	if s.Shard == 0 {
		return fmt.Sprintf("subgroup %q", clip(s.Name))
	}
	return fmt.Sprintf("subgroup %q, shard %d", clip(s.Name), s.Shard)
}

func ascending(ranks []order.Rank, below int) bool {
	for i, r := range ranks {
		if r < 0 || int(r) >= below || i > 0 && ranks[i-1] >= r {
			return false
		}
	}
	return true
}

// Limits of a view. A group is meant for 2 to 64 members and tens of subgroups.
const (
	MaxMembers = 64
	// maxDeclarations is the number of bits in a word but one: a member says with one for each
	// where it does not send.
	maxDeclarations = 63
	MaxSubgroups    = 256 // the shards of all declarations
	MaxTextBytes    = 256 // a name, an address, a key
	MinRingBytes    = 4 << 10
	MaxRingBytes    = 1 << 30
	MinWindow       = 4
	MaxWindow       = 1 << 20
)

// CheckSizes reports what is wrong with a ring and a window: both are powers of two within limits.
func CheckSizes(ringBytes, window int) error {
	var errs []error
	if ringBytes < MinRingBytes || ringBytes > MaxRingBytes || ringBytes&(ringBytes-1) != 0 {
		errs = append(errs, fmt.Errorf("ring of %d bytes: need a power of two from %d to %d", ringBytes, MinRingBytes, MaxRingBytes))
	}
	if window < MinWindow || window > MaxWindow || window&(window-1) != 0 {
		errs = append(errs, fmt.Errorf("window of %d messages: need a power of two from %d to %d", window, MinWindow, MaxWindow))
	}
	return errors.Join(errs...)
}

// faults is everything that is wrong with a value.
type faults []error

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

func (f *faults) long(what, text string) {
	if len(text) > MaxTextBytes {
		f.add("%s is %d bytes long, at most %d", what, len(text), MaxTextBytes)
	}
}

func (f *faults) name(name string) {
	if name == "" {
		f.add("the name is empty")
	}
	f.long("the name", name)
}

// clip bounds text that came from elsewhere before it is shown.
func clip(text string) string { return text[:min(len(text), MaxTextBytes)] }

// brief bounds a list that came from elsewhere before it is shown.
func brief[T any](list []T) []T { return list[:min(len(list), MaxMembers)] }

// names returns the node ids of members as text.
func names(members []Member) string {
	if len(members) == 0 {
		return "none"
	}
	var list []string
	for _, m := range members {
		list = append(list, fmt.Sprintf("node %d", m.ID))
	}
	return strings.Join(list, ", ")
}
