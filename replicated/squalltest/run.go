package squalltest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/squall-go/squall/internal/sim"
	"github.com/squall-go/squall/replicated/internal/simulate"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/views"
)

var (
	oneSeed = flag.Uint64("squalltest.seed", 0, "the seed that package squalltest plays; 0: several")
	seeds   = flag.Int("squalltest.seeds", 0, "how many seeds package squalltest plays; 0: as the test says")
	traces  = flag.Bool("squalltest.trace", false, "print what happens in a run of package squalltest")
)

// DefaultSeeds is how many seeds are played where nothing else is said.
const DefaultSeeds = 30

// Config says what is played. The zero value is ready to use.
type Config struct {
	// FirstSeed is the first seed that is played; 0 is 1. Seeds is how many are; 0 is DefaultSeeds.
	FirstSeed uint64
	Seeds     int
	// Members is how many members bootstrap the group; 0: from 1 to 5, as the seed says. More may
	// join.
	Members int
	// Clients is how many clients there are; 0 is 3.
	Clients int
	// Faults is what may go wrong; 0 is all of it.
	Faults Faults
	// SkipHistories leaves out the check that what clients saw is linearizable: for workloads with so
	// many operations at the same time that it takes too long.
	SkipHistories bool

	// own returns a command which a member calls on its shard, and its encoded arguments.
	own func(random *rand.Rand, shard int) (name string, args []byte)
}

// Faults is a set of what may go wrong.
type Faults uint

// What may go wrong.
const (
	NoFaults   Faults = 1 << iota // nothing, whatever else is set
	Crashes                       // members end, at any step, and come back
	Partitions                    // members lose each other, in one or both directions
	Pauses                        // members do nothing for a while, and clocks jump
	Leaves                        // members leave
	Disks                         // disks are slow, full, replaced, or lose what was not synced; all members end at once
)

// kinds are the faults of package sim that a set stands for.
func (f Faults) kinds() (kinds sim.FaultKinds) {
	for _, of := range []struct {
		set   Faults
		kinds []sim.FaultKind
	}{
		{Crashes, []sim.FaultKind{sim.Crash, sim.PowerOff}},
		{Partitions, []sim.FaultKind{sim.OneWayCut, sim.Partition, sim.Reset}},
		{Pauses, []sim.FaultKind{sim.Hang, sim.SlowUpcall, sim.ClockJump, sim.ClockBack}},
		{Leaves, []sim.FaultKind{sim.Leave, sim.Accuse}},
		{Disks, []sim.FaultKind{sim.SyncCut, sim.FullDisk, sim.SlowDisk, sim.LostDisk, sim.DamagedLogs, sim.Blackout}},
	} {
		if f == 0 || f&of.set != 0 {
			for _, k := range of.kinds {
				kinds = kinds.With(k)
			}
		}
	}
	return kinds
}

// Run plays seeds, and fails the test at the first one in which something is wrong. Object returns
// a new object, as member.New made it. Work is what each client does: its calls of operations wait
// in virtual time, and it must use no clock, no goroutine and no randomness but those of its
// Client. The invariants are checked after each command, at every copy; they must not change the
// state.
func Run[S any](t testing.TB, cfg Config, object func() *member.Object[S], work func(*Client), invariants ...func(S) error) {
	t.Helper()
	check := func(state any) error {
		for _, f := range invariants {
			if err := f(state.(S)); err != nil {
				return err
			}
		}
		return nil
	}
	first, count := max(1, cfg.FirstSeed), cfg.Seeds
	if count == 0 {
		count = DefaultSeeds
	}
	if *seeds > 0 {
		count = *seeds
	}
	if *oneSeed > 0 {
		first, count = *oneSeed, 1
	}
	var all total
	for k := range count {
		seed := first + uint64(k)
		r, err := play(cfg, seed, func() simulated { return object() }, work, check, *traces)
		if err != nil {
			t.Fatalf("seed %d: %v\nplay it again: go test -run '^%s$' -squalltest.seed=%d -squalltest.trace\n%s", seed, err, t.Name(), seed, r)
		}
		all.add(r)
	}
	t.Logf("%d seeds from %d: %s", count, first, &all)
}

// total adds runs up.
type total struct{ calls, answered, relayed, executed, views int }

func (t *total) add(r *run) {
	t.calls += len(r.calls)
	t.answered += r.answered
	t.relayed += r.attempts
	t.executed += len(r.executions)
	t.views += r.result.Views
}

func (t *total) String() string {
	return fmt.Sprintf("%d calls, %d answered; %d requests, %d commands executed in %d views", t.calls, t.answered, t.relayed, t.executed, t.views)
}

// simulated is an object, of any type.
type simulated interface {
	Simulate() simulate.Object
}

// play plays one seed.
func play(cfg Config, seed uint64, object func() simulated, work func(*Client), check func(any) error, trace bool) (*run, error) {
	declared, err := object().Simulate().Declared()
	if err != nil {
		return &run{}, err
	}
	decl := views.Declaration{Name: declared.Name, RingBytes: 64 << 10, Window: 1 << (2 + seed%5)}
	if declared.Shards > 1 {
		decl.Shards = declared.Shards
	}
	if declared.Persistent {
		decl.Mode = views.Persistent
	}
	faulty := cfg.Faults&NoFaults == 0
	limits := sim.Limits{Nodes: cfg.Members, Kinds: cfg.Faults.kinds()}
	if !faulty {
		limits.Faults = &faulty
	}
	r := newRun(cfg, declared, object, work, check)
	o := sim.Options{Application: r}
	if trace {
		o.Trace = os.Stdout
	}
	plan := sim.DrawFor(seed, limits, decl)
	if plan.Keep.After = 0; declared.AfterPersist {
		plan.Keep.After = 1
	}
	r.result = sim.Run(plan, o)
	r.stop()
	if r.result.Err != nil {
		return r, r.result.Err
	}
	return r, r.judge()
}
