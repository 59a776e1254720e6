package qos

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Set is a value for each policy. A duration of zero is what its comment says, never an immediate
// one.
type Set struct {
	UserData  []byte // USER_DATA: of participants, writers and readers; shown to the others
	TopicData []byte // TOPIC_DATA
	GroupData []byte // GROUP_DATA: of writers and readers

	Durability   Durability        // DURABILITY: what a reader gets of what was written before
	Service      DurabilityService // DURABILITY_SERVICE: the history of a topic that is not Volatile
	Presentation Presentation      // PRESENTATION

	Deadline      time.Duration // DEADLINE: each instance is written at least this often; 0 is no deadline
	LatencyBudget time.Duration // LATENCY_BUDGET; 0 is the least
	Lifespan      time.Duration // LIFESPAN: a sample expires this long after its source time; 0 is never
	Separation    time.Duration // TIME_BASED_FILTER: a reader gets at most one sample of an instance in this time; 0 is every sample

	Ownership Ownership // OWNERSHIP
	Strength  int32     // OWNERSHIP_STRENGTH: of the writers with Exclusive ownership the strongest one owns an instance

	Liveliness  Liveliness       // LIVELINESS
	Partitions  []string         // PARTITION: a writer and a reader match if they have one in common; none is the partition ""
	Reliability Reliability      // RELIABILITY
	Order       DestinationOrder // DESTINATION_ORDER
	History     History          // HISTORY
	Limits      Limits           // RESOURCE_LIMITS

	TransportPriority int32 // TRANSPORT_PRIORITY: only 0
	Disabled          bool  // ENTITY_FACTORY: created entities are not enabled; only false

	KeepUnregistered bool           // WRITER_DATA_LIFECYCLE: an instance that the writer unregisters is not disposed of too
	Purge            ReaderLifetime // READER_DATA_LIFECYCLE
}

// Durability is how long samples outlive their writing. The values are in the order in which offers
// satisfy requests.
type Durability uint8

const (
	Volatile       Durability = iota // samples are for the readers that match when they are written
	TransientLocal                   // readers that match later get the history, as long as the writer is there
	Transient                        // … as long as a member of the topic's space is there
	Persistent                       // … also after all of them have ended
)

// Ownership is the policy that says which writers may update an instance.
type Ownership uint8

const (
	Shared    Ownership = iota // every writer
	Exclusive                  // the strongest one that is there
)

// Scope is what belongs together in a presentation. The values are in the order in which offers
// satisfy requests.
type Scope uint8

const (
	InstanceScope Scope = iota // samples of an instance
	TopicScope                 // samples of a writer
	GroupScope                 // samples of all writers of a publisher, in all topics of a space
)

// Presentation is whether changes that belong together come together, and in which order.
type Presentation struct {
	Access   Scope
	Coherent bool // sets of changes are visible as a whole
	Ordered  bool // changes are visible in the order in which they were made
}

// LivelinessKind is how a writer shows that it is alive.
type LivelinessKind uint8

const (
	Automatic           LivelinessKind = iota // the process is a member of the group
	ManualByParticipant                       // the application asserts it for all its writers, or writes with any of them
	ManualByTopic                             // the application asserts it for the writer, or writes with it
)

// Liveliness is how a writer shows that it is alive, and how long it may be silent.
type Liveliness struct {
	Kind  LivelinessKind
	Lease time.Duration // 0 is without an end: the membership of the group alone says it
}

// ReliabilityKind is whether samples may be lost. Unlike in DDS the zero value is Reliable, for
// readers too.
type ReliabilityKind uint8

const (
	Reliable   ReliabilityKind = iota // no sample is lost; a slow reader blocks the writers
	BestEffort                        // a reader without space loses samples, and counts them
)

// Reliability is whether samples may be lost.
type Reliability struct {
	Kind        ReliabilityKind
	MaxBlocking time.Duration // how long a write without a deadline of its own waits for buffer space; 0 is without an end
}

// DestinationOrder is by which time samples are in order.
type DestinationOrder uint8

const (
	ByReception DestinationOrder = iota // the order of the topic, equal at all readers
	BySource                            // the time of the writers
)

// History is how many samples of an instance are kept: the zero value is the last one.
type History struct {
	Depth int  // 0 is 1
	All   bool // every sample until it is taken
}

// KeepLast keeps the last n samples of each instance.
func KeepLast(n int) History { return History{Depth: n} }

// KeepAll keeps every sample until it is taken, within the limits.
func KeepAll() History { return History{All: true} }

// depth is the number of samples that are kept of an instance.
func (h History) depth() int {
	if h.All {
		return math.MaxInt
	}
	return max(h.Depth, 1)
}

// Limits bound what is kept; 0 is no bound.
type Limits struct {
	Samples, Instances, SamplesPerInstance int
}

// DurabilityService is the history of a topic that is not Volatile.
type DurabilityService struct {
	History      History
	Limits       Limits
	CleanupDelay time.Duration // how long an instance that was disposed of and has no writers is kept; 0 is not at all
}

// ReaderLifetime is how long a reader remembers an instance that has no writers and of which all
// samples were taken, without writers or disposed of; 0 is not at all. An instance that comes back
// later is a new one.
type ReaderLifetime struct {
	NoWriters, Disposed time.Duration
}

// Entity is what a Set is of.
type Entity uint8

const (
	Topic Entity = iota
	Writer
	Reader
)

func (e Entity) String() string { return [...]string{"topic", "writer", "reader"}[e] }

// ErrRefused is wrapped by the errors of Validate for a policy that is not supported, and
// ErrInconsistent for values that contradict each other.
var (
	ErrRefused      = errors.New("qos: refused")
	ErrInconsistent = errors.New("qos: inconsistent")
)

// Validate returns all faults of a set for an entity.
func (s *Set) Validate(of Entity) error {
	var errs []error
	fault := func(kind error, p Policy, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %v of a %v: %s", kind, p, of, fmt.Sprintf(format, args...)))
	}
	for _, p := range Policies() {
		if p.set(s) && !p.appliesTo(of) {
			fault(ErrRefused, p, "it has no effect there")
		}
	}
	switch {
	case s.TransportPriority != 0:
		fault(ErrRefused, TransportPriorityPolicy, "a topic has one order, in which no sample overtakes another one")
	case s.Disabled:
		fault(ErrRefused, EntityFactoryPolicy, "an entity that was created is enabled")
	}
	if s.Liveliness.Kind == Automatic && s.Liveliness.Lease != 0 {
		fault(ErrRefused, LivelinessPolicy, "the lease of AUTOMATIC is the time after which the group removes a silent member (FailAfter), the same for all writers")
	}
	s.contradictions(fault)
	return errors.Join(errs...)
}

// contradictions reports policies that contradict themselves or each other.
func (s *Set) contradictions(fault func(kind error, p Policy, format string, args ...any)) {
	for _, e := range s.durations() {
		if e.d < 0 {
			fault(ErrInconsistent, e.p, "the duration %v is negative", e.d)
		}
	}
	if s.Separation > 0 && s.Deadline > 0 && s.Deadline < s.Separation {
		fault(ErrInconsistent, DeadlinePolicy, "%v is less than the separation of %v that TIME_BASED_FILTER makes", s.Deadline, s.Separation)
	}
	if said := s.History.fault(s.Limits); said != "" {
		fault(ErrInconsistent, HistoryPolicy, "%s", said)
	}
	if said := s.Service.History.fault(s.Service.Limits); said != "" {
		fault(ErrInconsistent, DurabilityServicePolicy, "%s", said)
	}
	for _, e := range s.kinds() {
		if e.value > e.max {
			fault(ErrInconsistent, e.p, "a kind of %d", e.value)
		}
	}
}

// length is the duration of a policy; of several, the least.
type length struct {
	p Policy
	d time.Duration
}

func (s *Set) durations() []length {
	return []length{
		{DeadlinePolicy, s.Deadline},
		{LatencyBudgetPolicy, s.LatencyBudget},
		{LivelinessPolicy, s.Liveliness.Lease},
		{LifespanPolicy, s.Lifespan},
		{TimeBasedFilterPolicy, s.Separation},
		{DurabilityServicePolicy, s.Service.CleanupDelay},
		{ReliabilityPolicy, s.Reliability.MaxBlocking},
		{ReaderDataLifecyclePolicy, min(s.Purge.Disposed, s.Purge.NoWriters)},
	}
}

// kind is the kind of a policy, and the last one that there is.
type kind struct {
	p          Policy
	value, max uint8
}

func (s *Set) kinds() []kind {
	return []kind{
		{DurabilityPolicy, uint8(s.Durability), uint8(Persistent)},
		{PresentationPolicy, uint8(s.Presentation.Access), uint8(GroupScope)},
		{OwnershipPolicy, uint8(s.Ownership), uint8(Exclusive)},
		{LivelinessPolicy, uint8(s.Liveliness.Kind), uint8(ManualByTopic)},
		{ReliabilityPolicy, uint8(s.Reliability.Kind), uint8(BestEffort)},
		{DestinationOrderPolicy, uint8(s.Order), uint8(BySource)},
	}
}

// fault says what is wrong with a history under limits; empty: nothing.
func (h History) fault(l Limits) string {
	switch {
	case h.Depth < 0 || h.All && h.Depth != 0:
		return fmt.Sprintf("a depth of %d", h.Depth)
	case min(l.Samples, l.Instances, l.SamplesPerInstance) < 0:
		return fmt.Sprintf("a limit is negative: %+v", l)
	case l.SamplesPerInstance > 0 && !h.All && h.depth() > l.SamplesPerInstance:
		return fmt.Sprintf("a depth of %d is more than the limit of %d samples of an instance", h.depth(), l.SamplesPerInstance)
	case l.Samples > 0 && l.Samples < l.SamplesPerInstance:
		return fmt.Sprintf("the limit of all samples, %d, is less than that of an instance, %d", l.Samples, l.SamplesPerInstance)
	}
	return ""
}
