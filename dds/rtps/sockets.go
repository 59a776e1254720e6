package rtps

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/squall-go/squall/dds/rtps/internal/wire"
)

// Ports of a domain, as RTPS has them: of discovery and of samples, unicast of a participant by its
// index, multicast of all.
const (
	portBase     = 7400
	portsOfOne   = 250
	portsOfIndex = 2
	portMeta     = 10
	portData     = 11
	// lastDomain is the last one whose ports exist.
	lastDomain = 232
	// lastIndex is the last participant index for which a gateway looks.
	lastIndex = 31
	// peerIndexes are how many participants are looked for at an address without a port.
	peerIndexes = 10
)

// group is where participants announce themselves by multicast.
var group = netip.AddrFrom4([4]byte{239, 255, 0, 1})

// groupAddress is where discovery comes by multicast, at port 0 of a domain, and samples, at port
// 1.
func groupAddress(domain, port int) netip.AddrPort {
	return netip.AddrPortFrom(group, uint16(portBase+portsOfOne*domain+port))
}

func metaPort(domain, index int) uint16 {
	return uint16(portBase + portsOfOne*domain + portMeta + portsOfIndex*index)
}

// sockets are where a gateway receives.
type sockets struct {
	meta, data *net.UDPConn
	// multicast is where discovery comes by multicast, and samples for several participants; nil:
	// none.
	multicast, samples *net.UDPConn
	at                 netip.Addr
	announce           []wire.Locator
}

// receiveBytes is what the kernel is asked to keep for a socket, and gives as far as it is allowed
// to.
const receiveBytes = 8 << 20

// addressOf returns the IPv4 address of an interface, by its name or by the address itself.
func addressOf(name string) (*net.Interface, netip.Addr, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, netip.Addr{}, err
	}
	for _, i := range all {
		addresses, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addresses {
			prefix, err := netip.ParsePrefix(a.String())
			if err == nil && prefix.Addr().Is4() && (i.Name == name || prefix.Addr().String() == name) {
				return &i, prefix.Addr(), nil
			}
		}
	}
	return nil, netip.Addr{}, fmt.Errorf("rtps: no interface %q with an IPv4 address", name)
}

// bind listens at the two ports of a participant index, or of any that is free.
func (s *sockets) bind(domain, index int) (err error) {
	first, last := index, index
	if index == AnyIndex {
		first, last = 0, lastIndex
	}
	for i := first; i <= last; i++ {
		if s.meta, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.at, metaPort(domain, i)))); err != nil {
			continue
		}
		if s.data, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.at, metaPort(domain, i)+portData-portMeta))); err == nil {
			return nil
		}
		s.meta.Close()
		s.meta = nil
	}
	return fmt.Errorf("rtps: no free participant index from %d to %d in domain %d at %v: %w", first, last, domain, s.at, err)
}

func listen(cfg *Config) (s *sockets, err error) {
	s = &sockets{}
	nic, at, err := addressOf(cfg.Interface)
	if err != nil {
		return nil, err
	}
	s.at = at
	if err := s.bind(cfg.Domain, cfg.Index); err != nil {
		return nil, err
	}
	if cfg.Multicast {
		if err := s.listenToGroup(nic, cfg.Domain); err != nil {
			return nil, errors.Join(fmt.Errorf("rtps: multicast at %s: %w", nic.Name, err), s.close())
		}
		s.announce = append(s.announce, groupAddress(cfg.Domain, 0))
	}
	peers := cfg.Peers
	if len(peers) == 0 && !cfg.Multicast {
		peers = []string{at.String()}
	}
	for _, p := range peers {
		to, err := peerAddresses(p, cfg.Domain)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.announce = append(s.announce, to...)
	}
	for _, c := range s.all() {
		if err := c.SetReadBuffer(receiveBytes); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

// listenToGroup has discovery and samples received by multicast at one interface. Messages to
// groups go out there because the socket that sends them is bound to its address.
func (s *sockets) listenToGroup(nic *net.Interface, domain int) (err error) {
	for c, port := range map[**net.UDPConn]int{&s.multicast: 0, &s.samples: 1} {
		if *c, err = net.ListenMulticastUDP("udp4", nic, net.UDPAddrFromAddrPort(groupAddress(domain, port))); err != nil {
			return err
		}
	}
	return nil
}

// peerAddresses returns the addresses at which participants of a peer receive discovery messages:
// the address itself if it has a port, or the addresses of a host's first participants.
func peerAddresses(peer string, domain int) (all []wire.Locator, err error) {
	if strings.Contains(peer, ":") {
		a, err := net.ResolveUDPAddr("udp4", peer)
		if err != nil {
			return nil, fmt.Errorf("rtps: peer %q: %w", peer, err)
		}
		return []wire.Locator{unmapped(a.AddrPort())}, nil
	}
	a, err := net.ResolveIPAddr("ip4", peer)
	if err != nil {
		return nil, fmt.Errorf("rtps: peer %q: %w", peer, err)
	}
	host, _ := netip.AddrFromSlice(a.IP.To4())
	for i := range peerIndexes {
		all = append(all, netip.AddrPortFrom(host, metaPort(domain, i)))
	}
	return all, nil
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

func (s *sockets) all() (all []*net.UDPConn) {
	for _, c := range []*net.UDPConn{s.meta, s.data, s.multicast, s.samples} {
		if c != nil {
			all = append(all, c)
		}
	}
	return all
}

func (s *sockets) close() (err error) {
	for _, c := range s.all() {
		err = errors.Join(err, c.Close())
	}
	return err
}

func local(c *net.UDPConn) wire.Locator { return unmapped(c.LocalAddr().(*net.UDPAddr).AddrPort()) }
