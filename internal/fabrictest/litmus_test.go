//go:build linux

package fabrictest_test

import (
	"crypto/tls"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/auto"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/predicates"
)

// slots is the number of places of the guard litmus; place k%slots holds eight words of value k.
const slots = 64

var litmusShape = fabric.RowShape{ControlBytes: 128, RowBytes: 128 + slots*64}

// litmus is the litmus test of guard words (message passing): the writer stores eight plain words,
// then the guard; the reader loads the guard, then the words. With guard g, in place g%slots:
//
//	g = 0                            any
//	all words ≥ g, multiples apart   legal: equal to g, or of a later lap
//	any word < g                     forbidden: the guard overtook its bytes
//
// And with loads the other way round, words first (v), then the guard (g):
//
//	v ≤ g + 1                        legal: the words are written before their guard, one round ahead at most
//	v > g + 1                        forbidden: the words of a round were written before an earlier guard
//
// Both members write and read at full speed for a second; they are two processes with one memory.
func litmus(table *fabric.Table, _ *fabric.Parker, stop *atomic.Bool) error {
	own, peer := table.Row(table.Self()), table.Row(1-table.Self())
	words := func(row []byte, round uint64) *[8]uint64 {
		return (*[8]uint64)(wordsAt(row, litmusShape.ControlBytes+int(round%slots)*64))
	}
	for round := uint64(1); !stop.Load(); round++ {
		w := words(own, round)
		for i := range w {
			w[i] = round
		}
		atomic.StoreUint64(fabric.Word(own, fabric.LineBytes), round)
		table.Push([]order.Rank{1 - table.Self()}, litmusShape.ControlBytes, 64)
		table.Flush()

		g := atomic.LoadUint64(fabric.Word(peer, fabric.LineBytes))
		for i, v := range *words(peer, g) {
			if g > 0 && (v < g || (v-g)%slots != 0) {
				return fmt.Errorf("F2: guard %d is visible, word %d of its bytes is of round %d", g, i, v)
			}
		}
		v := atomic.LoadUint64(&words(peer, g+1)[7])
		if g := atomic.LoadUint64(fabric.Word(peer, fabric.LineBytes)); v > g+1 {
			return fmt.Errorf("F2: bytes of round %d are visible, their guard is %d", v, g)
		}
	}
	return nil
}

func TestBytesAreVisibleWhenTheirGuardIsBetweenProcesses(t *testing.T) {
	requireSharedMemory(t)
	duration := time.Second
	if testing.Short() {
		duration /= 4
	}
	tables, nodes, c := withChild(t, auto.SHM, "litmus", 1, litmusShape)
	defer tables[0].Close()
	var stop atomic.Bool
	time.AfterFunc(duration, func() { stop.Store(true) })
	if err := litmus(tables[0], nodes[0].parker, &stop); err != nil {
		t.Error(err)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if rounds := atomic.LoadUint64(fabric.Word(tables[0].Row(0), fabric.LineBytes)); rounds < 10*slots {
		t.Errorf("only %d rounds: nothing was tried", rounds)
	}
}

const processRounds = 1 << 40 // until told to stop

// pong is the other side of the ping-pong, in a process of its own.
func pong(table *fabric.Table, p *fabric.Parker, stop *atomic.Bool) error {
	end := fabrictest.Pong(table, p, processRounds)
	for !stop.Load() {
		time.Sleep(time.Millisecond)
	}
	end()
	return nil
}

func TestNoWakeUpIsLostBetweenLoopsThatAlwaysPark(t *testing.T) {
	for _, c := range []struct {
		name string
		mode auto.Mode
		tls  *tls.Config
	}{{"shm", auto.SHM, nil}, {"tcp", auto.TCP, nil}, {"tls", auto.TCP, testutil.NewAuthority(t).TLS()}} {
		t.Run(c.name, func(t *testing.T) {
			if c.mode == auto.SHM {
				requireSharedMemory(t)
			}
			tables, nodes := world{mode: c.mode, tls: c.tls}.openNodes(t, 2, fabrictest.PongShape)
			fabrictest.PingPongs(t, tables, []*fabric.Parker{nodes[0].parker, nodes[1].parker})
		})
	}
}

func TestNoWakeUpIsLostBetweenProcessesThatAlwaysPark(t *testing.T) {
	for _, mode := range processModes {
		t.Run(mode.String(), func(t *testing.T) {
			if mode == auto.SHM {
				requireSharedMemory(t)
			}
			tables, nodes, c := withChild(t, mode, "pong", 1, fabrictest.PongShape)
			fabrictest.PingPong(t, tables[0], nodes[0].parker, func(uint64) func() {
				return func() {
					if err := c.end(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// The litmus test of parking (fabrictest.PingPong) between an application's goroutines and the
// loop: an order is placed (W), then the parker is woken, which looks at the announcement. The step
// looks at the sockets after it looked for orders, as a group's does: the bell of an order between
// the two must not be lost. The legal outcomes are the same; the forbidden one shows as an order
// that is never taken.
func TestNoWakeUpOfAnApplicationIsLost(t *testing.T) {
	p, err := fabric.NewParker()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const goroutines = 3
	orders := 8000
	if testing.Short() {
		orders /= 4
	}
	var placed, taken [goroutines]atomic.Uint64
	step := func() (work int) {
		for i := range placed {
			if n := placed[i].Load(); n != taken[i].Load() {
				taken[i].Store(n)
				work++
			}
		}
		p.Look()
		return work
	}
	r := predicates.NewRunner(predicates.Config{Step: func(time.Duration) int { return step() }, Deadline: fabrictest.Never, Parker: p, MaxSpin: -1})
	r.Start()
	var apps sync.WaitGroup
	deadline := time.Now().Add(60 * time.Second)
	for i := range goroutines {
		apps.Go(func() {
			for k := uint64(1); k <= uint64(orders); k++ {
				placed[i].Store(k)
				p.Wake()
				for looks := 0; taken[i].Load() != k; looks++ {
					runtime.Gosched()
					if looks%1024 == 1023 && time.Now().After(deadline) {
						t.Errorf("a wake-up was lost: goroutine %d's order %d was never taken", i, k)
						return
					}
				}
			}
		})
	}
	apps.Wait()
	r.Stop(p.Wake)
	select {
	case <-r.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the wake-up of the end was lost")
	}
	if r.Stats.Sleeps.Load() == 0 {
		t.Error("the loop never slept: parking was not tried")
	}
}

func wordsAt(row []byte, off int) unsafe.Pointer { return unsafe.Pointer(fabric.Word(row, off)) }
