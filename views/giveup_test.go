package views

import (
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/order"
)

// gaveUp is a member that gives up what holders had of a shard.
func gaveUp(id order.NodeID, s Subgroup, holders ...Holder) Member {
	m := Member{ID: id, Incarnation: uint64(id), Disk: uint64(10 * id)}
	for _, k := range holders {
		m.GaveUp = AddMarks(m.GaveUp, s.Mark(k))
	}
	return m
}

// A shard that waits goes on when each disk that it waits for is given up: with the log of the
// member that says so, if that is in the shard, and otherwise with that of the most senior one.
func TestAShardThatWaitsGoesOnWhenAllThatHadItsLogAreGivenUp(t *testing.T) {
	shard := Subgroup{Name: "log", Shard: 1, Mode: Persistent}
	other := Subgroup{Name: "log", Shard: 2, Mode: Persistent}
	two, four := Holder{ID: 2, Disk: 7}, Holder{ID: 4, Disk: 9}
	plain := func(id order.NodeID) Member { return Member{ID: id, Incarnation: uint64(id), Disk: uint64(10 * id)} }
	for name, c := range map[string]struct {
		members []Member
		in      []order.Rank
		whole   []order.Rank
	}{
		"no member gives up":                       {[]Member{plain(1), plain(2), plain(3)}, ranks(1, 2), nil},
		"one disk is still waited for":             {[]Member{gaveUp(1, shard, two), plain(2), plain(3)}, ranks(0, 1), nil},
		"another shard is given up":                {[]Member{gaveUp(1, other, two, four), plain(2), plain(3)}, ranks(0, 1), nil},
		"other disks are given up":                 {[]Member{gaveUp(1, shard, Holder{ID: 2, Disk: 8}, four), plain(2), plain(3)}, ranks(0, 1), nil},
		"the member that gives up is in the shard": {[]Member{plain(1), plain(3), gaveUp(2, shard, two, four)}, ranks(0, 2), ranks(2)},
		"the member that gives up is elsewhere":    {[]Member{gaveUp(1, shard, two, four), plain(2), plain(3)}, ranks(1, 2), ranks(1)},
		"two give up a part each":                  {[]Member{plain(1), gaveUp(2, shard, two), gaveUp(3, shard, four)}, ranks(0, 1, 2), ranks(1)},
		"one of the disks is back":                 {[]Member{gaveUp(1, shard, two, four), {ID: 4, Incarnation: 5, Disk: 9}}, ranks(0, 1), ranks(1)},
		"no member can be in the shard":            {[]Member{gaveUp(1, shard, two, four)}, nil, nil},
	} {
		before, next := &View{ID: 3, Members: c.members}, &View{ID: 4, Members: c.members}
		waits, placed := shard, shard
		waits.Holders, placed.Members = []Holder{two, four}, c.in
		before.Subgroups, next.Subgroups = []Subgroup{waits}, []Subgroup{placed}
		next.assignLog(before, 0, func(order.Rank) bool { return false })
		var whole []order.Rank
		for _, r := range next.Subgroups[0].Members {
			if !slices.Contains(next.Subgroups[0].Partial, r) {
				whole = append(whole, r)
			}
		}
		if !slices.Equal(whole, c.whole) || next.Subgroups[0].Provisioned() != (c.whole != nil) {
			t.Errorf("%s: members %v, of which %v have the log, want %v", name, next.Subgroups[0].Members, whole, c.whole)
		}
		if waiting := len(next.Subgroups[0].Holders) > 0; waiting != (c.whole == nil) {
			t.Errorf("%s: it waits: %v", name, waiting)
		}
	}
}

// A shard whose log no disk has waits for none, whatever members give up.
func TestAShardThatNoDiskHasIsNotGivenUp(t *testing.T) {
	shard, two := Subgroup{Name: "log", Mode: Persistent}, Holder{ID: 2, Disk: 7}
	members := []Member{gaveUp(1, shard, two)}
	if shard.GivenUp(nil, members) || shard.GivenUp(nil, nil) || !shard.GivenUp([]Holder{two}, members) {
		t.Error("a shard without holders is given up, or a shard with a holder is not")
	}
}

func TestMarksAreBoundedAndTheOldestGiveWay(t *testing.T) {
	shard := Subgroup{Name: "log"}
	marks := ""
	for disk := range uint64(3 * maxMarks) {
		marks = AddMarks(marks, shard.Mark(Holder{ID: 1, Disk: disk}))
		marks = AddMarks(marks, shard.Mark(Holder{ID: 1, Disk: disk}))
	}
	last := shard.Mark(Holder{ID: 1, Disk: 3*maxMarks - 1})
	if len(marks) != MaxTextBytes || !strings.HasSuffix(marks, last) || strings.Count(marks, last) != 1 {
		t.Errorf("%d bytes of marks", len(marks))
	}
	m := Member{GaveUp: marks}
	if m.StandsIn(shard, []Holder{{ID: 1, Disk: 0}}) || !m.StandsIn(shard, []Holder{{ID: 1, Disk: 3*maxMarks - 1}}) {
		t.Error("the oldest are there, or the newest are not")
	}
}
