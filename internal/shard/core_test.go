package shard

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

var verbs = map[Verb]string{
	FetchState: "fetch", FillLog: "fill", EmptyLog: "empty", SyncLog: "sync", CompleteLog: "complete", Recover: "recover", RestoreEmpty: "begin",
	HandOver: "hand over", Rest: "rest", Hold: "hold", LackLog: "lack", HoldLog: "hold log", FreeLog: "free log", AwaitApp: "await", Drop: "drop",
	Silence: "silence", Live: "live", Over: "over", Cancel: "cancel", OfferState: "offer", WithholdState: "withhold", Thank: "thank", Arrive: "arrive",
	SourceFailed: "failed", Begun: "begun", Restored: "restored", Fail: "fail",
}

// member makes members 1 to n.
func members(n int) (list []views.Member) {
	for i := range n {
		list = append(list, views.Member{ID: order.NodeID(i + 1)})
	}
	return list
}

func ranks(list ...order.Rank) []order.Rank { return list }

// view has shards "s", and node i+1 at rank i.
func view(id order.ViewID, n int, shards ...views.Subgroup) *views.View {
	for i := range shards {
		shards[i].Name, shards[i].Shard = "s", i
	}
	return &views.View{ID: id, Members: members(n), Subgroups: shards}
}

// stage is a core, and what it wanted done.
type stage struct {
	t     *testing.T
	core  *Core
	under Effect // the activity that is under way
	last  []Effect
}

func newStage(t *testing.T, cfg Config) *stage {
	cfg.Self, cfg.HandsOver = 3, true
	cfg.State, cfg.Log = wait.Backoff{First: 1, Longest: 4}, wait.Backoff{First: 1, Longest: 4}
	return &stage{t: t, core: New(cfg)}
}

// wants compares what the core wants done with a list of words.
func (s *stage) wants(want ...string) {
	s.t.Helper()
	var got []string
	s.last = nil
	for e, ok := s.core.take(); ok; e, ok = s.core.take() {
		text := fmt.Sprintf("%d %s", e.Stay, verbs[e.Do])
		if e.Source.ID != 0 {
			text += fmt.Sprint(" ", e.Source.ID)
		}
		if got, s.last = append(got, text), append(s.last, e); e.Do <= Rest {
			s.under = e
		}
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("it wants %q, not %q", got, want)
	}
}

func (s *stage) ends(r Result) { s.core.Ended(s.under.Activity, r) }

// installed takes a view in which the process is in a shard, and begins its deliveries.
func (s *stage) installed(v *views.View, shard int) (id Stay) {
	id, _ = s.core.Enter(v, shard)
	s.core.Installed(v)
	return id
}

// fresh is a view in which node 3 comes into a shard of nodes 1 and 2.
func fresh(id order.ViewID) *views.View {
	return view(id, 3, views.Subgroup{Members: ranks(0, 1, 2), Fresh: ranks(2), Partial: ranks(2)})
}

// settled is the view behind it.
func settled(id order.ViewID) *views.View {
	return view(id, 3, views.Subgroup{Members: ranks(0, 1, 2)})
}

func TestAFreshMemberHasItsApplicationRestoreTheStateOfAnother(t *testing.T) {
	s := newStage(t, Config{})
	id := s.installed(fresh(5), 0)
	s.wants("1 hold")
	s.core.Begins(id, 5, 0, false)
	s.wants("1 await")
	s.core.Ready(id)
	s.wants("1 fetch 1")
	s.ends(Result{Outcome: Later})
	s.wants("1 fetch 2")
	s.ends(Result{Outcome: Failed, Err: errors.New("broken")})
	s.wants("1 failed 2", "1 rest")
	s.ends(Result{})
	s.wants("1 fetch 1")
	s.ends(Result{})
	s.wants("1 thank", "1 hand over")
	s.ends(Result{})
	s.wants("1 arrive", "1 live", "1 restored")
	if again, begins := s.core.Enter(settled(6), 0); again != id || begins {
		t.Errorf("it goes on as stay %d, new: %v", again, begins)
	}
	s.wants()
}

func TestAFreshMemberBringsItsLogUpToTheBoundary(t *testing.T) {
	s := newStage(t, Config{Logs: true, Recovers: true})
	id := s.installed(fresh(5), 0)
	s.wants("1 hold", "1 lack")
	s.core.Begins(id, 5, 0, false)
	s.wants("1 hold log", "1 await")
	s.core.Ready(id)
	s.wants("1 fetch 1")
	s.ends(Result{Last: order.Version{View: 4, Seq: 7}})
	s.wants("1 fill 1")
	if last := s.last[0].Last; last != (order.Version{View: 4, Seq: 7}) {
		t.Errorf("the log ends with %v", last)
	}
	s.ends(Result{Outcome: Failed, Err: errors.New("broken")})
	s.wants("1 failed 1", "1 fill 2")
	s.ends(Result{})
	s.wants("1 sync")
	s.ends(Result{})
	s.wants("1 complete")
	s.ends(Result{})
	s.wants("1 recover")
	s.ends(Result{})
	s.wants("1 thank", "1 hand over")
	s.ends(Result{})
	s.wants("1 arrive", "1 free log", "1 live", "1 restored")
}

func TestSH3ALogOfWhichTheOthersHaveNothingIsEmptied(t *testing.T) {
	s := newStage(t, Config{Logs: true})
	id := s.installed(fresh(5), 0)
	s.core.Begins(id, 5, 0, false)
	s.core.Ready(id)
	s.wants("1 hold", "1 lack", "1 hold log", "1 await", "1 fetch 1")
	s.ends(Result{})
	s.wants("1 empty")
	s.ends(Result{})
	s.wants("1 sync")
	s.ends(Result{})
	s.wants("1 complete")
	s.ends(Result{})
	s.wants("1 thank", "1 hand over") // there is no Recover
}

func TestAMemberThatHoldsTheLogHasItsApplicationRecoverFromIt(t *testing.T) {
	s := newStage(t, Config{Logs: true, Recovers: true})
	id := s.installed(settled(5), 0)
	s.core.Begins(id, 5, 0, false)
	s.core.Ready(id)
	s.wants("1 hold", "1 hold log", "1 await", "1 sync")
	s.ends(Result{})
	s.wants("1 recover")
	s.ends(Result{Outcome: Fatal, Err: errors.New("no such table")})
	s.wants("1 fail")
}

func TestAShardThatBeginsHasTheApplicationBeginWithNothing(t *testing.T) {
	s := newStage(t, Config{})
	s.installed(settled(5), 0)
	s.wants() // nothing is to be replaced
	lost := settled(6)
	lost.Subgroups[0].Lost = true
	id := s.installed(lost, 0)
	s.wants("2 hold", "1 over")
	s.core.Begins(id, 6, 0, false)
	s.core.Ready(id)
	s.wants("2 await", "2 begin")
	s.ends(Result{})
	s.wants("2 begun", "2 hand over")
}

// moving are views in which node 3 is fresh in a shard, and then in another one.
func moving() (*views.View, *views.View) {
	return view(5, 3, views.Subgroup{Members: ranks(0, 1, 2), Fresh: ranks(2)}, views.Subgroup{Members: ranks(1)}),
		view(6, 3, views.Subgroup{Members: ranks(0)}, views.Subgroup{Members: ranks(1, 2), Fresh: ranks(2)})
}

func TestSH1AStayBeginsItsWorkBehindTheEndOfTheOneBefore(t *testing.T) {
	s := newStage(t, Config{})
	a, b := moving()
	id := s.installed(a, 0)
	s.core.Begins(id, 5, 0, false)
	s.core.Ready(id)
	s.wants("1 hold", "1 await", "1 fetch 1")
	next := s.installed(b, 1)
	s.wants("2 hold", "1 drop", "1 over", "1 cancel")
	s.core.Begins(next, 6, 1, false)
	s.core.Ready(next)
	s.wants("2 await") // the application may still read
	s.ends(Result{})
	s.wants("1 arrive", "2 fetch 2") // SH4: what came is not used
	s.core.Ended(s.under.Activity-1, Result{})
	s.wants() // an activity that is over ends once
}

func TestSH2NothingBeginsBeforeTheApplicationHasEverythingOfEarlierViews(t *testing.T) {
	s := newStage(t, Config{})
	id := s.installed(fresh(5), 0)
	s.core.Begins(id, 5, 0, false)
	s.wants("1 hold", "1 await")
	s.core.Installed(settled(6))
	s.wants("1 drop", "1 over", "1 arrive") // it is in no shard, as Enter was not called
}

func TestWhatWaitsForACompleteLogIsRecordedThoughTheMemberMoved(t *testing.T) {
	s := newStage(t, Config{Logs: true, Recovers: true})
	v := view(5, 3, views.Subgroup{Members: ranks(0, 1, 2)}, views.Subgroup{Members: ranks(1)})
	id := s.installed(v, 0)
	s.core.Begins(id, 5, 0, false)
	s.core.Ready(id)
	s.wants("1 hold", "1 hold log", "1 await", "1 sync")
	_, b := moving()
	s.installed(b, 1)
	s.wants("2 hold", "2 lack", "1 silence", "1 cancel")
	s.ends(Result{Outcome: Failed})
	s.wants("1 hand over")
	s.ends(Result{})
	s.wants("1 arrive", "1 free log", "1 over")
}

// The process comes back to a shard of which it still records a backlog: the end of that does not
// make up for what the log lacks since.
func TestALogThatLacksSomethingAgainIsNotFreedByTheStayBefore(t *testing.T) {
	s := newStage(t, Config{Logs: true, Recovers: true})
	id := s.installed(settled(5), 0)
	s.core.Begins(id, 5, 0, false)
	s.core.Ready(id)
	s.wants("1 hold", "1 hold log", "1 await", "1 sync")
	_, b := moving()
	between := s.installed(b, 1)
	s.wants("2 hold", "2 lack", "1 silence", "1 cancel")
	again := s.installed(fresh(7), 0)
	s.wants("3 hold", "3 lack", "2 drop", "2 over")
	s.core.Begins(between, 6, 1, false)
	s.core.Begins(again, 7, 0, false)
	s.wants("3 hold log", "3 await")
	s.ends(Result{Outcome: Failed})
	s.wants("1 hand over")
	s.ends(Result{})
	s.wants("1 arrive", "1 over", "2 arrive")
	s.core.Ready(again)
	s.wants("3 fetch 1")
	for _, next := range [][]string{{"3 fill 1"}, {"3 sync"}, {"3 complete"}, {"3 recover"}, {"3 thank", "3 hand over"}, {"3 arrive", "3 free log", "3 live", "3 restored"}} {
		s.ends(Result{Last: order.Version{View: 6, Seq: 1}})
		s.wants(next...)
	}
}

// handingOver returns a fresh stay that is still delivering its backlog, and a view in which the
// process is in another shard.
func handingOver(t *testing.T) (s *stage, id Stay, moved *views.View) {
	s = newStage(t, Config{Logs: true, Recovers: true})
	id = s.installed(fresh(5), 0)
	s.core.Begins(id, 5, 0, false)
	s.core.Ready(id)
	s.wants("1 hold", "1 lack", "1 hold log", "1 await", "1 fetch 1")
	for _, next := range [][]string{{"1 fill 1"}, {"1 sync"}, {"1 complete"}, {"1 recover"}, {"1 thank", "1 hand over"}} {
		s.ends(Result{Last: order.Version{View: 4, Seq: 1}})
		s.wants(next...)
	}
	moved, _ = moving()
	moved.ID, moved.Subgroups[0], moved.Subgroups[1] = 7, moved.Subgroups[1], moved.Subgroups[0]
	return s, id, moved
}

// The backlog of the stay was empty before the process left the shard: its log has all that the
// shard delivered, and it offers the state where a view begins that it was in.
func TestSH5AFreshStayThatIsLeftAfterItsBacklogOffersItsLog(t *testing.T) {
	s, id, moved := handingOver(t)
	s.ends(Result{})
	s.wants("1 arrive", "1 free log", "1 live", "1 restored")
	s.installed(settled(6), 0)
	s.installed(moved, 1)
	s.wants("2 hold", "2 lack", "1 over")
	s.core.Begins(id, 6, 0, true)
	s.wants("1 offer")
}

// The process leaves a shard while it delivers the last of its backlog. Later messages of the shard
// are not recorded, so the log is not complete, and no state is offered from it.
func TestSH5AFreshStayThatIsLeftAsItsBacklogEndsHasNoCompleteLog(t *testing.T) {
	s, id, moved := handingOver(t)
	s.installed(settled(6), 0)
	s.wants()
	s.installed(moved, 1)
	s.wants("2 hold", "2 lack", "1 drop", "1 over")
	s.ends(Result{}) // it was through before it was told to end
	s.wants("1 arrive")
	s.core.Begins(id, 6, 0, true) // behind the rest of view 5
	s.wants("1 withhold")
}

func TestASourceThatIsNoMemberAnyMoreIsLeftAtOnce(t *testing.T) {
	s := newStage(t, Config{})
	id := s.installed(fresh(5), 0)
	s.core.Begins(id, 5, 0, false)
	s.core.Ready(id)
	s.wants("1 hold", "1 await", "1 fetch 1")
	without := view(6, 3, views.Subgroup{Members: ranks(0, 1), Partial: ranks(1)})
	without.Members = without.Members[1:]
	s.installed(without, 0)
	s.wants("1 cancel")
	s.ends(Result{Outcome: Failed, Err: errors.New("cut")})
	s.wants("1 failed 1", "1 fetch 2")
	if err := s.last[0].Err; !errors.Is(err, errSourceGone) {
		t.Error(err)
	}
}

// A source of a log may never have what it is asked for: its process has halted, and answers still.
// The next one is asked as soon as the view is without it, if another member has the log whole.
func TestASourceOfALogThatIsNoMemberAnyMoreIsLeft(t *testing.T) {
	for name, whole := range map[string]bool{"another member has the log whole": true, "no other member has the log whole": false} {
		s := newStage(t, Config{Logs: true})
		id := s.installed(fresh(5), 0)
		s.core.Begins(id, 5, 0, false)
		s.core.Ready(id)
		s.wants("1 hold", "1 lack", "1 hold log", "1 await", "1 fetch 1")
		s.ends(Result{Last: order.Version{View: 4, Seq: 9}})
		s.wants("1 fill 1")
		without := view(6, 3, views.Subgroup{Members: ranks(0, 1), Partial: ranks(1)})
		if !whole {
			without.Subgroups[0].Partial = ranks(0, 1)
		}
		without.Members = without.Members[1:]
		s.installed(without, 0)
		if !whole {
			s.wants()
			s.ends(Result{})
			s.wants("1 sync")
			continue
		}
		s.wants("1 cancel")
		again := *without
		again.ID++
		s.installed(&again, 0)
		s.wants()
		s.ends(Result{Outcome: Failed, Err: errors.New("cut"), Progress: true})
		s.wants("1 failed 1", "1 fill 2")
		if err := s.last[0].Err; !errors.Is(err, errSourceGone) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAStateThatNobodyHasIsLost(t *testing.T) {
	for name, lose := range map[string]func(*stage){
		"all refuse": func(s *stage) {
			s.ends(Result{Outcome: Refused, Err: errors.New("no")})
			s.wants("1 failed 1", "1 fetch 2")
			s.ends(Result{Outcome: Refused, Err: errors.New("neither")})
			s.wants("1 failed 2", "1 fail")
		},
		"all are gone": func(s *stage) {
			alone := view(6, 3, views.Subgroup{Members: ranks(0)})
			alone.Members = alone.Members[2:]
			s.installed(alone, 0)
			s.wants("1 cancel")
			s.ends(Result{Outcome: Failed, Err: errors.New("cut")})
			s.wants("1 failed 1", "1 fail")
		},
	} {
		s := newStage(t, Config{})
		id := s.installed(fresh(5), 0)
		s.core.Begins(id, 5, 0, false)
		s.core.Ready(id)
		s.wants("1 hold", "1 await", "1 fetch 1")
		lose(s)
		if err := s.last[len(s.last)-1].Err; !errors.Is(err, ErrStateLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSH5AStateIsOfferedByThoseThatGotAllThatWasDelivered(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		over bool
		want string
	}{
		"the application has the state":                 {Config{}, false, "1 offer"},
		"the member moved":                              {Config{}, true, "1 withhold"},
		"the member moved, and its log is complete":     {Config{Logs: true}, true, "1 offer"},
		"the application recovers, and the member goes": {Config{Logs: true, Recovers: true}, true, "1 offer"},
	} {
		s := newStage(t, c.cfg)
		id := s.installed(view(5, 3, views.Subgroup{Members: ranks(0, 1, 2)}, views.Subgroup{Members: ranks(1)}), 0)
		if c.over {
			_, b := moving()
			s.installed(b, 1)
		}
		for _, ok := s.core.take(); ok; _, ok = s.core.take() {
		}
		s.core.Begins(id, 5, 0, true)
		var words []string
		for e, ok := s.core.take(); ok; e, ok = s.core.take() {
			if e.Do == OfferState || e.Do == WithholdState {
				words = append(words, fmt.Sprint(e.Stay, " ", verbs[e.Do]))
			}
		}
		if got := strings.Join(words, ", "); got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
}

// A boundary in a backlog that is dropped is never reached: members that wait for the state there
// must ask other members.
func TestSH5WhatWasPromisedBehindABacklogIsWithheldWithIt(t *testing.T) {
	s := newStage(t, Config{})
	a, b := moving()
	id := s.installed(a, 0)
	s.core.Begins(id, 5, 0, true)
	s.wants("1 hold", "1 await", "1 offer")
	s.installed(b, 1)
	s.wants("2 hold", "1 withhold", "1 drop", "1 over", "1 arrive")
}

func TestFreshMembersAreSpread(t *testing.T) {
	v := view(5, 8, views.Subgroup{Members: ranks(0, 1, 2, 3, 4, 5, 6, 7), Fresh: ranks(3, 4, 5, 6, 7), Partial: ranks(2, 3, 4, 5, 6, 7)})
	var first []order.NodeID
	for id := order.NodeID(4); id <= 8; id++ {
		list := StateSources(v, 0, id)
		first = append(first, list[0].ID)
		if last := list[len(list)-1].ID; last != 3 {
			t.Errorf("node %d asks node %d last, and node 3 may have nothing", id, last)
		}
	}
	if !slices.Equal(first, []order.NodeID{1, 2, 1, 2, 1}) {
		t.Error(first)
	}
}

func TestPausesGrowUntilASourceGivesSomething(t *testing.T) {
	s := Sources{Pauses: wait.Backoff{First: 5, Longest: 15}}
	one := members(1)
	var pauses []time.Duration
	for round := range 6 {
		if _, pause, left := s.Next(one); pause != 0 || !left {
			t.Fatalf("round %d: pause %v, left: %v", round, pause, left)
		}
		_, pause, _ := s.Next(one)
		if pauses = append(pauses, pause); round == 3 {
			s.Progress()
		}
	}
	if !slices.Equal(pauses, []time.Duration{5, 10, 15, 15, 5, 10}) {
		t.Error(pauses)
	}
	s.Refused(1)
	if _, _, left := s.Next(one); left {
		t.Error("a source that refused is left")
	}
}

// SH1 to SH4, whatever views come, and however activities end.
func TestSH1ToSH4HoldInRandomLives(t *testing.T) {
	for seed := range uint64(2000) {
		d := rand.New(rand.NewPCG(seed, 1))
		l := &life{t: t, seed: seed, random: d, cfg: Config{Self: 3, HandsOver: true, Logs: d.IntN(2) == 0, Recovers: d.IntN(2) == 0, State: wait.Backoff{First: 1, Longest: 4}, Log: wait.Backoff{First: 1, Longest: 4}}, state: map[Stay]bool{}, dropped: map[Stay]bool{}}
		l.cfg.Recovers = l.cfg.Recovers && l.cfg.Logs
		l.core = New(l.cfg)
		l.live()
	}
}

// life is a core to which random things happen, and what is known of them.
type life struct {
	t       *testing.T
	seed    uint64
	random  *rand.Rand
	cfg     Config
	core    *Core
	view    *views.View
	own     Stay
	under   []Effect      // activities that did not end
	cut     bool          // the last one was cancelled
	synced  bool          // since the log was changed last
	state   map[Stay]bool // the application, or the log, has the state of the stay
	dropped map[Stay]bool
	begins  []Stay // stays whose deliveries did not begin
}

func (l *life) live() {
	id := order.ViewID(1)
	for range 200 {
		switch l.random.IntN(4) {
		case 0:
			l.install(id)
			id++
		case 1:
			for _, s := range l.begins {
				l.core.Begins(s, l.view.ID, 0, l.random.IntN(2) == 0)
			}
			l.begins = nil
		default:
			l.end()
		}
		for e, ok := l.core.take(); ok; e, ok = l.core.take() {
			l.do(e)
		}
	}
}

// install installs a view in which the process is in one of two shards, or in none.
func (l *life) install(id order.ViewID) {
	for _, s := range l.begins { // a view begins before the next one is entered, at least here
		l.core.Begins(s, l.view.ID, 0, false)
	}
	l.begins = nil
	v := view(id, 3, views.Subgroup{Members: ranks(0, 1)}, views.Subgroup{Members: ranks(0, 1)})
	in := l.random.IntN(3)
	was := -1
	if l.view != nil {
		was = slices.IndexFunc(l.view.Subgroups, func(sg views.Subgroup) bool { return sg.Has(2) })
	}
	if in < 2 {
		sg := &v.Subgroups[in]
		sg.Members = append(sg.Members, 2)
		if was != in {
			sg.Fresh = ranks(2)
		}
		s, begins := l.core.Enter(v, in)
		l.own = s
		if begins && was == in {
			l.t.Errorf("seed %d: view %d: a member that stays in shard %d begins again", l.seed, id, in)
		}
		l.begins = append(l.begins, s)
	}
	l.view = v
	l.core.Installed(v)
}

func (l *life) end() {
	if len(l.under) == 0 {
		return
	}
	e := l.under[0]
	l.under = nil
	r := Result{Last: order.Version{View: 1}, Outcome: []Outcome{Done, Done, Later, Failed}[l.random.IntN(4)]}
	if e.Do != FetchState && e.Do != FillLog {
		r.Outcome = Done
	}
	if e.Do == HandOver && l.dropped[e.Stay] {
		r.Outcome = Dropped
	}
	if r.Outcome == Done && !l.cut {
		switch e.Do {
		case FillLog, EmptyLog:
			l.synced = false
		case SyncLog:
			l.synced = true
		case FetchState:
			l.state[e.Stay] = !l.cfg.Logs
		case CompleteLog, RestoreEmpty:
			l.state[e.Stay] = true
		}
	}
	l.core.Ended(e.Activity, r)
}

func (l *life) do(e Effect) {
	switch {
	case e.Do > Rest:
	case len(l.under) > 0:
		l.t.Errorf("seed %d: SH1: %s while %s is in flight", l.seed, verbs[e.Do], verbs[l.under[0].Do])
	default:
		l.under, l.cut = []Effect{e}, false
	}
	switch e.Do {
	case AwaitApp:
		l.core.Ready(e.Stay)
	case Cancel:
		l.cut = true
	case Drop:
		l.dropped[e.Stay] = true
	case FillLog, EmptyLog:
		l.synced = false
	case CompleteLog, Recover:
		if !l.synced {
			l.t.Errorf("seed %d: SH3: %s before the log is durable", l.seed, verbs[e.Do])
		}
	case HandOver, Live:
		if !l.state[e.Stay] {
			l.t.Errorf("seed %d: SH2: %s of stay %d without its state", l.seed, verbs[e.Do], e.Stay)
		}
	}
}

// together is a view in which nodes 3 and 4 come into a shard of node 1, and the one behind it,
// without node 1.
func together() (a, b *views.View) {
	a = view(5, 4, views.Subgroup{Members: ranks(0, 2, 3), Fresh: ranks(2, 3), Partial: ranks(2, 3)})
	b = view(6, 4, views.Subgroup{Members: ranks(1, 2)})
	b.Members = b.Members[1:]
	return a, b
}

// The only member that had the state gave it to node 4, and is gone. Node 3, whose own state has
// not come, gets it from node 4.
func TestAFreshMemberAsksThoseThatCameWithIt(t *testing.T) {
	for name, gone := range map[string]bool{"the source is gone": true, "the source refuses": false} {
		s := newStage(t, Config{})
		a, b := together()
		id := s.installed(a, 0)
		s.core.Begins(id, 5, 0, true)
		s.wants("1 hold", "1 await", "1 offer")
		s.core.Ready(id)
		s.wants("1 fetch 1")
		if gone {
			s.installed(b, 0)
			s.wants("1 cancel")
			s.ends(Result{Outcome: Failed, Err: errors.New("cut")})
		} else {
			s.ends(Result{Outcome: Refused, Err: errors.New("no")})
		}
		s.wants("1 failed 1", "1 withhold", "1 fetch 4")
		if e := s.last[1]; e.View != 5 || e.Index != 0 {
			t.Errorf("%s: it withholds the state of view %d in subgroup %d", name, e.View, e.Index)
		}
		s.ends(Result{Outcome: Later})
		s.wants("1 rest")
		s.ends(Result{})
		s.wants("1 fetch 4")
		s.ends(Result{})
		s.wants("1 thank", "1 hand over")
		s.ends(Result{})
		s.wants("1 arrive", "1 live", "1 restored")
	}
}

// Two that wait for each other, and have both nothing, find out.
func TestTwoFreshMembersWithoutASourceDoNotWaitForEachOther(t *testing.T) {
	s := newStage(t, Config{})
	a, b := together()
	id := s.installed(a, 0)
	s.core.Begins(id, 5, 0, true)
	s.core.Ready(id)
	s.wants("1 hold", "1 await", "1 offer", "1 fetch 1")
	s.installed(b, 0)
	s.ends(Result{Outcome: Failed, Err: errors.New("cut")})
	s.wants("1 cancel", "1 failed 1", "1 withhold", "1 fetch 4")
	s.ends(Result{Outcome: Refused, Err: errors.New("node 4 has withheld it, too")})
	s.wants("1 failed 4", "1 fail")
	if err := s.last[1].Err; !errors.Is(err, ErrStateLost) {
		t.Error(err)
	}
}
