package dds

import (
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
)

// ID names a writer or a reader: the node and the process it is of, and its number there.
type ID struct {
	Node, Incarnation uint64
	Number            uint32
}

func (id ID) String() string { return id.internal().String() }

func (id ID) internal() space.ID {
	return space.ID{Process: space.Process{Node: id.Node, Incarnation: id.Incarnation}, Number: id.Number}
}

func idOf(i space.ID) ID { return ID{i.Node, i.Incarnation, i.Number} }

// Event is one of the types below: something that happened to a writer or a reader of this process.
type Event interface{ event() }

// Matched tells that a writer and a reader match from a position on. (PUBLICATION_MATCHED,
// SUBSCRIPTION_MATCHED)
type Matched struct {
	Endpoint, Peer ID
	Current        int // endpoints that it matches now
	Position       uint64
}

// Unmatched tells that a peer ended, or that its policies changed. (also LIVELINESS_CHANGED: a
// process that is removed from the group has no living writers)
type Unmatched struct {
	Endpoint, Peer ID
	Current        int
	Position       uint64
}

// IncompatibleQoS tells which policies keep a writer and a reader apart. (OFFERED_INCOMPATIBLE_QOS,
// REQUESTED_INCOMPATIBLE_QOS)
type IncompatibleQoS struct {
	Endpoint, Peer ID
	Policies       []qos.Policy
	Position       uint64
}

// DeadlineMissed tells that an instance was not written in time: of a writer of this process, or,
// of a reader, by the writer that is the peer. (OFFERED_DEADLINE_MISSED, REQUESTED_DEADLINE_MISSED)
type DeadlineMissed struct {
	Endpoint, Peer ID
	Key            []byte // of the instance, as package cdr encodes it
	Position       uint64
}

// LivelinessLost tells that the lease of a writer of this process has ended: nothing asserted it in
// time, by AssertLiveliness or by a sample. It has no part in instances until it writes them again.
// (LIVELINESS_LOST)
type LivelinessLost struct {
	Endpoint   ID
	Liveliness qos.Liveliness // of the writer: the kind, and the lease that has ended
	Position   uint64
}

// LivelinessChanged tells a reader that the lease of a writer has ended, or that the writer was
// asserted again. Writers that end, or whose process does, are Unmatched. (LIVELINESS_CHANGED)
type LivelinessChanged struct {
	Endpoint, Peer ID
	Alive          bool           // the peer
	Current        int            // writers of the reader that are alive
	Liveliness     qos.Liveliness // of the peer: the kind, and the lease
	Position       uint64
}

// SampleLost tells that a best effort reader had no space, or that a client was without a relay, or
// too slow, for so long that the members do not have all samples of the topic any more that came
// meanwhile: Count of them. (SAMPLE_LOST)
type SampleLost struct {
	Endpoint, Peer ID
	Count          uint64 // samples; 0: the number is unknown, since the space began anew, or has lost records that the reader had received
	Position       uint64
}

// RelayChanged tells a client which relay it uses from now on, or why it has none; it looks for
// another one then.
type RelayChanged struct {
	Relay string // address or id
	Err   error  // why it is lost; nil: it is used
}

func (Matched) event()           {}
func (Unmatched) event()         {}
func (IncompatibleQoS) event()   {}
func (DeadlineMissed) event()    {}
func (LivelinessLost) event()    {}
func (LivelinessChanged) event() {}
func (SampleLost) event()        {}
func (RelayChanged) event()      {}

// tell calls events for what happened.
func tell(events func(Event), e *space.Event) {
	of, peer := idOf(e.Endpoint), idOf(e.Peer)
	switch e.Kind {
	case space.Matched:
		events(Matched{of, peer, e.Current, e.Position})
	case space.Unmatched:
		events(Unmatched{of, peer, e.Current, e.Position})
	case space.Incompatible:
		events(IncompatibleQoS{of, peer, e.Policies, e.Position})
	case space.DeadlineMissed:
		events(DeadlineMissed{of, peer, []byte(e.Key), e.Position})
	case space.LivelinessLost:
		events(LivelinessLost{of, e.Liveliness, e.Position})
	case space.LivelinessChanged:
		events(LivelinessChanged{of, peer, !e.Gone, e.Current, e.Liveliness, e.Position})
	case space.SampleLost:
		events(SampleLost{of, peer, e.Count, e.Position})
	}
}
