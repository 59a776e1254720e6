package restart

import (
	"math"
	"slices"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// MarkIncomplete says that a log of this process lost something that it had. It comes before the
// log is used: until Complete, the log's end is not taken for the end of all logs of the shard, and
// for the next process the disk is another one.
func (m *Memory) MarkIncomplete(id LogID) error {
	return m.change(func(s *State) error {
		s.Disk = 0
		if !s.lacks(id) {
			l := IncompleteLog{LogID: id}
			if s.View != nil {
				l.Since = s.View.ID
			}
			s.Incomplete = append(slices.Clone(s.Incomplete), l)
		}
		return nil
	})
}

// GiveUp accepts that a log lacks something: it counts as complete from then on, as it is. Only an
// operator can say so, of a log that no other member has complete. It gives up what other disks
// have of the log, too: of the members that had all of it in the last view that this process knows,
// in which its shard waits for them, or has them as members. It returns whose disks they are. When
// the group goes on, the log here stands in for theirs.
func (m *Memory) GiveUp(id LogID) (lost []views.Holder, err error) {
	err = m.change(func(s *State) error {
		s.completed(id, math.MaxUint64)
		for _, v := range s.possible() {
			i := slices.IndexFunc(v.Subgroups, func(sg views.Subgroup) bool { return idOf(sg) == id })
			if i < 0 {
				continue
			}
			for _, k := range v.Holders(v.Subgroups[i]) {
				k.Incarnation = 0
				if (k.ID != s.Node || k.Disk != s.Disk) && !slices.Contains(lost, k) {
					lost = append(lost, k)
					s.GaveUp = views.AddMarks(s.GaveUp, v.Subgroups[i].Mark(k))
				}
			}
		}
		return nil
	})
	return lost, err
}

// GaveUp has the marks of what was given up here, for this process's record as a member.
func (m *Memory) GaveUp() string { return m.State().GaveUp }

// possible are the views that may be the last one in force.
func (s *State) possible() (list []*views.View) {
	if s.View == nil {
		return nil
	}
	list = []*views.View{s.View}
	if s.Echo != nil && s.Echo.View != nil {
		list = append(list, s.Echo.View)
	}
	if s.Accepted != nil {
		list = append(list, s.Accepted.View)
	}
	return list
}

// Disk is this disk's number, after Begin.
func (m *Memory) Disk() uint64 { return m.State().Disk }

// Elsewhere reports whether others have a log, so that what is lost here comes from them: in the
// last view that this process knows, and in what may have followed it.
func (s State) Elsewhere(id LogID) bool {
	return s.View != nil && !slices.ContainsFunc(s.possible(), func(v *views.View) bool { return !s.elsewhere(v, id) })
}

// elsewhere reports whether others in a view have a log.
func (s *State) elsewhere(v *views.View, id LogID) bool {
	i := slices.IndexFunc(v.Subgroups, func(sg views.Subgroup) bool { return idOf(sg) == id })
	if i < 0 {
		return len(v.Members) > 1
	}
	sg := v.Subgroups[i]
	if !sg.Provisioned() {
		return slices.ContainsFunc(sg.Holders, func(k views.Holder) bool { return k.ID != s.Node })
	}
	return slices.ContainsFunc(sg.Members, func(r order.Rank) bool { return v.Members[r].ID != s.Node && !slices.Contains(sg.Partial, r) })
}
