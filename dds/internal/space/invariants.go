package space

import (
	"fmt"
	"math"
	"slices"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/invariants"
)

// rules are the invariants of doc.go. Each reports what breaks it, and "" if it holds. The first
// ones are those without which the code of this package may panic: ReadState refuses a state that
// breaks one of them.
var rules = [...]struct {
	id     string
	broken func(*Space) string
}{
	{"TS1", (*Space).listed},
	{"TS2", (*Space).mutual},
	{"TS3", (*Space).registered},
	{"TS4", (*Space).written},
	{"TS5", (*Space).represented},
	{"TS6", (*Space).compatible},
	{"TS7", (*Space).needed},
	{"TS8", (*Space).bounded},
	{"TS9", (*Space).punctual},
	{"TS10", (*Space).whole},
	{"TS11", (*Space).asserting},
	{"TS12", (*Space).borrowing},
	{"TS13", (*Space).cached},
	{"TS14", (*Space).trailing},
}

const ofStates = 5 // of rules

// broken returns the first invariant that does not hold, and what breaks it.
func (s *Space) broken() (id, what string) {
	for _, r := range rules {
		if what := r.broken(s); what != "" {
			return r.id, what
		}
	}
	return "", ""
}

// check checks all invariants after some of the steps: those looked at before are few in comparison
// with the steps since, so that a long history costs each step no more than a short one.
func (s *Space) check() {
	if s.unchecked++; 64*s.unchecked < s.size() {
		return
	}
	s.unchecked = 0
	id, what := s.broken()
	invariants.Check(id == "", id, "%s at position %d", what, s.position)
}

// size is about how much check looks at.
func (s *Space) size() int {
	n := s.loans.len() + len(s.unsettled)
	for _, t := range s.topics {
		n += t.kept + len(t.order) + len(t.writers)*len(t.readers)
	}
	for _, e := range s.endpoints {
		n++
		if e.cache != nil {
			n += e.cache.held + len(e.cache.order)
		}
	}
	if s.tail != nil {
		n += len(s.tail.all)
	}
	return n
}

// listed is TS1.
func (s *Space) listed() string {
	if len(s.byName) != len(s.topics) || len(s.byID) != len(s.endpoints) {
		return fmt.Sprintf("%d topics with %d names, %d endpoints with %d ids", len(s.topics), len(s.byName), len(s.endpoints), len(s.byID))
	}
	type place struct {
		topic  *topic
		reader bool
	}
	of, places := 0, make(map[*endpoint]place, len(s.endpoints))
	for _, t := range s.topics {
		if s.byName[t.Name] != t {
			return fmt.Sprintf("topic %q is not found by its name", t.Name)
		}
		of += len(t.writers) + len(t.readers)
		for _, w := range t.writers {
			places[w] = place{t, false}
		}
		for _, r := range t.readers {
			places[r] = place{t, true}
		}
	}
	for _, e := range s.endpoints {
		if s.byID[e.ID] != e || e.closed || s.byName[e.Topic] != e.topic || places[e] != (place{e.topic, e.Reader}) {
			return fmt.Sprintf("%v is not where it belongs", e.ID)
		}
	}
	if of != len(s.endpoints) {
		return fmt.Sprintf("the topics have %d endpoints of %d", of, len(s.endpoints))
	}
	return ""
}

// mutual is TS2. Each match is looked at twice from either side, and not searched for: there may be
// a million.
func (s *Space) mutual() string {
	open := make(map[*endpoint]int, len(s.endpoints))
	for i, e := range s.endpoints {
		open[e] = i
	}
	before := make([]*endpoint, len(s.endpoints)) // of each, what was found to match it last
	back := make([][]int, len(s.endpoints))       // of each reader, the writers that match it
	for i, e := range s.endpoints {
		for _, o := range e.matched {
			n, there := open[o]
			if !there || o.Reader == e.Reader || o.topic != e.topic || before[n] == e {
				return fmt.Sprintf("%v matches %v", e.ID, o.ID)
			}
			if before[n] = e; o.Reader {
				back[n] = append(back[n], i)
			}
		}
	}
	clear(before)
	for i, r := range s.endpoints {
		for _, n := range back[i] {
			before[n] = r
		}
		for _, w := range r.matched {
			if r.Reader && before[open[w]] != r {
				return fmt.Sprintf("%v matches %v, which does not match it", r.ID, w.ID)
			}
		}
		if r.Reader && len(back[i]) != len(r.matched) {
			return fmt.Sprintf("%d writers match %v, which matches %d", len(back[i]), r.ID, len(r.matched))
		}
	}
	return ""
}

// registered is TS3.
func (s *Space) registered() string {
	before := map[*endpoint]*instance{} // of each writer, the last instance that it was found to be registered with
	for _, t := range s.topics {
		if len(t.instances) != len(t.order) || t.gone {
			return fmt.Sprintf("topic %q has %d instances and lists %d", t.Name, len(t.instances), len(t.order))
		}
		for _, in := range t.order {
			if t.instances[in.key] != in || in.gone || !t.Keyed && in.key != "" {
				return fmt.Sprintf("instance %q of topic %q is not where it belongs", in.key, t.Name)
			}
			for i := range in.writers {
				w := in.writers[i].writer
				if w.Reader || w.topic != t || w.closed || s.byID[w.ID] != w || before[w] == in {
					return fmt.Sprintf("%v is registered with instance %q of topic %q", w.ID, in.key, t.Name)
				}
				before[w] = in
			}
		}
	}
	return ""
}

// written is TS4.
func (s *Space) written() string {
	for _, t := range s.topics {
		for _, in := range t.order {
			last := uint64(0)
			for k := range in.history.each {
				if k.writer.Reader || k.writer.topic != t || k.position < last || k.position > s.position {
					return fmt.Sprintf("instance %q of topic %q has a sample of %v at position %d, after one at %d", in.key, t.Name, k.writer.ID, k.position, last)
				}
				last = k.position
			}
		}
	}
	for _, o := range s.sets {
		for i := range o.pending {
			if w := o.pending[i].writer; w.Reader || w.topic == nil || w.ID.Process != o.of {
				return fmt.Sprintf("set %d of %v has a sample of %v", o.number, o.of, w.ID)
			}
		}
	}
	return ""
}

// represented is TS5.
func (s *Space) represented() string {
	if len(s.origins) != len(s.byOrigin) {
		return fmt.Sprintf("%d origins, and %d by their names", len(s.origins), len(s.byOrigin))
	}
	writers, last := map[*origin]int{}, map[*origin]*endpoint{}
	for _, e := range s.endpoints {
		if e.Origin == nil {
			continue
		}
		at := s.byOrigin[*e.Origin]
		if e.Reader || at == nil {
			return fmt.Sprintf("%v has an origin that is not known", e.ID)
		}
		writers[at]++
		last[at] = e
	}
	for _, at := range s.origins {
		if s.byOrigin[at.Origin] != at || at.writers != writers[at] || at.current != last[at] {
			return fmt.Sprintf("origin %x has %d writers and counts %d", at.GUID, writers[at], at.writers)
		}
	}
	return ""
}

// compatible is TS6.
func (s *Space) compatible() string {
	for _, t := range s.topics {
		for _, w := range t.writers {
			for _, r := range t.readers {
				if match, _ := qos.Match(&w.QoS, &r.QoS); match != slices.Contains(w.matched, r) {
					return fmt.Sprintf("that %v and %v match is not %v", w.ID, r.ID, match)
				}
			}
			if what := w.settled(); what != "" {
				return fmt.Sprintf("%s of %v", what, w.ID)
			}
		}
	}
	return ""
}

// settled compares what settle has computed with what a writer matches now.
func (w *endpoint) settled() string {
	now := endpoint{EndpointInfo: w.EndpointInfo, matched: w.matched}
	if now.settle(); !slices.Equal(now.local, w.local) {
		return fmt.Sprintf("%d caches instead of %d", len(w.local), len(now.local))
	}
	if len(w.local) > 0 && (now.bounded != w.bounded || now.queues != w.queues || now.holds != w.holds) {
		return "what is known of the caches"
	}
	return ""
}

// needed is TS7.
func (s *Space) needed() string {
	for _, t := range s.topics {
		for _, in := range t.order {
			if len(in.writers) == 0 && in.history.len() == 0 {
				return fmt.Sprintf("instance %q of topic %q has neither writers nor a history", in.key, t.Name)
			}
		}
	}
	return ""
}

// bounded is TS8.
func (s *Space) bounded() string {
	for _, t := range s.topics {
		l, kept := t.QoS.Service, 0
		for _, in := range t.order {
			n, disposals, source := in.history.len(), 0, int64(math.MinInt64)
			kept += n
			for k := range in.history.each {
				if k.dispose {
					disposals++
				}
				if k.source > s.now+int64(SourceAhead) || t.QoS.Order == qos.BySource && k.source < source {
					return fmt.Sprintf("a sample of instance %q has the source time %d after %d", in.key, k.source, source)
				}
				source = k.source
			}
			if disposals != in.disposals || !l.History.All && n > max(l.History.Depth, 1) || l.Limits.SamplesPerInstance > 0 && n > l.Limits.SamplesPerInstance {
				return fmt.Sprintf("the history of instance %q has %d samples, and of %d disposals counts %d", in.key, n, disposals, in.disposals)
			}
		}
		if kept != t.kept || l.Limits.Samples > 0 && kept > l.Limits.Samples {
			return fmt.Sprintf("topic %q has %d samples, and counts %d", t.Name, kept, t.kept)
		}
	}
	return ""
}

// punctual is TS9.
func (s *Space) punctual() string {
	for _, t := range s.topics {
		for _, in := range t.order {
			due := int64(math.MaxInt64)
			if len(in.writers) == 0 && in.disposed {
				due = in.since + int64(t.QoS.Service.CleanupDelay)
			}
			for k := range in.history.each {
				due = min(due, k.expires)
			}
			if due <= s.now || due < max(s.sweep, t.sweep) {
				return fmt.Sprintf("at %d instance %q has something that was due at %d, and the next look is at %d", s.now, in.key, due, max(s.sweep, t.sweep))
			}
		}
	}
	for _, at := range s.origins {
		if due := at.since + int64(OriginMemory); at.writers == 0 && (due <= s.now || due < s.sweep) {
			return fmt.Sprintf("origin %x was due at %d", at.GUID, due)
		}
	}
	return ""
}

// whole is TS10.
func (s *Space) whole() string {
	for i, o := range s.sets {
		closed := false
		for j := range o.pending {
			closed = closed || o.pending[j].writer.closed
		}
		same := func(p *set) bool { return p.of == o.of && p.number == o.number }
		if closed || o.broken && len(o.pending) > 0 || o.number == 0 || slices.ContainsFunc(s.sets[:i], same) {
			return fmt.Sprintf("set %d of %v has a closed writer: %v, and counts as broken: %v", o.number, o.of, closed, o.broken)
		}
	}
	return ""
}

// asserting is TS11.
func (s *Space) asserting() string {
	leased, silences, parties := 0, 0, map[party]bool{}
	for _, e := range s.endpoints {
		if e.Reader {
			continue
		}
		parties[e.party()] = true
		if e.life == nil || s.lives[e.party()] != e.life || e.asserted > s.now || e.life.asserted > s.now {
			return fmt.Sprintf("%v was asserted at %d", e.ID, e.asserted)
		}
		if e.leased() {
			leased++
		}
		if !e.silent {
			continue
		}
		silences++
		for _, in := range e.topic.order {
			if !e.leased() || in.registration(e) != nil {
				return fmt.Sprintf("%v is silent, and registered with instance %q", e.ID, in.key)
			}
		}
	}
	if leased != s.leased || silences != s.silences || len(parties) != len(s.lives) {
		return fmt.Sprintf("%d leases, %d silent writers, %d parties; counted are %d, %d, %d", leased, silences, len(parties), s.leased, s.silences, len(s.lives))
	}
	return ""
}

// borrowing is TS12.
func (s *Space) borrowing() string {
	for _, t := range s.topics {
		loose := 0
		for _, in := range t.order {
			n := in.history.len()
			if in.captured > n || in.loose > n {
				return fmt.Sprintf("instance %q has %d samples, %d of them in a view and %d loose", in.key, n, in.captured, in.loose)
			}
			for i := range n {
				k := in.history.at(i)
				if !k.borrowed {
					continue
				}
				if loose++; i < n-in.loose || i < in.captured || !s.lends(in, k.position) {
					return fmt.Sprintf("sample %d of %d of instance %q at position %d is borrowed", i, n, in.key, k.position)
				}
			}
		}
		if loose != t.loose {
			return fmt.Sprintf("topic %q has %d borrowed samples, and counts %d", t.Name, loose, t.loose)
		}
	}
	for i := range s.senders {
		if a := &s.senders[i]; s.due < a.end(lentSteps-1) || s.soon < s.due {
			return fmt.Sprintf("data of sender %d up to %d have to be repaid, and of all up to %d", a.sender, a.end(lentSteps-1), s.due)
		}
	}
	return ""
}

// lends reports whether a loan of an instance covers a position.
func (s *Space) lends(in *instance, position uint64) bool {
	covers := func(l *loan) bool { return l.in == in && l.from <= position && position <= l.to }
	for l := range s.loans.each {
		if covers(l) {
			return true
		}
	}
	return slices.ContainsFunc(s.unsettled, func(l loan) bool { return covers(&l) })
}

// cached is TS13.
func (s *Space) cached() string {
	for _, e := range s.endpoints {
		if e.cache == nil {
			continue
		}
		if !e.Reader || e.cache.of != e {
			return fmt.Sprintf("%v has the cache of another reader", e.ID)
		}
		if what := e.cache.broken(); what != "" {
			return fmt.Sprintf("reader %v: %s", e.ID, what)
		}
	}
	return ""
}

// broken reports what is wrong in a cache.
func (c *Cache) broken() string {
	held, changes, last := c.fresh.len(), 0, (*held)(nil)
	valid := map[*view]int{}
	for h := c.first; h != nil; last, h = h, h.next {
		switch {
		case h.prev != last || h.gone || h.Key != h.of.key || h.of.gone:
			return fmt.Sprintf("a sample of %q is out of the list", h.Key)
		case h.Valid:
			if n := valid[h.of]; n >= len(h.of.valid) || h.of.valid[n] != h {
				return fmt.Sprintf("a sample of %q is out of its order", h.Key)
			}
			held++
			valid[h.of]++
		case h.of.change != h:
			return fmt.Sprintf("an earlier end of %q is there", h.Key)
		default:
			changes++
		}
	}
	if last != c.last || held != c.held {
		return fmt.Sprintf("%d samples, and counted are %d", held, c.held)
	}
	return c.brokenViews(valid, held, changes)
}

// brokenViews reports what is wrong in the instances, of which the samples and changes are counted.
func (c *Cache) brokenViews(valid map[*view]int, held, changes int) string {
	fresh := map[*view]int{}
	for f := range c.fresh.each {
		fresh[f.of]++
	}
	gone := 0
	for _, v := range c.order {
		if v.gone {
			gone++
		} else if c.views[v.key] != v || valid[v] != len(v.valid) || fresh[v] != v.fresh || len(v.valid) > c.depth() {
			return fmt.Sprintf("instance %q has %d samples and %d fresh ones", v.key, valid[v], fresh[v])
		}
		if v.change != nil {
			changes--
		}
	}
	if gone != c.gone || len(c.order)-gone != len(c.views) || changes != 0 {
		return fmt.Sprintf("%d instances, %d of them removed, and %d by their keys", len(c.order), gone, len(c.views))
	}
	if c.Listener != nil && held > 0 {
		return "a reader with a listener keeps samples"
	}
	return ""
}

// trailing is TS14.
func (s *Space) trailing() string {
	if s.tail == nil {
		return ""
	}
	bytes, last := 0, uint64(0)
	for i := range s.tail.all {
		t := &s.tail.all[i]
		bytes += t.bytes()
		if t.position < last || t.position > s.position || t.number > t.topic.count || s.byName[t.topic.Name] == t.topic && t.position < t.topic.floor.position {
			return fmt.Sprintf("step %d at position %d follows one at %d", i, t.position, last)
		}
		last = t.position
	}
	if bytes != s.tail.bytes || bytes > s.tail.limit {
		return fmt.Sprintf("%d bytes of %d, and counted are %d", bytes, s.tail.limit, s.tail.bytes)
	}
	return ""
}
