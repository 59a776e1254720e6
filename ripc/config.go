package ripc

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// ID names a service, wherever it is.
type ID string

// String returns the id as people read it: with a slash for each zero byte, by which packages
// separate the parts of an id. It is not the id.
func (id ID) String() string { return strings.ReplaceAll(string(id), "\x00", "/") }

// maxID is the length of the longest id.
const maxID = 255

// Transport says how two processes may be connected.
type Transport int

// Transports.
const (
	TransportAuto Transport = iota // shared memory within a host, else TCP
	TransportSHM                   // shared memory only
	TransportTCP                   // TCP only
)

// Defaults and limits of Config.
const (
	DefaultRingBytes    = 32 << 10
	MaxRingBytes        = 1 << 20
	DefaultStreamBytes  = 64 << 10
	MinStreamBytes      = 4 << 10
	MaxStreamBytes      = 16 << 20
	DefaultMaxPeers     = 4096
	DefaultMaxBytes     = 2 << 30
	DefaultMaxLongBytes = 4 << 30
	DefaultMaxSpin      = 50 * time.Microsecond // somewhat more than a sleep and a wake-up cost
	MaxServices         = 4096                  // of an endpoint
	DefaultMoveTimeout  = 5 * time.Second
)

// Config describes an endpoint. The zero value is one for this host, with services that are found
// by name.
type Config struct {
	// Listen is the host:port to listen on for TCP; empty is none: the endpoint dials others, and
	// others do not dial it. The port may be 0.
	Listen string
	// Advertise is the host:port that others dial, if it is not that of Listen.
	Advertise string
	// TLS has the certificates for mutual TLS on TCP; nil is plain TCP.
	TLS *tls.Config
	// Secret is shared by all processes that may connect; without it every process may that reaches
	// the port, or runs as this user on this host.
	Secret []byte
	// Resolver finds services of other endpoints, and publishes the services of this endpoint. Nil
	// is OneHost("").
	Resolver Resolver
	// Transport restricts how this endpoint connects to others and lets them connect.
	Transport Transport
	// LongTransport makes the streams, over RDMA for example, that carry the bodies of long messages
	// between two endpoints that are connected over TCP and both have such a transport. Nil: TCP
	// carries them. It is not allowed with TLS: streams do not encrypt. A stream counts as 2 MiB for
	// MaxBytes.
	LongTransport fabric.Streams
	// RingBytes is the memory for messages to each peer that it has not taken: a power of two. A
	// message takes a quarter of it at most.
	RingBytes int
	// StreamBytes bounds the bytes of one stream that came and were not read: the other side writes no
	// more until some are read. 0 is DefaultStreamBytes. A stream counts with all of them for
	// MaxBytes.
	StreamBytes int
	// MaxSpin bounds the time that a goroutine that waits looks for messages without sleeping, if that
	// seems to pay; 0 is DefaultMaxSpin, less than 0 forbids it.
	MaxSpin time.Duration
	// MoveTimeout is how long Send and Call look for a service that they reached before and that is
	// nowhere now, if their context does not end before: it may be moving to another process. 0 is
	// DefaultMoveTimeout, less than 0 is no time.
	MoveTimeout time.Duration
	// MaxLongBytes bounds the bodies of long messages that are in memory of the library, or looked at
	// in place, and not released: of all services together. 0 is DefaultMaxLongBytes.
	MaxLongBytes int64
	// Long says which long messages the services take before TakeLong: it is known as soon as they are
	// found.
	Long LongConfig
	// MaxPeers bounds the connections.
	MaxPeers int
	// MaxPeersPerClient limits how many of MaxPeers a single client may use: under TLS the processes
	// with one identity, within a host one process, and else all that call from one address, which is
	// any loopback address, or a network of 2^64 addresses of IPv6. 0 is half of MaxPeers.
	MaxPeersPerClient int
	// MaxBytes bounds the memory that this process has for its peers: the rings of their connections,
	// messages that were moved out of the rings because they are not received, answers that find no
	// space, and StreamBytes for each stream. 0 is DefaultMaxBytes.
	MaxBytes int64
	// MaxBytesPerClient limits how many of MaxBytes a single client may use, counted as for
	// MaxPeersPerClient. A caller that has all of it waits, or is refused. 0 is half of MaxBytes.
	MaxBytesPerClient int64
	// Events is called with each event, one at a time, on a goroutine of the endpoint.
	Events func(Event)
	// OnReject receives why a process that called was refused. It is called from several goroutines
	// and must not block.
	OnReject func(error)
}

// withDefaults returns the configuration with defaults, or all its faults.
func (c Config) withDefaults() (Config, error) {
	if c.Resolver == nil {
		c.Resolver = OneHost("")
	}
	if c.OnReject == nil {
		c.OnReject = func(error) {}
	}
	c.RingBytes = cmp.Or(c.RingBytes, DefaultRingBytes)
	c.StreamBytes = cmp.Or(c.StreamBytes, DefaultStreamBytes)
	c.MaxSpin = cmp.Or(c.MaxSpin, DefaultMaxSpin)
	c.MoveTimeout = cmp.Or(c.MoveTimeout, DefaultMoveTimeout)
	c.MaxLongBytes = cmp.Or(c.MaxLongBytes, DefaultMaxLongBytes)
	c.MaxPeers = cmp.Or(c.MaxPeers, DefaultMaxPeers)
	c.MaxPeersPerClient = cmp.Or(c.MaxPeersPerClient, max(1, c.MaxPeers-c.MaxPeers/2))
	c.MaxBytes = cmp.Or(c.MaxBytes, DefaultMaxBytes)
	c.MaxBytesPerClient = cmp.Or(c.MaxBytesPerClient, c.MaxBytes-c.MaxBytes/2)
	return c, c.check()
}

// check returns all faults of a configuration with defaults.
func (c *Config) check() error {
	errs := []error{c.Long.check()}
	fault := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(pair.CheckRing(c.RingBytes) != nil || c.RingBytes > MaxRingBytes,
		"RingBytes %d: it must be a power of two between %d and %d", c.RingBytes, pair.MinRingBytes, MaxRingBytes)
	fault(c.StreamBytes < MinStreamBytes || c.StreamBytes > MaxStreamBytes,
		"StreamBytes %d: it must be between %d and %d", c.StreamBytes, MinStreamBytes, MaxStreamBytes)
	fault(c.MaxLongBytes < 0, "MaxLongBytes %d: it must not be less than 0", c.MaxLongBytes)
	fault(c.MaxPeers < 1, "MaxPeers %d: it must be at least 1", c.MaxPeers)
	fault(c.MaxPeersPerClient < 0, "MaxPeersPerClient %d: it must not be less than 0", c.MaxPeersPerClient)
	fault(c.MaxBytes < 0 || c.MaxBytesPerClient < 0,
		"MaxBytes %d, MaxBytesPerClient %d: they must not be less than 0", c.MaxBytes, c.MaxBytesPerClient)
	fault(c.Transport < TransportAuto || c.Transport > TransportTCP, "Transport %d: there is no such transport", c.Transport)
	fault(c.TLS != nil && c.LongTransport != nil, "TLS and LongTransport are both set: streams encrypt nothing")
	return errors.Join(errs...)
}
