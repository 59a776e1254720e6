package relay

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Bounds of what lies in shared memory.
const (
	// PieceBytes is how much is fetched at a time; after each piece a receiver sees whether it is
	// still wanted.
	PieceBytes = 4 << 20
	// MaxViews is how many messages of a group may be everywhere while some node still looks at
	// them. Further messages go as blocks.
	MaxViews = 1024
	// fillShares is how many parts of a message are told of as they are filled, at most.
	fillShares = 256
)

// ErrInView is what Sent is told at the end of a group of a message that a receiver still looks at.
var ErrInView = errors.New("a receiver still looks at the memory")

// ErrRootGone is what Fetched is told if the root's process ended before its memory was in view.
// The end of its connections may be noticed later.
var ErrRootGone = errors.New("the root is gone")

// ackInView is the code of an ack whose sender still looks at the last message that it covers.
const ackInView = 1

// offerFilled is the code of an offer of which every byte is there.
const offerFilled = 1

// shared is what a message has that lies in memory of the root which its receivers see: it is not
// cut into blocks.
type shared struct {
	where   string
	told    int64  // the root's: bytes that the others know to be there. Invariant: told <= filled
	viewers []bool // the root's: by place, the nodes that say that they still look at it

	looked   bool  // a receiver's: the memory is in view
	fetching bool  // the driver is fetching it
	fetched  int64 // bytes that are here. Invariant: fetched <= filled
}

// Sees takes the news, before Attached, that a node sees the root's memory: at the root the one at
// a place, at others this one.
func (r *Relay) Sees(place int) { r.sees[place] = true }

// Offer is Start for a message that lies where other nodes may see it. Where that is is text for
// their drivers. If one of them does not see it, it goes in blocks to all.
func (r *Relay) Offer(size int64, tag uint64, filled int64, where string, out *Effects) (*Started, error) {
	return r.start(&message{tag: tag, size: size, filled: min(max(filled, 0), size), shared: &shared{where: where}}, out)
}

// decide makes a message one of blocks unless all see where it lies. It reports false while that is
// not known of all.
func (r *Relay) decide(m *message) bool {
	absent := slices.Contains(r.attached, false)
	blind := m.size == 0 || len(r.cfg.Nodes) == 1 || len(r.root.viewed) >= MaxViews
	for place := 1; place < len(r.cfg.Nodes); place++ {
		blind = blind || r.attached[place] && !r.sees[place]
	}
	if m.shared != nil && blind {
		m.shared = nil
	}
	return m.shared == nil || !absent
}

// offer announces a message that all see.
func (r *Relay) offer(m *message, out *Effects) {
	m.index, m.known, m.ready = r.next, true, make([]bool, len(r.cfg.Nodes))
	m.shared.viewers = make([]bool, len(r.cfg.Nodes))
	r.msgs[r.next%Window] = m
	r.next++
	r.root.bytes += m.size
	r.broadcast(m.announcement(), out)
	if m.filled < m.size {
		r.tellFilled(m, out)
	} else {
		m.shared.told = m.size
	}
}

// offering is the announcement of such a message.
func (m *message) offering() Control {
	c := Control{Kind: Offer, Index: m.index, Tag: m.tag, Size: uint64(m.size), Text: m.shared.where}
	if m.filled == m.size {
		c.Code = offerFilled
	}
	return c
}

// tellFilled tells of what was filled, in parts that are worth a frame.
func (r *Relay) tellFilled(m *message, out *Effects) {
	s := m.shared
	if s == nil || !m.known || m.aborted != nil || m.filled == s.told {
		return
	}
	if _, blockBytes := r.choose(m.size); m.filled == m.size || m.filled-s.told >= max(int64(blockBytes), m.size/fillShares) {
		s.told = m.filled
		r.broadcast(Control{Kind: Filled, Index: m.index, Size: uint64(m.filled)}, out)
	}
}

// viewedBy notes that a node still looks at a message that it has acked.
func (r *Relay) viewedBy(place int, index uint64) error {
	m := r.at(index)
	if m == nil || m.shared == nil {
		return fmt.Errorf("looks at message %d, which it was not shown", index)
	}
	m.shared.viewers[place] = true
	return nil
}

// released notes that a node does not look at a message any more.
func (r *Relay) released(place int, index uint64) error {
	var m *message
	if i := slices.IndexFunc(r.root.viewed, func(m *message) bool { return m.index == index }); i >= 0 {
		m = r.root.viewed[i]
	} else if index >= r.base && index < r.next {
		m = r.at(index)
	}
	if m == nil || m.shared == nil || !m.shared.viewers[place] {
		return fmt.Errorf("released message %d, at which it did not look", index)
	}
	m.shared.viewers[place] = false
	return nil
}

// unseen reports whether no node reads the memory of a message, or looks at it, although the
// message was offered (R6).
func (r *Relay) unseen(m *message) bool {
	return r.everywhere(m.index) && (m.aborted != nil || m.filled == m.size) && !slices.Contains(m.shared.viewers, true)
}

// concludeViewed reports messages that were everywhere before, and that no node looks at any more.
func (r *Relay) concludeViewed(out *Effects) {
	r.root.viewed = slices.DeleteFunc(r.root.viewed, func(m *message) bool {
		if r.unseen(m) {
			m.tell(out)
		}
		return m.told
	})
}

// dropViewed tells that messages may be looked at for ever.
func (r *Relay) dropViewed(err error, out *Effects) {
	for _, m := range r.root.viewed {
		m.told = true
		out.call(Call{Kind: Sent, Number: m.started.Number, Err: err, Seen: true})
	}
	r.root.viewed = nil
}

// offered takes a message that lies where this node can see it.
func (r *Relay) offered(c *Control, out *Effects) error {
	switch {
	case c.Size == 0 || c.Size > math.MaxInt64 || c.Code > offerFilled || c.Text == "":
		return fmt.Errorf("offered message %d of %d bytes", c.Index, c.Size)
	case !r.sees[0]:
		return fmt.Errorf("offered message %d, which this node does not see", c.Index)
	}
	if more, err := r.isNext(c, out); !more {
		return err
	}
	m := r.hear(c.Index)
	m.tag, m.size, m.known, m.shared = c.Tag, int64(c.Size), true, &shared{where: c.Text}
	if c.Code == offerFilled {
		m.filled = m.size
	}
	r.next++
	if m.asked, m.room = !r.cfg.InPlace, r.cfg.InPlace; m.asked {
		out.call(Call{Kind: MakeRoom, Index: m.index, Tag: m.tag, Size: m.size})
	}
	return nil
}

// moreFilled takes the news that more bytes of an offered message are there.
func (r *Relay) moreFilled(c *Control) error {
	if c.Index < r.base || c.Index >= r.next || r.at(c.Index).shared == nil {
		return fmt.Errorf("filled message %d, which is not one that it offered", c.Index)
	}
	m := r.at(c.Index)
	if c.Size <= uint64(m.filled) || c.Size > uint64(m.size) {
		return fmt.Errorf("filled %d bytes of message %d, which has %d of %d", c.Size, c.Index, m.filled, m.size)
	}
	m.filled = int64(c.Size)
	return nil
}

// Fetch is what a receiver has to do with a message in shared memory: look where it lies, if Length
// is 0, or copy a piece of it.
type Fetch struct {
	Index  uint64
	Where  string
	Size   int64 // of the message
	Offset int64
	Length int64
}

// NextFetch is what has to be fetched now, if there is something. The driver tells the end of each
// with Fetched.
func (r *Relay) NextFetch() (f Fetch, ok bool) {
	for i := r.base; i < r.next && !r.isRoot() && r.failure == nil; i++ {
		m := r.at(i)
		if m.shared == nil || m.shared.fetching || m.aborted != nil {
			continue
		}
		if f, ok = m.fetch(r.cfg.InPlace, r.piece); ok {
			m.shared.fetching = true
			r.touched++
			return f, true
		}
	}
	return f, false
}

func (m *message) fetch(view bool, most int64) (Fetch, bool) {
	s := m.shared
	f := Fetch{Index: m.index, Where: s.where, Size: m.size, Offset: s.fetched}
	if s.looked && !view && m.room {
		f.Length = min(most, m.filled-s.fetched)
	}
	return f, !s.looked || f.Length > 0
}

// Fetched takes the end of a fetch.
func (r *Relay) Fetched(f *Fetch, err error, out *Effects) {
	m := r.at(f.Index)
	m.shared.fetching = false
	r.touched--
	switch {
	case errors.Is(err, ErrRootGone):
		r.Gone(0, out) // the same reason as at nodes that notice it by their connections
	case err != nil && m.aborted == nil:
		r.noRoom(fmt.Sprintf("message %d is not to be seen: %v", f.Index, err), out)
	case f.Length == 0:
		m.shared.looked = true
	default:
		m.shared.fetched += f.Length
	}
	r.settle(out)
}

// isHere reports whether every byte is here, or in view.
func (s *shared) isHere(m *message, view bool) bool {
	return s.looked && (view && m.filled == m.size || s.fetched == m.size)
}

// Released says that the application does not look at a message any more, before Heard or later. A
// member whose part is over does not tell the root.
func (r *Relay) Released(index uint64, out *Effects) {
	heard := r.looked[index]
	delete(r.looked, index)
	if heard && r.failure == nil && !r.finished {
		r.frame(0, Control{Kind: Released, Index: index}, out)
	}
}
