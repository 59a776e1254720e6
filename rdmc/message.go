package rdmc

import (
	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/internal/samehost"
)

// Incoming is a message that is about to come.
type Incoming struct {
	Index uint64 // number of the message in the group, from 0; aborted messages count
	Tag   uint64 // the sender's, see Outgoing
	Size  int64
}

// Message is one that is here whole.
type Message struct {
	Incoming
	Data []byte
	// InPlace says that Data is memory of the root, see GroupConfig.InPlace. It must not be
	// written, and is there until Release.
	InPlace bool
	release func() // nil: there is nothing to do
}

// Outgoing is a message to send.
type Outgoing struct {
	Tag  uint64 // anything; receivers get to see it
	Data []byte
	// Filled is how many bytes of Data are there already, in front; -1 or len(Data): all. More are
	// announced with Sending.Fill.
	Filled int64
	// Sent is called once when Data may be used again: nil, or the reason for which the message was
	// given up. May be nil itself. If receivers look at Data where it is, that is when they have
	// released it; with an error some may look at it without end, and it must not be written, only
	// released.
	Sent func(error)
	// Everywhere is called once: nil when every member has the message whole and its Completed has
	// returned, or the reason why that will not be, when no member has memory for it any more, or
	// the group failed. It comes before Sent only if receivers look at Data. May be nil itself.
	Everywhere func(error)
}

// Sending is a message that is being sent.
type Sending struct {
	group   *Group
	started *relay.Started
	out     Outgoing
	size    int64
	window  []byte // SendFrom: byte k of the message lies at k modulo its length, while it is needed; nil: the message is in out.Data

	claimed bool // data lies in memory that others can see, at a place, and is held
	place   samehost.Place
	hold    samehost.Hold

	told int // of Sent and Everywhere; under the group's mu
}

// Fill says that the bytes [0, n) of Data are there now. They must not change any more until Sent
// was told.
func (s *Sending) Fill(n int64) {
	s.group.do(func(r *relay.Relay, out *relay.Effects) { r.Fill(s.started, n, out) })
}

// Abort gives the message up at every member; by then some or all members may have the whole
// message. Sent and Everywhere, if they were not called yet, are called with the reason. Members
// receive messages that are sent later after the abort.
func (s *Sending) Abort(reason error) {
	if reason == nil {
		reason = relay.ErrAborted
	}
	s.group.do(func(r *relay.Relay, out *relay.Effects) { r.Abort(s.started, reason, out) })
}
