package messages

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/internal/netlab"
	"github.com/squall-go/squall/views"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// Kind is what the member processes of a run do.
type Kind string

// Kinds of runs.
const (
	Squall    Kind = "squall"          // a group
	Fanout    Kind = "fan-out"         // the limit over TCP, as an application would write it
	Batched   Kind = "batched fan-out" // the limit over TCP, as a sender could that knows all its messages ahead
	Memory    Kind = "memory"          // the limit in shared memory
	RoundTrip Kind = "round trip"      // the limit of latency: a TCP socket, with blocking system calls
	Foreign   Kind = "foreign"         // a process that has nothing to do with the others, and keeps a core busy
)

// Load is what a group is measured under.
type Load string

// Loads.
const (
	Stream     Load = "stream"    // all senders send as fast as they can
	FromUpcall Load = "callback"  // closed loop: node 1 sends its next message in the callback that delivers the one before
	FromThread Load = "goroutine" // closed loop: a goroutine of the application at node 1 sends the next message
	Idle       Load = "idle"      // no member sends
)

// The members that send.
const (
	All  = "all"
	Half = "half"
	One  = "one"
)

// Forever is the delay of a sender that never sends.
const Forever time.Duration = -1

// Limits of a run.
const (
	MaxNodes     = 64
	MaxSubgroups = 200
)

// Batching says at which stages a group takes all there is instead of one message a cycle.
type Batching struct{ Send, Receive, Deliver bool }

// AllBatching is what a group does by default.
var AllBatching = Batching{true, true, true}

func (b Batching) String() string {
	var on []string
	for _, stage := range []struct {
		name string
		on   bool
	}{{"send", b.Send}, {"receive", b.Receive}, {"deliver", b.Deliver}} {
		if stage.on {
			on = append(on, stage.name)
		}
	}
	if len(on) == 0 {
		return "none"
	}
	return strings.Join(on, ",")
}

// Spec is one thing to measure. The zero value of a field that says so is a good default.
type Spec struct {
	Kind      Kind `json:"kind"`
	Load      Load `json:"load"`
	Nodes     int  `json:"nodes"`
	SizeBytes int  `json:"size_bytes"`
	// Senders is All, Half, One or a number: the members that are declared senders, from node 1 up.
	Senders   string `json:"senders"`
	Subgroups int    `json:"subgroups"`  // in the first one messages are sent
	Window    int    `json:"window"`     // 0: the group's default
	RingBytes int    `json:"ring_bytes"` // 0: the group's default
	Fabric    string `json:"fabric"`     // "shm", "tcp" or "auto"
	// Delays holds by node how long it sleeps after each of its messages, or Forever.
	Delays    map[int]time.Duration `json:"delays,omitempty"`
	Batching  Batching              `json:"batching"`
	Nulls     bool                  `json:"nulls"`
	Copy      bool                  `json:"copy"`                 // messages are copied in and out, not made and read in place
	SendBatch int                   `json:"send_batch,omitempty"` // messages that are filled, and sent with one call; 0: each is sent alone
	Unordered bool                  `json:"unordered"`

	// Link is the rate of each member's link if each is on a host of its own, a network namespace;
	// 0: all are on this host.
	Link netlab.Rate `json:"link_bits,omitempty"`

	Warmup   time.Duration `json:"warmup"`
	Duration time.Duration `json:"duration"`
}

// DefaultSpec is a group of three that stream 10 KiB messages.
func DefaultSpec() Spec {
	return Spec{
		Kind: Squall, Load: Stream, Nodes: 3, SizeBytes: 10 << 10, Senders: All, Subgroups: 1, Fabric: "auto",
		Batching: AllBatching, Nulls: true, Warmup: 500 * time.Millisecond, Duration: 2 * time.Second,
	}
}

// with is the spec with changes made to a copy.
func (s Spec) with(change func(*Spec)) Spec {
	s.Delays = maps.Clone(s.Delays)
	change(&s)
	return s
}

// limit is the spec of a limit: what the group does, without a group.
func (s Spec) limit(kind Kind) Spec {
	return s.with(func(s *Spec) {
		s.Kind = kind
		maps.DeleteFunc(s.Delays, func(_ int, d time.Duration) bool { return d != Forever })
	})
}

// senders is the number of members that are declared senders.
func (s Spec) senders() int {
	switch s.Senders {
	case All:
		return s.Nodes
	case Half:
		return max(1, s.Nodes/2)
	case One:
		return 1
	}
	n, _ := strconv.Atoi(s.Senders)
	return n
}

// sends reports whether a node sends messages.
func (s Spec) sends(node int) bool {
	return s.Load == Stream && node <= s.senders() && s.Delays[node] != Forever
}

// stalls reports whether a silent sender may hold up the order for good.
func (s Spec) stalls() bool { return s.Kind == Squall && !s.Nulls && !s.Unordered }

func (s Spec) ringBytes() int {
	if s.RingBytes == 0 {
		return squall.DefaultRingBytes
	}
	return s.RingBytes
}

func (s Spec) window() int {
	if s.Window == 0 {
		return squall.DefaultWindow
	}
	return s.Window
}

// Validate reports everything that is wrong with the spec, at once.
func (s Spec) Validate() error {
	var faults errs.Faults
	faults.If(s.Nodes < 2 || s.Nodes > MaxNodes, "%d nodes: from 2 to %d", s.Nodes, MaxNodes)
	if n := s.senders(); n < 1 || n > s.Nodes {
		faults.Add("senders %q: all, half, one or a number up to that of the nodes", s.Senders)
	}
	if _, ok := bench.Fabrics[s.Fabric]; !ok {
		faults.Add("fabric %q: shm, tcp, auto or verbs", s.Fabric)
	}
	faults.If(s.Link > 0 && s.Fabric != "tcp", "hosts with links of %v: fabric tcp, not %q", s.Link, s.Fabric)
	faults.If(s.Subgroups < 1 || s.Subgroups > MaxSubgroups, "%d subgroups: from 1 to %d", s.Subgroups, MaxSubgroups)
	sizes := views.CheckSizes(s.ringBytes(), s.window())
	faults.Join(sizes)
	if largest := s.ringBytes() / 2; s.SizeBytes < 0 || sizes == nil && s.SizeBytes > largest {
		faults.Add("messages of %d bytes: from 0 to half of the ring, %d bytes", s.SizeBytes, largest)
	}
	return faults.Err()
}

// String tells the spec in half a line.
func (s Spec) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d members, %s, %s of them send", s.Nodes, bench.Size(s.SizeBytes), s.Senders)
	also := func(on bool, format string, args ...any) {
		if on {
			fmt.Fprintf(&b, ", "+format, args...)
		}
	}
	also(s.Subgroups > 1, "one of %d subgroups active", s.Subgroups)
	also(s.Window != 0, "window %d", s.Window)
	also(s.RingBytes != 0, "ring %s", bench.Size(s.RingBytes))
	for _, node := range slices.Sorted(maps.Keys(s.Delays)) {
		d := s.Delays[node]
		also(d == Forever, "node %d silent", node)
		also(d != Forever, "node %d sleeps %v", node, d)
	}
	also(true, "fabric %s", s.Fabric)
	also(s.Link > 0, "links of %v", s.Link)
	also(s.Batching != AllBatching, "batching %v", s.Batching)
	also(!s.Nulls, "no nulls")
	also(s.Copy, "copied")
	also(s.Unordered, "unordered")
	return b.String()
}
