package qos

import (
	"fmt"
	"reflect"
)

// Policy is one of the 22 policies of DDS 1.4.
type Policy uint8

// The policies, in the order of the standard.
const (
	UserDataPolicy Policy = iota
	TopicDataPolicy
	GroupDataPolicy
	DurabilityPolicy
	DurabilityServicePolicy
	PresentationPolicy
	DeadlinePolicy
	LatencyBudgetPolicy
	OwnershipPolicy
	OwnershipStrengthPolicy
	LivelinessPolicy
	TimeBasedFilterPolicy
	PartitionPolicy
	ReliabilityPolicy
	TransportPriorityPolicy
	LifespanPolicy
	DestinationOrderPolicy
	HistoryPolicy
	ResourceLimitsPolicy
	EntityFactoryPolicy
	WriterDataLifecyclePolicy
	ReaderDataLifecyclePolicy
)

// Policies returns all of them.
func Policies() []Policy {
	all := make([]Policy, len(policies))
	for i := range all {
		all[i] = Policy(i)
	}
	return all
}

// on are entities that a policy has an effect on.
type on uint8

const (
	topics on = 1 << iota
	writers
	readers
	nothing    on = 0
	everything    = topics | writers | readers
)

// Support is what a policy does on a topic with an order.
type Support uint8

const (
	// Implemented policies do what the standard says.
	Implemented Support = iota
	// Stronger policies promise more than the standard does.
	Stronger
	// Partial policies have values that Validate refuses.
	Partial
	// Refused policies have no value but the default.
	Refused
)

func (s Support) String() string {
	return [...]string{"implemented", "stronger", "partial", "refused"}[s]
}

var policies = [...]struct {
	name    string
	on      on
	support Support
	text    string
	of      func(*Set) any // its field
}{
	UserDataPolicy:            {"USER_DATA", writers | readers, Implemented, "part of the replicated description of an entity", func(s *Set) any { return &s.UserData }},
	TopicDataPolicy:           {"TOPIC_DATA", topics, Implemented, "part of the replicated description of the topic", func(s *Set) any { return &s.TopicData }},
	GroupDataPolicy:           {"GROUP_DATA", writers | readers, Implemented, "part of the replicated description of an entity", func(s *Set) any { return &s.GroupData }},
	DurabilityPolicy:          {"DURABILITY", everything, Stronger, "every member keeps the history, and a reader that matches later begins with it at an exact position", func(s *Set) any { return &s.Durability }},
	DurabilityServicePolicy:   {"DURABILITY_SERVICE", topics, Stronger, "the history of the topic, equal at all members", func(s *Set) any { return &s.Service }},
	PresentationPolicy:        {"PRESENTATION", everything, Stronger, "a coherent set is applied at one position at all readers, or dropped at all; every scope is in order", func(s *Set) any { return &s.Presentation }},
	DeadlinePolicy:            {"DEADLINE", everything, Stronger, "what is missed is reported in the order, and moves exclusive ownership at the same position everywhere", func(s *Set) any { return &s.Deadline }},
	LatencyBudgetPolicy:       {"LATENCY_BUDGET", everything, Implemented, "matched; nothing waits for company, so that every budget is kept as well as can be", func(s *Set) any { return &s.LatencyBudget }},
	OwnershipPolicy:           {"OWNERSHIP", everything, Stronger, "the owner of an instance is a function of the order: all readers accept the same samples", func(s *Set) any { return &s.Ownership }},
	OwnershipStrengthPolicy:   {"OWNERSHIP_STRENGTH", writers, Stronger, "a change takes effect at one position at all readers", func(s *Set) any { return &s.Strength }},
	LivelinessPolicy:          {"LIVELINESS", everything, Partial, "AUTOMATIC by the membership of the group, the others by assertions: a lease ends at one position everywhere; the lease of AUTOMATIC is the group's", func(s *Set) any { return &s.Liveliness }},
	TimeBasedFilterPolicy:     {"TIME_BASED_FILTER", readers, Stronger, "by the time of the order: readers with one setting choose the same samples", func(s *Set) any { return &s.Separation }},
	PartitionPolicy:           {"PARTITION", writers | readers, Stronger, "a change takes effect at one position at all readers", func(s *Set) any { return &s.Partitions }},
	ReliabilityPolicy:         {"RELIABILITY", everything, Stronger, "no sample is lost between live members; readers are RELIABLE by default", func(s *Set) any { return &s.Reliability }},
	TransportPriorityPolicy:   {"TRANSPORT_PRIORITY", nothing, Refused, "a topic has one order, in which no sample overtakes another one", func(s *Set) any { return &s.TransportPriority }},
	LifespanPolicy:            {"LIFESPAN", topics | writers, Stronger, "by the time of the order: a sample expires at the same position everywhere", func(s *Set) any { return &s.Lifespan }},
	DestinationOrderPolicy:    {"DESTINATION_ORDER", everything, Stronger, "the order is one, and source times never go back in it: BY_SOURCE drops nothing when a clock is set", func(s *Set) any { return &s.Order }},
	HistoryPolicy:             {"HISTORY", everything, Stronger, "caches with one setting are equal at equal positions", func(s *Set) any { return &s.History }},
	ResourceLimitsPolicy:      {"RESOURCE_LIMITS", everything, Implemented, "a RELIABLE reader without space blocks the writers, a BEST_EFFORT one loses samples and counts them", func(s *Set) any { return &s.Limits }},
	EntityFactoryPolicy:       {"ENTITY_FACTORY", nothing, Refused, "an entity that was created is enabled", func(s *Set) any { return &s.Disabled }},
	WriterDataLifecyclePolicy: {"WRITER_DATA_LIFECYCLE", writers, Stronger, "what a writer leaves after it, closed or killed, is settled at one position at all readers", func(s *Set) any { return &s.KeepUnregistered }},
	ReaderDataLifecyclePolicy: {"READER_DATA_LIFECYCLE", readers, Implemented, "by the time of the order", func(s *Set) any { return &s.Purge }},
}

func (p Policy) String() string {
	if int(p) >= len(policies) {
		return fmt.Sprintf("policy %d", uint8(p))
	}
	return policies[p].name
}

// Support returns what the policy does, and a sentence about it.
func (p Policy) Support() (Support, string) { return policies[p].support, policies[p].text }

// value is what a set has of a policy.
func (p Policy) value(s *Set) reflect.Value { return reflect.ValueOf(policies[p].of(s)).Elem() }

// set reports whether a policy is not the default.
func (p Policy) set(s *Set) bool {
	v := p.value(s)
	return !v.IsZero() && (v.Kind() != reflect.Slice || v.Len() > 0)
}

func (p Policy) appliesTo(e Entity) bool {
	if policies[p].support == Refused { // Validate has a reason of its own
		return true
	}
	return policies[p].on&(1<<e) != 0
}
