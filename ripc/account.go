package ripc

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/squall-go/squall/ripc/internal/pair"
)

// account is what the endpoint counts for one party, over all of its connections: a party that
// opens more connections may have no more memory than before. It is under the endpoint's mu.
type account struct {
	e       *Endpoint
	name    string
	peers   int     // connections, whichever side opened them
	called  int     // of these, the connections that the party opened
	bytes   int64   // memory that this process has for the party
	starved []*peer // receivers that found no memory
	waits   bool    // it is on the list of accounts for which the endpoint had no memory
}

// account names the party for which limits are counted together: the certificate's identity under
// TLS, a process within the host, and otherwise an address.
func (p Peer) account() string {
	switch {
	case p.Identity != "":
		return "identity " + p.Identity
	case p.Addr == "":
		return fmt.Sprintf("process %d", p.Process)
	}
	host, _, err := net.SplitHostPort(p.Addr)
	if err != nil {
		host = p.Addr
	}
	return "address " + network(host)
}

// networkBits is the part of an IPv6 address that one host cannot choose.
const networkBits = 64

// network is a host's address, without what the host chooses itself: each process of this host may
// call from any of its loopback addresses, and a host of an IPv6 network from any address of that
// network.
func network(host string) string {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	addr = addr.Unmap()
	switch {
	case addr.IsLoopback():
		return "loopback"
	case addr.Is6():
		if prefix, err := addr.WithZone("").Prefix(networkBits); err == nil {
			host = prefix.String() + zoneOf(addr)
		}
	default:
		host = addr.String()
	}
	return host
}

// zoneOf is the interface of a link-local address.
func zoneOf(addr netip.Addr) string {
	if addr.Zone() == "" {
		return ""
	}
	return " " + addr.Zone()
}

// accountOf returns the account with a name.
func (e *Endpoint) accountOf(name string) *account {
	a := e.accounts[name]
	if a == nil {
		a = &account{e: e, name: name}
		e.accounts[name] = a
	}
	return a
}

// drop forgets the account if nothing is counted for it.
func (a *account) drop() {
	if a.peers == 0 && a.bytes == 0 {
		delete(a.e.accounts, a.name)
	}
}

// fits returns why the account may not have so many bytes more, or nil.
func (a *account) fits(n int64) error {
	switch most := &a.e.cfg; {
	case n > most.MaxBytes-a.e.bytes:
		return fmt.Errorf("%w: %d of %d bytes are in use", ErrLimit, a.e.bytes, most.MaxBytes)
	case n > most.MaxBytesPerClient-a.bytes:
		return fmt.Errorf("%w: %d of %d bytes are in use for %s", ErrLimit, a.bytes, most.MaxBytesPerClient, a.name)
	}
	return nil
}

// charge counts bytes for the account, if they are within the limits.
func (a *account) charge(n int64) bool {
	if a.fits(n) != nil {
		return false
	}
	a.bytes += n
	a.e.bytes += n
	return true
}

// refund gives bytes of the account back, and has the peers looked at that found no memory.
func (a *account) refund(n int64) {
	e := a.e
	a.bytes -= n
	e.bytes -= n
	a.relieve()
	for len(e.starved) > 0 {
		last := len(e.starved) - 1
		other := e.starved[last]
		e.starved[last], e.starved = nil, e.starved[:last]
		other.waits = false
		other.relieve()
	}
	a.drop()
}

// relieve has the peers of the account looked at that found no memory.
func (a *account) relieve() {
	for i, p := range a.starved {
		p.starved = false
		a.e.heat(p)
		a.starved[i] = nil
	}
	a.starved = a.starved[:0]
}

// Take implements pair.Memory. A peer for which there is no memory is looked at again when there may
// be some.
func (p *peer) Take(n int) bool {
	a := p.account
	if a.charge(int64(n)) {
		return true
	}
	if !p.starved {
		p.starved = true
		a.starved = append(a.starved, p)
	}
	if e := a.e; !a.waits && int64(n) > e.cfg.MaxBytes-e.bytes {
		a.waits = true
		e.starved = append(e.starved, a)
	}
	return false
}

// Give implements pair.Memory.
func (p *peer) Give(n int) { p.account.refund(int64(n)) }

// Resume implements pair.Memory.
func (p *peer) Resume() { p.e.heat(p) }

// enter counts a connection.
func (a *account) enter(p *peer) {
	a.peers++
	if p.called {
		a.called++
	}
	a.charge(p.charged)
}

// leave takes the connection off the account. Its memory is counted until it is given back.
func (a *account) leave(p *peer) {
	a.peers--
	if p.called {
		a.called--
	}
	if i := slices.Index(a.starved, p); i >= 0 {
		a.starved = slices.Delete(a.starved, i, i+1)
	}
	a.drop()
}

// pairBytes is the memory of a pair in this process: the own row, over a socket a replica of the
// peer's row, and what the receiver has without asking.
func pairBytes(own, row int, direct bool) int64 {
	if direct {
		row = 0
	}
	return int64(own + row + pair.Allowance)
}

// chargeStream counts the bytes that may wait to be read on a stream.
func (a *account) chargeStream() error {
	n := int64(a.e.cfg.StreamBytes)
	if err := a.fits(n); err != nil {
		return err
	}
	a.charge(n)
	return nil
}

// refundStream gives them back when the stream is closed.
func (a *account) refundStream() { a.refund(int64(a.e.cfg.StreamBytes)) }
