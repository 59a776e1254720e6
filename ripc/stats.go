package ripc

// Stats counts what an endpoint did since Open. The counts of frames and bytes cover messages,
// requests, replies and notices, and the frames in which endpoints speak about their channels;
// bytes are counted in the rings, with headers.
type Stats struct {
	FramesSent, BytesSent         uint64
	FramesReceived, BytesReceived uint64

	Calls        uint64 // calls that were sent
	CallsRetried uint64 // of these, calls that were sent again, because the service had moved before it received them
	Refused      uint64 // processes that called and were refused (Config.OnReject)
	WatchesTaken uint64 // times that a goroutine began to look for messages
	Sleeps       uint64 // times that such a goroutine slept
	Wakes        uint64 // times that it woke another one: what that one waits for was there, or seemed to be

	PeersConnected, PeersLost uint64
	ServicesMoved             uint64 // see ServiceMoved
	EventsDropped             uint64 // events without space, because Config.Events does not return

	Peers    int // processes that are connected now
	Services int // services of this endpoint
	Channels int // channels that are open now, to other services
}

// Stats returns what the endpoint did so far.
func (e *Endpoint) Stats() Stats {
	e.lock()
	defer e.unlock()
	s := e.counts
	s.Refused = e.ports.refused.Load()
	s.WatchesTaken, s.Sleeps, s.Wakes = e.role.Turns(), e.sleeps, e.wakes
	s.Peers, s.Services = len(e.peers), len(e.services.byID)
	for _, p := range e.peers {
		p.addTo(&s)
		for _, to := range p.opened.out {
			if to != nil && to != &e.nowhere {
				s.Channels++
			}
		}
	}
	return s
}

// addTo adds what was sent to a peer and received from it. The caller holds the endpoint's mu.
func (p *peer) addTo(s *Stats) {
	frames, bytes := p.send.total()
	s.FramesSent += frames
	s.BytesSent += bytes
	frames, bytes = p.rx.Total()
	s.FramesReceived += frames
	s.BytesReceived += bytes
}
