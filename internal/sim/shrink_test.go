package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/testutil"
)

// A plan that was kept in a file is the same run: event by event, with the bounds that it was drawn
// with.
func TestAPlanInAFileIsTheSameRun(t *testing.T) {
	for seed := range testutil.Seeds[uint64](5, 60) {
		p := Draw(seed, Limits{})
		again := new(Plan)
		if err := json.Unmarshal(p.text(), again); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if a, b := Run(p, Options{}), Run(again, Options{}); a.Hash != b.Hash || a.Time != b.Time {
			t.Fatalf("seed %d: the plan of the file is another run\n%v\n%v", seed, p, again)
		}
	}
}

func TestAPlanThatFitsNothingIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Plan){
		"no initial members":     func(p *Plan) { p.Initial = 0 },
		"more initial members":   func(p *Plan) { p.Initial = len(p.Nodes) + 1 },
		"no subgroups":           func(p *Plan) { p.Decls = nil },
		"an inbox less":          func(p *Plan) { p.Inboxes = p.Inboxes[1:] },
		"no pairs":               func(p *Plan) { p.Net.Kinds[1] = nil },
		"an id out of range":     func(p *Plan) { p.Nodes[0].ID = 64 },
		"an address of nobody":   func(p *Plan) { p.Nodes[0].Ask = []int{7} },
		"an application nowhere": func(p *Plan) { p.Apps[0].Node = -1 },
		"a fault of no kind":     func(p *Plan) { p.Faults = []Fault{{Kind: faultKinds}} },
		"a fault of nobody":      func(p *Plan) { p.Faults = []Fault{{Kind: Crash, Node: 3}} },
	} {
		p := Draw(1, Limits{Nodes: 3, Kinds: FaultKinds(0).With(Crash)})
		p.Nodes = slices.Clone(p.Nodes)
		spoil(p)
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, new(Plan)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// failsIf is a run that fails if a predicate says so.
func failsIf(so func(*Plan) bool) func(*Plan) Result {
	return func(p *Plan) Result {
		if so(p) {
			return Result{Err: fmt.Errorf("at 1ms: %w", violated("G1", "as it should")), Checker: "order"}
		}
		return Result{}
	}
}

// What a failure needs stays, and nothing else does.
func TestAShrunkPlanHasWhatTheFailureNeeds(t *testing.T) {
	yes := true
	kinds := func(p *Plan, k FaultKind) int {
		n := 0
		for _, f := range p.Faults {
			n += one(f.Kind == k)
		}
		return n
	}
	messages := func(p *Plan) (n int) {
		for _, a := range p.Apps {
			n += a.Messages
		}
		return n
	}
	for seed := uint64(1); seed <= testutil.Seeds[uint64](5, 19); seed++ {
		p := Draw(seed, Limits{Faults: &yes})
		crashes, persistent := min(1, kinds(p, Crash)), p.keeps()
		least := min(messages(p), 5)
		fails := func(p *Plan) bool {
			return kinds(p, Crash) >= crashes && messages(p) >= least && p.keeps() == persistent
		}
		s := Shrinker{Play: failsIf(fails)}
		got, err := s.Shrink(p)
		if err == nil || !fails(got) {
			t.Fatalf("seed %d: the shrunk plan does not fail: %v\n%v", seed, err, got)
		}
		if len(got.Faults) != crashes || len(got.Nodes) > 2 || len(got.Decls) > 2 || messages(got) > 10 || got.States != 0 || got.BulkTime != 0 || got.Outages != 0 {
			t.Errorf("seed %d: %s is left, after %d tries\n%v", seed, got.Size(), s.Tried(), got)
		}
		again := Shrinker{Play: s.Play}
		if twin, _ := again.Shrink(p); !reflect.DeepEqual(twin, got) || again.Tried() != s.Tried() {
			t.Errorf("seed %d: the same plan was shrunk to another one", seed)
		}
	}
}

// A plan that fails in another way is not accepted.
func TestShrinkingKeepsTheViolation(t *testing.T) {
	p := Draw(3, Limits{Nodes: 5})
	play := func(q *Plan) Result {
		switch {
		case len(q.Nodes) == len(p.Nodes):
			return Result{Err: fmt.Errorf("at 1ms: %w", violated("G1", "of %d", len(q.Nodes))), Checker: "order"}
		default:
			return Result{Err: fmt.Errorf("at 2ms: %w", violated("G2", "of %d", len(q.Nodes))), Checker: "atomic"}
		}
	}
	s := Shrinker{Play: play}
	if got, err := s.Shrink(p); len(got.Nodes) != len(p.Nodes) || !strings.Contains(err.Error(), "G1") {
		t.Errorf("%v\n%v", err, got)
	}
	sound := Shrinker{Play: func(*Plan) Result { return Result{} }}
	if got, err := sound.Shrink(p); got != p || err != nil || sound.Tried() != 0 {
		t.Errorf("a plan that does not fail was shrunk: %v, %d tries", err, sound.Tried())
	}
}

func TestShrinkingStops(t *testing.T) {
	stop := make(chan struct{})
	p, tries := Draw(3, Limits{Nodes: 5}), 0
	s := Shrinker{Play: failsIf(func(*Plan) bool { return true }), Stop: stop, Progress: func(tried int, smallest *Plan) {
		if tries = tried; tried == 3 {
			close(stop)
		}
	}}
	if got, err := s.Shrink(p); err == nil || tries != 3 || s.Tried() != 3 || got == nil {
		t.Errorf("%d tries, %v", s.Tried(), err)
	}
}

func TestTheWayOfAFailure(t *testing.T) {
	same := func(checker, a, b string, want bool) {
		t.Helper()
		x, y := Result{Err: errors.New(a), Checker: checker}, Result{Err: errors.New(b), Checker: checker}
		if got := x.way() == y.way(); got != want {
			t.Errorf("%q and %q: %q and %q", a, b, x.way(), y.way())
		}
	}
	same("order", "at 1ms: G1 is violated: node 3", "at 2s: G1 is violated: node 5 has more", true)
	same("order", "at 1ms: G1 is violated: node 3", "at 1ms: G2 is violated: node 3", false)
	same("", "at 1ms: panic: index 3 of 2\nstack", "at 2ms: panic: index 7 of 5\nanother stack", true)
	same("", "at 1ms: panic: index 3 of 2\nstack", "at 1ms: panic: nil map\nstack", false)
	broken := Result{Err: fmt.Errorf("at 1ms: %w", invariants.Violation{ID: "M4", Detail: "x"})}
	if broken.way() != "invariant M4" || (&Result{}).way() != "" {
		t.Errorf("%q", broken.way())
	}
}

// A failing seed of each flaw is shrunk to a small plan, which fails in the same way when it is
// read from a file.
func TestFailingSeedsAreShrunk(t *testing.T) {
	for _, f := range []struct {
		name                    string
		options                 Options
		first                   uint64 // seed: in some plans a run of several messages takes many members
		nodes, faults, messages int    // at most
	}{
		{"what was taken is offered again", Options{Lie: TakesAgain}, 3, 2, 0, 8},
		{"a future is that of another message", Options{Lie: WrongFuture}, 1, 2, 0, 8},
		{"not everybody begins the same view", Options{Lie: AnotherView}, 2, 2, 1, 8},
		{"a log is not synced", Options{Disk: NoSync}, 2, 2, 0, 8},
	} {
		t.Run(f.name, func(t *testing.T) {
			c := Campaign{First: f.first, Count: mutantSeeds, Options: f.options}
			if c.Run() == nil {
				t.Fatal("not found")
			}
			shrinksTo(t, c.Failed, f.options, f.nodes, f.faults, f.messages)
		})
	}
}

// shrinksTo demands that a failing plan becomes a small one, which still fails in the same way
// after it went through a file.
func shrinksTo(t *testing.T, p *Plan, o Options, nodes, faults, messages int) {
	t.Helper()
	before := Run(p, o)
	s := Shrinker{Options: o}
	got, err := s.Shrink(p)
	t.Logf("seed %d: %s\n%s\nafter %d tries: %s\n%v", p.Seed, before.way(), p.Size(), s.Tried(), got.Size(), err)
	text, fault := json.Marshal(PlanFile{Violation: err.Error(), Plan: got})
	if fault != nil {
		t.Fatal(fault)
	}
	var file PlanFile
	if fault := json.Unmarshal(text, &file); fault != nil {
		t.Fatal(fault)
	}
	if r := Run(file.Plan, o); r.Err == nil || r.Err.Error() != err.Error() || r.way() != before.way() {
		t.Errorf("the file's plan ends with %v, the shrunk one with %v", r.Err, err)
	}
	sum := 0
	for _, a := range got.Apps {
		sum += a.Messages
	}
	if len(got.Nodes) > nodes || len(got.Faults) > faults || sum > messages {
		t.Errorf("%s is left, of %s: at most %d nodes, %d faults and %d messages\n%v", got.Size(), p.Size(), nodes, faults, messages, got)
	}
}
