package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A campaign runs many seeds; a failed one is replayed by its number:
//
//	go test ./internal/sim -run Campaign -args -seeds 100000
//	go test ./internal/sim -run Campaign -args -seed 4711 -trace
var (
	seedsFlag    = flag.Uint64("seeds", 0, "seeds of the campaign; 0: as many as fit a test run")
	firstFlag    = flag.Uint64("first", 1, "first seed of the campaign")
	seedFlag     = flag.Uint64("seed", 0, "replay this seed alone")
	traceFlag    = flag.Bool("trace", false, "print the replayed seed's whole trace")
	nodesFlag    = flag.Int("nodes", 0, "members; 0: drawn")
	messagesFlag = flag.Int("messages", 0, "messages; 0: drawn")
)

// coverSeeds is how many seeds must reach every probe.
const coverSeeds = 600

func limits() Limits { return Limits{Nodes: *nodesFlag, Messages: *messagesFlag} }

// campaign runs seeds on all cores and stops at the first failure.
type campaign struct {
	Seeds, Deliveries, Steps atomic.Uint64

	mu      sync.Mutex
	probes  Probes
	slowest float64 // the part of its bound that the slowest delivery took
	failed  *Plan
	err     error
}

func (c *campaign) run(first, count uint64, draw func(seed uint64) *Plan, o Options) {
	var next atomic.Uint64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				k := next.Add(1) - 1
				if k >= count || !c.one(draw(first+k), o) {
					next.Store(count)
					return
				}
			}
		})
	}
	workers.Wait()
}

func (c *campaign) one(p *Plan, o Options) bool {
	r := Run(p, o)
	c.Seeds.Add(1)
	c.Deliveries.Add(uint64(r.Deliveries))
	c.Steps.Add(uint64(r.Steps))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probes.Add(&r.Probes)
	c.slowest = max(c.slowest, r.SlowestOfBound)
	if r.Err != nil && (c.failed == nil || p.Seed < c.failed.Seed) {
		c.failed, c.err = p, r.Err
	}
	return r.Err == nil
}

func TestCampaign(t *testing.T) {
	if *seedFlag != 0 {
		replay(t, *seedFlag)
		return
	}
	count := *seedsFlag
	if count == 0 {
		switch {
		case raceEnabled:
			count = 60
		case testing.Short():
			count = coverSeeds
		default:
			count = 3000
		}
	}
	var c campaign
	start := time.Now()
	c.run(*firstFlag, count, func(seed uint64) *Plan { return Draw(seed, limits()) }, Options{})
	took := time.Since(start)
	if c.failed != nil {
		t.Fatal(Report(c.failed, Options{}, c.err))
	}
	fmt.Fprintf(os.Stderr, "%d seeds from %d, %d deliveries, %d steps: %.0f seeds/s; the slowest delivery took %.0f %% of its bound\n",
		c.Seeds.Load(), *firstFlag, c.Deliveries.Load(), c.Steps.Load(), float64(c.Seeds.Load())/took.Seconds(), 100*c.slowest)
	if *nodesFlag != 0 || *messagesFlag != 0 || count < coverSeeds {
		return
	}
	if never := c.probes.Never(); len(never) > 0 {
		t.Errorf("%d seeds never reached: %v\n%v", count, never, &c.probes)
	}
}

func replay(t *testing.T, seed uint64) {
	o := Options{}
	if *traceFlag {
		o.Trace = os.Stdout
	}
	p := Draw(seed, limits())
	fmt.Println(p)
	r := Run(p, o)
	fmt.Printf("%d deliveries in %v, slowest %v, hash %x\n", r.Deliveries, r.Time, r.Slowest, r.Hash)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
}

// BenchmarkSeed is the bar of the simulator: 5 members, 200 messages, one core.
func BenchmarkSeed(b *testing.B) {
	for _, faults := range []bool{false, true} {
		b.Run(fmt.Sprintf("nodes=5/messages=200/faults=%v", faults), func(b *testing.B) {
			seed := uint64(0)
			for b.Loop() {
				seed++
				p := Draw(seed, Limits{Nodes: 5, Messages: 200, Faults: &faults})
				if r := Run(p, Options{}); r.Err != nil {
					b.Fatal(Report(p, Options{}, r.Err))
				}
			}
			b.ReportMetric(float64(seed)/b.Elapsed().Seconds(), "seeds/s")
		})
	}
}
