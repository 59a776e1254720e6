package sim

import (
	"cmp"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/views"
)

// A checker that no mutant trips is not a checker. Each mutant below breaks one promise on purpose; the simulator has to find
// it within so many seeds.
const mutantSeeds = 2000

// flaw is a mutant with the checkers that must each find it alone.
type flaw struct {
	name     string
	options  Options
	noNulls  bool
	draw     func(seed uint64) *Plan // nil: Draw
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
	{name: "a log is called whole that its member has left and come back to", options: Options{Disk: LateWhole}, draw: movingPlan, checkers: "log"},
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

// keptPlan is a run with faults, of so many founders and messages, in which something is kept on disks; and dice to change it with.
func keptPlan(seed uint64, founders, messages int) (*Plan, dice) {
	yes := true
	p, d := Draw(seed, Limits{Nodes: founders, Messages: messages, Faults: &yes}), newDice(seed)
	if !p.keeps() {
		d.keeps(p, true)
	}
	return p, d
}

// darkPlan is a run in which all processes end at once, and one disk is slower than the others.
func darkPlan(seed uint64) *Plan {
	p, d := keptPlan(seed, 3+int(seed%2), 100)
	p.Outages, p.Faults = 0, []Fault{{Kind: Blackout, At: d.upTo(2 * p.FailAfter()), For: d.upTo(p.Hop()), Node: d.IntN(p.Founders), Nth: 1}}
	if p.keeps() {
		p.Keep.Disks[d.IntN(len(p.Nodes))].Sync = p.Bound() / 4
	}
	return p
}

// caught runs the flaw until a checker finds it, and returns the name of that checker. Only restricts the run to one checker; empty: all.
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
	c := Campaign{First: 1, Count: mutantSeeds, Options: o, Draw: draw}
	if c.Run() == nil {
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

// movingPlan is a run in which members of a log's shards come, go and move, one soon after the other.
func movingPlan(seed uint64) *Plan {
	p, d := shardedPlan(seed)
	p.Outages, p.Faults = 0, nil
	at := d.upTo(p.FailAfter() / 4)
	for range 6 {
		p.Faults = append(p.Faults, Fault{Kind: Crash, At: at, Node: 1 + d.IntN(p.Founders-1)})
		at += d.upTo(p.FailAfter() / 2)
	}
	for i := range p.Nodes {
		p.Nodes[i].Returns, p.Nodes[i].Times = d.upTo(p.FailAfter()/8), 3
	}
	return p
}

// shardedPlan is a run with logs in two shards, between which members move.
func shardedPlan(seed uint64) (*Plan, dice) {
	p, d := keptPlan(seed, 4+int(seed%2), 100)
	for i := range p.Decls {
		if decl := &p.Decls[i]; decl.Mode == views.Persistent {
			decl.Shards, decl.MinMembers, decl.MaxMembers, decl.LayoutName = 2, 1, 0, turning
			p.Keep.After &^= 1 << i
		}
	}
	return p, d
}
