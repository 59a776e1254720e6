package pair

import (
	"fmt"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/invariants"
)

// useState is what one side knows of the use of a channel.
type useState uint8

const (
	unused useState = iota
	asked           // this side asked for it, and was not answered
	inUse           // it carries messages
	left            // its opener gave it up, and its server owes the last count
	ended           // its server said the last count, and its opener has not given it up
)

func (s useState) String() string {
	return [...]string{"not used", "asked for", "in use", "given up", "closed"}[s]
}

// Openings are the channels of the direction in which this side sends, as their opener (RP15). One
// goroutine at a time. The zero value is ready.
type Openings struct {
	state [Channels]useState
	last  int // that was taken: a channel rests as long as others can be used
}

// Open takes a channel that is not used; false if there is none. The caller asks the peer for it.
func (o *Openings) Open() (channel int, ok bool) {
	for k := range Channels - 1 {
		channel = 1 + (o.last+k)%(Channels-1)
		if o.state[channel] == unused {
			o.state[channel], o.last = asked, channel
			return channel, true
		}
	}
	return 0, false
}

// Opened takes in that the peer serves a channel.
func (o *Openings) Opened(channel int) error {
	if o.state[channel] != asked {
		return o.violation(Opened, channel)
	}
	o.state[channel] = inUse
	return nil
}

// Leave gives a channel up, and reports whether the peer has to be told. The sender sends no more
// on it.
func (o *Openings) Leave(channel int) (tell bool) {
	if o.state[channel] != inUse {
		return false
	}
	o.state[channel] = left
	return true
}

// Closed takes in that the peer serves a channel no more, or did not serve it at all. The channel
// can be opened again; counted says that the frame has the last count, and tell that the channel is
// given up only now, of which the peer has to be told before that.
func (o *Openings) Closed(channel int) (counted, tell bool, err error) {
	before := o.state[channel]
	if before == unused {
		return false, false, o.violation(Closed, channel)
	}
	o.state[channel] = unused
	return before != asked, before == inUse, nil
}

func (o *Openings) violation(k Kind, channel int) error {
	return fmt.Errorf("%w: RP15: %v for channel %d, which is %v", fabric.ErrViolation, k, channel, o.state[channel])
}

// Used is how many channels are used, or will be given back by the peer; leaving is how many of
// them.
func (o *Openings) Used() (used, leaving int) {
	for _, s := range o.state {
		if s != unused {
			used++
		}
		if s == left {
			leaving++
		}
	}
	return used, leaving
}

// Servings are the channels of the direction in which the peer sends (RP15). One goroutine at a
// time. The zero value is ready.
type Servings struct {
	state [Channels]useState
}

// Open takes in that the peer asks for a channel.
func (s *Servings) Open(channel int) error {
	if channel == 0 || s.state[channel] != unused {
		return s.violation(Open, channel)
	}
	s.state[channel] = inUse
	return nil
}

// Refuse takes back the use of a channel that was asked for and is not served.
func (s *Servings) Refuse(channel int) { s.state[channel] = unused }

// Close ends the use of a channel by this side, and reports whether the peer has to be told the
// last count.
func (s *Servings) Close(channel int) (tell bool) {
	switch s.state[channel] {
	case inUse:
		s.state[channel] = ended
		return true
	case left:
		s.state[channel] = unused
		return true
	}
	return false
}

// Left takes in that the peer gave a channel up. owed says that it waits for the last count, which
// it is told when all messages of the channel are counted as received, or none will be any more.
func (s *Servings) Left(channel int) (owed bool, err error) {
	switch s.state[channel] {
	case inUse:
		s.state[channel] = left
		return true, nil
	case ended:
		s.state[channel] = unused
		return false, nil
	}
	return false, s.violation(Left, channel)
}

// Takes reports a frame that the peer must not send on a channel now.
func (s *Servings) Takes(k Kind, channel int) error {
	if state := s.state[channel]; state != inUse && state != ended {
		return s.violation(k, channel)
	}
	return nil
}

// IsLeft reports whether the peer waits for the last count of a channel.
func (s *Servings) IsLeft(channel int) bool { return s.state[channel] == left }

// IsUnused reports whether a channel can be opened.
func (s *Servings) IsUnused(channel int) bool { return s.state[channel] == unused }

func (s *Servings) violation(k Kind, channel int) error {
	return fmt.Errorf("%w: RP15: %v on channel %d, which is %v", fabric.ErrViolation, k, channel, s.state[channel])
}

// Reopen begins a new use of a channel. Bytes of its window that are not given back stay taken, and
// the count goes on from the last one of the use before: the messages behind it were not received,
// and never are.
func (s *Sender) Reopen(channel int) {
	c := &s.channels[channel]
	if invariants.Enabled {
		invariants.Check(c.shut || !c.over && c.messages == c.received, "RP15", "channel %d is opened again with %d of %d messages counted", channel, c.received, c.messages)
	}
	c.messages, c.shut, c.over, c.givenUp = c.received, false, false, nil
}

// Reopened begins a new use of a channel that the peer opens.
func (r *Receiver) Reopened(channel int) { r.channels[channel].messages = uint32(r.Counted(channel)) }

// AllCounted reports whether all messages of a channel that were taken are counted as received.
func (r *Receiver) AllCounted(channel int) bool {
	return r.channels[channel].messages == uint32(load(r.own, receivedOff+8*channel))
}
