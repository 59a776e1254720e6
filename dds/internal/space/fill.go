package space

import (
	"cmp"
	"slices"
	"sort"

	"github.com/squall-go/squall/dds/qos"
)

// filling is what a cache receives before anything else: the history at the position at which its
// reader was opened, of which it has a view, and behind that what came since. So opening a reader
// costs the order little, however long the history is, and the caller fills the cache while records
// are applied.
//
// The samples that a cache is given, and what it says of them, are the same at any pace: it takes
// the history of that position in its order, by the policies and the time of that position, and
// then each later step with the time and the position that it has. Nothing comes twice: a view has
// no later step, and all of those are postponed.
type filling struct {
	merged  // of that position
	matches map[*endpoint]bool
	set     qos.Set // of the reader, then
	now     int64   // the time, then
	late    sequence[late]
	bytes   int // of late, about
	held    bool
}

// merged is the samples of histories, of which it has views, in the order in which they came: the
// sources with samples left, as a heap.
type merged struct{ sources []source }

// source is the history of an instance.
type source struct {
	key   string
	place int // of the instance in the topic
	view  sequence[kept]
	next  int
}

// before reports whether the next sample of a source comes before that of another one. The samples
// of a set have one position, and come instance by instance.
func (o *source) before(p *source) bool {
	return cmp.Or(cmp.Compare(o.view.at(o.next).position, p.view.at(p.next).position), cmp.Compare(o.place, p.place)) < 0
}

// late is a step that came while the cache was being filled.
type late struct {
	key      string
	sample   kept   // unless
	end      bool   // the instance has no writers any more
	position uint64 // of the end
	now      int64  // the time, then
}

// fillPiece is how many steps a cache is filled with at once, where its reader is opened. Short
// histories are there at once.
const fillPiece = 512

// atOnce is fillPiece, if a test does not say otherwise.
func (s *Space) atOnce() int { return cmp.Or(s.piece, fillPiece) }

// maxLateBytes bounds what is postponed: beyond it records are not applied until the cache is
// filled.
const maxLateBytes = 16 << 20

// lateBytes is what a postponed step takes besides its key and data, about.
const lateBytes = 120

// begin has the cache filled with the history that a durable reader is due, in the order in which
// it was written.
func (c *Cache) begin(s *Space) {
	t := c.of.topic
	if c.of.QoS.Durability == qos.Volatile {
		return
	}
	f := &filling{matches: map[*endpoint]bool{}, set: c.of.QoS, now: s.now}
	f.merged, _ = t.merge(0)
	for _, w := range t.writers { // what they offer may change
		f.matches[w] = slices.Contains(w.matched, c.of)
	}
	c.filling = f
	for _, in := range t.order {
		c.settle(s, in)
	}
	most := s.atOnce()
	if c.Listener != nil { // it is not called here
		most = 0
	}
	if s.Fill(c, most) {
		c.of.settleWriters()
	}
}

// merge returns what the histories of a topic have behind a position, and how many samples that is,
// without disposals. What it costs depends on the number of instances.
func (t *topic) merge(after uint64) (m merged, samples uint64) {
	for i, in := range t.order {
		from := 0
		if after > 0 {
			from = sort.Search(in.history.len(), func(i int) bool { return in.history.at(i).position > after })
		}
		if from < in.history.len() {
			m.sources = append(m.sources, source{key: in.key, place: i, view: t.view(in), next: from})
			samples += in.samples(from)
		}
	}
	for i := len(m.sources)/2 - 1; i >= 0; i-- {
		m.sift(i)
	}
	return m, samples
}

// samples returns how many of a history are no disposals, from one on.
func (in *instance) samples(from int) (n uint64) {
	if in.disposals == 0 {
		return uint64(in.history.len() - from)
	}
	for i := from; i < in.history.len(); i++ {
		if !in.history.at(i).dispose {
			n++
		}
	}
	return n
}

// sift moves a source down to its place in the heap.
func (m *merged) sift(i int) {
	for {
		least := i
		for child := 2*i + 1; child < min(2*i+3, len(m.sources)); child++ {
			if m.sources[child].before(&m.sources[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		m.sources[i], m.sources[least] = m.sources[least], m.sources[i]
		i = least
	}
}

// advance goes on to the next sample.
func (m *merged) advance() {
	first := &m.sources[0]
	if first.next++; first.next == first.view.len() {
		last := len(m.sources) - 1
		m.sources[0] = m.sources[last]
		m.sources[last] = source{}
		m.sources = m.sources[:last]
	}
	m.sift(0)
}

// matched reports whether a writer matches the reader. Policies of a writer that was closed stay as
// they are.
func (f *filling) matched(w *endpoint) bool {
	is, known := f.matches[w]
	if !known {
		is, _ = qos.Match(&w.QoS, &f.set)
		f.matches[w] = is
	}
	return is
}

func (f *filling) postpone(l late) {
	f.bytes += lateBytes + len(l.key) + len(l.sample.data)
	f.held = f.held || f.bytes > maxLateBytes
	f.late.push(l)
}

// behind reports whether no more is to be postponed: there is too much already, or the reader may
// be full.
func (f *filling) behind(c *Cache) bool {
	return f != nil && (f.held || c.limited())
}

// Heard returns what Fill has for the listener since the last call. The caller calls the listener
// with it, before it calls Fill again; the data stay as they are.
func (c *Cache) Heard(memory []Held) []Held {
	heard := c.heard
	c.heard = memory[:0]
	return heard
}

// Fill goes on filling a cache that was opened, by about n steps. It reports whether there is more
// to fill: a caller calls it until there is not, and only then has Select.
func (s *Space) Fill(c *Cache, n int) (more bool) {
	f := c.filling
	for ; f != nil; n-- {
		switch {
		case len(f.sources) == 0 && f.late.len() == 0 && len(c.heard) > 0: // the listener comes before what follows
			return true
		case len(f.sources) == 0 && f.late.len() == 0:
			c.filling = nil
			c.of.settleWriters()
			return false
		case n <= 0:
			return true
		case len(f.sources) > 0:
			o := &f.sources[0]
			if k := o.view.at(o.next); f.matched(k.writer) && k.expires > f.now {
				c.admit(s, o.key, k, f.now, true)
			}
			f.advance()
		default:
			l := *f.late.at(0)
			f.late.drop(1)
			if l.end {
				c.withoutWriters(c.views[l.key], l.position, l.now)
			} else {
				c.admit(s, l.key, &l.sample, l.now, false)
			}
		}
	}
	return false
}
