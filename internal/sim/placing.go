package sim

import (
	"slices"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// layouts are the functions by which applications place members in shards themselves.
var layouts = map[string]views.Layout{turning: takeTurns}

const turning = "turns"

// takeTurns leaves all members where they are, but for one that goes to the next shard if both
// shards have what they need then. In two views, one after the other, it is the same one: away, and
// back.
func takeTurns(in views.LayoutInput) ([]views.ShardPlaces, error) {
	d, places := in.Declaration, make([]views.ShardPlaces, in.Declaration.ShardCount())
	for s := range places {
		places[s].Members = slices.Clone(in.Previous[s])
	}
	for _, m := range in.Members {
		if shardWith(places, m.ID) < 0 {
			if s := smallest(places); len(places[s].Members) < most(d) {
				places[s].Members = append(places[s].Members, m.ID)
			}
		}
	}
	who := in.Members[int(in.View)/2%len(in.Members)].ID
	from := shardWith(places, who)
	to := (from + 1) % len(places)
	if from >= 0 && len(places[from].Members) > max(1, d.MinMembers) && len(places[to].Members) < most(d) {
		places[from].Members = slices.DeleteFunc(places[from].Members, func(id order.NodeID) bool { return id == who })
		places[to].Members = append(places[to].Members, who)
	}
	return places, nil
}

func shardWith(places []views.ShardPlaces, id order.NodeID) int {
	return slices.IndexFunc(places, func(s views.ShardPlaces) bool { return slices.Contains(s.Members, id) })
}

func smallest(places []views.ShardPlaces) (least int) {
	for s := range places {
		if len(places[s].Members) < len(places[least].Members) {
			least = s
		}
	}
	return least
}

// most is how many a shard takes.
func most(d views.Declaration) int {
	if d.MaxMembers == 0 {
		return views.MaxMembers
	}
	return d.MaxMembers
}
