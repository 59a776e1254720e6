package linkmodel

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/rdmc/schedule"
)

// In tests a block takes a millisecond.
const (
	blockBytes = 1 << 20
	blockTime  = time.Millisecond
	testRate   = blockBytes * 1000
)

func ideal(nodes int) Network { return Network{Nodes: nodes, Rate: testRate} }

// message is one of so many whole blocks.
func message(t testing.TB, a schedule.Algorithm, nodes, blocks int, racks []string) Transfer {
	t.Helper()
	p, err := schedule.New(a, nodes, blocks, racks)
	if err != nil {
		t.Fatal(err)
	}
	return Transfer{Plan: p, Bytes: int64(blocks) * blockBytes, BlockBytes: blockBytes}
}

func mustRun(t testing.TB, n Network, transfers ...Transfer) Result {
	t.Helper()
	r, err := Run(n, transfers...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// inRacks labels nodes in order, so many to a rack.
func inRacks(nodes, size int) (labels []string) {
	for i := range nodes {
		labels = append(labels, fmt.Sprint("rack ", i/size))
	}
	return labels
}

func flat() []schedule.Algorithm {
	return []schedule.Algorithm{schedule.Sequential, schedule.Chain, schedule.Tree, schedule.Pipeline, schedule.Hybrid}
}

func TestOnIdealLinksEveryAlgorithmTakesItsStepsExactly(t *testing.T) {
	for _, a := range flat() {
		for nodes := 2; nodes <= 33; nodes++ {
			for _, blocks := range []int{1, 2, 3, 5, 8, 31, 64} {
				m := message(t, a, nodes, blocks, nil)
				r := mustRun(t, ideal(nodes), m)
				if want := time.Duration(schedule.Steps(a, nodes, blocks)) * blockTime; r.Time != want {
					t.Errorf("%v: %v, not %v", m.Plan, r.Time, want)
				}
			}
		}
	}
}

func TestAHybridTakesNoMoreThanItsSteps(t *testing.T) {
	for nodes := 3; nodes <= 40; nodes += 3 {
		for size := 2; size <= 9; size++ {
			m := message(t, schedule.Hybrid, nodes, 20, inRacks(nodes, size))
			if r := mustRun(t, ideal(nodes), m); r.Time > time.Duration(m.Plan.Steps())*blockTime {
				t.Errorf("%v in racks of %d: %v", m.Plan, size, r.Time)
			}
		}
	}
}

// L4, and the sums that come out of it.
func TestEveryReceiverIsDoneAndWhatWasSentIsCounted(t *testing.T) {
	for _, a := range flat() {
		for _, nodes := range []int{1, 2, 7, 16, 21} {
			racks := inRacks(nodes, 4)
			n := ideal(nodes)
			n.Racks = racks
			m := message(t, a, nodes, 10, racks)
			r := mustRun(t, n, m)
			o := r.Transfers[0]
			if len(o.Done) != nodes || o.Time != r.Time || nodes > 1 && (slices.Min(o.Done) <= 0 || slices.Max(o.Done) != o.Time) {
				t.Errorf("%v: %+v", m.Plan, o)
			}
			if nodes > 1 && o.Skew != o.Time-slices.Min(o.Done[1:]) {
				t.Errorf("%v: the skew is %v, of %v", m.Plan, o.Skew, o.Done)
			}
			cross := int64(0)
			for mv := range m.Plan.All() {
				if racks[mv.From] != racks[mv.To] {
					cross += blockBytes
				}
			}
			sent := float64((nodes-1)*10) * blockTime.Seconds()
			if want := sent / max(r.Time.Seconds(), 1e-9) / float64(nodes); math.Abs(r.Utilisation-want) > 1e-9 || r.CrossBytes != cross {
				t.Errorf("%v: %+v, not %g, %d bytes across", m.Plan, r, want, cross)
			}
		}
	}
}

func TestAHybridCrossesEachRacksLinkOnceForEachBlock(t *testing.T) {
	n := ideal(64)
	n.Racks = inRacks(64, 8)
	if r := mustRun(t, n, message(t, schedule.Hybrid, 64, 50, n.Racks)); r.CrossBytes != 7*50*blockBytes {
		t.Errorf("%d blocks crossed", r.CrossBytes/blockBytes)
	}
}

func TestTakingBlocksInTurnIsWhatKeepsThePipelineAtItsSteps(t *testing.T) {
	for nodes := 2; nodes <= 40; nodes++ {
		m, n := message(t, schedule.Pipeline, nodes, 256, nil), ideal(nodes)
		steps := time.Duration(m.Plan.Steps()) * blockTime
		n.Intake = AsTheyCome
		r := mustRun(t, n, m)
		paired := nodes&(nodes-1) != 0 && (nodes-1)&(nodes-2) != 0 // a power of two has no pairs, and with one node more it has a guest
		switch {
		case !paired && r.Time != steps: // a node that is ahead meets no other one
			t.Errorf("%v as they come: %v", m.Plan, r.Time)
		case paired && (r.Time < steps*11/10 || r.Time > steps*3/2):
			t.Errorf("%v as they come: %v", m.Plan, r.Time)
		}
	}
}

// A slow link between two nodes is used in one of l steps, and delays the steps by what it takes
// longer: l·T'/(T + (l − 1)·T') of the bandwidth is left (DSN 2018 §4.5).
func TestASlowLinkCostsThePipelineWhatTheFormulaSays(t *testing.T) {
	for _, l := range []int{2, 3, 4, 6, 8} {
		if testing.Short() && l > 4 {
			break
		}
		for _, part := range []float64{0.25, 0.5, 0.8} {
			nodes, blocks := 1<<l, 1024
			n := ideal(nodes)
			whole := mustRun(t, n, message(t, schedule.Pipeline, nodes, blocks, nil))
			n.SlowLinks = []SlowLink{{A: 0, B: 1, Rate: part * testRate}}
			slow := mustRun(t, n, message(t, schedule.Pipeline, nodes, blocks, nil))
			left := float64(whole.Time) / float64(slow.Time)
			formula := float64(l) * part / (1 + float64(l-1)*part)
			if math.Abs(left/formula-1) > 0.01 {
				t.Errorf("%d nodes, a link at %g: %.4f of the bandwidth is left, and the formula says %.4f", nodes, part, left, formula)
			}
		}
	}
}

func TestASlowLinkInsideThePipelineCostsNoMoreThanTheFormulaSays(t *testing.T) {
	const nodes, l, blocks = 64, 6, 512
	whole := mustRun(t, ideal(nodes), message(t, schedule.Pipeline, nodes, blocks, nil))
	for _, link := range [][2]int{{1, 3}, {5, 7}, {10, 42}, {62, 63}, {1, 2}} {
		n := ideal(nodes)
		n.SlowLinks = []SlowLink{{A: link[1], B: link[0], Rate: testRate / 2}}
		slow := mustRun(t, n, message(t, schedule.Pipeline, nodes, blocks, nil))
		formula := float64(l) * 0.5 / (1 + float64(l-1)*0.5)
		if left := float64(whole.Time) / float64(slow.Time); left < formula*0.99 || left > 1 {
			t.Errorf("link %v: %.4f of the bandwidth is left, and the formula says %.4f", link, left, formula)
		}
	}
}

func TestASlowLinkHalvesAChain(t *testing.T) {
	n := ideal(16)
	whole := mustRun(t, n, message(t, schedule.Chain, 16, 512, nil))
	n.SlowLinks = []SlowLink{{A: 8, B: 7, Rate: testRate / 2}}
	r := mustRun(t, n, message(t, schedule.Chain, 16, 512, nil))
	if left := float64(whole.Time) / float64(r.Time); left < 0.5 || left > 0.52 {
		t.Errorf("%g of the bandwidth is left", left)
	}
	if before, behind := r.Transfers[0].Done[7], r.Transfers[0].Done[8]; float64(before) > 0.55*float64(behind) {
		t.Errorf("node 7 is done after %v, node 8, after the slow link, after %v", before, behind)
	}
}

func TestAHybridBeatsTheFlatPipelineWhereRacksAreOversubscribed(t *testing.T) {
	for _, over := range []float64{1, 4, 8} {
		n := ideal(64)
		n.Racks, n.Oversubscription = inRacks(64, 8), over
		pipeline := mustRun(t, n, message(t, schedule.Pipeline, 64, 256, nil))
		hybrid := mustRun(t, n, message(t, schedule.Hybrid, 64, 256, n.Racks))
		if faster := float64(pipeline.Time) / float64(hybrid.Time); over == 1 && faster > 1 || over == 8 && faster < 1.5 {
			t.Errorf("oversubscribed %g:1: the pipeline takes %v, the hybrid %v", over, pipeline.Time, hybrid.Time)
		}
		if hybrid.CrossBytes >= pipeline.CrossBytes {
			t.Errorf("the hybrid sends %d bytes across racks, the pipeline %d", hybrid.CrossBytes, pipeline.CrossBytes)
		}
	}
}

func TestJitterCostsLittle(t *testing.T) {
	for _, a := range []schedule.Algorithm{schedule.Chain, schedule.Pipeline} {
		for _, nodes := range []int{13, 16, 64} {
			n := ideal(nodes)
			whole := mustRun(t, n, message(t, a, nodes, 512, nil))
			n.Jitter = blockTime / 5 // a tenth of a block on average
			for n.Seed = range uint64(5) {
				late := mustRun(t, n, message(t, a, nodes, 512, nil))
				if cost := float64(late.Time)/float64(whole.Time) - 1; cost < 0 || cost > 0.25 {
					t.Errorf("%v among %d nodes, seed %d: a tenth of a block more for each send costs %.3f", a, nodes, n.Seed, cost)
				}
			}
		}
	}
}

// L3.
func TestTheSameSeedIsTheSameRunAndAnotherOneIsNot(t *testing.T) {
	n := ideal(21)
	n.Jitter, n.Latency, n.Overhead, n.Racks, n.Oversubscription = blockTime/3, 50*time.Microsecond, time.Microsecond, inRacks(21, 5), 3
	seen := map[time.Duration]uint64{}
	for n.Seed = range uint64(8) {
		a, b := mustRun(t, n, message(t, schedule.Pipeline, 21, 40, nil)), mustRun(t, n, message(t, schedule.Pipeline, 21, 40, nil))
		if !reflect.DeepEqual(a, b) {
			t.Errorf("seed %d: %+v and %+v", n.Seed, a, b)
		}
		seen[a.Time] = n.Seed
	}
	if len(seen) < 7 {
		t.Errorf("8 seeds take %v", seen)
	}
}

func TestLatencyAndOverheadAreAddedWhereTheyBelong(t *testing.T) {
	n := ideal(4)
	n.Latency, n.Overhead = 3*blockTime, blockTime/4
	r := mustRun(t, n, message(t, schedule.Chain, 4, 10, nil))
	if want := 12*(blockTime+blockTime/4) + 3*3*blockTime; r.Time != want {
		t.Errorf("three links and ten blocks take %v, not %v", r.Time, want)
	}
	if want := 10 * (blockTime + blockTime/4); r.Transfers[0].Done[0] != want {
		t.Errorf("the root is through after %v, not %v", r.Transfers[0].Done[0], want)
	}
}

func TestTheLastBlockMayBeShorter(t *testing.T) {
	m := message(t, schedule.Sequential, 2, 3, nil)
	m.Bytes = 2*blockBytes + 1
	if r := mustRun(t, ideal(2), m); r.Time != 2*blockTime+duration(1, testRate) {
		t.Error(r.Time)
	}
}

// L2: whatever runs at the same time, no egress sends for longer than there was time, and the whole
// takes at least what the busiest needs.
func TestTransfersShareWhatTheyHaveInCommon(t *testing.T) {
	const nodes, blocks = 8, 64
	for _, senders := range []int{1, 2, 4, 8} {
		var transfers []Transfer
		for root := range senders {
			m := message(t, schedule.Pipeline, nodes, blocks, nil)
			for rank := range nodes {
				m.Nodes = append(m.Nodes, (rank+root)%nodes)
			}
			transfers = append(transfers, m)
		}
		r := mustRun(t, ideal(nodes), transfers...)
		least := time.Duration(senders*blocks) * blockTime * (nodes - 1) / nodes // what all egresses together need
		if r.Time < least || r.Time > 2*least+20*blockTime || r.Utilisation > 1 {
			t.Errorf("%d senders: %+v, at least %v", senders, r, least)
		}
		for i, o := range r.Transfers {
			if o.Time < (blocks+2)*blockTime || o.Time > r.Time {
				t.Errorf("%d senders: %d takes %v of %v", senders, i, o.Time, r.Time)
			}
		}
	}
}

func TestTwoThatSendToOneTakeTurns(t *testing.T) {
	a, b := message(t, schedule.Chain, 2, 10, nil), message(t, schedule.Chain, 2, 10, nil)
	a.Nodes, b.Nodes = []int{0, 2}, []int{1, 2}
	r := mustRun(t, ideal(3), a, b)
	if r.Time != 20*blockTime || r.Transfers[0].Time != 19*blockTime {
		t.Errorf("%+v", r)
	}
}

func TestAnUplinkIsSharedByWhatCrossesIt(t *testing.T) {
	n := ideal(4)
	n.Racks, n.Oversubscription = []string{"a", "a", "b", "b"}, 4 // half the rate of a node
	a, b := message(t, schedule.Chain, 2, 10, nil), message(t, schedule.Chain, 2, 10, nil)
	a.Nodes, b.Nodes = []int{0, 2}, []int{1, 3}
	if r := mustRun(t, n, a); r.Time != 20*blockTime || r.CrossBytes != 10*blockBytes {
		t.Errorf("one alone: %+v", r)
	}
	if r := mustRun(t, n, a, b); r.Time != 40*blockTime {
		t.Errorf("two: %+v", r)
	}
	a.Nodes = []int{0, 1}
	if r := mustRun(t, n, a); r.Time != 10*blockTime || r.CrossBytes != 0 {
		t.Errorf("within a rack: %+v", r)
	}
}

func TestWhatMakesNoSenseIsRefusedWithAllItsFaults(t *testing.T) {
	good := message(t, schedule.Chain, 3, 2, nil)
	for want, change := range map[string]func(*Network, *Transfer){
		"0 nodes":                        func(n *Network, _ *Transfer) { n.Nodes = 0 },
		"a rate of -1":                   func(n *Network, _ *Transfer) { n.Rate = -1 },
		"a rate of NaN":                  func(n *Network, _ *Transfer) { n.Rate = math.NaN() },
		"a delay of -1ns":                func(n *Network, _ *Transfer) { n.Jitter = -1 },
		"slow link 1–1":                  func(n *Network, _ *Transfer) { n.SlowLinks = []SlowLink{{1, 1, 5}} },
		"2 rack labels for 3 nodes":      func(n *Network, _ *Transfer) { n.Racks = []string{"a", "b"} },
		"an oversubscription of -1":      func(n *Network, _ *Transfer) { n.Oversubscription = -1 },
		"without a plan":                 func(_ *Network, t *Transfer) { t.Plan = nil },
		"is not 2 blocks of":             func(_ *Network, t *Transfer) { t.Bytes++ },
		"a message of 0 bytes":           func(_ *Network, t *Transfer) { t.Bytes = 0 },
		"2 nodes for a plan of 3":        func(_ *Network, t *Transfer) { t.Nodes = []int{0, 1} },
		"rank 2 is node 1":               func(_ *Network, t *Transfer) { t.Nodes = []int{0, 1, 1} },
		"rank 1 is node 7: there are 3,": func(_ *Network, t *Transfer) { t.Nodes = []int{0, 7, 2} },
		"it would take":                  func(n *Network, t *Transfer) { n.Rate, t.Bytes, t.BlockBytes = 1, 1<<60, 1<<59 },
	} {
		n, tr := ideal(3), good
		change(&n, &tr)
		if _, err := Run(n, tr); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	n, bad := ideal(3), good
	n.Latency, n.Oversubscription, bad.BlockBytes = -1, math.NaN(), 0
	if _, err := Run(n, good, bad); err == nil || strings.Count(err.Error(), ErrConfig.Error()) != 3 || !strings.Contains(err.Error(), "transfer 1: ") {
		t.Error(err)
	}
}

func TestAGroupOfOneIsDoneAtOnce(t *testing.T) {
	if r := mustRun(t, Network{Nodes: 1}, message(t, schedule.Pipeline, 1, 5, nil)); r.Time != 0 || r.Transfers[0].Time != 0 || r.Utilisation != 0 {
		t.Errorf("%+v", r)
	}
}

func BenchmarkRun(b *testing.B) {
	for _, a := range flat() {
		b.Run(fmt.Sprintf("algorithm=%v/nodes=1024/blocks=512", a), func(b *testing.B) {
			n := Network{Nodes: 1024, Latency: 20 * time.Microsecond, Jitter: 10 * time.Microsecond, Racks: inRacks(1024, 16), Oversubscription: 4}
			m := message(b, a, 1024, 512, n.Racks)
			b.ReportAllocs()
			for b.Loop() {
				mustRun(b, n, m)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(1023*512), "ns/block")
		})
	}
}
