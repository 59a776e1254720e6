package netlab

import (
	"errors"
	"fmt"
)

// ErrUnavailable is what New fails with where there can be no lab, wrapped with what is missing:
// Linux, root, a command, or something of the kernel. Tests skip with it.
var ErrUnavailable = errors.New("no lab of hosts here")

// maxHosts is how many addresses the network has, about.
const maxHosts = 250

// Config describes a lab. All but Hosts has a good default.
type Config struct {
	Hosts int
	// Rate is that of each host's link, each way. 0: no limit but the machine's.
	Rate Rate
	// BurstBytes is how much passes at once after a silence. Default: 2 ms of the rate, and at least a
	// large packet before it is cut up.
	BurstBytes int64
	// QueueBytes is how much waits at each end of a link; the rest is lost. Default: 20 ms of the
	// rate, and at least 1 MiB.
	QueueBytes int64
}

// Least sizes of buckets and queues. The kernel hands TCP's data to a link in packets of up to 64
// KiB, and a bucket must hold one.
const (
	leastBurst = 128 << 10
	leastQueue = 1 << 20
)

func (c Config) withDefaults() (Config, error) {
	if c.Hosts < 1 || c.Hosts > maxHosts {
		return c, fmt.Errorf("a lab of %d hosts: from 1 to %d", c.Hosts, maxHosts)
	}
	if c.Rate < 0 || c.Rate > maxRate || c.BurstBytes < 0 || c.QueueBytes < 0 {
		return c, fmt.Errorf("a lab with links of %v, bursts of %d and queues of %d bytes", c.Rate, c.BurstBytes, c.QueueBytes)
	}
	if c.BurstBytes == 0 {
		c.BurstBytes = max(int64(c.Rate/8/500), leastBurst)
	}
	if c.QueueBytes == 0 {
		c.QueueBytes = max(int64(c.Rate/8/50), leastQueue)
	}
	return c, nil
}
