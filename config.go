package squall

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/internal/extension"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/predicates"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/views"
)

// NodeID identifies a process; it is unique within a group. 0 is not an id.
type NodeID = order.NodeID

// Seq is a position in a subgroup's total order within a view.
type Seq = order.Seq

// ViewID numbers the views of a group from 1; 0 is no view.
type ViewID = order.ViewID

// View is one membership of a group.
type View = views.View

// Member is one process of a view.
type Member = views.Member

// Version is a position in a subgroup's order across views.
type Version = order.Version

// Mode is how a subgroup delivers.
type Mode = views.Mode

// Layout is an application's own function that places members in the shards of a subgroup.
type Layout = views.Layout

// LayoutInput is what a Layout decides from.
type LayoutInput = views.LayoutInput

// ShardPlaces lists the members of one shard, as a Layout places them.
type ShardPlaces = views.ShardPlaces

// Modes of a subgroup.
const (
	Ordered   = views.Ordered   // one order at all members; a message is delivered once all of them have it
	Unordered = views.Unordered // the messages of each sender in its order, each as soon as it arrives
	// Persistent is Ordered, and every member keeps all messages in a log on its disk. A group of
	// which all members end at once comes back with everything that was on every disk.
	Persistent = views.Persistent
)

// Fabric says how the members of a group connect to each other.
type Fabric uint8

// Fabrics.
const (
	FabricAuto Fabric = iota // shared memory within a host, TCP between hosts
	FabricSHM                // shared memory only
	FabricTCP                // TCP only
	// FabricTransport is Config.Transport only, within a host too.
	FabricTransport
)

// String returns "auto", "shm", "tcp" or "transport".
func (f Fabric) String() string {
	if f > FabricTransport {
		return fmt.Sprintf("fabric %d", uint8(f))
	}
	return [...]string{"auto", "shm", "tcp", "transport"}[f]
}

// Config describes this process's part in a group.
type Config struct {
	Cluster   string // name of the group, at most 256 bytes; processes with another name are refused
	ID        NodeID // id of this process; 0: an id is generated and kept in Dir
	Dir       string // directory for what must survive the process: its id and its logs. Empty: nothing is kept, and ID must be set
	Listen    string // host:port to listen on, as IPv4, IPv6 or host name; port 0 is any free port
	Advertise string // host:port that the others dial; port 0 is that of Listen. Empty: the address of Listen, or this host's own address
	// Join has the host:port of the members, the same list in the same order at all of them. If there
	// is no group yet, the first one of the list bootstraps it. Empty: this process bootstraps a group
	// of its own, and another one when it is started again, unless its logs in Dir name the group.
	Join []string
	// InitialMembers is the number of members that form the first view, the same at all of them; later
	// processes join the running group. 0 is a majority of Join. It must not be less than that: a
	// process that is started again and reaches no other member could bootstrap a second group.
	InitialMembers int
	Subgroups      []SubgroupConfig
	Fabric         Fabric
	// Transport connects this process to members on other hosts that have it, too; TCP connects it to
	// the rest. See package fabric/verbs for RDMA, which encrypts nothing and so goes with no TLS. nil
	// is none. With FabricSHM and FabricTCP it is not used.
	Transport fabric.Transport
	// TLS has the certificates for mutual TLS on TCP; nil is plain TCP. The others recognise this
	// process by the public key of its certificate. The key must be the same for dialing and
	// listening, and must stay the same while the process runs, even if the certificate is renewed.
	TLS *tls.Config
	// Secret is known to all processes that may be members, the same at each of them: a process that
	// does not prove that it knows the secret gets no view, no state and no message. It is for groups
	// without TLS. At least 16 bytes, chosen at random; empty: every process that reaches Listen may
	// be a member.
	Secret []byte
	// OpenLogs lets every process that reaches Listen read the logs of persistent subgroups, as
	// squall log does. Without it, only processes of the group may read them, which prove that they
	// know the group's secret, and with TLS also holders of certificates that TLS verifies.
	OpenLogs bool

	Heartbeat time.Duration // time between two signs of life of a member; 0 is 100 ms
	FailAfter time.Duration // a member that is silent for this long has failed; at least 3 × Heartbeat; 0 is 5 s
	MaxSpin   time.Duration // longest time that the loop polls before it sleeps; 0 is 50 µs, less than 0 is no time

	Logger *slog.Logger // nil is slog.Default()
	Events func(Event)  // called from the group's goroutines; it must not block
	// OnView is called on the loop with every view, before anything is delivered in that view. The
	// deliveries of earlier views come first, except in subgroups that have a queue or no
	// space, or that still get their state or their log, and except for what is left when callbacks
	// took a tenth of FailAfter: Message.View says to which view a message belongs.
	OnView func(*View)

	tuning extension.Tuning
}

// SubgroupConfig declares a subgroup. All fields except the functions, AsyncQueueBytes,
// BacklogBytes and LargeDir must be the same at every member. Log may differ.
type SubgroupConfig struct {
	Name    string
	Members []NodeID // processes that may be members, which take part while they are in the group; empty: all of the group
	Senders []NodeID // members that may send; empty: all members of the subgroup
	// Shards is the number of disjoint shards into which the subgroup is split; 0 is one. A member
	// stays in its shard as long as it lives.
	Shards     int
	MinMembers int    // least number of members of a shard: with fewer, no member can send to it (ErrNotProvisioned) until more come; 0 is 1
	MaxMembers int    // largest number of members of a shard; further processes are spare and replace members that fail. 0: no limit
	Layout     Layout // places members instead of the rules above; its name is LayoutName
	LayoutName string
	Mode       Mode
	RingBytes  int // bytes of the ring of each sender, a power of two; 0 is 512 KiB. A message in it takes at most half of it
	Window     int // messages of each sender that may be in flight, a power of two; 0 is 4096
	// MaxMessageBytes is the size of the largest message, in bytes, if that is more than the ring
	// takes. Messages that the ring does not take are large messages, whose bodies go over
	// connections of their own. 0: there are none.
	MaxMessageBytes int
	// LargeMemoryBytes bounds the large messages that one sender has in flight, in bytes: Send
	// waits for buffer space. Every member needs as much memory for each sender. 0 is twice
	// MaxMessageBytes.
	LargeMemoryBytes int
	// LargeDir is a directory. If it is set, this process receives the large messages of others
	// into files there instead of into memory. Body.File of a message returns the name of the file,
	// which exists as long as the body is held; the application can link or rename it until then.
	// The directory must be used by this process and this subgroup only: files that a process which
	// ended left there are removed. It need not be the same at every member.
	LargeDir string

	Log LogConfig // of a subgroup whose Mode is Persistent

	Deliver func(Message) // called for each message, in order
	// DeliverBatch is called, in place of Deliver, for each run of messages that can be delivered at
	// once. The slice is used again for the next run: it must be neither kept nor changed.
	DeliverBatch func([]Message)
	// DeliverSome is for an application that may have no space: it is called like DeliverBatch, and
	// returns how many of the messages it took. The others are offered again, at the latest after
	// Subgroup.Resume. Meanwhile only the senders of this subgroup are blocked. It has no queue:
	// AsyncQueueBytes must be 0.
	DeliverSome func([]Message) int
	// AsyncQueueBytes moves the callbacks to a goroutine of their own, which gets copies of the
	// messages from a queue of this size. 0: callbacks run on the loop, without a copy. When the
	// queue is full, only the senders of this subgroup are blocked.
	AsyncQueueBytes int

	// Snapshot and Restore transfer the application's state as bytes. In an Ordered subgroup they
	// serve members that enter while others have the state already: set both or neither, the same
	// way at every member. In a Persistent subgroup they serve every process that enters a shard,
	// whatever its disk has: Restore alone is enough without TakeSnapshot.
	//
	// Snapshot is called between two callbacks, where a view with new members begins, or by
	// TakeSnapshot, and must be quick: it captures the state, and the function that it returns
	// writes the state. That function runs on other goroutines, possibly several times and at the
	// same time, and may be kept until the new members have the state. It must not be nil; if it
	// returns an error, TakeSnapshot returns that, or the new member asks another one.
	Snapshot func() func(io.Writer) error
	// Restore is called on another goroutine, before anything is delivered. It replaces the whole
	// state by what it reads. An empty reader, of which the first Read returns io.EOF, means: begin
	// with an empty state. If the reader fails, Restore returns the error. Any other error is the
	// application's own: it fails Open, or halts the group here. Restore need not read to the end.
	// Open waits until Restore has returned, even if its context ends before.
	//
	// In a Persistent subgroup Restore is called whenever this process enters a shard, at Open or
	// later, as soon as its log has what the others have. The reader has the log's snapshot, or is
	// empty. The records after the snapshot are then delivered, as messages for which
	// Message.Replayed is true: all of them, or without a snapshot all that Retain has left. Open
	// waits for that if the log lacked nothing when the process became a member; otherwise
	// Subgroup.Restored is closed when it is done.
	//
	// In an Ordered subgroup the reader has the state of another member; if it fails, Restore is
	// called once more, with the state of the next member from the start. An empty reader comes
	// when this process was in a shard before and enters a shard that begins, so that the members
	// of that shard begin alike (the event StateBegun reports it). A process that was in no shard
	// of the subgroup before keeps the state with which it opened the group, and Restore is not
	// called there; that state must be the same at all of them.
	Restore func(io.Reader) error
	// BacklogBytes is the size, in bytes, of the backlog of messages that are delivered while
	// Restore runs; 0 is 16 MiB. Memory is allocated as it is needed. When the backlog is full,
	// only the senders of this subgroup are blocked.
	BacklogBytes int

	// StateHash returns a hash of the application's state for Group.Status, so that members can be
	// compared. With fresh, it first has all members take a hash at one position of the order, which
	// may take as long as encoding the state. It returns ErrNoStateHash if there is none. It is called
	// on any goroutine. Optional.
	StateHash func(ctx context.Context, fresh bool) (StateHash, error)

	extension extension.Config
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

// minSecretBytes is the least length of a secret that cannot be guessed.
const minSecretBytes = 16

// heartbeatsToFail is the least number of heartbeats that fit into FailAfter: one heartbeat that
// comes late and one that is lost while a busy machine sleeps are no failure.
const heartbeatsToFail = 3

// Validate reports everything that is wrong with the configuration, at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	faults := errs.Faults{Prefix: "config: "}
	faults.If(c.Cluster == "", "Cluster is empty: name the group")
	faults.If(c.Dir == "" && c.persistent(),
		"Dir is empty, and a subgroup is Persistent: give each process a directory of its own for its logs")
	faults.If(c.ID == 0 && c.Dir == "",
		"ID is 0 and Dir is empty: give each process its own id, from 1 up, or a directory to keep a generated one")
	faults.If(len(c.Cluster) > join.MaxClusterBytes,
		"Cluster is %d bytes long: at most %d", len(c.Cluster), join.MaxClusterBytes)
	for _, err := range c.addressFaults() {
		faults.Add("%w", err)
	}
	c.checkInitialMembers(&faults)
	faults.If(len(c.Secret) > 0 && len(c.Secret) < minSecretBytes,
		"Secret has %d bytes: use at least %d, chosen at random", len(c.Secret), minSecretBytes)
	faults.If(c.Fabric > FabricTransport, "Fabric is %d: use FabricAuto, FabricSHM, FabricTCP or FabricTransport", c.Fabric)
	faults.If(c.Fabric == FabricTransport && c.Transport == nil, "Fabric is FabricTransport, and Transport is nil: set it, for example to that of package fabric/verbs/ibverbs")
	if t := reflect.ValueOf(c.Transport); t.Kind() == reflect.Pointer && t.IsNil() {
		faults.Add("Transport is a nil %T: set it to nil if there is none, and check the error of the function that opens it", c.Transport)
	}
	faults.If(c.Transport != nil && c.TLS != nil, "Transport and TLS are both set: a transport neither encrypts nor authenticates what it carries; leave one of them nil")
	faults.If(c.Heartbeat <= 0 || c.FailAfter/heartbeatsToFail < c.Heartbeat,
		"FailAfter (%v) must be at least %d × Heartbeat (%v), and both more than 0", c.FailAfter, heartbeatsToFail, c.Heartbeat)
	faults.If(c.MaxSpin > 10*time.Millisecond, "MaxSpin is %v: more than 10 ms is a waste of a core", c.MaxSpin)
	for _, sg := range c.Subgroups {
		for _, err := range sg.faults() {
			faults.Add("subgroup %q: %w", sg.Name, err)
		}
	}
	if err := views.CheckDeclarations(c.declarations()); err != nil {
		faults.Add("%w", err)
	}
	return faults.Err()
}

func (c Config) checkInitialMembers(faults *errs.Faults) {
	if c.InitialMembers == 0 && len(c.Join) == 0 {
		faults.Add("Join is empty, and InitialMembers is 0: list all members in Join, or set InitialMembers to 1 for a group that begins with this process alone")
	} else if c.InitialMembers < 1 || c.InitialMembers > views.MaxMembers {
		faults.Add("InitialMembers is %d: a group has 1 to %d members", c.InitialMembers, views.MaxMembers)
	}
	if n := majority(c.Join); c.InitialMembers > 0 && c.InitialMembers < n {
		faults.Add("InitialMembers is %d, and Join lists %d members: leave it 0, or set at least %d, a majority; with fewer, a member that is started again could bootstrap a second group",
			c.InitialMembers, len(c.Join), n)
	}
}

// addressFaults checks the addresses as text. Only the network can tell whether a host exists.
func (c Config) addressFaults() []error {
	var faults errs.Faults
	if c.Listen == "" {
		faults.Add("Listen is empty: give host:port, port 0 for any")
	} else if _, err := splitAddress(c.Listen); err != nil {
		faults.Add("Listen is %q: give host:port, port 0 for any: %w", c.Listen, err)
	}
	if c.Advertise != "" {
		if _, err := splitAddress(c.Advertise); err != nil {
			faults.Add("Advertise is %q: give host:port, port 0 for that of Listen: %w", c.Advertise, err)
		}
	}
	for i, addr := range c.Join {
		port, err := splitAddress(addr)
		if err == nil && port == 0 {
			err = errors.New("port 0 cannot be dialed")
		}
		faults.If(err != nil, "Join[%d] is %q: give host:port: %w", i, addr, err)
	}
	return faults.All
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

// faults returns the faults of the fields that do not travel with the declaration;
// views.CheckDeclarations finds the others.
func (sg SubgroupConfig) faults() []error {
	var faults errs.Faults
	set := 0
	for _, is := range []bool{sg.Deliver != nil, sg.DeliverBatch != nil, sg.DeliverSome != nil} {
		if is {
			set++
		}
	}
	faults.If(set != 1, "set one of Deliver, DeliverBatch and DeliverSome")
	faults.If(sg.DeliverSome != nil && sg.AsyncQueueBytes != 0,
		"AsyncQueueBytes is %d: there is no queue in front of DeliverSome", sg.AsyncQueueBytes)
	faults.If(sg.AsyncQueueBytes < 0 || sg.AsyncQueueBytes > views.MaxRingBytes,
		"AsyncQueueBytes is %d: a queue of 0 to %d bytes", sg.AsyncQueueBytes, views.MaxRingBytes)
	switch {
	case sg.Snapshot != nil && sg.Log.Recover != nil && sg.Restore == nil:
		faults.Add("Snapshot is set together with Log.Recover, and needs Restore instead of it; with Recover, take snapshots with Log.Snapshot")
	case sg.Mode == Persistent && sg.Snapshot != nil && sg.Restore == nil:
		faults.Add("Snapshot is set without Restore, which reads what Snapshot writes")
	case (sg.Snapshot == nil) != (sg.Restore == nil) && sg.Mode != Persistent:
		faults.Add("set both Snapshot and Restore, or none of them")
	case sg.Snapshot != nil && sg.Mode == Unordered:
		faults.Add("a subgroup with Snapshot must be Ordered or Persistent: in the others, what members have delivered differs where a view begins")
	case sg.Restore != nil && sg.Log.Recover != nil:
		faults.Add("set Restore or Log.Recover: both take over what is in the log")
	}
	faults.Join(sg.logFaults()...)
	faults.If(sg.BacklogBytes < 0 || sg.BacklogBytes > views.MaxRingBytes,
		"BacklogBytes is %d: 0 to %d bytes", sg.BacklogBytes, views.MaxRingBytes)
	faults.If(sg.MaxMessageBytes > 0 && sg.MaxMessageBytes <= smc.MaxMessage(sg.RingBytes),
		"MaxMessageBytes is %d: RingBytes takes messages of up to %d already; leave it 0, or make RingBytes smaller", sg.MaxMessageBytes, smc.MaxMessage(sg.RingBytes))
	faults.If(sg.MaxMessageBytes == 0 && (sg.LargeMemoryBytes != 0 || sg.LargeDir != ""),
		"LargeMemoryBytes or LargeDir is set, and MaxMessageBytes is not: there are no large messages")
	faults.If((sg.Layout == nil) != (sg.LayoutName == ""), "set both Layout and LayoutName, its name, or none of them")
	return faults.All
}

// logFaults returns the faults of Log.
func (sg SubgroupConfig) logFaults() []error {
	l := sg.Log
	var faults errs.Faults
	if sg.Mode != Persistent {
		faults.If(l.Engine != nil || l.MemoryBytes != 0 || l.Retain != (Retention{}) || l.Snapshots != (SnapshotPolicy{}) || l.Sign != nil || l.DeliverAfterPersist || l.Recover != nil,
			"Log is set, and Mode is %v: only a Persistent subgroup has a log", sg.Mode)
		return faults.All
	}
	faults.Wrap("Log.Engine", persist.CheckEngine(l.Engine))
	faults.If(l.MemoryBytes < 0,
		"Log.MemoryBytes is %d: 0 for %d, or more than 0", l.MemoryBytes, DefaultLogMemoryBytes)
	faults.If(l.Retain.Age < 0 || l.Retain.Bytes < 0, "Log.Retain is %+v: 0 for no limit, or more", l.Retain)
	faults.If(l.Snapshots.takes() && sg.Snapshot == nil,
		"Log.Snapshots is set without Snapshot, which captures the state; an application with Log.Recover takes snapshots with Log.Snapshot")
	faults.If(l.Sign != nil && len(l.Sign) != ed25519.PrivateKeySize,
		"Log.Sign has %d bytes: an Ed25519 private key has %d", len(l.Sign), ed25519.PrivateKeySize)
	return faults.All
}

// majority returns the least number of members that are more than half of a list; 0 of an empty
// one.
func majority(members []string) int {
	if len(members) == 0 {
		return 0
	}
	return len(members)/2 + 1
}

// withDefaults returns the configuration with its zero values replaced.
func (c Config) withDefaults() Config {
	c.InitialMembers = or(c.InitialMembers, majority(c.Join))
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

// declarations returns the subgroups in the form that all members must declare alike.
func (c Config) declarations() (decls []views.Declaration) {
	for _, sg := range c.Subgroups {
		decls = append(decls, views.Declaration{
			Name: sg.Name, Members: sg.Members, Senders: sg.Senders, Shards: sg.Shards, MinMembers: sg.MinMembers, MaxMembers: sg.MaxMembers,
			LayoutName: sg.LayoutName, Mode: sg.Mode, RingBytes: sg.RingBytes, Window: sg.Window,
			MaxMessageBytes: sg.MaxMessageBytes, LargeMemoryBytes: sg.LargeMemoryBytes, Operations: sg.extension.Operations,
		})
	}
	return decls
}

// maxNamed is how many operations an error names.
const maxNamed = 8

// admit returns an error if a process with the given declarations lacks operations that this
// process's objects use.
func (c Config) admit(joiner []views.Declaration) error {
	for _, sg := range c.Subgroups {
		i := slices.IndexFunc(joiner, func(d views.Declaration) bool { return d.Name == sg.Name })
		if sg.extension.Missing == nil || i < 0 {
			continue
		}
		missing := sg.extension.Missing(joiner[i].Operations)
		if len(missing) == 0 {
			continue
		}
		var names []string
		for _, name := range missing[:min(len(missing), maxNamed)] {
			names = append(names, strconv.Quote(name))
		}
		if n := len(missing) - maxNamed; n > 0 {
			names = append(names, fmt.Sprintf("and %d more", n))
		}
		return fmt.Errorf("the group uses operations of %q that the program of the joining process lacks (%s): start a version of the program that has them", sg.Name, strings.Join(names, ", "))
	}
	return nil
}

// layouts returns the application's own layout functions by name.
func (c Config) layouts() map[string]views.Layout {
	layouts := map[string]views.Layout{}
	for _, sg := range c.Subgroups {
		if sg.Layout != nil {
			layouts[sg.LayoutName] = sg.Layout
		}
	}
	return layouts
}
