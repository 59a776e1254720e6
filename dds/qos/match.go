package qos

import (
	"fmt"
	"strings"
	"time"
)

// Verdict is what matching says of one policy of a writer and a reader.
type Verdict struct {
	Policy             Policy
	Compatible         bool
	Offered, Requested string
	Rule               string // what has to hold
}

func (v Verdict) String() string {
	word := "compatible"
	if !v.Compatible {
		word = "incompatible"
	}
	return fmt.Sprintf("%v: %s: offered %s, requested %s; %s", v.Policy, word, v.Offered, v.Requested, v.Rule)
}

// rules are the policies that a writer offers and a reader requests. PARTITION is none of the
// standard's: a mismatch there is no incompatible QoS, and raises no status. It is here so that
// Explain tells it.
var rules = [...]struct {
	policy Policy
	rule   string
	holds  func(offered, requested *Set) bool
	show   func(*Set) string
}{
	{
		DurabilityPolicy, "offered ≥ requested",
		func(o, r *Set) bool { return o.Durability >= r.Durability },
		func(s *Set) string { return s.Durability.String() },
	},
	{
		PresentationPolicy, "offered access scope ≥ requested; what is requested coherent or ordered is offered so",
		func(o, r *Set) bool {
			return o.Presentation.Access >= r.Presentation.Access && (o.Presentation.Coherent || !r.Presentation.Coherent) &&
				(o.Presentation.Ordered || !r.Presentation.Ordered)
		},
		func(s *Set) string { return s.Presentation.String() },
	},
	{
		DeadlinePolicy, "offered ≤ requested",
		func(o, r *Set) bool { return atMost(o.Deadline, r.Deadline) },
		func(s *Set) string { return orNone(s.Deadline) },
	},
	{
		LatencyBudgetPolicy, "offered ≤ requested",
		func(o, r *Set) bool { return o.LatencyBudget <= r.LatencyBudget },
		func(s *Set) string { return s.LatencyBudget.String() },
	},
	{
		OwnershipPolicy, "offered = requested",
		func(o, r *Set) bool { return o.Ownership == r.Ownership },
		func(s *Set) string { return s.Ownership.String() },
	},
	{
		LivelinessPolicy, "offered kind ≥ requested, offered lease ≤ requested",
		func(o, r *Set) bool {
			return o.Liveliness.Kind >= r.Liveliness.Kind && atMost(o.Liveliness.Lease, r.Liveliness.Lease)
		},
		func(s *Set) string { return s.Liveliness.Kind.String() + " " + orNone(s.Liveliness.Lease) },
	},
	{
		PartitionPolicy, "one partition of each is the same, or matches a pattern of the other",
		func(o, r *Set) bool { return intersect(o.Partitions, r.Partitions) },
		func(s *Set) string { return fmt.Sprintf("%q", s.Partitions) },
	},
	{
		ReliabilityPolicy, "offered ≥ requested",
		func(o, r *Set) bool { return o.Reliability.Kind <= r.Reliability.Kind }, // Reliable is the zero value
		func(s *Set) string { return s.Reliability.Kind.String() },
	},
	{
		DestinationOrderPolicy, "offered ≥ requested",
		func(o, r *Set) bool { return o.Order >= r.Order },
		func(s *Set) string { return s.Order.String() },
	},
}

// Explain returns the verdict on each policy by which a writer and a reader match.
func Explain(offered, requested Set) []Verdict {
	verdicts := make([]Verdict, 0, len(rules))
	for i := range rules {
		r := &rules[i]
		verdicts = append(verdicts, Verdict{r.policy, r.holds(&offered, &requested), r.show(&offered), r.show(&requested), r.rule})
	}
	return verdicts
}

// Match reports whether a writer and a reader match. If they do not because of what is offered and
// requested, the first policy that is incompatible is returned; a mismatch of partitions alone is
// not told, as in the standard.
func Match(offered, requested *Set) (matched bool, incompatible []Policy) {
	matched = true
	for i := range rules {
		if r := &rules[i]; !r.holds(offered, requested) {
			matched = false
			if r.policy != PartitionPolicy {
				incompatible = append(incompatible, r.policy)
			}
		}
	}
	return matched, incompatible
}

// atMost compares durations of which 0 is without an end.
func atMost(offered, requested time.Duration) bool {
	return requested == 0 || offered != 0 && offered <= requested
}

func orNone(d time.Duration) string {
	if d == 0 {
		return "infinite"
	}
	return d.String()
}

// intersect reports whether a partition of one is one of the other, or fits a pattern of the other.
// Two patterns never fit each other.
func intersect(offered, requested []string) bool {
	def := []string{""}
	if len(offered) == 0 {
		offered = def
	}
	if len(requested) == 0 {
		requested = def
	}
	for _, o := range offered {
		for _, r := range requested {
			switch po, pr := isPattern(o), isPattern(r); {
			case po && pr:
			case po && fits(o, r), pr && fits(r, o), !po && !pr && o == r:
				return true
			}
		}
	}
	return false
}

func isPattern(s string) bool { return strings.ContainsAny(s, "*?[") }

// fits is the matching of POSIX's fnmatch: * is any text, ? any byte, [a-z] a byte of a set and
// [!a-z] one outside of it.
func fits(pattern, s string) bool {
	star, from := -1, 0
	p, i := 0, 0
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			star, from = p, i
			p++
			continue
		}
		if n, ok := fitsByte(pattern[p:], s[i]); ok {
			p, i = p+n, i+1
			continue
		}
		if star < 0 {
			return false
		}
		from++ // the star takes one more
		p, i = star+1, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// fitsByte compares a byte with the beginning of a pattern, of which n bytes are used.
func fitsByte(pattern string, c byte) (n int, ok bool) {
	switch {
	case pattern == "":
		return 0, false
	case pattern[0] == '?':
		return 1, true
	case pattern[0] != '[':
		return 1, pattern[0] == c
	}
	end := strings.IndexByte(pattern[min(2, len(pattern)):], ']')
	if end < 0 {
		return 1, c == '[' // no set: the byte itself
	}
	n = end + 3
	set, outside := pattern[1:n-1], false
	if set[0] == '!' || set[0] == '^' {
		set, outside = set[1:], true
	}
	for i := 0; i < len(set); i++ {
		lo, hi := set[i], set[i]
		if i+2 < len(set) && set[i+1] == '-' {
			hi = set[i+2]
			i += 2
		}
		if lo <= c && c <= hi {
			return n, !outside
		}
	}
	return n, outside
}

func name(value uint8, names ...string) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("kind %d", value)
}

func (d Durability) String() string {
	return name(uint8(d), "VOLATILE", "TRANSIENT_LOCAL", "TRANSIENT", "PERSISTENT")
}

func (o Ownership) String() string { return name(uint8(o), "SHARED", "EXCLUSIVE") }

func (s Scope) String() string { return name(uint8(s), "INSTANCE", "TOPIC", "GROUP") }

func (p Presentation) String() string {
	s := p.Access.String()
	if p.Coherent {
		s += " coherent"
	}
	if p.Ordered {
		s += " ordered"
	}
	return s
}

func (k LivelinessKind) String() string {
	return name(uint8(k), "AUTOMATIC", "MANUAL_BY_PARTICIPANT", "MANUAL_BY_TOPIC")
}

func (k ReliabilityKind) String() string { return name(uint8(k), "RELIABLE", "BEST_EFFORT") }

func (o DestinationOrder) String() string {
	return name(uint8(o), "BY_RECEPTION_TIMESTAMP", "BY_SOURCE_TIMESTAMP")
}
