package life

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

var verbs = [...]string{
	OpenLog: "open", NoteLack: "note lack", CutDamage: "cut", SetAside: "set aside", ServeLogs: "serve", NoteSelf: "note self", Restart: "restart",
	FindMember: "find", CatchUp: "catch up", Join: "join", NoteView: "note view", Begin: "begin", Fail: "fail", NoteDecision: "note decision",
	EmptyLog: "empty", Rest: "rest", Finish: "finish",
}

func text(e Effect) string {
	words := []string{verbs[e.Do]}
	if e.Log.Name != "" {
		words = append(words, e.Log.String())
	}
	if e.Source.Addr != "" {
		words = append(words, "of "+e.Source.Addr)
	}
	if len(e.Ask) > 0 {
		words = append(words, "at "+strings.Join(e.Ask, " "))
	}
	if e.Anew {
		words = append(words, "anew")
	}
	return strings.Join(words, " ")
}

// declarations are a log, one with two shards, and a subgroup without.
var declarations = []views.Declaration{
	{Name: "a", Mode: views.Persistent}, {Name: "b", Mode: views.Persistent, Shards: 2}, {Name: "c", Mode: views.Ordered},
}

// view has nodes 1 to 3, all in log a and in shard 1 of b. Of a, node 1 lacks something.
func view(id order.ViewID) *views.View {
	ranks := []order.Rank{0, 1, 2}
	return &views.View{ID: id, Members: []views.Member{{ID: 1}, {ID: 2}, {ID: 3}}, Subgroups: []views.Subgroup{
		{Name: "a", Mode: views.Persistent, Members: ranks, Fresh: ranks[:1]}, {Name: "b", Shard: 1, Mode: views.Persistent, Members: ranks},
	}}
}

// lead has a core go on with results, by the text of effects, and returns what it wanted done.
func lead(c *Core, e Effect, results map[string]Result) (did []string, last Effect) {
	for {
		did = append(did, text(e))
		if e.Do == Begin || e.Do == Fail {
			return did, e
		}
		e = c.Ended(results[text(e)])
	}
}

func TestLF1AProcessJoinsUnderAnIdentityThatIsDurable(t *testing.T) {
	v, damage := view(7), errors.New("a bad checksum")
	logs := []restart.LogID{{Name: "a"}, {Name: "b", Shard: 1}}
	for name, c := range map[string]struct {
		known   restart.State
		logs    []restart.LogID
		results map[string]Result
		want    string
	}{
		"bootstraps, or joins": {
			results: map[string]Result{"join at x": {View: v}},
			want:    "serve, note self, find at x, join at x, open a.0, open b.1, note view, begin",
		},
		"catches up with a member": {
			logs: logs, results: map[string]Result{"find at x": {Addr: "m"}, "catch up a.0 of m": {Outcome: Failed}, "join at x": {View: v}},
			want: "open a.0, open b.1, serve, note self, find at x, catch up a.0 of m, join at x, open a.0, open b.1, note view, begin",
		},
		"goes on in a view of a restart": {
			known: restart.State{Node: 1, Successor: restart.Successor{View: view(6)}}, results: map[string]Result{"restart": {View: v}},
			want: "serve, note self, restart, open a.0, open b.1, note view, begin",
		},
		"finds a group that works": {
			known:   restart.State{Node: 1, Successor: restart.Successor{View: view(6)}},
			results: map[string]Result{"restart": {Running: []string{"r"}}, "join at r x": {View: v}},
			want:    "serve, note self, restart, note self anew, find at r x, join at r x, open a.0, open b.1, note view, begin",
		},
		"drops damage": {
			known: restart.State{Node: 1, Successor: restart.Successor{View: view(6)}}, logs: logs,
			results: map[string]Result{
				"open b.1": {Outcome: Damaged, Err: damage}, "cut b.1": {Outcome: Damaged, Err: damage}, "restart": {Outcome: Fatal, Err: errors.ErrUnsupported},
			},
			want: "open a.0, open b.1, note lack b.1, cut b.1, set aside b.1, serve, note self, restart, fail",
		},
		"keeps damage that is the only copy": {
			logs: logs, results: map[string]Result{"open a.0": {Outcome: Damaged, Err: damage}}, want: "open a.0, fail",
		},
	} {
		core := New(Config{Self: 1, Ask: []string{"x"}, Declarations: declarations})
		did, last := lead(core, core.Start(c.known, c.logs), c.results)
		if got := strings.Join(did, ", "); got != c.want {
			t.Errorf("a process that %s does %q, not %q", name, got, c.want)
		}
		if (last.Do == Fail) != (last.Err != nil) {
			t.Errorf("a process that %s ends with %v", name, last.Err)
		}
	}
}

func TestLF2DamageIsDroppedBehindANoteOnly(t *testing.T) {
	core := New(Config{Self: 1, Declarations: declarations})
	e := core.Start(restart.State{Node: 1, Successor: restart.Successor{View: view(6)}}, []restart.LogID{{Name: "a"}})
	if e = core.Ended(Result{Outcome: Damaged, Err: errors.New("damage")}); e.Do != NoteLack {
		t.Fatalf("after damage comes %s", text(e))
	}
	if e = core.Ended(Result{}); e.Do != CutDamage || e.Err == nil {
		t.Errorf("after the note comes %s, with %v", text(e), e.Err)
	}
}

func TestLF3AViewIsNotedWithWhatItsLogsLack(t *testing.T) {
	core, v := New(Config{Self: 1, Declarations: declarations}), view(7)
	e := core.Start(restart.State{}, nil)
	for e.Do != NoteView {
		e = core.Ended(Result{View: v})
	}
	if want := []restart.LogID{{Name: "a"}}; e.View != v || !slices.Equal(e.Logs, want) {
		t.Errorf("noted is view %v, where %v lack something", e.View, e.Logs)
	}
	if next := core.Ended(Result{}); next.Do != Begin || next.View != v {
		t.Errorf("after it comes %s", text(next))
	}
	var did []string
	for _, e := range core.Decision(view(8)) {
		did = append(did, text(e))
	}
	if got := strings.Join(did, ", "); got != "open a.0, open b.1, note decision" {
		t.Errorf("a decision does %q", got)
	}
	if end := core.Decision(nil); len(end) != 1 || end[0].Do != NoteDecision {
		t.Errorf("the end of a group does %v", end)
	}
}

func TestAProcessWithoutLogsOnlyJoins(t *testing.T) {
	core := New(Config{Self: 1, Ask: []string{"x"}, Declarations: declarations[2:]})
	did, _ := lead(core, core.Start(restart.State{}, nil), map[string]Result{"join at x": {View: view(1)}})
	if got := strings.Join(did, ", "); got != "join at x, begin" {
		t.Errorf("it does %q", got)
	}
}

func TestLF4NothingIsDroppedBeforeJoining(t *testing.T) {
	core := New(Config{Self: 1, Ask: []string{"x"}, Declarations: declarations})
	e := core.Start(restart.State{}, nil)
	for e.Do != CatchUp {
		e = core.Ended(Result{Addr: "m"})
	}
	if !e.Keep || e.Last != (order.Version{}) {
		t.Errorf("it catches up to %v, and keeps what it has: %v", e.Last, e.Keep)
	}
}

func agreed(name string, seq order.Seq, nodes ...order.NodeID) restart.Agreed {
	a := restart.Agreed{ID: restart.LogID{Name: name}}
	if seq > 0 {
		a.End = order.Version{View: 3, Seq: seq}
	}
	for _, n := range nodes {
		a.Sources = append(a.Sources, restart.Source{Node: n, Addr: fmt.Sprint("n", n)})
	}
	return a
}

func TestAReconciliationTakesOneLogAfterTheOther(t *testing.T) {
	pauses := wait.Backoff{First: time.Millisecond, Longest: 4 * time.Millisecond}
	broken := Result{Outcome: Failed, Err: errors.New("broken")}
	m := NewReconciliation(1, []restart.Agreed{agreed("own", 5, 2, 1), agreed("none", 0, 2), agreed("a", 9, 2, 3), agreed("b", 4, 3)}, pauses)
	var did []string
	e := m.Start()
	for _, r := range []Result{{}, broken, broken, {}, broken, {}, {}} {
		did = append(did, text(e))
		e = m.Ended(r)
	}
	want := "empty none.0, catch up a.0 of n2, catch up a.0 of n3, rest a.0, catch up a.0 of n2, catch up a.0 of n3, catch up b.0 of n3"
	if got := strings.Join(did, ", "); got != want || e.Do != Finish || e.Err != nil {
		t.Errorf("it did %q and ended with %s, %v; not %q", got, text(e), e.Err, want)
	}
}

func TestAReconciliationEndsWithWhatItsOwnLogSays(t *testing.T) {
	own, broken := errors.New("a full disk"), errors.New("broken")
	m := NewReconciliation(1, []restart.Agreed{agreed("a", 9, 2, 3)}, wait.Backoff{First: 1, Longest: 1})
	m.Start()
	m.Ended(Result{Outcome: Failed, Err: broken})
	if e := m.Ended(Result{Outcome: Fatal, Err: own}); e.Do != Finish || !errors.Is(e.Err, own) || !errors.Is(e.Err, broken) || !errors.As(e.Err, new(restart.LogError)) {
		t.Errorf("it ends with %s, %v", text(e), e.Err)
	}
	m = NewReconciliation(1, []restart.Agreed{agreed("a", 9, 2, 3)}, wait.Backoff{First: 1, Longest: 1})
	m.Start()
	if e := m.Ended(Result{Outcome: Stopped, Err: broken}); e.Do != Finish || !errors.Is(e.Err, broken) || errors.As(e.Err, new(restart.LogError)) {
		t.Errorf("stopped, it ends with %s, %v", text(e), e.Err)
	}
}

// Whatever comes of effects, a process begins or fails, and each log of which it lost something was
// noted before.
func TestLF1ToLF4HoldInRandomLives(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		known := restart.State{Node: 1}
		if random.IntN(2) == 0 {
			known.View = view(6)
		}
		core := New(Config{Self: 1, Ask: []string{"x"}, Declarations: declarations})
		var logs []restart.LogID
		if random.IntN(4) > 0 {
			logs = []restart.LogID{{Name: "a"}, {Name: "b", Shard: 1}}
		}
		var durable, noted, restarted bool
		var lacks restart.LogID
		e := core.Start(known, logs)
		for n := 0; e.Do != Begin && e.Do != Fail; n++ {
			r := Result{Outcome: Outcome(random.IntN(3))}
			if n > 0 && random.IntN(30) == 0 {
				r = Result{Outcome: Fatal, Err: errors.New("fatal")}
			}
			if r.Outcome == Damaged && e.Do != OpenLog && e.Do != CutDamage || r.Outcome == Failed && e.Do != CatchUp {
				r.Outcome = Done
			}
			r.Err = errors.Join(r.Err, errors.New("damage"))
			switch e.Do {
			case NoteLack:
				lacks = e.Log
			case CutDamage, SetAside:
				if lacks != e.Log || known.View == nil {
					t.Fatalf("seed %d: LF2: %s, and what is noted is %v", seed, text(e), lacks)
				}
			case NoteSelf:
				durable = restarted == e.Anew
			case Restart:
				if r.Running, restarted = []string{"r"}, true; random.IntN(2) == 0 {
					r.View = view(7)
				} else {
					durable = false
				}
			case FindMember:
				r.Addr = []string{"", "m"}[random.IntN(2)]
			case CatchUp:
				if !e.Keep {
					t.Fatalf("seed %d: LF4: %s may drop something", seed, text(e))
				}
			case Join:
				if r.View = view(7); !durable {
					t.Fatalf("seed %d: LF1: joins under an identity that is not durable", seed)
				}
			case NoteView:
				noted = true
			}
			if e = core.Ended(r); e.Do == Begin && !noted {
				t.Fatalf("seed %d: LF3: begins in a view that is not durable", seed)
			}
		}
	}
}
