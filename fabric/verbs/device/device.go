//go:build linux

// Package device is what an RDMA link asks of a device: the part of libibverbs that it uses.
package device

import "errors"

// ErrFailed says that a device failed, or refused what was asked of it.
var ErrFailed = errors.New("RDMA device")

// Kind is what a work request does.
type Kind uint8

const (
	// Write places bytes in the peer's memory.
	Write Kind = iota
	// Send delivers bytes into the receive that the peer posted first. When it completes there, all
	// writes of this pair that were posted before it are in place.
	Send
)

// Work is a request to a pair's send queue. The device reads it as it is laid out here.
type Work struct {
	ID        uint64 // of the completion
	Local     uint64 // address of the bytes
	Remote    uint64 // of a write: where they go
	Bytes     uint32
	LocalKey  uint32
	RemoteKey uint32
	Kind      Kind
	Inline    bool // the bytes are copied by Post
	Signalled bool // it completes visibly, and with it all requests before it
	_         uint8
}

// Receive is a buffer for one message, laid out for the device.
type Receive struct {
	ID    uint64
	Local uint64
	Bytes uint32
	Key   uint32
}

// Completion is the end of a signalled request, of a receive, or of any request that failed.
type Completion struct {
	ID     uint64
	Pair   uint32 // number of its queue pair; a device uses numbers again
	Bytes  uint32 // of a receive that succeeded
	Status uint32 // 0: it succeeded; only then is Bytes valid
}

// Region is registered memory.
type Region struct {
	Address uint64
	Key     uint32
}

// Endpoint is what a peer must know of a pair to connect to it.
type Endpoint struct {
	Number uint32   `json:"number"` // of the queue pair
	PSN    uint32   `json:"psn"`    // of its first packet
	LID    uint16   `json:"lid,omitempty"`
	GID    [16]byte `json:"gid"`
	MTU    uint8    `json:"mtu"` // as the device counts it; the smaller one of two is used
}

// Limits are what a device can do.
type Limits struct {
	InlineBytes  uint32 // of a message that Post copies
	MessageBytes uint32 // of one request
	Completions  int    // that a queue can hold
}

// Capacity is what a pair is made for.
type Capacity struct {
	Requests, Receives, InlineBytes int
}

// Device is an open RDMA device.
type Device interface {
	Limits() Limits
	// Domain makes a protection domain: keys of one are of no use to pairs of another one.
	Domain() (Domain, error)
	// Queue makes a queue for completions.
	Queue(capacity int) (Queue, error)
	Close() error
}

// Domain holds memory and pairs that belong together.
type Domain interface {
	// Register lets the device use memory: read it; with local also receive into it, with remote
	// also let pairs of this domain write it for their peers.
	Register(mem []byte, local, remote bool) (Region, error)
	// Pair makes a queue pair that takes receives, and nothing else yet.
	Pair(q Queue, c Capacity) (Pair, error)
	// Close gives up the memory, and the domain. Its pairs were closed before.
	Close() error
}

// Queue is where completions appear. Any goroutine may call Poll, one at a time.
type Queue interface {
	// Poll takes completions out of the queue.
	Poll(into []Completion) (int, error)
	// Arm makes Descriptor readable at the next completion. What completed before has to be polled.
	Arm() error
	// Drain takes the events out of Descriptor, and reports whether there were any.
	Drain() bool
	Descriptor() int
	Close() error
}

// Pair is a queue pair, connected to one of the peer.
type Pair interface {
	Endpoint() Endpoint
	Connect(peer Endpoint) error
	// Post adds receives, then requests, each in order. It takes all of them, or fails.
	Post(receives []Receive, work []Work) error
	// Close ends the pair. When it returns, the device reads and writes no memory for it any more,
	// and sends nothing; completions may still be in the queue.
	Close() error
}
