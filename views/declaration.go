package views

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/squall-go/squall/order"
)

// Declaration is a subgroup as the application declares it. Every member must declare the same.
//
// Without a LayoutName, its shards are filled as package views does it (see Place): a declaration
// that names nothing else is a subgroup of all members, one with Members is a fixed list, of which
// the processes that are present take part.
type Declaration struct {
	Name    string         `json:"name"`
	Members []order.NodeID `json:"members,omitempty"` // nodes that may be members; empty: all of the group
	Senders []order.NodeID `json:"senders,omitempty"` // members that may send; empty: every member of the subgroup
	Shards  int            `json:"shards,omitempty"`  // disjoint subgroups of this name; 0 is 1
	// MinMembers is the least number of members of a shard: with fewer it is not provisioned. 0 is
	// 1.
	MinMembers int `json:"min_members,omitempty"`
	// MaxMembers is the largest number of members of a shard; 0: no limit.
	MaxMembers int `json:"max_members,omitempty"`
	// LayoutName is the name of the application's own Layout; empty: none. Functions cannot be
	// compared between members, names can.
	LayoutName string `json:"layout,omitempty"`
	Mode       Mode   `json:"mode"`
	RingBytes  int    `json:"ring_bytes"` // a sender's byte ring
	Window     int    `json:"window"`     // messages of a sender in flight
	// MaxMessageBytes is the largest message, in bytes; 0: what a ring takes. LargeMemoryBytes is
	// how many bytes of messages that no ring takes one sender may have in flight.
	MaxMessageBytes  int `json:"max_message,omitempty"`
	LargeMemoryBytes int `json:"large_memory,omitempty"`
	// Operations are the commands that this process can execute on a replicated object. They are
	// part of the request to join, and members may differ in them: Difference ignores them.
	Operations []string `json:"operations,omitempty"`
}

// MaxMessageBytes is the largest MaxMessageBytes of a declaration.
const MaxMessageBytes = 1 << 40

// MaxOperationBytes bounds the Operations of all declarations together, in bytes: each name counts
// with its length and two bytes. JSON escapes make at most six bytes of one, so that a request to
// join stays below the 1 MiB that a message may have.
const MaxOperationBytes = 128 << 10

// ShardCount returns the number of shards of the declaration, at least one.
func (d Declaration) ShardCount() int { return max(1, d.Shards) }

// least and most are the limits of a shard's size, with their defaults.
func (d Declaration) least() int { return max(1, d.MinMembers) }

func (d Declaration) most() int {
	if d.MaxMembers == 0 {
		return MaxMembers
	}
	return d.MaxMembers
}

// admits reports whether a node may be in the subgroup, and voices whether it may send there.
func (d Declaration) admits(id order.NodeID) bool { return listed(d.Members, id) }
func (d Declaration) voices(id order.NodeID) bool { return listed(d.Senders, id) }

// listed reports whether a list has a node; an empty list has all nodes.
func listed(ids []order.NodeID, id order.NodeID) bool {
	return len(ids) == 0 || slices.Contains(ids, id)
}

// Validate reports every fault that is one whatever the members are. It does not know the functions
// that LayoutName stands for.
func (d Declaration) Validate() error {
	var faults faults
	faults.name(d.Name)
	faults.long("the name of the layout", d.LayoutName)
	faults = append(faults, d.countFaults()...)
	faults.ids("members", d.Members)
	faults.ids("senders", d.Senders)
	for _, id := range d.Senders {
		if !d.admits(id) {
			faults.add("sender %d is not among its members %v", id, d.Members)
		}
	}
	if d.Mode > Persistent {
		faults.add("unknown %v", d.Mode)
	}
	if err := CheckSizes(d.RingBytes, d.Window); err != nil {
		faults.add("%w", err)
	}
	if d.MaxMessageBytes < 0 || d.MaxMessageBytes > MaxMessageBytes || d.LargeMemoryBytes < d.MaxMessageBytes || d.LargeMemoryBytes > MaxMessageBytes {
		faults.add("messages of up to %d bytes, and %d bytes of large ones in flight: 0 to %d, and at least as much", d.MaxMessageBytes, d.LargeMemoryBytes, MaxMessageBytes)
	}
	for _, name := range d.Operations {
		if name == "" || !utf8.ValidString(name) {
			faults.add("operation %q: a name is UTF-8 and not empty", clip(name))
		}
	}
	for i, err := range faults {
		faults[i] = fmt.Errorf("subgroup %q: %w", clip(d.Name), err)
	}
	return errors.Join(faults...)
}

// countFaults looks at shards and their sizes. What would need more members than there can ever be
// is a fault, too.
func (d Declaration) countFaults() (faults faults) {
	if d.Shards < 0 || d.Shards > MaxMembers {
		faults.add("%d shards: 0 to %d", d.Shards, MaxMembers)
	}
	if d.MinMembers < 0 || d.MinMembers > MaxMembers || d.MaxMembers < 0 {
		faults.add("shards of at least %d and at most %d members: 0 to %d", d.MinMembers, d.MaxMembers, MaxMembers)
	}
	if len(faults) > 0 {
		return faults
	}
	if d.least() > d.most() {
		faults.add("shards of at least %d members, but at most %d", d.least(), d.most())
	}
	need := d.ShardCount() * d.least()
	if need > MaxMembers {
		faults.add("%d shards of at least %d members: more than the %d members of a view", d.ShardCount(), d.least(), MaxMembers)
	} else if len(d.Members) > 0 && need > len(d.Members) {
		faults.add("%d shards of at least %d members: more than the %d that may be in them", d.ShardCount(), d.least(), len(d.Members))
	}
	return faults
}

func (f *faults) ids(what string, ids []order.NodeID) {
	if len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(ids) || slices.Contains(ids, 0) {
		f.add("%s %v: ids are distinct and not 0", what, ids)
	}
}

// CheckDeclarations reports every fault of a group's declarations, of each by itself and of all
// together.
func CheckDeclarations(decls []Declaration) error {
	if len(decls) > maxDeclarations {
		return fmt.Errorf("%d subgroups are declared, at most %d", len(decls), maxDeclarations)
	}
	var errs []error
	shards, operations := 0, 0
	for i, d := range decls {
		errs = append(errs, d.Validate())
		if slices.ContainsFunc(decls[:i], func(other Declaration) bool { return other.Name == d.Name }) {
			errs = append(errs, fmt.Errorf("subgroup %q is declared twice", clip(d.Name)))
		}
		shards += min(d.ShardCount(), MaxMembers)
		for _, name := range d.Operations {
			operations += len(name) + 2
		}
	}
	if shards > MaxSubgroups {
		errs = append(errs, fmt.Errorf("%d shards are declared in all, at most %d", shards, MaxSubgroups))
	}
	if operations > MaxOperationBytes {
		errs = append(errs, fmt.Errorf("the names of all operations take %d bytes, at most %d", operations, MaxOperationBytes))
	}
	return errors.Join(errs...)
}

// Difference names the first subgroup and field in which a joiner's declarations differ from the
// group's declarations, with both values; it is empty if they are the same. Members and senders are
// sets: their order in a declaration means nothing.
func Difference(group, joiner []Declaration) string {
	for i := range max(len(group), len(joiner)) {
		switch {
		case i >= len(joiner):
			return fmt.Sprintf("subgroup %q is declared by the group only", clip(group[i].Name))
		case i >= len(group):
			return fmt.Sprintf("subgroup %q is declared by the joiner only", clip(joiner[i].Name))
		}
		if d := fieldDifference(i, group[i], joiner[i]); d != "" {
			return d
		}
	}
	return ""
}

func fieldDifference(i int, group, joiner Declaration) string {
	if group.Name != joiner.Name {
		return fmt.Sprintf("subgroup %d: name: the group declares %q, the joiner %q", i, clip(group.Name), clip(joiner.Name))
	}
	for _, field := range []struct {
		name          string
		group, joiner any
		same          bool
	}{
		{"members", brief(group.Members), brief(joiner.Members), sameSet(group.Members, joiner.Members)},
		{"senders", brief(group.Senders), brief(joiner.Senders), sameSet(group.Senders, joiner.Senders)},
		{"shards", group.ShardCount(), joiner.ShardCount(), group.ShardCount() == joiner.ShardCount()},
		{"min_members", group.least(), joiner.least(), group.least() == joiner.least()},
		{"max_members", group.MaxMembers, joiner.MaxMembers, group.MaxMembers == joiner.MaxMembers},
		{"layout", quoted(group.LayoutName), quoted(joiner.LayoutName), group.LayoutName == joiner.LayoutName},
		{"mode", group.Mode, joiner.Mode, group.Mode == joiner.Mode},
		{"ring_bytes", group.RingBytes, joiner.RingBytes, group.RingBytes == joiner.RingBytes},
		{"window", group.Window, joiner.Window, group.Window == joiner.Window},
		{"max_message", group.MaxMessageBytes, joiner.MaxMessageBytes, group.MaxMessageBytes == joiner.MaxMessageBytes},
		{"large_memory", group.LargeMemoryBytes, joiner.LargeMemoryBytes, group.LargeMemoryBytes == joiner.LargeMemoryBytes},
	} {
		if !field.same {
			return fmt.Sprintf("subgroup %q: %s: the group declares %v, the joiner %v", clip(group.Name), field.name, field.group, field.joiner)
		}
	}
	return ""
}

func quoted(name string) string { return fmt.Sprintf("%q", clip(name)) }

func sameSet(a, b []order.NodeID) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
