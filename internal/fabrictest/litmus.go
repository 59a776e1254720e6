package fabrictest

import (
	"fmt"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/predicates"
)

// The row of a Guards: three lines, and slots of the bytes. Slot k%slots holds eight words of round
// k.
const (
	slots      = 64
	guardA     = fabric.LineBytes
	guardB     = 2 * fabric.LineBytes
	checkedOff = 3 * fabric.LineBytes // rounds of the peer that the owner has checked
)

// GuardsShape is the row of a Guards.
var GuardsShape = shapeOf(4, slots*fabric.LineBytes)

// Guards is one member's part in the litmus test of guard words (message passing) between two
// members. In each round the writer stores eight plain words, then guard A, then guard B. The
// reader loads B, then A, then the words of the rounds up to A that it has not checked:
//
//	A ≥ B, each word is its round     legal
//	A < B                             forbidden: a guard overtook an earlier one
//	A is less than before             forbidden: a guard went back
//	a word is of another round        forbidden: the guard overtook its bytes
//
// A slot is written again when the peer has checked it.
type Guards struct{ Rounds, written, checked uint64 }

// Step writes a round and checks what there is. done says that both members have checked all
// rounds.
func (g *Guards) Step(table *fabric.Table) (done bool, err error) {
	self, peer := table.Self(), 1-table.Self()
	to := []order.Rank{peer}
	publish := func(off int, v uint64) {
		store(table, off, v)
		table.PushLine(to, off)
	}
	acknowledged := load(table, peer, checkedOff)
	if g.written < g.Rounds && g.written-acknowledged < slots {
		g.written++
		words := slot(table.Row(self), g.written)
		for i := range words {
			words[i] = g.written
		}
		table.Push(to, slotOff(g.written), fabric.LineBytes)
		publish(guardA, g.written)
		publish(guardB, g.written)
	}
	b := load(table, peer, guardB)
	a := load(table, peer, guardA)
	if a < b || a < g.checked {
		return false, fmt.Errorf("F2: guard A is %d, guard B was %d before, and %d rounds are checked", a, b, g.checked)
	}
	if g.checked < a {
		for k := g.checked + 1; k <= a; k++ {
			for i, v := range slot(table.Row(peer), k) {
				if v != k {
					return false, fmt.Errorf("F2: guard %d is visible, word %d of round %d is %d", a, i, k, v)
				}
			}
		}
		g.checked = a
		publish(checkedOff, a)
	}
	return g.checked == g.Rounds && acknowledged == g.Rounds, nil
}

func slotOff(round uint64) int { return GuardsShape.ControlBytes + int(round%slots)*fabric.LineBytes }

func slot(row []byte, round uint64) *[8]uint64 {
	return (*[8]uint64)(unsafe.Pointer(fabric.Word(row, slotOff(round))))
}

// guards runs two Guards at full speed.
func guards(t *testing.T, open Open) {
	tables := opened(t, open, 2, GuardsShape)
	rounds := uint64(scaled(16000))
	parts := [2]Guards{{Rounds: rounds}, {Rounds: rounds}}
	together(t, tables, func(table *fabric.Table) bool {
		done, err := parts[table.Self()].Step(table)
		if err != nil {
			t.Errorf("rank %d: %v", table.Self(), err)
		}
		return done || err != nil
	})
}

// parking tells the application through the parker and the peers through the table, as a group's
// loop does.
type parking struct {
	*fabric.Parker
	table *fabric.Table
}

func (p parking) Announce() {
	p.Parker.Announce()
	p.table.AnnounceParked()
}

func (p parking) Retract() {
	p.table.RetractParked()
	p.Parker.Retract()
}

// Never is the deadline of a loop that parks until it is rung: no timer hides a lost bell.
func Never(time.Duration) time.Duration { return -1 }

// pinger starts a loop that answers the peer's word with the next one, and parks whenever it has
// nothing to do. The even one speaks first.
func pinger(table *fabric.Table, p *fabric.Parker, rounds uint64, done func()) *predicates.Runner {
	self, peer := table.Self(), 1-table.Self()
	to, mine := []order.Rank{peer}, uint64(0)
	step := func(time.Duration) (work int) {
		work = table.Poll()
		seen := load(table, peer, fabric.LineBytes)
		if self == 0 && mine == seen || self == 1 && mine+1 == seen {
			if mine == rounds {
				done()
				return work
			}
			mine++
			store(table, fabric.LineBytes, mine)
			table.PushLine(to, fabric.LineBytes)
			work++
		}
		table.Flush()
		return work
	}
	r := predicates.NewRunner(predicates.Config{Step: step, Deadline: Never, Parker: parking{p, table}, MaxSpin: -1})
	r.Start()
	return r
}

// PongShape is the row of a ping-pong.
var PongShape = shapeOf(2, 0)

// Pong is the side of rank 1 of a ping-pong. stop ends its loop.
func Pong(table *fabric.Table, p *fabric.Parker, rounds uint64) (stop func()) {
	r := pinger(table, p, rounds, func() {})
	return func() {
		r.Stop(p.Wake)
		<-r.Done()
	}
}

// PingPong is the litmus test of parking (store buffering), at the side of rank 0. Each of two
// loops parks whenever it has nothing to do; each round takes two wake-ups. The ringer writes (W)
// and looks at the announcement (A), the sleeper announces and looks for writes:
//
//	ringer sees A, sleeper sees W     legal: a bell that was not needed
//	ringer sees A, sleeper does not   legal: the bell wakes it
//	ringer does not, sleeper sees W   legal: it does not sleep
//	neither sees the other            forbidden: it sleeps, and nobody rings; the ping-pong stops
//
// start starts the other side. PingPong closes the table.
func PingPong(t *testing.T, table *fabric.Table, p *fabric.Parker, start func(rounds uint64) (stop func())) {
	rounds := uint64(2000)
	if testing.Short() {
		rounds = 1000
	}
	done := make(chan struct{})
	stop := start(rounds)
	r := pinger(table, p, rounds, sync.OnceFunc(func() { close(done) }))
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		t.Errorf("a wake-up was lost: word %d here, %d there, of %d rounds", load(table, 0, fabric.LineBytes), load(table, 1, fabric.LineBytes), rounds)
	}
	// Where both loops have a core, the answer mostly comes before the last look.
	if sleeps := r.Stats.Sleeps.Load(); sleeps < rounds/100 {
		t.Errorf("%d sleeps in %d rounds: parking was hardly tried", sleeps, rounds)
	}
	stop()
	r.Stop(p.Wake)
	<-r.Done()
	if err := table.Close(); err != nil {
		t.Error(err)
	}
}

// PingPongs is PingPong between the two tables of a view in this process.
func PingPongs(t *testing.T, tables []*fabric.Table, parkers []*fabric.Parker) {
	PingPong(t, tables[0], parkers[0], func(rounds uint64) func() {
		stop := Pong(tables[1], parkers[1], rounds)
		return func() {
			stop()
			if err := tables[1].Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
