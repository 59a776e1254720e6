package ripc

import "fmt"

// Event is something that happened to an endpoint: a value of one of the types of this package that
// are documented as events, to be told apart by a type switch. String describes it in one line.
type Event interface {
	fmt.Stringer
	event()
}

// PeerConnected is an event: another process is connected.
type PeerConnected struct {
	Peer      string // its identity and address, or its number on this host
	Transport string // "shm" or "tcp"
}

func (e PeerConnected) String() string { return fmt.Sprintf("connected: %s (%s)", e.Peer, e.Transport) }
func (PeerConnected) event()           {}

// PeerLost is an event: the connection to another process ended.
type PeerLost struct {
	Peer      string
	Transport string
	Err       error // why
}

func (e PeerLost) String() string {
	return fmt.Sprintf("lost: %s (%s): %v", e.Peer, e.Transport, e.Err)
}
func (PeerLost) event() {}

// StreamRefused is an event: Config.LongTransport made no stream to a process that has the same
// transport, so TCP carries the bodies of long messages.
type StreamRefused struct {
	Peer string
	Err  error // why
}

func (e StreamRefused) String() string {
	return fmt.Sprintf("no stream for long messages: %s: %v", e.Peer, e.Err)
}
func (StreamRefused) event() {}

// ServiceMoved is an event: a service to which this endpoint sends was found at another place than
// before.
type ServiceMoved struct {
	Service  ID
	From, To Place
}

func (e ServiceMoved) String() string {
	return fmt.Sprintf("%s moved from %v to %v", e.Service, e.From, e.To)
}
func (ServiceMoved) event() {}

// eventQueue is the events that the application was not told yet. The endpoint's mu guards it.
type eventQueue struct {
	list    []Event
	telling bool // a goroutine tells them
}

// maxEvents is how many events wait for the application; further ones are only counted.
const maxEvents = 1024

// emit hands an event to the application, on a goroutine of its own, in order. The caller holds the
// mu.
func (e *Endpoint) emit(v Event) {
	switch v.(type) {
	case PeerConnected:
		e.counts.PeersConnected++
	case PeerLost:
		e.counts.PeersLost++
	case ServiceMoved:
		e.counts.ServicesMoved++
	}
	if e.cfg.Events == nil {
		return
	}
	if len(e.events.list) >= maxEvents {
		e.counts.EventsDropped++
		return
	}
	e.events.list = append(e.events.list, v)
	if !e.events.telling {
		e.events.telling = true
		e.background.Go(e.tellEvents)
	}
}

// tellEvents calls the application until no event waits.
func (e *Endpoint) tellEvents() {
	for {
		e.lock()
		events := e.events.list
		e.events.list = nil
		if len(events) == 0 {
			e.events.telling = false
			e.unlock()
			return
		}
		e.unlock()
		for _, v := range events {
			e.cfg.Events(v)
		}
	}
}
