package sim

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
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
	nodesFlag    = flag.Int("nodes", 0, "founding members; 0: drawn")
	messagesFlag = flag.Int("messages", 0, "messages; 0: drawn")
)

func limits() Limits { return Limits{Nodes: *nodesFlag, Messages: *messagesFlag} }

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
			count = testutil.Seeds[uint64](CoverSeeds/16, CoverSeeds/2)
		default:
			count = testutil.Seeds[uint64](CoverSeeds/16, CoverSeeds)
		}
	}
	c := Campaign{First: *firstFlag, Count: count, Limits: limits()}
	start := time.Now()
	err := c.Run()
	took := time.Since(start)
	if err != nil {
		t.Fatal(Report(c.Failed, Options{}, err))
	}
	fmt.Fprintf(os.Stderr, "%d seeds from %d, %d deliveries in %d views, %d steps: %.0f seeds/s; the slowest delivery took %.0f %% of its bound\n",
		c.Seeds, *firstFlag, c.Deliveries, c.Views, c.Steps, float64(c.Seeds)/took.Seconds(), 100*c.Slowest)
	if *nodesFlag != 0 || *messagesFlag != 0 || count < CoverSeeds {
		return
	}
	if never := c.Probes.Never(); len(never) > 0 {
		t.Errorf("%d seeds never reached: %v\n%v", count, never, &c.Probes)
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
	fmt.Printf("%d deliveries in %d views in %v, slowest %v, hash %x\n", r.Deliveries, r.Views, r.Time, r.Slowest, r.Hash)
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
