//go:build mutants

package sim

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/internal/simnet"
)

// coreFlaws are the mutants of the protocol with the checkers that must each find them alone.
var coreFlaws = map[mutant.Name]string{
	mutant.Unstable:       "atomic",
	mutant.OneTooMany:     "live",
	mutant.EarlyRelease:   "content fifo atomic",
	mutant.LateRelease:    "release",
	mutant.LazyNulls:      "loss stall",
	mutant.EagerNulls:     "quiet",
	mutant.TurnsKept:      "live",
	mutant.FollowsItself:  "live",
	mutant.HoldsAnew:      "live",
	mutant.EarlyDelivered: "content atomic",
	mutant.AfterHalt:      "halt",

	mutant.ForgetOpen: "loss",
	mutant.NoTrim:     "order",

	mutant.KeptReused:  "content",
	mutant.KeptTooLong: "content",

	mutant.PlainHalf:       "brain",
	mutant.SilentSuspicion: "live",
	mutant.NoFreeze:        "brain",
	mutant.AckUnwedged:     "live",
	mutant.TrimByMaximum:   "brain",
	mutant.NoAdoption:      "brain",
	mutant.NoEchoQuorum:    "brain",
	mutant.NoCarry:         "loss",
	mutant.NoTail:          "atomic",
	mutant.Impatient:       "atomic",
	mutant.Forgiving:       "live",
	mutant.BelievesAll:     "brain",
	mutant.LongSlices:      "live",
	mutant.BeatsAlone:      "live",
	mutant.AheadForgotten:  "fifo",
	mutant.HolderStays:     "shards",
	mutant.NoRefill:        "shards",

	mutant.EchoUnrecorded: "log",
	mutant.EarlyPersisted: "log",
	mutant.NullsHold:      "live",
	mutant.OwnFrontier:    "log",

	mutant.RestartAlone:    "brain",
	mutant.PromiseUnsynced: "restart",
	mutant.VoteUnsynced:    "restart",
	mutant.VoteForgotten:   "restart",
	mutant.EchoFirst:       "restart",
	mutant.LastVote:        "restart",
	mutant.AnyPromise:      "restart",
	mutant.AnyVote:         "restart",
	mutant.FewEnter:        "restart",
	mutant.WholeForgotten:  "restart",

	mutant.StaleReady:          "",
	mutant.NotHeldBack:         "join",
	mutant.HolderPresumedAlive: "",

	mutant.EarlyBacklog:     "state",
	mutant.StateTwice:       "",
	mutant.CompleteUnsynced: "log",
	mutant.HalfLog:          "log",
	mutant.PartialSource:    "log",
	mutant.TwoAtOnce:        "",
	mutant.NoOffer:          "",
	mutant.BacklogLoses:     "",
	mutant.LeaverWaits:      "live",

	mutant.EarlyShown:   "log",
	mutant.PartialWhole: "log",
	mutant.OwnTime:      "log",
	mutant.EarlyFreed:   "log read",

	mutant.ConfirmsAlone:   "read",
	mutant.JoinsRound:      "read",
	mutant.ConfirmsUngiven: "read",
	mutant.PeeksAlone:      "read",
	mutant.PeeksOver:       "read",
	mutant.PeeksAtTheDead:  "read",
	mutant.PeeksUngiven:    "read",

	mutant.NotHeld:    "atomic",
	mutant.EarlyPlace: "live",
	mutant.OldBody:    "live",

	mutant.EarlyBlock:   "",
	mutant.BlockMissing: "",
	mutant.EarlyAck:     "",
	mutant.FirstAck:     "",
	mutant.AbortUnsaid:  "",
	mutant.TakenBack:    "",
	mutant.OnlyOnce:     "",
	mutant.HalfFreed:    "",
	mutant.ViewUnsaid:   "",
	mutant.RoomKept:     "",

	mutant.OfferAttaches:  "",
	mutant.AnswerAttaches: "",
	mutant.EndAccuses:     "",
	mutant.SilenceUnsaid:  "",
	mutant.EarlierStays:   "",
	mutant.EarlierOffer:   "",
	mutant.OfferForgotten: "",
}

// corePlans are for mutants that show in one kind of run only. Plans that are drawn for no mutant
// show most of them as well, within 3,000 seeds: all but SentFirst, LastVote, EchoFirst and
// JoinsRound. docs/testing.md has the numbers.
var corePlans = map[mutant.Name]func(uint64) *Plan{
	mutant.RestartAlone:   darkPlan,
	mutant.PartialSource:  movingPlan,
	mutant.EarlyFreed:     reformedPlan,
	mutant.SentFirst:      skipPlan,
	mutant.BelievesAll:    hostilePlan,
	mutant.LongSlices:     slowPlan,
	mutant.BeatsAlone:     narrowPlan,
	mutant.AheadForgotten: turnedPlan,
	mutant.HolderStays:    waitingPlan,
	mutant.NoRefill:       refillPlan,
	mutant.EchoFirst:      echoPlan,
	mutant.LastVote:       duelPlan,
	mutant.VoteForgotten:  duelPlan,
	mutant.AnyPromise:     rivalPlan,
	mutant.AnyVote:        duelPlan,
	mutant.FewEnter:       duelPlan,
	mutant.WholeForgotten: overtakenPlan,
	mutant.OfferAttaches:  likePlan("stale_offer_of_a_group_of_transfers"),
	mutant.AnswerAttaches: likePlan("link_is_given_up_as_its_dialer_stands_still"),
	mutant.EndAccuses:     likePlan("member_wakes_as_its_links_are_given_up"),
	mutant.SilenceUnsaid:  likePlan("member_wakes_as_its_links_are_given_up"),
	mutant.EarlierStays:   meetingPlan,
	mutant.EarlierOffer:   meetingPlan,
	mutant.JoinsRound:     stillPlan,
	mutant.LeaverWaits:    leavingPlan,
}

// coreSeeds are seeds that showed mutants which few runs show. Short tests play them first. After a
// change of the protocol or the simulator one may show nothing any more: then the search takes as
// long as without it.
var coreSeeds = map[mutant.Name]uint64{
	mutant.AfterHalt:      433,
	mutant.TurnsKept:      118,
	mutant.AnyVote:        117,
	mutant.HalfLog:        336,
	mutant.PeeksAtTheDead: 302,
	mutant.ConfirmsAlone:  226,
	mutant.PeeksOver:      226,
	mutant.NoTrim:         245,
	mutant.EarlierOffer:   239,
	mutant.PeeksAlone:     302,
	mutant.TakenBack:      197,
	mutant.NoAdoption:     129,

	mutant.JoinsRound:      198,
	mutant.SilentSuspicion: 177,
}

func allMutants() []mutant.Name {
	restarts := slices.DeleteFunc(slices.Clone(mutant.RestartNames), func(n mutant.Name) bool {
		return n == mutant.ShortestLog // the tests of package restart find it
	})
	// the tests of package attach find all of them
	attaching := slices.DeleteFunc(slices.Clone(mutant.AttachNames), func(n mutant.Name) bool {
		return n == mutant.DoubtForgotten || n == mutant.NothingHeldBack || n == mutant.SleepIsSilence || n == mutant.FarewellUnsaid
	})
	return slices.Concat(mutant.Names, mutant.CarryNames, mutant.KeepNames, mutant.ViewNames, mutant.LargeNames, attaching, mutant.PersistNames, mutant.ShardNames, mutant.ConfirmNames, restarts, mutant.JoinNames)
}

func TestEveryFlawOfTheFabricIsFound(t *testing.T) {
	for _, f := range fabricFlaws {
		t.Run(f.name, f.find)
	}
}

func TestEveryMutantOfTheCoreIsFound(t *testing.T) {
	defer mutant.Set("")
	for _, name := range allMutants() {
		t.Run(string(name), func(t *testing.T) {
			mutant.Set(name)
			flaw{draw: corePlans[name], seed: coreSeeds[name], checkers: coreFlaws[name]}.find(t)
		})
	}
}

// N5, D4: sent would be copied before skipped.
func TestTheMutantOfTheOrderOfCopiesIsFound(t *testing.T) {
	mutant.Set(mutant.SecondFirst)
	defer mutant.Set("")
	for seed := range uint64(300) {
		if hidden(t, seed) > 0 {
			return
		}
	}
	t.Error("no message was hidden")
}

// A checker that no mutant trips alone is not a checker.
func TestEveryCheckerFindsSomething(t *testing.T) {
	var trips []string
	for _, f := range fabricFlaws {
		trips = append(trips, strings.Fields(f.checkers)...)
	}
	for _, checkers := range coreFlaws {
		trips = append(trips, strings.Fields(checkers)...)
	}
	for _, c := range newWorld(Draw(1, Limits{}), Options{}).checkers {
		if !slices.Contains(trips, c.name()) {
			t.Errorf("no mutant trips %s", c.name())
		}
	}
}

// echoPlan is a run in which all members end in the middle of a view change, of which few know how
// it ends, and the processes that come back end again with votes for different views.
func echoPlan(seed uint64) *Plan {
	p, d := keptPlan(seed, 3+int(seed%3), 50)
	at := d.upTo(p.FailAfter())
	p.Outages, p.Faults = 0, append([]Fault{
		{Kind: Crash, At: at, Node: d.IntN(len(p.Nodes))},
		{Kind: Blackout, At: at + 1, On: pick(d, Acks, Decides, Echoes, Echoes, Completes), Nth: 1 + d.IntN(2), For: d.upTo(p.Hop()), Peer: 2},
	}, d.duel(p, at)...)
	p.Keep.LateIn = 2
	return p
}

// skipPlan is a run in shared memory that seeps, in which members skip rounds after each message,
// and one view follows the other.
func skipPlan(seed uint64) *Plan {
	yes := true
	p, d := Draw(seed, Limits{Nodes: 4 + int(seed%3), Messages: 400, Faults: &yes}), newDice(seed)
	p.Outages, p.Faults = 0, nil
	at := d.upTo(time.Millisecond)
	for i := range p.Initial {
		p.Faults = append(p.Faults, Fault{Kind: pick(d, Crash, Leave), At: at, Node: i})
		p.Nodes[i].Returns, p.Nodes[i].Times = d.upTo(time.Millisecond), 1
		at += d.upTo(time.Millisecond)
	}
	for a := range p.Nodes {
		for b := range p.Nodes {
			p.Net.Kinds[a][b] = simnet.Seeping
		}
	}
	for i := range p.Apps {
		p.Apps[i].SkipIn, p.Apps[i].Burst, p.Apps[i].HoldIn, p.Apps[i].LargeIn, p.Apps[i].Gap, p.Apps[i].Messages = 1, 1, 0, 0, 10*time.Microsecond, 400
	}
	return p
}

// rivalPlan is a run in which all members end, and of the processes that come back several lead at
// the same time.
func rivalPlan(seed uint64) *Plan {
	p, d := keptPlan(seed, 3+int(seed%3), 50)
	at := d.upTo(p.FailAfter())
	cut, late := d.rivals(p, at)
	p.Faults = []Fault{{Kind: Blackout, At: at, For: d.upTo(p.Hop()), Node: late, Nth: 1}, cut}
	p.Keep.LateIn = 2
	return p
}

// stillPlan is a run in which a member stands still in the middle of a reading, while the others
// end, come back and go on without it.
func stillPlan(seed uint64) *Plan {
	p, d := keptPlan(seed, 3+int(seed%3), 100)
	at := d.upTo(p.FailAfter())
	d.stopped(p, at)
	p.Reads = Reads{Count: 40 + int(at*8/p.Hop()), Gap: p.Hop() / 8}
	return p
}

// overtakenPlan is a run in which a member's disk is behind by a view as all processes end.
func overtakenPlan(seed uint64) *Plan {
	p, d := keptPlan(seed, 4+int(seed%4), 50)
	p.Outages, p.Faults = 0, nil
	blackout := d.overtaken(p, &p.Faults, d.upTo(p.FailAfter()))
	p.Faults = append(p.Faults, blackout)
	return p
}

// flaw is a mutant with the checkers that must each find it alone.
type flaw struct {
	name     string
	options  Options
	noNulls  bool
	draw     func(seed uint64) *Plan // nil: Draw
	seed     uint64                  // showed it once; 0: none is known
	checkers string
}

var fabricFlaws = []flaw{
	{name: "lines travel before the bytes they cover", options: Options{Bug: simnet.LinesFirst}, checkers: "content fifo order atomic"},
	{name: "frames of a pair overtake each other", options: Options{Bug: simnet.Overtaking}, checkers: "live"},
	{name: "a stale line is applied again", options: Options{Bug: simnet.StaleLines}, checkers: "live"},
	{name: "what a full socket does not take is lost", options: Options{Bug: simnet.LostRanges}, checkers: "content fifo order atomic"},
	{name: "a frame that waited loses its lines", options: Options{Bug: simnet.LostLines}, draw: fullPlan, checkers: "loss stall"},
	{name: "a byte changes in flight", options: Options{Bug: simnet.FlippedByte}, checkers: "content fifo atomic"},
	{name: "a range arrives off its place", options: Options{Bug: simnet.StrayBytes}, checkers: "content fifo atomic"},
	{name: "lines go with the first of the ranges", options: Options{Bug: simnet.EarlyLines}, checkers: "content fifo order atomic"},
	{name: "what was taken is offered again", options: Options{Lie: TakesAgain}, checkers: "fifo"},
	{name: "a future is that of another message", options: Options{Lie: WrongFuture}, checkers: "future"},
	{name: "not everybody begins the same view", options: Options{Lie: AnotherView}, checkers: "views"},
	{name: "a log is not synced", options: Options{Disk: NoSync}, checkers: "log"},
	{name: "the name of a log is not synced", options: Options{Disk: NoDirSync}, checkers: "log"},
	{name: "what is written counts as durable", options: Options{Disk: EarlyWritten}, checkers: "log"},
	{name: "an end that others lack is not cut off whole", options: Options{Disk: CutsTooLittle}, draw: darkPlan, checkers: "log"},
	{name: "more than that is cut off", options: Options{Disk: CutsTooMuch}, draw: darkPlan, checkers: "log"},
	{name: "a log is brought up to those of another shard", options: Options{Disk: OtherShard}, draw: movingPlan, checkers: "log"},
	{name: "a log is called whole that its member has left and come back to", options: Options{Disk: LateWhole}, draw: movingPlan, seed: 546, checkers: "log"},
	{name: "no nulls at all", noNulls: true, checkers: "loss stall"},
}

// fullPlan is a run without faults in which sockets are full most of the time.
func fullPlan(seed uint64) *Plan {
	no := false
	p := Draw(seed, Limits{Faults: &no})
	p.Net.frame()
	p.Net.SocketBytes = 400
	return p
}

// darkPlan is a run in which all processes end at once, and one disk is slower than the others.
func darkPlan(seed uint64) *Plan {
	p, d := keptPlan(seed, 3+int(seed%2), 100)
	p.Outages, p.Faults = 0, []Fault{{Kind: Blackout, At: d.upTo(2 * p.FailAfter()), For: d.upTo(p.Hop()), Node: d.IntN(p.Initial), Nth: 1}}
	if p.keeps() {
		p.Keep.Disks[d.IntN(len(p.Nodes))].Sync = p.Bound() / 4
	}
	return p
}

// caught runs the flaw until a checker finds it, and returns the name of that checker. Only
// restricts the run to one checker; empty: all.
func (f flaw) caught(t *testing.T, only string) (finder string) {
	t.Helper()
	o := f.options
	o.Only = only
	draw := f.draw
	if draw == nil {
		draw = func(seed uint64) *Plan {
			p := Draw(seed, limits())
			p.Tuning.NoNulls = f.noNulls
			return p
		}
	}
	c := Campaign{First: f.seed, Count: 1, Options: o, Draw: draw}
	if f.seed == 0 || !testing.Short() || c.Run() == nil {
		c = Campaign{First: 1, Count: mutantSeeds, Options: o, Draw: draw}
	}
	if c.Failed == nil && c.Run() == nil {
		t.Errorf("%d seeds did not show it to: %s", mutantSeeds, cmp.Or(only, "all checkers together"))
		return ""
	}
	text := c.Err.Error()
	t.Logf("%-8s %d seeds, seed %d: %s", only, c.Seeds, c.Failed.Seed, text[:min(len(text), 150)])
	return Run(c.Failed, o).Checker
}

// find demands that the checkers together, and each of those named alone, find the flaw.
func (f flaw) find(t *testing.T) {
	finder := f.caught(t, "")
	if testing.Short() || raceEnabled {
		return
	}
	for _, only := range strings.Fields(f.checkers) {
		if only != finder { // which found it alone, too: the others had said nothing by then
			f.caught(t, only)
		}
	}
}
