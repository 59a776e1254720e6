package space

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/squall-go/squall/dds/qos"
)

// modelReader is what a reader has: a list of samples, which each call looks through, and the
// instances that it knows.
type modelReader struct {
	held  []*modelHeld
	views []*modelView
	lost  uint64
	heard []Held // by the listener of a reader that has one
}

type modelView struct {
	key                 string
	state               InstanceState
	seen, passed        bool
	disposed, noWriters int
	at, since           int64 // of the last sample that passed, and of the last end
}

type modelHeld struct {
	Held
	of      *modelView
	expires int64
}

// Some readers have a filter or a listener, by their numbers.
func filters(id ID) bool { return id.Number%3 == 0 }
func listens(id ID) bool { return id.Number%5 == 0 }
func odd(b []byte) bool  { return len(b) > 0 && b[len(b)-1]%2 == 1 }

func (r *modelReader) instance(key string) *modelView {
	if i := slices.IndexFunc(r.views, func(v *modelView) bool { return v.key == key }); i >= 0 {
		return r.views[i]
	}
	return nil
}

// valid counts the samples with data, of an instance or of all.
func (r *modelReader) valid(v *modelView) (n int) {
	for _, h := range r.held {
		if h.Valid && (v == nil || h.of == v) {
			n++
		}
	}
	return n
}

func (r *modelReader) remove(out func(*modelHeld) bool) {
	if i := slices.IndexFunc(r.held, out); i >= 0 {
		r.held = slices.Delete(r.held, i, i+1)
	}
}

func (r *modelEnd) depth() int {
	if r.QoS.History.All {
		return math.MaxInt
	}
	return max(r.QoS.History.Depth, 1)
}

// full reports whether one more sample of an instance goes beyond the limits of a reader.
func (r *modelEnd) full(v *modelView) bool {
	l, n := r.QoS.Limits, 0
	if v != nil {
		n = r.valid(v)
	}
	if listens(r.ID) || n >= r.depth() {
		return false
	}
	return l.Samples > 0 && r.valid(nil) >= l.Samples || l.SamplesPerInstance > 0 && n >= l.SamplesPerInstance || v == nil && l.Instances > 0 && len(r.views) >= l.Instances
}

// waits reports whether a sample has to wait until something is taken from a reliable reader.
func (m *model) waits(s *Sample) bool {
	w := m.find(s.Writer)
	return w != nil && s.Set == 0 && s.Operation == Write && slices.ContainsFunc(m.readers(w), func(r *modelEnd) bool {
		return r.QoS.Reliability.Kind == qos.Reliable && r.full(r.instance(string(s.Key)))
	})
}

// receive gives a sample to a reader, at a time that counts for its time-based filter.
func (m *model) receive(r *modelEnd, k modelSample, at int64) {
	v := r.instance(k.key)
	if k.dispose {
		if v != nil && v.state != Disposed {
			r.becomes(v, Disposed, m.now, Held{Position: k.position, Writer: k.writer.ID, Source: k.source})
		}
		return
	}
	if filters(r.ID) && !odd([]byte(k.data)) {
		return
	}
	for r.QoS.Reliability.Kind == qos.BestEffort && r.full(v) {
		was := len(r.held)
		if r.remove(func(h *modelHeld) bool { return h.State == Read && h.Valid }); len(r.held) == was {
			r.lost++
			return
		}
	}
	if v == nil {
		v = &modelView{key: k.key, state: Alive}
		r.views = append(r.views, v)
	}
	switch v.state {
	case Disposed:
		v.disposed++
	case NoWriters:
		v.noWriters++
	}
	if v.state != Alive {
		v.state, v.seen = Alive, false
	}
	if gap := int64(r.QoS.Separation); gap > 0 {
		if v.passed && v.at <= at && at < v.at+gap {
			return
		}
		v.passed, v.at = true, at
	}
	r.add(v, k.expires, Held{Position: k.position, Writer: k.writer.ID, Source: k.source, Data: []byte(k.data), Valid: true})
	if r.valid(v) > r.depth() {
		r.remove(func(h *modelHeld) bool { return h.Valid && h.of == v })
	}
}

// add adds what has come, or tells the listener.
func (r *modelEnd) add(v *modelView, expires int64, h Held) {
	h.Key, h.State, h.DisposedGeneration, h.NoWritersGeneration = v.key, NotRead, v.disposed, v.noWriters
	if !listens(r.ID) {
		r.held = append(r.held, &modelHeld{h, v, expires})
		return
	}
	h.View, h.Instance = v.shown(), v.state
	v.seen = true
	r.heard = append(r.heard, h)
}

func (v *modelView) shown() ViewState {
	if v.seen {
		return NotNew
	}
	return New
}

// becomes ends an instance. The end takes the place of an earlier one.
func (r *modelEnd) becomes(v *modelView, state InstanceState, now int64, h Held) {
	v.state, v.since = state, now
	r.remove(func(h *modelHeld) bool { return !h.Valid && h.of == v })
	r.add(v, math.MaxInt64, h)
}

// expel removes an instance that is not alive, if it has no samples and its purge delay is over.
func (r *modelEnd) expel(v *modelView, now int64) {
	keep := r.QoS.Purge.NoWriters
	if v.state == Disposed {
		keep = r.QoS.Purge.Disposed
	}
	some := slices.ContainsFunc(r.held, func(h *modelHeld) bool { return h.of == v })
	if v.state != Alive && !some && (keep == 0 || now-v.since >= int64(keep)) {
		r.views = slices.DeleteFunc(r.views, func(o *modelView) bool { return o == v })
	}
}

// forget expels an instance that no writer has.
func (r *modelEnd) forget(v *modelView, now int64) {
	for _, in := range r.topic.instances {
		if in.key == v.key && in.written(r) {
			return
		}
	}
	r.expel(v, now)
}

// ends returns when lifespans end, and the delays of instances that are purged then.
func (r *modelEnd) ends() (all []int64) {
	for _, h := range r.held {
		if h.expires < math.MaxInt64 {
			all = append(all, h.expires)
		}
	}
	for _, v := range r.views {
		switch v.state {
		case Disposed:
			all = append(all, v.since+int64(r.QoS.Purge.Disposed))
		case NoWriters:
			all = append(all, v.since+int64(r.QoS.Purge.NoWriters))
		}
	}
	return all
}

// query selects samples.
func (r *modelEnd) query(q Query) (all []Held) {
	var chosen []*modelHeld
	for _, h := range slices.Clone(r.held) {
		v := h.of
		switch {
		case q.Max > 0 && len(chosen) == q.Max:
		case h.expires <= q.Now:
			r.remove(func(o *modelHeld) bool { return o == h })
		case q.Samples != 0 && q.Samples&h.State == 0, q.Views != 0 && q.Views&v.shown() == 0, q.States != 0 && q.States&v.state == 0, q.Key != nil && *q.Key != v.key:
		case q.Matching != nil && h.Valid && !q.Matching(h.Data):
		default:
			h.View, h.Instance = v.shown(), v.state
			chosen = append(chosen, h)
		}
	}
	generation := func(h *modelHeld) int { return h.DisposedGeneration + h.NoWritersGeneration }
	for i, h := range chosen {
		g := h.Held
		g.AbsoluteGenerationRank = h.of.disposed + h.of.noWriters - generation(h)
		for _, o := range chosen[i+1:] {
			if o.of == h.of {
				g.SampleRank++
				g.GenerationRank = generation(o) - generation(h)
			}
		}
		all = append(all, g)
	}
	for _, h := range chosen {
		h.State, h.of.seen = Read, true
		if q.Take {
			r.remove(func(o *modelHeld) bool { return o == h })
		}
	}
	for _, h := range chosen {
		if q.Take && slices.Contains(r.views, h.of) {
			r.forget(h.of, q.Now)
		}
	}
	if r.QoS.Purge != (qos.ReaderLifetime{}) {
		for _, v := range slices.Clone(r.views) {
			r.forget(v, q.Now)
		}
	}
	return all
}

// text is what Cache.text is to be.
func (r *modelEnd) text() string {
	var b strings.Builder
	for _, h := range r.held {
		line(&b, &h.Held, h.expires)
	}
	for _, v := range r.views {
		fmt.Fprintf(&b, "%+v\n", *v)
	}
	fmt.Fprintf(&b, "%d samples, %d lost\n", r.valid(nil), r.lost)
	return b.String()
}

// line shows a sample, without what a call of Select adds to it.
func line(b *strings.Builder, h *Held, expires int64) {
	fmt.Fprintf(b, "%d %v %d %s=%s %v %d %d %d %d\n", h.Position, h.Writer, h.Source, h.Key, h.Data, h.Valid, h.State, h.DisposedGeneration, h.NoWritersGeneration, expires)
}

// text shows a cache without marking anything.
func (c *Cache) text() string {
	var b strings.Builder
	for h := c.first; h != nil; h = h.next {
		line(&b, &h.Held, h.expires)
	}
	for f := range c.fresh.each {
		line(&b, &Held{
			Position: f.position, Writer: f.writer.ID, Source: f.source, Key: f.of.key, Data: f.data, Valid: true, State: NotRead,
			DisposedGeneration: f.disposed, NoWritersGeneration: f.noWriters,
		}, f.expires)
	}
	for _, v := range c.known() {
		fmt.Fprintf(&b, "%+v\n", modelView{v.key, v.state, v.seen, v.passed, v.disposed, v.noWriters, v.at, v.since})
	}
	fmt.Fprintf(&b, "%d samples, %d lost\n", c.Held(), c.Lost())
	return b.String()
}
