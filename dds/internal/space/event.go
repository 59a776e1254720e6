package space

import (
	"errors"
	"fmt"

	"github.com/squall-go/squall/dds/qos"
)

// Errors of Apply, for the member that sent the record.
var (
	ErrUnknown           = errors.New("dds: unknown")
	ErrInUse             = errors.New("dds: in use")
	ErrInconsistentTopic = errors.New("dds: inconsistent topic")
	ErrDuplicate         = errors.New("dds: the sample is in the order already")
	ErrImmutable         = errors.New("dds: cannot be changed")
)

// EventKind is what happened to an endpoint.
type EventKind uint8

// The kinds of events.
const (
	Opened            EventKind = iota // the endpoint is part of the space
	Closed                             // … and not any more
	Matched                            // with the peer
	Unmatched                          // from the peer
	Incompatible                       // with the peer, for the policies
	DeadlineMissed                     // of the instance with the key; of a reader, by the writer that is the peer
	LivelinessLost                     // of the writer, whose lease has ended
	LivelinessChanged                  // of a reader: the peer is silent, or alive again; Current writers are alive
	SampleLost                         // a best effort reader had no room, or a client was away for too long
)

// Event is something that happened to an endpoint, at a position.
type Event struct {
	Kind       EventKind
	Position   uint64
	Endpoint   ID
	Peer       ID
	Policies   []qos.Policy
	Key        string
	Current    int            // endpoints that it matches now
	Count      uint64         // of SampleLost: samples
	Gone       bool           // closed because its process has ended; of LivelinessChanged: silent
	Liveliness qos.Liveliness // of the writer, of the kinds about it
}

func (id ID) String() string { return fmt.Sprintf("%d.%x.%d", id.Node, id.Incarnation, id.Number) }
