package views

import (
	"errors"
	"fmt"
	"slices"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
)

// Placement is the input of Place: everything that decides the roles of the members in a view.
type Placement struct {
	ID      order.ViewID
	Cluster string
	Key     string
	// Group and Secret are the identity of the group, of a first view. A later one has that of the
	// view before it: see View.Follow.
	Group        string
	Secret       Secret
	Members      []Member // in order of seniority
	Declarations []Declaration
	// Previous is the view before, whose shards keep their members that are still in the group; nil
	// for the first view.
	Previous *View
	// Mute says which members do not want to send in a declaration; nil: every sender does.
	Mute func(id order.NodeID, declaration int) bool
	// Layouts are the application's own functions, by Declaration.LayoutName.
	Layouts map[string]Layout
}

// Layout is an application's own function, which places members in the shards of a declaration. It
// runs where a view is proposed, and also where the leader finds out whether a shard without
// members could have some, which may lead to no view. It may run on the loop: it must not wait or
// change anything, and everything it depends on should be in its input, as the next call may be
// made elsewhere. If it fails, or breaks what its declaration says, no shard of the declaration is
// provisioned in that view.
type Layout func(in LayoutInput) ([]ShardPlaces, error)

// LayoutInput is what a Layout decides from. All of it is a copy.
type LayoutInput struct {
	View        order.ViewID
	Members     []Member // of the view, in order of seniority
	Declaration Declaration
	Previous    [][]order.NodeID // by shard: which of Members were in it in the view before
}

// ShardPlaces lists the members of one shard. A shard without members, or with fewer than
// MinMembers, is not provisioned.
type ShardPlaces struct {
	Members []order.NodeID
	Senders []order.NodeID // nil: all of Members that Declaration.Senders has
}

// Unmet is a shard that is not provisioned, and why, in words for people.
type Unmet struct {
	Name   string
	Shard  int
	Reason string
}

func (u Unmet) String() string { return u.Reason }

// Place makes a view: it turns declarations, which name nodes, into subgroups, which name ranks. A
// shard that cannot be provisioned is no error; it is listed in the Unmet. An error is a fault that
// other members in the view would not correct.
//
// A declaration without a layout of its own is placed by these rules:
//
//  1. A member that was in a shard in the previous view stays in it. But a holder of the log of a
//     shard without members goes back to that shard, if no other one suffers.
//  2. The shards that are below MinMembers share out the members that are in no shard. If not all
//     shards can be provisioned, the shards that lack the fewest members are; shards that wait for
//     their log come last. The members that are then still free are shared out, too.
//  3. Once every shard is provisioned, the members that are still in no shard are dealt out, up to
//     MaxMembers a shard.
//
// Sharing and dealing out means: in order of seniority, each to the smallest shard, and of several
// to the first.
func Place(p Placement) (*View, []Unmet, error) {
	v := &View{ID: p.ID, Cluster: p.Cluster, key: p.Key, Members: slices.Clone(p.Members)}
	if p.Previous != nil {
		v.Follow(p.Previous)
	} else if p.Group != "" {
		v.Bootstrap(p.Group, p.Secret)
	}
	if err := errors.Join(v.Validate(), CheckDeclarations(p.Declarations), p.checkPolicies()); err != nil {
		return nil, nil, err
	}
	var unmet []Unmet
	for i, d := range p.Declarations {
		for shard, part := range p.parts(i, d) {
			if part.lack != "" {
				unmet = append(unmet, Unmet{Name: d.Name, Shard: shard, Reason: d.shardName(shard) + " " + part.lack})
			}
			v.Subgroups = append(v.Subgroups, Subgroup{
				Name: d.Name, Shard: shard, Members: part.members, Senders: part.senders,
				Mode: d.Mode, RingBytes: d.RingBytes, Window: d.Window,
			})
		}
	}
	return v, unmet, nil
}

// Unmet are the shards of a view that are not provisioned, with the reasons that every member can
// tell: that of an application's own layout is known only where the view was made.
func (v *View) Unmet(declarations []Declaration) (unmet []Unmet) {
	for _, sg := range v.Subgroups {
		if sg.Provisioned() {
			continue
		}
		u := Unmet{Name: sg.Name, Shard: sg.Shard, Reason: sg.label() + " is not provisioned"}
		i := slices.IndexFunc(declarations, func(d Declaration) bool { return d.Name == sg.Name })
		switch {
		case sg.Mode == Persistent && len(sg.Holders) > 0:
			u.Reason = sg.WaitingFor()
		case i >= 0 && declarations[i].LayoutName != "":
			u.Reason = fmt.Sprintf("%s has no members: layout %q places none there", declarations[i].shardName(sg.Shard), clip(declarations[i].LayoutName))
		case i >= 0:
			u.Reason = declarations[i].shardName(sg.Shard) + " " + declarations[i].lack(v.free(declarations[i]))
		}
		unmet = append(unmet, u)
	}
	return unmet
}

// free is the number of members that a declaration admits and that are in none of its shards.
func (v *View) free(d Declaration) (n int) {
	for r, m := range v.Members {
		in := func(sg Subgroup) bool { return sg.Has(order.Rank(r)) }
		if d.admits(m.ID) && !slices.ContainsFunc(v.Shards(d.Name), in) {
			n++
		}
	}
	return n
}

func (p *Placement) checkPolicies() error {
	var errs []error
	for _, d := range p.Declarations {
		if d.LayoutName != "" && p.Layouts[d.LayoutName] == nil {
			errs = append(errs, fmt.Errorf("subgroup %q: there is no layout function %q here", clip(d.Name), clip(d.LayoutName)))
		}
	}
	return errors.Join(errs...)
}

// part lists the members of one shard, or says why it has none.
type part struct {
	members, senders []order.Rank
	lack             string
}

// parts places declaration i, by shard.
func (p *Placement) parts(i int, d Declaration) (parts []part) {
	stayed := p.stayed(d)
	if d.LayoutName == "" {
		parts = p.dealt(d, stayed)
	} else {
		parts = p.asked(d, stayed)
	}
	for s := range parts {
		parts[s].senders = slices.DeleteFunc(parts[s].senders, func(r order.Rank) bool {
			id := p.Members[r].ID
			return !d.voices(id) || p.Mute != nil && p.Mute(id, i)
		})
	}
	return parts
}

// stayed lists, by shard, the members that were in it in the previous view as the same process,
// since a process that was started again has nothing of what the shard had.
func (p *Placement) stayed(d Declaration) [][]order.Rank {
	shards := make([][]order.Rank, d.ShardCount())
	if p.Previous == nil {
		return shards
	}
	old := p.Previous.Shards(d.Name)
	for r, m := range p.Members {
		before, ok := p.Previous.RankOf(m.ID)
		if !ok || p.Previous.Members[before].Incarnation != m.Incarnation || !d.admits(m.ID) {
			continue
		}
		if s := slices.IndexFunc(old, func(sg Subgroup) bool { return sg.Has(before) }); s >= 0 && s < len(shards) {
			shards[s] = append(shards[s], order.Rank(r))
		}
	}
	p.seat(d, old, shards)
	return shards
}

// keptWithout reports whether others than one that stayed in a shard have all of its log, too.
func (p *Placement) keptWithout(old Subgroup, stayed []order.Rank, r order.Rank) bool {
	return slices.ContainsFunc(stayed, func(other order.Rank) bool {
		was, ok := p.Previous.RankOf(p.Members[other].ID)
		return ok && other != r && old.Has(was) && !slices.Contains(old.Partial, was)
	})
}

// seat brings the holders of shards without members back to these shards, if no other shard
// suffers: first holders that are in no shard, of all shards, since spares must not count them as
// free for another one. Then, for a log, holders whose present shard keeps enough members without
// them, or gets them because enough members are in no shard.
func (p *Placement) seat(d Declaration, old []Subgroup, shards [][]order.Rank) {
	for _, moves := range []bool{false, true} {
		if moves && mutant.Enabled && mutant.On(mutant.HolderStays) {
			return
		}
		for s := range min(len(old), len(shards)) {
			for r, m := range p.Members {
				if len(old[s].Holders) == 0 || len(shards[s]) == d.most() || !d.admits(m.ID) || !old[s].HeldBy(m) && !m.StandsIn(old[s], old[s].Holders) {
					continue
				}
				at := slices.IndexFunc(shards, func(in []order.Rank) bool { return slices.Contains(in, order.Rank(r)) })
				if moves != (at >= 0) || moves && !p.mayMove(d, old, shards, at, s, order.Rank(r)) {
					continue
				}
				if moves {
					shards[at] = without(shards[at], order.Rank(r))
				}
				shards[s] = append(shards[s], order.Rank(r))
			}
		}
	}
}

// mayMove reports whether a holder of the log of a shard without members may leave its present one.
func (p *Placement) mayMove(d Declaration, old []Subgroup, shards [][]order.Rank, from, to int, r order.Rank) bool {
	return len(shards[to]) == 0 && p.keptWithout(old[from], shards[from], r) && (len(shards[from]) > d.least() || p.spares(d, shards, from, to, r))
}

// spares reports whether a shard at or below its least size can spare a member for a shard that has
// none: the members that are in no shard fill up both of them, and each other shard with members
// that they would fill up otherwise.
func (p *Placement) spares(d Declaration, shards [][]order.Rank, from, to int, r order.Rank) bool {
	free := p.unplaced(d, shards)
	stays, goes := cloned(shards), cloned(shards)
	goes[from], goes[to] = without(goes[from], r), append(goes[to], r)
	p.deal(d, stays, slices.Clone(free))
	p.deal(d, goes, free)
	for s := range goes {
		if len(goes[s]) < d.least() && (s == to || len(shards[s]) > 0 && len(stays[s]) >= d.least()) {
			return false
		}
	}
	return true
}

func cloned(shards [][]order.Rank) (all [][]order.Rank) {
	for _, in := range shards {
		all = append(all, slices.Clone(in))
	}
	return all
}

func without(in []order.Rank, r order.Rank) []order.Rank {
	return slices.DeleteFunc(in, func(other order.Rank) bool { return other == r })
}

// unplaced returns the members that a declaration admits and that are in none of its shards.
func (p *Placement) unplaced(d Declaration, shards [][]order.Rank) (free []order.Rank) {
	for r, m := range p.Members {
		if d.admits(m.ID) && !slices.ContainsFunc(shards, func(in []order.Rank) bool { return slices.Contains(in, order.Rank(r)) }) {
			free = append(free, order.Rank(r))
		}
	}
	return free
}

// dealt places a declaration that has no layout of its own.
func (p *Placement) dealt(d Declaration, shards [][]order.Rank) (parts []part) {
	free := p.deal(d, shards, p.unplaced(d, shards))
	for _, in := range shards {
		slices.Sort(in)
		part := part{members: in, senders: slices.Clone(in)}
		if len(in) == 0 {
			part.lack = d.lack(len(free))
		}
		parts = append(parts, part)
	}
	return parts
}

// deal fills the shards from the members that are in none, and returns the members that are left.
// While a shard is not provisioned, the rest is kept for it: fewer than MinMembers, so that it
// costs the other shards little. If they were dealt out, they would stay where they are, and the
// shard would have to wait for as many new members as it needs. A shard that waits for its log
// comes after the others, which can use the members.
func (p *Placement) deal(d Declaration, shards [][]order.Rank, free []order.Rank) (left []order.Rank) {
	var all, short []int // shards: below MinMembers
	supply := len(free)
	for s := range shards {
		all = append(all, s)
		if len(shards[s]) < d.least() {
			short, supply = append(short, s), supply+len(shards[s])
		}
	}
	slices.SortStableFunc(short, func(a, b int) int {
		last, other := p.awaitsLog(d, a, shards[a]), p.awaitsLog(d, b, shards[b])
		switch {
		case last == other:
			return len(shards[b]) - len(shards[a])
		case last:
			return 1
		}
		return -1
	})
	kept := min(len(short), supply/d.least())
	for _, s := range short[kept:] {
		free, shards[s] = append(free, shards[s]...), nil
	}
	slices.Sort(free)
	slices.Sort(short[:kept])
	free = pour(shards, short[:kept], d.least(), free)
	if kept == len(short) {
		free = pour(shards, all, d.most(), free)
	}
	return free
}

// awaitsLog reports whether a shard has no members because none has its log, and these have it
// neither.
func (p *Placement) awaitsLog(d Declaration, s int, members []order.Rank) bool {
	if p.Previous == nil {
		return false
	}
	old := p.Previous.Shards(d.Name)
	return d.Mode == Persistent && s < len(old) && len(old[s].Holders) > 0 && !old[s].GivenUp(old[s].Holders, p.Members) &&
		!slices.ContainsFunc(members, func(r order.Rank) bool { return old[s].HeldBy(p.Members[r]) })
}

// pour puts each of free into the smallest of some shards, while one of them is smaller than limit,
// and returns the rest.
func pour(shards [][]order.Rank, into []int, limit int, free []order.Rank) (rest []order.Rank) {
	for i, r := range free {
		smallest := -1
		for _, s := range into {
			if len(shards[s]) < limit && (smallest < 0 || len(shards[s]) < len(shards[smallest])) {
				smallest = s
			}
		}
		if smallest < 0 {
			return free[i:]
		}
		shards[smallest] = append(shards[smallest], r)
	}
	return nil
}

// asked places a declaration by the application's own function.
func (p *Placement) asked(d Declaration, stayed [][]order.Rank) []part {
	parts, err := p.answer(d, stayed)
	if err != nil {
		parts = slices.Repeat([]part{{lack: fmt.Sprintf("has no members: layout %q: %v", d.LayoutName, err)}}, d.ShardCount())
	}
	return parts
}

func (p *Placement) answer(d Declaration, stayed [][]order.Rank) (parts []part, err error) {
	in := LayoutInput{View: p.ID, Members: slices.Clone(p.Members), Declaration: d}
	in.Declaration.Members, in.Declaration.Senders = slices.Clone(d.Members), slices.Clone(d.Senders)
	for _, ranks := range stayed {
		in.Previous = append(in.Previous, p.ids(ranks))
	}
	places, err := p.Layouts[d.LayoutName](in)
	if err != nil {
		return nil, err
	}
	if len(places) != d.ShardCount() {
		return nil, fmt.Errorf("it returned %d shards, %d are declared", len(places), d.ShardCount())
	}
	var faults faults
	placed := map[order.NodeID]bool{}
	for s, place := range places {
		for _, err := range p.placeFaults(d, place, placed) {
			faults.add("shard %d: %w", s, err)
		}
		parts = append(parts, p.part(d, place))
	}
	return parts, errors.Join(faults...)
}

// placeFaults returns the faults of one shard of an answer; placed has the members of this shard
// and of the shards before it.
func (p *Placement) placeFaults(d Declaration, place ShardPlaces, placed map[order.NodeID]bool) (faults faults) {
	for _, id := range place.Members {
		switch {
		case !slices.ContainsFunc(p.Members, func(m Member) bool { return m.ID == id }):
			faults.add("node %d is not a member of the view", id)
		case !d.admits(id):
			faults.add("node %d is not among the declared members %v", id, d.Members)
		case placed[id]:
			faults.add("node %d was placed already", id)
		}
		placed[id] = true
	}
	if len(place.Members) > d.most() {
		faults.add("%d members, at most %d are declared", len(place.Members), d.most())
	}
	if slices.ContainsFunc(place.Senders, func(id order.NodeID) bool { return !d.voices(id) || !slices.Contains(place.Members, id) }) {
		faults.add("not all of its senders %v are among its members %v and the declared senders %v", place.Senders, place.Members, d.Senders)
	}
	return faults
}

// part translates one shard of an answer.
func (p *Placement) part(d Declaration, place ShardPlaces) (made part) {
	if len(place.Members) < d.least() {
		return part{lack: fmt.Sprintf("needs %s, layout %q gives it %d", members(d.least()), d.LayoutName, len(place.Members))}
	}
	for r, m := range p.Members {
		if slices.Contains(place.Members, m.ID) {
			made.members = append(made.members, order.Rank(r))
			if place.Senders == nil || slices.Contains(place.Senders, m.ID) {
				made.senders = append(made.senders, order.Rank(r))
			}
		}
	}
	return made
}

func (p *Placement) ids(ranks []order.Rank) (ids []order.NodeID) {
	for _, r := range ranks {
		ids = append(ids, p.Members[r].ID)
	}
	return ids
}

// shardName returns the name of a shard for messages.
func (d Declaration) shardName(shard int) string {
	if d.ShardCount() == 1 {
		return fmt.Sprintf("%q", d.Name)
	}
	return fmt.Sprintf("shard %d of %q", shard, d.Name)
}

// lack returns the reason for which a shard is not provisioned while so many members are in none.
func (d Declaration) lack(free int) string {
	need := members(d.least())
	if len(d.Members) > 0 {
		need += fmt.Sprintf(" out of %v", brief(d.Members))
	}
	have := fmt.Sprintf("%d are", free)
	switch free {
	case 0:
		have = "none is"
	case 1:
		have = "1 is"
	}
	if d.ShardCount() > 1 {
		return fmt.Sprintf("needs %s, %s left", need, have)
	}
	return fmt.Sprintf("needs %s, %s there", need, have)
}

func members(n int) string {
	if n == 1 {
		return "1 member"
	}
	return fmt.Sprintf("%d members", n)
}

// Fits reports how the view's subgroups differ from the declared ones. Where a shard's members are
// not determined by the view alone, since they depend on the view before or on an application's own
// function, it checks only that the members are allowed in the shard.
func (v *View) Fits(decls []Declaration) error {
	var faults faults
	next := 0
	for _, d := range decls {
		for shard := range d.ShardCount() {
			if next >= len(v.Subgroups) {
				faults.add("%s is missing", d.shardName(shard))
				return errors.Join(faults...)
			}
			for _, err := range v.misfits(v.Subgroups[next], d, shard) {
				faults.add("%s: %w", d.shardName(shard), err)
			}
			next++
		}
	}
	if next < len(v.Subgroups) {
		faults.add("%s is not declared", v.Subgroups[next].label())
	}
	return errors.Join(faults...)
}

func (v *View) misfits(sg Subgroup, d Declaration, shard int) (faults faults) {
	if sg.Name != d.Name || sg.Shard != shard {
		faults.add("%s is in its place", sg.label())
		return faults
	}
	if sg.Mode != d.Mode || sg.RingBytes != d.RingBytes || sg.Window != d.Window {
		faults.add("%v, ring of %d bytes, window of %d; declared are %v, %d and %d",
			sg.Mode, sg.RingBytes, sg.Window, d.Mode, d.RingBytes, d.Window)
	}
	may, admitted := 0, 0 // members of the subgroup, of the view
	for r, m := range v.Members {
		if d.admits(m.ID) {
			admitted++
			if sg.Has(order.Rank(r)) {
				may++
			}
		}
		if _, sends := sg.SenderRank(order.Rank(r)); sends && !d.voices(m.ID) {
			faults.add("node %d may not send", m.ID)
		}
	}
	if n := len(sg.Members); may < n || n > d.most() || n < d.least() && sg.Provisioned() {
		faults.add("members %v: need %d to %d out of %v", brief(sg.Members), d.least(), d.most(), brief(d.Members))
	} else if d.LayoutName == "" && d.ShardCount() == 1 && n != d.oneShard(admitted) && (d.Mode != Persistent || len(sg.Holders) == 0) {
		faults.add("members %v: need %d", brief(sg.Members), d.oneShard(admitted))
	}
	return faults
}

// oneShard is how many members an only shard has if so many are there that may be in it.
func (d Declaration) oneShard(there int) int {
	if there < d.least() {
		return 0
	}
	return min(there, d.most())
}
