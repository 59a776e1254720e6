package ripc

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/squall-go/squall/ripc/internal/pair"
)

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

// fits returns why the party of the peer may not have so many bytes more, or nil.
func (p *peer) fits(n int64) error { return p.e.accounts.Fits(p.member.Account, n) }

// charge counts bytes for the party of the peer, if they are within the limits.
func (p *peer) charge(n int64) bool { return p.e.accounts.Charge(p.member.Account, n) }

// refund gives bytes of the party back, and has the peers polled that found no memory.
func (p *peer) refund(n int64) {
	for _, again := range p.e.accounts.Refund(p.member.Account, n) {
		p.e.heat(again)
	}
}

// Take implements pair.Memory. A peer for which there is no memory is polled again when there may
// be some.
func (p *peer) Take(n int) bool { return p.e.accounts.Take(&p.member, int64(n)) }

// Give implements pair.Memory.
func (p *peer) Give(n int) { p.refund(int64(n)) }

// Resume implements pair.Memory.
func (p *peer) Resume() { p.e.heat(p) }

// pairBytes is the memory of a pair in this process: the own row, over a socket a replica of the
// peer's row, and what the receiver has without asking.
func pairBytes(own, row int, direct bool) int64 {
	if direct {
		row = 0
	}
	return int64(own + row + pair.Allowance)
}

// chargeStream counts the bytes that may wait to be read on a stream.
func (p *peer) chargeStream() error {
	n := int64(p.e.cfg.StreamBytes)
	if err := p.fits(n); err != nil {
		return err
	}
	p.charge(n)
	return nil
}

// refundStream gives them back when the stream is closed.
func (p *peer) refundStream() { p.refund(int64(p.e.cfg.StreamBytes)) }
