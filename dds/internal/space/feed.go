package space

import (
	"slices"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/invariants"
)

// This file is the space at a client: topics and readers of its process, without writers. What a
// Follower at a member tells is fed to their caches.

// Advance notes how far the space has come elsewhere.
func (s *Space) Advance(position uint64) { s.position = max(s.position, position) }

// Feed gives to the cache of a reader of this process what a member tells of it, at a time of this
// process.
func (s *Space) Feed(now int64, id ID, f *Fed) {
	e := s.byID[id]
	if e == nil || e.cache == nil {
		return
	}
	s.follows = true
	s.position, s.now = max(s.position, f.Position), max(s.now, now)
	if c := e.cache; c.gated {
		if n := len(c.postponed); c.postponedBytes > maxPostponedBytes && c.postponed[n-1].Position != f.Position { // a set stays whole
			e.release(s)
		}
		later := *f
		later.Data = slices.Clone(f.Data)
		c.postponed = append(c.postponed, later)
		c.postponedBytes += lateBytes + len(f.Key) + len(f.Data)
		return
	}
	e.feed(s, f)
	if invariants.Enabled {
		s.check()
	}
}

// maxPostponedBytes bounds what comes while a reader is stopped, but for the end of a coherent set:
// beyond it the reader shows what came, before the other readers.
const maxPostponedBytes = 16 << 20

// release feeds what came while the reader was stopped.
func (e *endpoint) release(s *Space) {
	c := e.cache
	for i := range c.postponed {
		e.feed(s, &c.postponed[i])
	}
	c.postponed, c.postponedBytes = nil, 0
}

// interrupted is what Interrupt postpones.
const interrupted FedKind = 255

func (e *endpoint) feed(s *Space, f *Fed) {
	c := e.cache
	c.fed = true
	switch f.Kind {
	case FedSample, FedDispose:
		in := &s.passing
		if in.key != f.Key {
			in.key = f.Key
		}
		c.accept(s, in, &kept{
			position: f.Position, writer: e.stranger(f), source: f.Source, expires: f.Expires, dispose: f.Kind == FedDispose, data: f.Data, borrowed: true,
		})
	case FedNoWriters:
		c.withoutWriters(c.views[f.Key], f.Position, f.Source)
	case FedLost:
		c.lost += f.Count
		s.tell(Event{Kind: SampleLost, Endpoint: e.ID, Count: f.Count})
	case FedPresent:
		if c.present == nil {
			c.present = map[string]bool{}
		}
		c.present[f.Key] = true
	case FedAbsent:
		for _, v := range slices.Backward(c.known()) { // some are forgotten meanwhile
			if !c.present[v.key] {
				c.withoutWriters(v, f.Position, f.Source)
			}
		}
		c.present = nil
	case interrupted:
		c.present = nil
	}
}

// Gate stops the readers of this process that want coherent access, or has them go on with all that
// came meanwhile. They are stopped while some of them may have received a set that others have not.
// A stopped reader shows what it had when it was stopped, so that readers show the same sets at any
// time.
func (s *Space) Gate(shut bool) {
	for _, e := range s.endpoints {
		c := e.cache
		if c == nil || c.Listener != nil || !e.QoS.Presentation.Coherent || c.gated == shut {
			continue
		}
		c.gated = shut
		e.release(s)
	}
}

// Interrupt drops a list of instances of which the end has not come.
func (s *Space) Interrupt(id ID) {
	if e := s.byID[id]; e != nil && e.cache != nil {
		s.Feed(s.now, id, &Fed{Kind: interrupted})
	}
}

// withoutWriters ends an instance, which has no writers any more.
func (c *Cache) withoutWriters(v *view, position uint64, now int64) {
	if v == nil || v.state == NoWriters {
		return
	}
	v.orphan = true
	if v.state == Alive { // an instance that was disposed of stays so
		c.becomes(v, NoWriters, position, nil, now, now)
	}
	c.expel(v, now)
}

// stranger is the writer of what a reader of a client is told.
func (e *endpoint) stranger(f *Fed) *endpoint {
	for _, w := range e.strangers {
		if w.ID == f.Writer {
			return w
		}
	}
	w := &endpoint{EndpointInfo: EndpointInfo{ID: f.Writer, Topic: e.Topic, Origin: f.Origin}, topic: e.topic, queues: e.QoS.History.All}
	if len(e.strangers) >= maxStrangers {
		e.strangers = e.strangers[1:]
	}
	e.strangers = append(e.strangers, w)
	return w
}

// maxStrangers bounds the writers that a client's reader remembers.
const maxStrangers = 16

// FeedFull reports whether a RELIABLE reader has no room for what Feed would give it. Its caller
// waits until samples were taken.
func (s *Space) FeedFull(id ID, f *Fed) bool {
	e := s.byID[id]
	if e == nil || e.cache == nil || f.Kind != FedSample {
		return false
	}
	c := e.cache
	return c.Listener == nil && !c.gated && e.QoS.Reliability.Kind == qos.Reliable && c.full(c.views[f.Key])
}
