package port

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"
)

// advertised is the address that peers dial. A host name that was given to listen on stays a name:
// it is what the others were given too, and what a certificate is made out to.
func advertised(c Config, listening *net.TCPAddr) (string, error) {
	port := strconv.Itoa(listening.Port)
	if c.Advertise != "" {
		return advertiseAs(c.Advertise, port)
	}
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return "", err
	}
	if !listening.IP.IsUnspecified() {
		if _, err := netip.ParseAddr(host); err != nil {
			return net.JoinHostPort(host, port), nil
		}
		return listening.String(), nil
	}
	return net.JoinHostPort(ownAddress(interfaceAddresses(), hostnameAddresses(), host == "0.0.0.0").String(), port), nil
}

// advertiseAs checks an address that was given, and fills in a port that was not.
func advertiseAs(addr, port string) (string, error) {
	host, given, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("advertise %q: %w", addr, err)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		return "", fmt.Errorf("advertise %q: peers cannot dial an unspecified host", addr)
	}
	if given == "0" {
		given = port
	}
	return net.JoinHostPort(host, given), nil
}

// ownAddress picks among the addresses of the interfaces: the address that the host's name stands
// for, else the first, else loopback. The name alone is not trusted, for it often stands for
// 127.0.1.1 or for an address outside a container.
func ownAddress(interfaces, named []netip.Addr, only4 bool) netip.Addr {
	var usable []netip.Addr
	for _, ip := range interfaces {
		if ip = ip.Unmap(); ip.IsGlobalUnicast() && (ip.Is4() || !only4) {
			usable = append(usable, ip)
		}
	}
	for _, ip := range named {
		if slices.Contains(usable, ip.Unmap()) {
			return ip.Unmap()
		}
	}
	if len(usable) > 0 {
		return usable[0]
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

func interfaceAddresses() []netip.Addr {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil // then loopback is all we know
	}
	var ips []netip.Addr
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			ips = append(ips, prefix.Addr())
		}
	}
	return ips
}

// lookupTimeout bounds the question for our own name, which a host without name service may not get
// answered.
const lookupTimeout = time.Second

func hostnameAddresses() []netip.Addr {
	name, err := os.Hostname()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil
	}
	return ips
}
