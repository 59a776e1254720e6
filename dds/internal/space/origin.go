package space

import (
	"fmt"
	"slices"
	"time"
)

// Origin names a writer of another system, whose samples a gateway carries into the space: the
// system, and the writer in it. dds.Origin documents the names of sides.
type Origin struct {
	Side string   `cbor:"1,keyasint"`
	GUID [16]byte `cbor:"2,keyasint"`
}

// OriginMemory is how long the space knows, by the time of the order, which samples of an origin it
// has, once no writer stands for the origin any more. Another gateway takes over within it.
const OriginMemory = 10 * time.Minute

// origin is what the records say of an origin: the number of its last sample, so that the same
// sample, carried by another gateway, has no effect.
type origin struct {
	Origin
	last    uint64
	ended   uint64    // position of the record that ended it last; 0: none has
	writers int       // open writers that stand for it
	current *endpoint // the one of these that was opened last
	since   int64     // time at which the last of these was closed
}

// stand counts a writer that is opened for an origin. It goes on with the instances of the one that
// stood for the origin until now, and with what that one wrote: a TRANSIENT_LOCAL history ends with
// the last of them.
func (s *Space) stand(e *endpoint) {
	o := *e.Origin
	at := s.originOf(o)
	if at == nil {
		at = &origin{Origin: o}
		s.origins = append(s.origins, at)
		if s.byOrigin == nil {
			s.byOrigin = map[Origin]*origin{}
		}
		s.byOrigin[o] = at
	}
	at.writers++
	was := at.current
	at.current = e
	if was == nil || was.topic != e.topic {
		return
	}
	for _, in := range e.topic.order {
		if reg := in.registration(was); reg != nil {
			reg.writer = e
		}
		in.rename(was, e)
	}
}

// rename has a history say that another writer wrote the samples of one.
func (in *instance) rename(was, is *endpoint) {
	mine := false
	for k := range in.history.each {
		mine = mine || k.writer == was
	}
	if !mine {
		return
	}
	if in.captured > 0 { // a view stays as it is
		in.history = in.history.clone()
	}
	for k := range in.history.each {
		if k.writer == was {
			k.writer = is
		}
	}
}

// standing is the writer that a sample of an origin is of: the one that was opened last, also while
// samples that another one carried are still on their way.
func (s *Space) standing(w *endpoint) *endpoint {
	if at := s.originOf(*w.Origin); at != nil && at.current != nil && at.current.topic == w.topic {
		return at.current
	}
	return w
}

// predecessor is the writer that stands for the origin of one that is being opened; nil: there is
// none.
func (s *Space) predecessor(e *endpoint) *endpoint {
	if e.Origin == nil {
		return nil
	}
	if at := s.originOf(*e.Origin); at != nil && at.current != nil && at.current.topic == e.topic {
		return at.current
	}
	return nil
}

// restand finds the writer that stands for an origin.
func (s *Space) restand(at *origin) {
	at.current = nil
	for _, e := range s.endpoints { // in the order in which they were opened
		if e.Origin != nil && *e.Origin == at.Origin && !e.closed {
			at.current = e
		}
	}
}

func (s *Space) originOf(o Origin) *origin { return s.byOrigin[o] }

// unstand counts a writer that is closed.
func (s *Space) unstand(e *endpoint) {
	at := s.originOf(*e.Origin)
	if at.current == e {
		s.restand(at)
	}
	if at.writers--; at.writers == 0 {
		at.since = s.now
		s.sweep = min(s.sweep, s.now+int64(OriginMemory))
	}
}

// once reports that a sample of an origin is not in the space yet, and notes that it is now.
func (s *Space) once(w *endpoint, sequence uint64) error {
	at := s.originOf(*w.Origin)
	if sequence <= at.last {
		return fmt.Errorf("%w: sample %d of %x", ErrDuplicate, sequence, w.Origin.GUID)
	}
	at.last = sequence
	return nil
}

// expireOrigins forgets origins without writers, and says when the next one is due.
func (s *Space) expireOrigins() {
	s.origins = slices.DeleteFunc(s.origins, func(at *origin) bool {
		due := at.since + int64(OriginMemory)
		switch {
		case at.writers > 0:
			return false
		case due <= s.now:
			delete(s.byOrigin, at.Origin)
			return true
		}
		s.sweep = min(s.sweep, due)
		return false
	})
}

// Last is the number of the last sample of an origin that is in the space, since the origin ended
// last; 0 if there is none.
func (s *Space) Last(o Origin) uint64 {
	last, _ := s.Ordered(o)
	return last
}

// Ordered is Last, and the position at which the origin ended last; 0 if it is not known to have
// ended.
func (s *Space) Ordered(o Origin) (last, ended uint64) {
	if at := s.originOf(o); at != nil {
		return at.last, at.ended
	}
	return 0, 0
}
