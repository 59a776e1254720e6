package squall

import (
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/ablation"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/predicates"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/views"
)

// NodeID identifies a process; it is unique within a group. 0 is not an id.
type NodeID = order.NodeID

// Seq is a position in a subgroup's total order; ViewID numbers the group's memberships.
type (
	Seq    = order.Seq
	ViewID = order.ViewID
)

// View is one membership of a group.
type View = views.View

// Member is one process of a view.
type Member = views.Member

// Version is a position in a subgroup's order across views.
type Version = order.Version

// Mode is how a subgroup delivers.
type Mode = views.Mode

// Layout is an application's own function that places members in the shards of a subgroup.
type (
	Layout      = views.Layout
	LayoutInput = views.LayoutInput
	ShardPlaces = views.ShardPlaces
)

// Modes of a subgroup.
const (
	Ordered   = views.Ordered   // one order at all members, each message once all of them have it
	Unordered = views.Unordered // each sender's messages in its order, at once
	// Persistent is Ordered, and every member keeps all messages in a log on its disk. A group of which all members end at once comes back
	// with everything that was on every disk.
	Persistent = views.Persistent
)

// Fabric says how the members of a group connect to each other.
type Fabric uint8

// Fabrics.
const (
	FabricAuto Fabric = iota // shared memory within a host, TCP between hosts
	FabricSHM                // shared memory only
	FabricTCP                // TCP only
)

// String returns "auto", "shm" or "tcp".
func (f Fabric) String() string {
	if f > FabricTCP {
		return fmt.Sprintf("fabric %d", uint8(f))
	}
	return [...]string{"auto", "shm", "tcp"}[f]
}

func init() {
	ablation.Set = func(config any, t multicast.Tuning) { config.(*Config).tuning = t }
}

// Config describes this process's part in a group.
type Config struct {
	Cluster        string   // name of the group, at most 256 bytes; processes with another one are refused
	ID             NodeID   // this process; 0: generated, and kept in Dir
	Dir            string   // what must survive the process is kept here: its id, and logs. Empty: nothing is kept, and ID is given
	Listen         string   // host:port to listen on; port 0 is any. IPv4, IPv6 and host names.
	Advertise      string   // host:port that the others dial, port 0 for that of Listen. Empty: as Listen says, or this host's own address
	Join           []string // host:port of several members; if there is no group yet the first one founds it. Empty: this process founds it.
	InitialMembers int      // members that form the first view; later ones join a group that works already
	Subgroups      []SubgroupConfig
	Fabric         Fabric
	// TLS has the certificates for mutual TLS on TCP; nil is plain TCP. The others recognise this process by the public key of its
	// certificate: it is the same for dialing and listening, and stays the same while the process runs, also when the certificate is renewed.
	TLS *tls.Config
	// OpenLogs lets every process that reaches Listen read the logs of persistent subgroups, as squall log does. Without it, processes of
	// the group may read them, which prove the group's secret, and with TLS also holders of certificates that TLS verifies.
	OpenLogs bool

	Heartbeat time.Duration // how often a member shows that it lives; 0 is 100 ms
	FailAfter time.Duration // a member silent for so long has failed; 0 is 5 s. At least 3 × Heartbeat
	MaxSpin   time.Duration // how long the loop waits without sleeping, at most; 0 is 50 µs, less than 0 is not at all

	Logger *slog.Logger // nil is slog.Default()
	Events func(Event)  // called from the group's goroutines; must not block
	// OnView is called on the loop with every view, before anything is delivered in it. What a view before it delivers comes first, except
	// to subgroups that have an upcall queue or no room, or still get their state or their log: a Message's View says which one it belongs to.
	OnView func(*View)

	tuning multicast.Tuning // see package internal/ablation
}

// SubgroupConfig declares a subgroup. All but the functions, AsyncQueueBytes, BacklogBytes and LargeDir must be the same at every member.
type SubgroupConfig struct {
	Name    string
	Members []NodeID // who may be in it; empty: all of the group. Those that are there take part.
	Senders []NodeID // who may send; empty: all members of the subgroup
	// Shards splits the subgroup into so many disjoint ones, in which members stay as long as they live; 0 is one.
	Shards     int
	MinMembers int    // that a shard needs: with fewer nobody can send to it (ErrNotProvisioned), until more come; 0 is 1
	MaxMembers int    // that a shard takes; the others are spare, and take the places of those that fail. 0: no limit
	Layout     Layout // places members instead of the rules above; its name is LayoutName
	LayoutName string
	Mode       Mode
	RingBytes  int // room for messages on their way, per sender: a power of two; 0 is 512 KiB. A message in it takes at most half of it.
	Window     int // messages on their way, per sender: a power of two; 0 is 4096
	// MaxMessageBytes is the largest message, in bytes, if that is more than the ring takes: those that it does not take are large
	// messages, whose bodies go over connections of their own. 0: there are none.
	MaxMessageBytes int
	// LargeMemoryBytes bounds the large messages that one sender has under way: Send waits for room. Every member needs as much memory
	// for each sender. 0 is twice MaxMessageBytes.
	LargeMemoryBytes int
	// LargeDir has large messages of others received into files of this directory instead of memory: Message.Body tells the file, which is
	// there until nobody holds the body, and can be linked or renamed by then. The directory is this process's and this subgroup's alone: what a
	// process that ended left there is removed. It need not be the same at every member.
	LargeDir string

	Log LogConfig // of a subgroup whose Mode is Persistent

	Deliver      func(Message)   // called for each message, in order
	DeliverBatch func([]Message) // or: called for each run of messages that can be delivered at once
	// AsyncQueueBytes moves the upcalls to a goroutine of their own, behind a queue of copies of this size. 0: upcalls run on
	// the loop, without a copy. When the queue is full, the subgroup's senders are held up, and nobody else.
	AsyncQueueBytes int

	// Snapshot and Restore hand the subgroup's state over to members that come into it while others have it already. Set both or none,
	// the same way at every member; the subgroup must be Ordered.
	//
	// Snapshot is called between two upcalls, where a view with such members begins, and must be quick: it captures the state, and the
	// function that it returns writes it. That one runs on other goroutines, several times and at the same time if need be, and
	// may be kept until the new members have the state.
	Snapshot func() func(io.Writer) error
	// Restore is called at a new member, on another goroutine, before anything is delivered there. It replaces the whole state by what it
	// reads. If the reader fails it returns the error, and is called once more, with the state of another member from the start. Any other
	// error is the application's own, and halts the group here.
	//
	// An empty reader, of which the first Read returns io.EOF, means: begin with nothing. It comes when this process was in a shard before
	// and enters one that begins, so that its members begin alike (StateBegun tells). A process that was in no shard of the subgroup
	// before has the state with which it was opened, and Restore is not called there; that state must be the same.
	Restore func(io.Reader) error
	// BacklogBytes is how much of what is delivered while Restore runs is kept for afterwards; 0 is 16 MiB. It is taken as it
	// is needed. When it is full, the subgroup's senders are held up, and nobody else.
	BacklogBytes int
}

// Defaults.
const (
	DefaultRingBytes      = 512 << 10
	DefaultWindow         = 4096
	DefaultBacklogBytes   = 16 << 20
	DefaultLogMemoryBytes = 16 << 20
	DefaultHeartbeat      = 100 * time.Millisecond
	DefaultFailAfter      = 5 * time.Second
)

// heartbeatsToFail is the least number of heartbeats that fit into FailAfter: one that comes late, and one that is lost in the
// sleep of a busy machine, are no failure.
const heartbeatsToFail = 3

// Validate reports everything that is wrong with the configuration, at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("config: "+format, args...)) }
	if c.Cluster == "" {
		fault("Cluster is empty: name the group")
	}
	if c.Dir == "" && c.persistent() {
		fault("Dir is empty, and a subgroup is Persistent: give each process a directory of its own for its logs")
	}
	if c.ID == 0 && c.Dir == "" {
		fault("ID is 0 and Dir is empty: give each process its own id, from 1 up, or a directory to keep a generated one")
	}
	if len(c.Cluster) > join.MaxClusterBytes {
		fault("Cluster is %d bytes long: at most %d", len(c.Cluster), join.MaxClusterBytes)
	}
	for _, err := range c.addressFaults() {
		fault("%w", err)
	}
	if c.InitialMembers < 1 || c.InitialMembers > views.MaxMembers {
		fault("InitialMembers is %d: a group has 1 to %d members", c.InitialMembers, views.MaxMembers)
	}
	if c.Fabric > FabricTCP {
		fault("Fabric is %d: use FabricAuto, FabricSHM or FabricTCP", c.Fabric)
	}
	if c.Heartbeat <= 0 || c.FailAfter/heartbeatsToFail < c.Heartbeat {
		fault("FailAfter (%v) must be at least %d × Heartbeat (%v), and both more than 0", c.FailAfter, heartbeatsToFail, c.Heartbeat)
	}
	if c.MaxSpin > 10*time.Millisecond {
		fault("MaxSpin is %v: more than 10 ms is a waste of a core", c.MaxSpin)
	}
	for _, sg := range c.Subgroups {
		for _, err := range sg.faults() {
			fault("subgroup %q: %w", sg.Name, err)
		}
	}
	if err := views.CheckDeclarations(c.declarations()); err != nil {
		fault("%w", err)
	}
	return errors.Join(errs...)
}

// addressFaults looks at the addresses as text. Whether a host exists is the network's to say.
func (c Config) addressFaults() (errs []error) {
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Listen == "" {
		fault("Listen is empty: give host:port, port 0 for any")
	} else if _, err := splitAddress(c.Listen); err != nil {
		fault("Listen is %q: give host:port, port 0 for any: %w", c.Listen, err)
	}
	if c.Advertise != "" {
		if _, err := splitAddress(c.Advertise); err != nil {
			fault("Advertise is %q: give host:port, port 0 for that of Listen: %w", c.Advertise, err)
		}
	}
	for i, addr := range c.Join {
		port, err := splitAddress(addr)
		if err == nil && port == 0 {
			err = errors.New("port 0 cannot be dialed")
		}
		if err != nil {
			fault("Join[%d] is %q: give host:port: %w", i, addr, err)
		}
	}
	return errs
}

// splitAddress is the port of a host:port; a service's name will do.
func splitAddress(addr string) (int, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, err
	}
	if port == "" {
		return 0, errors.New("the port is missing")
	}
	return net.LookupPort("tcp", port)
}

// faults are those of what does not travel with the declaration; views.CheckDeclarations finds the others.
func (sg SubgroupConfig) faults() (errs []error) {
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if (sg.Deliver == nil) == (sg.DeliverBatch == nil) {
		fault("set one of Deliver and DeliverBatch")
	}
	if sg.AsyncQueueBytes < 0 || sg.AsyncQueueBytes > views.MaxRingBytes {
		fault("AsyncQueueBytes is %d: a queue of 0 to %d bytes", sg.AsyncQueueBytes, views.MaxRingBytes)
	}
	if (sg.Snapshot == nil) != (sg.Restore == nil) {
		fault("set both Snapshot and Restore, or none of them")
	}
	switch {
	case sg.Snapshot != nil && sg.Mode == Persistent:
		fault("a Persistent subgroup hands its log over: set Log.Recover instead of Snapshot and Restore")
	case sg.Snapshot != nil && sg.Mode != Ordered:
		fault("a subgroup with Snapshot must be Ordered: in the others, what members have delivered differs where a view begins")
	}
	errs = append(errs, sg.logFaults()...)
	if sg.BacklogBytes < 0 || sg.BacklogBytes > views.MaxRingBytes {
		fault("BacklogBytes is %d: 0 to %d bytes", sg.BacklogBytes, views.MaxRingBytes)
	}
	if sg.MaxMessageBytes > 0 && sg.MaxMessageBytes <= smc.MaxMessage(sg.RingBytes) {
		fault("MaxMessageBytes is %d: RingBytes takes messages of up to %d already; leave it 0, or make RingBytes smaller", sg.MaxMessageBytes, smc.MaxMessage(sg.RingBytes))
	}
	if sg.MaxMessageBytes == 0 && (sg.LargeMemoryBytes != 0 || sg.LargeDir != "") {
		fault("LargeMemoryBytes or LargeDir is set, and MaxMessageBytes is not: there are no large messages")
	}
	if (sg.Layout == nil) != (sg.LayoutName == "") {
		fault("set both Layout and LayoutName, its name, or none of them")
	}
	return errs
}

// logFaults are those of Log.
func (sg SubgroupConfig) logFaults() (errs []error) {
	l := sg.Log
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if sg.Mode != Persistent {
		if l.Engine != 0 || l.MemoryBytes != 0 || l.Retain != (Retention{}) || l.Sign != nil || l.DeliverAfterPersist || l.Recover != nil {
			fault("Log is set, and Mode is %v: only a Persistent subgroup has a log", sg.Mode)
		}
		return errs
	}
	if l.Engine > EngineWAL {
		fault("Log.Engine is %d: use EngineBolt or EngineWAL", l.Engine)
	}
	if l.MemoryBytes < 0 {
		fault("Log.MemoryBytes is %d: 0 for %d, or more than 0", l.MemoryBytes, DefaultLogMemoryBytes)
	}
	if l.Retain.Age < 0 || l.Retain.Bytes < 0 {
		fault("Log.Retain is %+v: 0 for no limit, or more", l.Retain)
	}
	if l.Sign != nil && len(l.Sign) != ed25519.PrivateKeySize {
		fault("Log.Sign has %d bytes: an Ed25519 private key has %d", len(l.Sign), ed25519.PrivateKeySize)
	}
	return errs
}

// withDefaults returns the configuration with its zero values replaced.
func (c Config) withDefaults() Config {
	c.Heartbeat = or(c.Heartbeat, DefaultHeartbeat)
	c.FailAfter = or(c.FailAfter, DefaultFailAfter)
	c.MaxSpin = or(c.MaxSpin, predicates.DefaultMaxSpin)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Subgroups = slices.Clone(c.Subgroups)
	for i := range c.Subgroups {
		sg := &c.Subgroups[i]
		sg.RingBytes = or(sg.RingBytes, DefaultRingBytes)
		sg.Window = or(sg.Window, DefaultWindow)
		sg.LargeMemoryBytes = or(sg.LargeMemoryBytes, 2*sg.MaxMessageBytes)
		sg.BacklogBytes = or(sg.BacklogBytes, DefaultBacklogBytes)
		if sg.Mode == Persistent {
			sg.Log.MemoryBytes = or(sg.Log.MemoryBytes, DefaultLogMemoryBytes)
		}
	}
	return c
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// declarations are the subgroups as the other members must declare them too.
func (c Config) declarations() (decls []views.Declaration) {
	for _, sg := range c.Subgroups {
		decls = append(decls, views.Declaration{
			Name: sg.Name, Members: sg.Members, Senders: sg.Senders, Shards: sg.Shards, MinMembers: sg.MinMembers, MaxMembers: sg.MaxMembers,
			LayoutName: sg.LayoutName, Mode: sg.Mode, RingBytes: sg.RingBytes, Window: sg.Window,
			MaxMessageBytes: sg.MaxMessageBytes, LargeMemoryBytes: sg.LargeMemoryBytes,
		})
	}
	return decls
}

// layouts are the application's own functions, by name.
func (c Config) layouts() map[string]views.Layout {
	layouts := map[string]views.Layout{}
	for _, sg := range c.Subgroups {
		if sg.Layout != nil {
			layouts[sg.LayoutName] = sg.Layout
		}
	}
	return layouts
}
