package views

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/squall-go/squall/order"
)

var historySeed = flag.Uint64("history", 0, "the one seed that random histories run with; 0: many")

// history is a group that processes join and leave at random.
type history struct {
	*rand.Rand
	p    Placement
	mute map[order.NodeID]uint64
}

func newHistory(seed uint64) *history {
	h := &history{Rand: rand.New(rand.NewPCG(seed, 1)), mute: map[order.NodeID]uint64{}}
	h.p.Mute = func(id order.NodeID, declaration int) bool { return h.mute[id]>>declaration&1 == 1 }
	for i := range 1 + h.IntN(4) {
		d := declared(func(d *Declaration) { d.Name = fmt.Sprint(i) })
		for again := true; again; again = d.Validate() != nil {
			d.Shards, d.MinMembers, d.MaxMembers = h.IntN(6), h.IntN(5), h.IntN(7)
			d.Members, d.Senders = h.nodes(30), nil
			if len(d.Members) == 0 {
				d.Senders = h.nodes(10)
			}
		}
		h.p.Declarations = append(h.p.Declarations, d)
	}
	return h
}

// nodes are none, or up to most out of the 30 there are.
func (h *history) nodes(most int) (list []order.NodeID) {
	if h.IntN(2) == 0 {
		return nil
	}
	for _, i := range h.Perm(30)[:1+h.IntN(most)] {
		list = append(list, order.NodeID(i+1))
	}
	return list
}

// change lets some go and some come, some of them in a new life, and some change their mind about
// sending.
func (h *history) change() {
	h.p.Members = slices.Clone(h.p.Members)
	drop := h.IntN(3) * h.IntN(40)
	h.p.Members = slices.DeleteFunc(h.p.Members, func(Member) bool { return h.IntN(100) < drop })
	for _, i := range h.Perm(30)[:h.IntN(6)] {
		m := Member{ID: order.NodeID(i + 1), Incarnation: h.Uint64()}
		if !slices.ContainsFunc(h.p.Members, func(is Member) bool { return is.ID == m.ID }) {
			h.p.Members = append(h.p.Members, m)
		}
	}
	if len(h.p.Members) == 0 {
		h.p.Members = []Member{{ID: 1, Incarnation: h.Uint64()}}
	}
	h.mute[order.NodeID(1+h.IntN(30))] = h.Uint64() & h.Uint64()
	h.p.ID++
}

func TestShardsOverRandomHistories(t *testing.T) {
	for seed := uint64(1); seed <= 150; seed++ {
		if *historySeed != 0 {
			seed = *historySeed
		}
		h := newHistory(seed)
		for range 60 {
			h.change()
			v, unmet, err := Place(h.p)
			if err == nil {
				err = errors.Join(check(v, h.p.Declarations), h.judge(v, unmet))
			}
			if err != nil {
				t.Fatalf("-history=%d: view %d: %v", seed, h.p.ID, err)
			}
			h.p.Previous = v
		}
		if *historySeed != 0 {
			return
		}
	}
}

// judge holds a view against what is promised of layouts; that shards are disjoint is V4.
func (h *history) judge(v *View, unmet []Unmet) error {
	again, _, _ := Place(h.p)
	if !reflect.DeepEqual(v, again) {
		return fmt.Errorf("not deterministic: %+v, then %+v", v.Subgroups, again.Subgroups)
	}
	var errs []error
	for i, d := range h.p.Declarations {
		shards := v.Shards(d.Name)
		missing := len(slices.DeleteFunc(slices.Clone(shards), Subgroup.Provisioned))
		told := 0
		for _, u := range unmet {
			if u.Name == d.Name && !shards[u.Shard].Provisioned() {
				told++
			}
		}
		if told != missing {
			errs = append(errs, fmt.Errorf("%d shards of %+v are not provisioned, %v are told", missing, d, unmet))
		}
		if err := errors.Join(h.stuck(v, d), h.shared(v, d, missing), h.heard(v, i, d)); err != nil {
			errs = append(errs, fmt.Errorf("%+v: %s: %w", d, shown(v, d.Name), err))
		}
	}
	return errors.Join(errs...)
}

// stuck checks that no member leaves a provisioned shard, and that a shard goes on if it can.
func (h *history) stuck(v *View, d Declaration) error {
	if h.p.Previous == nil {
		return nil
	}
	for s, old := range h.p.Previous.Shards(d.Name) {
		now, stayed := v.Shards(d.Name)[s], 0
		for _, before := range old.Members {
			m := h.p.Previous.Members[before]
			r, ok := v.RankOf(m.ID)
			if !ok || v.Members[r] != m {
				continue
			}
			if stayed++; now.Provisioned() && !now.Has(r) {
				return fmt.Errorf("node %d moved out of shard %d", m.ID, s)
			}
		}
		if stayed >= d.least() && !now.Provisioned() {
			return fmt.Errorf("shard %d is not provisioned, though %d of its members are here", s, stayed)
		}
	}
	return nil
}

// shared: sizes are kept, every member that can be used is, and no shard waits that could be
// provisioned.
func (h *history) shared(v *View, d Declaration, missing int) error {
	spare, smallest, largest := 0, MaxMembers, 0
	for r, m := range v.Members {
		if d.admits(m.ID) && !slices.ContainsFunc(v.Shards(d.Name), func(sg Subgroup) bool { return sg.Has(order.Rank(r)) }) {
			spare++
		}
	}
	for _, sg := range v.Shards(d.Name) {
		if sg.Provisioned() {
			smallest, largest = min(smallest, len(sg.Members)), max(largest, len(sg.Members))
		}
	}
	switch {
	case smallest < d.least() || largest > d.most():
		return fmt.Errorf("sizes from %d to %d", smallest, largest)
	case missing > 0 && spare >= d.least():
		return fmt.Errorf("%d are in no shard", spare)
	case missing == 0 && spare > 0 && smallest < d.most():
		return fmt.Errorf("%d are in no shard, and one has %d members", spare, smallest)
	case h.p.Previous == nil && missing == 0 && largest > smallest+1:
		return fmt.Errorf("sizes from %d to %d in the first view", smallest, largest)
	}
	return nil
}

// heard checks that the senders are the members that are declared as senders and are not mute.
func (h *history) heard(v *View, i int, d Declaration) error {
	for _, sg := range v.Shards(d.Name) {
		for _, r := range sg.Members {
			id := v.Members[r].ID
			should := (len(d.Senders) == 0 || slices.Contains(d.Senders, id)) && !h.p.Mute(id, i)
			if _, sends := sg.SenderRank(r); sends != should {
				return fmt.Errorf("node %d sends: %t", id, sends)
			}
		}
	}
	return nil
}
