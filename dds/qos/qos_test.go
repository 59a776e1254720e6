package qos_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
)

// matrix is all offered and all requested values of a policy. Compatible has a row for each offered
// value, in which + stands for a requested value that matches.
type matrix struct {
	policy     qos.Policy
	values     []qos.Set
	compatible []string
}

var matrices = []matrix{
	{qos.DurabilityPolicy, []qos.Set{{Durability: qos.Volatile}, {Durability: qos.TransientLocal}, {Durability: qos.Transient}, {Durability: qos.Persistent}}, []string{
		"+---",
		"++--",
		"+++-",
		"++++",
	}},
	{qos.PresentationPolicy, []qos.Set{ // scopes × coherent × ordered
		{Presentation: qos.Presentation{}},
		{Presentation: qos.Presentation{Coherent: true}},
		{Presentation: qos.Presentation{Ordered: true}},
		{Presentation: qos.Presentation{Coherent: true, Ordered: true}},
		{Presentation: qos.Presentation{Access: qos.TopicScope}},
		{Presentation: qos.Presentation{Access: qos.TopicScope, Coherent: true}},
		{Presentation: qos.Presentation{Access: qos.TopicScope, Ordered: true}},
		{Presentation: qos.Presentation{Access: qos.TopicScope, Coherent: true, Ordered: true}},
		{Presentation: qos.Presentation{Access: qos.GroupScope}},
		{Presentation: qos.Presentation{Access: qos.GroupScope, Coherent: true}},
		{Presentation: qos.Presentation{Access: qos.GroupScope, Ordered: true}},
		{Presentation: qos.Presentation{Access: qos.GroupScope, Coherent: true, Ordered: true}},
	}, []string{
		"+-----------",
		"++----------",
		"+-+---------",
		"++++--------",
		"+---+-------",
		"++--++------",
		"+-+-+-+-----",
		"++++++++----",
		"+---+---+---",
		"++--++--++--",
		"+-+-+-+-+-+-",
		"++++++++++++",
	}},
	{qos.DeadlinePolicy, []qos.Set{{}, {Deadline: 3 * time.Second}, {Deadline: 5 * time.Second}, {Deadline: 7 * time.Second}}, []string{
		"+---", // no deadline satisfies no deadline only
		"++++",
		"+-++",
		"+--+",
	}},
	{qos.LatencyBudgetPolicy, []qos.Set{{}, {LatencyBudget: time.Millisecond}, {LatencyBudget: time.Second}}, []string{
		"+++",
		"-++",
		"--+",
	}},
	{qos.OwnershipPolicy, []qos.Set{{}, {Ownership: qos.Exclusive}}, []string{
		"+-",
		"-+",
	}},
	{qos.LivelinessPolicy, []qos.Set{
		{},
		{Liveliness: qos.Liveliness{Lease: time.Second}},
		{Liveliness: qos.Liveliness{Kind: qos.ManualByParticipant}},
		{Liveliness: qos.Liveliness{Kind: qos.ManualByParticipant, Lease: 2 * time.Second}},
		{Liveliness: qos.Liveliness{Kind: qos.ManualByTopic}},
		{Liveliness: qos.Liveliness{Kind: qos.ManualByTopic, Lease: time.Second}},
	}, []string{
		"+-----",
		"++----",
		"+-+---",
		"+-++--",
		"+-+-+-",
		"++++++",
	}},
	{qos.PartitionPolicy, []qos.Set{
		{},
		{Partitions: []string{""}},
		{Partitions: []string{"p1"}},
		{Partitions: []string{"p2", "p1"}},
		{Partitions: []string{"p*"}},
		{Partitions: []string{"*"}},
		{Partitions: []string{"p[2-9]"}},
		{Partitions: []string{"?1", "x"}},
	}, []string{
		"++---+--",
		"++---+--",
		"--++++-+",
		"--++++++",
		"--++----",
		"++++---+",
		"---+----",
		"--++-+-+",
	}},
	{qos.ReliabilityPolicy, []qos.Set{{}, {Reliability: qos.Reliability{Kind: qos.BestEffort}}}, []string{
		"++",
		"-+",
	}},
	{qos.DestinationOrderPolicy, []qos.Set{{}, {Order: qos.BySource}}, []string{
		"+-",
		"++",
	}},
}

func TestMatchingIsATableOfAllOfferedAndRequestedValues(t *testing.T) {
	seen := map[qos.Policy]bool{}
	for _, m := range matrices {
		seen[m.policy] = true
		for i, offered := range m.values {
			for j, requested := range m.values {
				want := m.compatible[i][j] == '+'
				matched, incompatible := qos.Match(&offered, &requested)
				told := m.policy == qos.PartitionPolicy || slices.Equal(incompatible, []qos.Policy{m.policy})
				if matched != want || !matched && !told {
					t.Errorf("%v: offered %d, requested %d: %v, %v; want %v", m.policy, i, j, matched, incompatible, want)
				}
				for _, v := range qos.Explain(offered, requested) {
					if v.Compatible != (want || v.Policy != m.policy) {
						t.Errorf("offered %d, requested %d is explained as %v", i, j, v)
					}
				}
			}
		}
	}
	for _, v := range qos.Explain(qos.Set{}, qos.Set{}) {
		if !seen[v.Policy] {
			t.Errorf("%v is matched and has no matrix", v.Policy)
		}
	}
}

func TestAllIncompatiblePoliciesAreTold(t *testing.T) {
	offered := qos.Set{Reliability: qos.Reliability{Kind: qos.BestEffort}, Partitions: []string{"a"}}
	requested := qos.Set{Durability: qos.Transient, Ownership: qos.Exclusive}
	matched, incompatible := qos.Match(&offered, &requested)
	if want := []qos.Policy{qos.DurabilityPolicy, qos.OwnershipPolicy, qos.ReliabilityPolicy}; matched || !slices.Equal(incompatible, want) {
		t.Errorf("%v, %v", matched, incompatible)
	}
	v := qos.Explain(offered, requested)[0]
	if want := "DURABILITY: incompatible: offered VOLATILE, requested TRANSIENT; offered ≥ requested"; v.String() != want {
		t.Errorf("%q", v)
	}
}

func TestPatternsAreThoseOfFnmatch(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "", true},
		{"a*b*c", "a--b--b--c", true},
		{"a*b*c", "a--b--", false},
		{"*/x", "a/b/x", true},
		{"[!a]b", "cb", true},
		{"[!a]b", "ab", false},
		{"[a-c]", "b", true},
		{"[]]", "]", true},
		{"a?c", "ac", false},
		{"**", "x", true},
		{strings.Repeat("*a", 30), strings.Repeat("a", 29), false},
	} {
		offered, requested := qos.Set{Partitions: []string{c.s}}, qos.Set{Partitions: []string{c.pattern}}
		if matched, _ := qos.Match(&offered, &requested); matched != c.want {
			t.Errorf("%q and %q: %v", c.pattern, c.s, matched)
		}
		if matched, _ := qos.Match(&requested, &offered); matched != c.want {
			t.Errorf("%q and %q the other way: %v", c.pattern, c.s, matched)
		}
	}
}

// notDefault has for each policy a set in which it alone is not the default.
var notDefault = map[qos.Policy]qos.Set{
	qos.UserDataPolicy:            {UserData: []byte("u")},
	qos.TopicDataPolicy:           {TopicData: []byte("t")},
	qos.GroupDataPolicy:           {GroupData: []byte("g")},
	qos.DurabilityPolicy:          {Durability: qos.Transient},
	qos.DurabilityServicePolicy:   {Service: qos.DurabilityService{History: qos.KeepLast(3)}},
	qos.PresentationPolicy:        {Presentation: qos.Presentation{Coherent: true}},
	qos.DeadlinePolicy:            {Deadline: time.Second},
	qos.LatencyBudgetPolicy:       {LatencyBudget: time.Second},
	qos.OwnershipPolicy:           {Ownership: qos.Exclusive},
	qos.OwnershipStrengthPolicy:   {Strength: 3},
	qos.LivelinessPolicy:          {Liveliness: qos.Liveliness{Kind: qos.ManualByTopic}},
	qos.TimeBasedFilterPolicy:     {Separation: time.Second},
	qos.PartitionPolicy:           {Partitions: []string{"p"}},
	qos.ReliabilityPolicy:         {Reliability: qos.Reliability{Kind: qos.BestEffort}},
	qos.TransportPriorityPolicy:   {TransportPriority: 1},
	qos.LifespanPolicy:            {Lifespan: time.Second},
	qos.DestinationOrderPolicy:    {Order: qos.BySource},
	qos.HistoryPolicy:             {History: qos.KeepAll()},
	qos.ResourceLimitsPolicy:      {Limits: qos.Limits{Samples: 10}},
	qos.EntityFactoryPolicy:       {Disabled: true},
	qos.WriterDataLifecyclePolicy: {KeepUnregistered: true},
	qos.ReaderDataLifecyclePolicy: {Purge: qos.ReaderLifetime{Disposed: time.Second}},
}

// accepted are the entities for which Validate accepts the set above: of topic, writer and reader.
var accepted = map[qos.Policy]string{
	qos.UserDataPolicy: "-++", qos.TopicDataPolicy: "+--", qos.GroupDataPolicy: "-++", qos.DurabilityPolicy: "+++", qos.DurabilityServicePolicy: "+--",
	qos.PresentationPolicy: "+++", qos.DeadlinePolicy: "+++", qos.LatencyBudgetPolicy: "+++", qos.OwnershipPolicy: "+++", qos.OwnershipStrengthPolicy: "-+-",
	qos.LivelinessPolicy: "+++", qos.TimeBasedFilterPolicy: "--+", qos.PartitionPolicy: "-++", qos.ReliabilityPolicy: "+++", qos.TransportPriorityPolicy: "---",
	qos.LifespanPolicy: "++-", qos.DestinationOrderPolicy: "+++", qos.HistoryPolicy: "+++", qos.ResourceLimitsPolicy: "+++", qos.EntityFactoryPolicy: "---",
	qos.WriterDataLifecyclePolicy: "-+-", qos.ReaderDataLifecyclePolicy: "--+",
}

func TestEveryPolicyIsAcceptedOrRefusedWithAReason(t *testing.T) {
	if len(qos.Policies()) != 22 {
		t.Errorf("%d policies", len(qos.Policies()))
	}
	for _, p := range qos.Policies() {
		set, ok := notDefault[p]
		if _, text := p.Support(); !ok || text == "" {
			t.Fatalf("%v: no set, or nothing said", p)
		}
		for i, e := range []qos.Entity{qos.Topic, qos.Writer, qos.Reader} {
			err := set.Validate(e)
			switch {
			case accepted[p][i] == '+' && err != nil:
				t.Errorf("%v of a %v: %v", p, e, err)
			case accepted[p][i] == '-' && (!errors.Is(err, qos.ErrRefused) || !strings.Contains(err.Error(), p.String())):
				t.Errorf("%v of a %v is accepted, or refused without a reason: %v", p, e, err)
			}
		}
	}
	if err := new(qos.Set).Validate(qos.Reader); err != nil {
		t.Error(err)
	}
}

func TestContradictionsAreRefused(t *testing.T) {
	for _, s := range []qos.Set{
		{Deadline: time.Second, Separation: 2 * time.Second},
		{Deadline: -1},
		{Liveliness: qos.Liveliness{Kind: qos.ManualByTopic, Lease: -1}},
		{History: qos.KeepLast(5), Limits: qos.Limits{SamplesPerInstance: 4}},
		{Limits: qos.Limits{Samples: 3, SamplesPerInstance: 4}},
		{Limits: qos.Limits{Instances: -1}},
		{History: qos.History{Depth: -1}},
		{Durability: 9},
	} {
		if err := s.Validate(qos.Reader); !errors.Is(err, qos.ErrInconsistent) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, s := range []qos.Set{
		{Deadline: time.Second, Separation: time.Second},
		{History: qos.KeepLast(4), Limits: qos.Limits{Samples: 4, SamplesPerInstance: 4}},
	} {
		if err := s.Validate(qos.Reader); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	automatic := qos.Set{Liveliness: qos.Liveliness{Lease: time.Second}}
	if err := automatic.Validate(qos.Writer); !errors.Is(err, qos.ErrRefused) || !strings.Contains(err.Error(), "FailAfter") {
		t.Errorf("a lease of AUTOMATIC: %v", err)
	}
	both := qos.Set{Deadline: -1, TransportPriority: 1}
	if err := both.Validate(qos.Writer); !errors.Is(err, qos.ErrInconsistent) || !errors.Is(err, qos.ErrRefused) {
		t.Errorf("all faults are told: %v", err)
	}
}
