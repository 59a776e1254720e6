package ripc

import (
	"errors"
	"fmt"
	"slices"

	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/ripc/internal/stream"
)

// This file is what holds of an endpoint whenever nobody has its mu, whatever its services do. Each
// test that opens an endpoint with open checks it at its end, and the world of world_test.go after
// each operation.

// auditor collects what does not hold.
type auditor struct{ errs []error }

func (a *auditor) check(ok bool, format string, args ...any) {
	if !ok {
		a.errs = append(a.errs, fmt.Errorf(format, args...))
	}
}

// audit checks the relations between the parts of an endpoint. With all, no memory is counted but
// that of the peers which are connected: none that ended has a frame that the application keeps.
func (e *Endpoint) audit(all bool) error {
	e.lock()
	defer e.unlock()
	a := &auditor{}
	bytes := map[string]int64{}
	long, moving := int64(0), 0
	taken := map[*Service]bool{}
	for _, p := range e.peers {
		bytes[p.member.Account.Name] += e.auditPeer(a, p)
		for _, m := range p.long.receivings {
			a.check(m.charged == 0 || m.charged == int64(m.offer.Size), "%d bytes are charged for a body of %d", m.charged, m.offer.Size)
			a.check(m.charged == 0 || !m.handed, "a body is charged and has a posted window")
			long += m.charged
			if m.moving {
				moving++
			}
			taken[m.service] = taken[m.service] || m.charged > 0 || m.handed
		}
	}
	for _, s := range e.services.all {
		e.auditService(a, s)
		if s.streams != nil {
			for _, c := range s.streams.open.list {
				if c.charged {
					bytes[c.peer.member.Account.Name] += int64(e.cfg.StreamBytes)
				}
			}
		}
		a.check(s.long.places.IsIdle() || taken[s] || !all, "%s counts long messages, and has none", s.id)
		a.check(!taken[s] || !s.long.places.IsIdle(), "%s does not count its long messages", s.id)
	}
	sum := int64(0)
	for name, n := range bytes {
		account := e.accounts.Find(name)
		a.check(account != nil && (account.Bytes() == n || !all && account.Bytes() > n), "the account of %s does not have the %d bytes of its peers: %+v", name, n, account)
		sum += n
	}
	used := e.memory.budget.Used()
	a.check(e.accounts.Bytes() == sum || !all && e.accounts.Bytes() > sum, "%d bytes are counted, the peers have %d", e.accounts.Bytes(), sum)
	a.check(used == long || !all && used > long, "%d bytes of bodies are counted, there are %d", used, long)
	a.check(e.moving >= moving, "%d long messages move, %d are counted", moving, e.moving)
	a.check(int(e.counts.PeersConnected-e.counts.PeersLost) == len(e.peers), "%d peers were connected and %d lost, there are %d", e.counts.PeersConnected, e.counts.PeersLost, len(e.peers))
	for place, d := range e.dialer.dialing {
		if isClosed(d.done) {
			a.check(d.err == nil && !d.peer.ended() && slices.Contains(e.peers, d.peer), "the connection to %v is over, and kept", place)
		}
	}
	for token, p := range e.memory.byToken {
		a.check(!p.ended() && p.long.token == token && !p.long.dialer, "a pair that is over is known for long messages")
	}
	for _, w := range e.spare {
		a.check(!w.seat.IsListed() && w.peer == nil && w.service == nil && w.frame == nil && w.reply == nil && w.err == nil && w.into == nil, "a waiter that is not used still has something")
	}
	return errors.Join(a.errs...)
}

// auditPeer checks one peer, and returns the memory that it has of this process.
func (e *Endpoint) auditPeer(a *auditor, p *peer) (bytes int64) {
	a.check(!p.ended(), "a peer that ended is among those that are connected")
	used, leaving := p.opened.states.Used()
	outs, drains := 0, 0
	for channel, to := range p.opened.out {
		if to == nil {
			continue
		}
		outs++
		if to.left != nil && to.left.peer == p && to.left.channel == channel {
			drains++
		}
		if r := to.route.Load(); r != nil && r.peer == p {
			a.check(p.opened.out[r.channel] == to && !r.over, "the route to %s leads over channel %d, which is another one's", to.id, r.channel)
		}
		a.check(to.carries != nil || to.service == nil || !to.service.ended || to.service.busy > 0 || to.opening != nil, "a service that is closed still sends to %s", to.id)
	}
	a.check(outs == used, "%d channels are used, %d have an address", used, outs)
	a.check(drains == p.opened.drains, "%d channels were left and drain, %d are counted", drains, p.opened.drains)
	a.check(used == pair.Channels-1 || len(p.opened.wanting) == 0, "%d goroutines wait for a channel, %d are used", len(p.opened.wanting), used)
	a.check(leaving > 0 || len(p.opened.wanting) == 0, "%d goroutines wait for a channel that is not given back", len(p.opened.wanting))
	owed := 0
	for channel, in := range p.served.in {
		a.check((in != nil) == !p.served.states.IsUnused(channel), "channel %d is served: %v", channel, in != nil)
		if in == nil {
			continue
		}
		if p.served.states.IsLeft(channel) {
			owed++
			a.check(in.service.busy > 0 || !p.rx.AllCounted(channel) && in.callers == nil, "the last count of channel %d is owed, and known", channel)
		}
		if in.callers != nil {
			for number, left := uint64(1), in.callers.table.Len(); left > 0; number++ {
				if s := in.callers.table.Find(stream.ID(stream.Data, false, number)); s != nil {
					left--
					a.check(s.User != nil, "stream %d of channel %d is known, and was not accepted", number, channel)
				}
			}
		}
		a.check(!in.back.mute, "%s sends on channel %d, and counts as closed", in.from, channel)
		a.check(in.board.Len() == 0 || in.listed || in.service.closed, "notices of channel %d wait, and the service does not know", channel)
	}
	a.check(owed == p.served.owed, "%d last counts are owed, %d are counted", owed, p.served.owed)
	for key, r := range p.opened.pins {
		has := r.hasRoute() || r.streams != nil && r.streams.hasRoute() || r.board != nil && r.board.hasRoute()
		a.check(r.peer == p && r.service == key.service && (has || !r.search.reached), "the address of %s in a process is kept, and leads nowhere", key.id)
		a.check(!key.service.ended, "the addresses of a service that is closed are kept")
	}
	for _, to := range p.opened.out {
		if to == nil || to.peer != p || to.number != 0 {
			continue
		}
		r := p.opened.pins[pin{to.service, to.id}]
		a.check(r != nil && (r == to || r.streams == to || r.board == to), "the address of %s in a process is used, and not kept", to.id)
	}
	waits := p.send.room.Len() > 0 || p.answers.Len() > 0 || p.opened.drains > 0
	p.send.lock()
	a.check(!p.send.tx.SetHungry(waits), "the peer is not told that something waits for its space: %v", waits)
	p.send.unlock()
	p.calls.All(func(_ uint64, w *waiter) {
		a.check(w.peer == p && w.goal != goalNone && (w.frame == nil || w.answered), "a call waits for nothing")
	})
	a.check(p.long.out.Open() == len(p.long.sendings), "%d long messages are sent, %d are listed", p.long.out.Open(), len(p.long.sendings))
	a.check(p.long.in.Open() >= len(p.long.receivings), "%d long messages come, %d are listed", p.long.in.Open(), len(p.long.receivings))
	bytes = p.member.Charged() + int64(p.answers.Bytes()+p.rx.Charged())
	for _, m := range p.long.sendings {
		a.check(m.kept == 0 || m.to == nil, "the memory of a message counts for its receiver")
		bytes += m.kept
	}
	if p.long.reserved {
		bytes += streamBytes
	}
	return bytes
}

// auditService checks one service.
func (e *Endpoint) auditService(a *auditor, s *Service) {
	listed := 0
	for id, all := range s.remotes.byID {
		listed += len(all)
		for _, r := range all {
			a.check(r.listed && r.id == id && r.service == s, "an address of %s is on the list of %s", r.id, id)
		}
	}
	a.check(listed == s.remotes.listed, "%s knows %d addresses, %d are counted", s.id, listed, s.remotes.listed)
	a.check((e.services.byID[s.id] == s) == !s.closed, "%s is closed: %v", s.id, s.closed)
	a.check(!s.ended || s.closed && s.busy > 0, "%s has ended, and is known", s.id)
	a.check(!s.closed || s.queue.len() == 0 && len(s.notices.boards) == 0, "%s is closed, and keeps messages", s.id)
	a.check(!s.closed || s.long.places.Windows() == 0, "%s is closed, and keeps windows", s.id)
	a.check(s.ending.Load() == s.closed && s.busy <= s.servers, "%d of %d goroutines of %s handle messages", s.busy, s.servers, s.id)
	if s.streams == nil {
		return
	}
	for i, c := range s.streams.open.list {
		a.check(c.at.service == i && !c.closed && c.charged, "a stream of %s is on the wrong list", s.id)
		a.check(c.at.remote < 0 || c.out.carries.list[c.at.remote] == c, "a stream of %s is not on the list of its channel", s.id)
	}
}

// auditClosed checks an endpoint that is closed, and whose messages and streams were given back if
// all.
func (e *Endpoint) auditClosed(all bool) error {
	a := &auditor{errs: []error{e.audit(all)}}
	s := e.Stats()
	a.check(s.Peers == 0 && s.Services == 0 && s.Channels == 0, "%d peers, %d services and %d channels are left", s.Peers, s.Services, s.Channels)
	e.lock()
	defer e.unlock()
	a.check(!all || e.accounts.Len() == 0, "%d accounts are left", e.accounts.Len())
	a.check(len(e.dialer.dialing) == 0 && len(e.memory.byToken) == 0 && e.moving == 0, "connections are made, or messages move")
	return errors.Join(a.errs...)
}
