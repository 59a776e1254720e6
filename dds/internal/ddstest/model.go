package ddstest

import (
	"slices"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/qos"
)

// instance is what the model knows of an instance.
type instance struct {
	writers  []*writer // registered
	disposed bool
	history  []value // of a durable topic; with n 0, that it was disposed of
}

type value struct{ key, n int32 }

// group is readers with the same policies, one of each process.
type group struct {
	set     dds.QoS
	least   int32 // of its filter; 0: none
	readers []*dds.Reader[sample]
	known   bool // the model tells what they have
	late    bool // they began with a history
	has     []held
	states  map[int32]dds.InstanceState
	came    map[int32]generations
}

// generations are how often an instance came back, at the most: a reader that has forgotten an
// instance counts anew.
type generations struct{ disposed, noWriters int }

type held struct {
	value
	read bool
}

// replay gives the model of durable readers the history.
func (w *world) replay(g *group) {
	var all []value
	for _, in := range w.keys {
		all = append(all, in.history...)
	}
	slices.SortFunc(all, func(a, b value) int { return int(a.n - b.n) })
	for _, v := range all {
		if v.n > 0 {
			g.accept(v)
		}
	}
}

// owns reports whether a writer's samples of an instance count.
func (w *world) owns(o *writer, in *instance) bool {
	return w.set.Ownership == qos.Shared || !slices.ContainsFunc(in.writers, func(x *writer) bool { return x.set.Strength > o.set.Strength })
}

func (w *world) instance(key int32) *instance {
	if w.keys[key] == nil {
		w.keys[key] = &instance{}
	}
	return w.keys[key]
}

// apply is what a write, or a dispose with n 0, does.
func (w *world) apply(o *writer, v value) {
	in := w.instance(v.key)
	if !slices.Contains(in.writers, o) {
		in.writers = append(in.writers, o)
	}
	if !w.owns(o, in) {
		return
	}
	in.disposed = v.n == 0
	if w.set.Durability > qos.Volatile {
		in.history = append(in.history, v)
		if h := w.set.Service.History; !h.All {
			in.history = in.history[max(0, len(in.history)-max(h.Depth, 1)):]
		}
	}
	for _, g := range w.groups {
		if v.n > 0 {
			g.accept(v)
		} else if g.states[v.key] != 0 {
			g.states[v.key] = dds.InstanceDisposed
		}
	}
}

// end is what the end of a writer's part in an instance does.
func (w *world) end(o *writer, key int32) {
	in := w.keys[key]
	if in == nil || !slices.Contains(in.writers, o) {
		return
	}
	if !o.set.KeepUnregistered && w.owns(o, in) && !in.disposed {
		w.apply(o, value{key: key})
	}
	in.writers = slices.DeleteFunc(in.writers, func(x *writer) bool { return x == o })
	if len(in.writers) > 0 {
		return
	}
	for _, g := range w.groups {
		if g.states[key] == dds.InstanceAlive {
			g.states[key] = dds.InstanceNoWriters
		}
	}
	if in.disposed {
		in.history = nil
	}
}

func (g *group) accept(v value) {
	if v.n < g.least {
		return
	}
	c := g.came[v.key]
	switch g.states[v.key] {
	case dds.InstanceDisposed:
		c.disposed++
	case dds.InstanceNoWriters:
		c.noWriters++
	}
	g.came[v.key], g.states[v.key] = c, dds.InstanceAlive
	g.has = append(g.has, held{value: v})
	if g.set.History.All {
		return
	}
	of := 0
	for i := len(g.has) - 1; i >= 0; i-- {
		if g.has[i].key != v.key {
			continue
		}
		if of++; of > max(g.set.History.Depth, 1) {
			g.has = slices.Delete(g.has, i, i+1)
		}
	}
}
