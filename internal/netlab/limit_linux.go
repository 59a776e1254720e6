package netlab

import (
	"fmt"
	"maps"
	"os"
	"slices"
)

// The limit of one end of a link: one bucket for the link, and below it one for everything and, at
// a host, one for each other host that is reached at a rate of its own. All that passes takes
// tokens of the link's bucket.
//
//	1:  root
//	└── 1:1       the link's rate
//	    ├── 1:2   everything else, which may use all that the others leave
//	    └── 1:10… host i, at 10 + i: at most the rate of its own
const (
	linkClass    = 1
	restClass    = 2
	firstPerHost = 0x10
)

// limitAll limits all links at the lab's rate, both ways.
func (l *Lab) limitAll() error {
	if l.cfg.Rate == 0 {
		return nil
	}
	var ports []string
	for _, h := range l.Hosts {
		ports = append(ports, l.limit(h.port(), l.cfg.Rate)...)
		if err := batch(h.ns, nil, "tc", l.limit(device, l.cfg.Rate)); err != nil {
			return err
		}
	}
	return batch(l.ns, nil, "tc", ports)
}

// limit is the commands that limit a device.
func (l *Lab) limit(dev string, r Rate) []string {
	return []string{
		fmt.Sprintf("qdisc add dev %s root handle 1: htb default %x", dev, restClass),
		l.class("add", dev, "1:", linkClass, r, r),
		l.class("add", dev, "1:1", restClass, r, r),
		l.queue("add", dev, restClass),
	}
}

// class is a bucket that fills at one rate, and takes from the one above it up to another.
func (l *Lab) class(verb, dev, parent string, class int, own, most Rate) string {
	return fmt.Sprintf("class %s dev %s parent %s classid 1:%x htb rate %dbit ceil %dbit burst %d cburst %d quantum 60000",
		verb, dev, parent, class, int64(own), int64(most), l.cfg.BurstBytes, l.cfg.BurstBytes)
}

// queue is what waits for a bucket, first in first out.
func (l *Lab) queue(verb, dev string, class int) string {
	return fmt.Sprintf("qdisc %s dev %s parent 1:%x handle %x: bfifo limit %d", verb, dev, class, class+firstPerHost, l.cfg.QueueBytes)
}

// LimitHost gives a host's link another rate, both ways.
func (l *Lab) LimitHost(h *Host, r Rate) error {
	if err := l.mayLimit(r); err != nil {
		return err
	}
	h.rate = r
	port := []string{l.class("change", h.port(), "1:", linkClass, r, r), l.class("change", h.port(), "1:1", restClass, r, r)}
	if err := batch(l.ns, nil, "tc", port); err != nil {
		return err
	}
	return batch(h.ns, nil, "tc", l.changes(h))
}

// LimitLink limits what a host sends to another one. The other direction, and all other hosts, keep
// their rates; the host's own rate ends it.
func (l *Lab) LimitLink(from, to *Host, r Rate) error {
	if err := l.mayLimit(r); err != nil {
		return err
	}
	var lines []string
	if _, there := from.links[to.index]; !there {
		class := firstPerHost + to.index
		lines = []string{
			l.class("add", device, "1:1", class, r, r),
			l.queue("add", device, class),
			fmt.Sprintf("filter add dev %s parent 1: protocol ip prio 1 u32 match ip dst %s/32 flowid 1:%x", device, to.Addr, class),
		}
	}
	from.links[to.index] = r
	return batch(from.ns, nil, "tc", append(lines, l.changes(from)...))
}

// changes is the commands that bring the buckets of a host's end to their rates. Those of single
// hosts that are limited own what they may use, and the rest owns what is left: so the link's
// bucket is never overdrawn. A host that is not limited owns next to nothing, and takes from the
// link's.
func (l *Lab) changes(h *Host) []string {
	lines := []string{l.class("change", device, "1:", linkClass, h.rate, h.rate)}
	little := max(h.rate/100, 1)
	rest := h.rate
	for _, to := range slices.Sorted(maps.Keys(h.links)) {
		own, most := h.links[to], h.links[to]
		if most >= h.rate {
			own, most = little, h.rate
		}
		rest -= own
		lines = append(lines, l.class("change", device, "1:1", firstPerHost+to, own, most))
	}
	return append(lines, l.class("change", device, "1:1", restClass, max(rest, little), h.rate))
}

func (l *Lab) mayLimit(r Rate) error {
	if l.cfg.Rate == 0 || r < 1 || r > maxRate {
		return fmt.Errorf("a limit of %v in a lab of links of %v: %w", r, l.cfg.Rate, os.ErrInvalid)
	}
	return nil
}
