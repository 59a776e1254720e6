package backlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/squall-go/squall/order"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// application takes messages and checks Q1: numbered from 0, whole, one call at a time.
type application struct {
	t    *testing.T
	busy atomic.Bool
	next uint64 // by the side that is busy
}

func (a *application) upcall(run []Message) {
	a.enter()
	defer a.busy.Store(false)
	for _, m := range run {
		if want := message(a.next, len(m.Data)-8); !bytes.Equal(m.Data, want.Data) || m.Seq != want.Seq {
			a.t.Errorf("Q1: message %d came where %d should", m.Seq, a.next)
		}
		a.next++
	}
}

func (a *application) enter() {
	if !a.busy.CompareAndSwap(false, true) {
		a.t.Error("Q1: two callbacks at a time")
	}
}

// mark must be called when n messages are delivered.
func (a *application) mark(n uint64) func() {
	return func() {
		a.enter()
		defer a.busy.Store(false)
		if a.next != n {
			a.t.Errorf("a mark after %d messages was reached after %d", n, a.next)
		}
	}
}

func message(n uint64, extra int) Message {
	data := append(binary.LittleEndian.AppendUint64(nil, n), bytes.Repeat([]byte{byte(n)}, max(0, extra))...)
	return Message{Data: data[:8+extra], View: 3, Seq: order.Seq(n)}
}

// A loop that delivers, is refused and offers again, with a hand-over that begins at any moment, is
// the same as no backlog at all.
func TestQ1AndQ2OverRandomRuns(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { randomRun(t, seed) })
	}
}

func randomRun(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	app := &application{t: t}
	total := uint64(1 + random.IntN(2000))
	bound := 1 << (11 + random.IntN(6))
	begin := uint64(random.IntN(int(total))) // the hand-over begins when so many were offered, or nothing more goes
	wake := make(chan struct{}, 1)
	b := New(Config{Bytes: bound, Upcall: app.upcall, Wake: func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}})
	done := make(chan struct{})
	started := false
	start := func() {
		if !started {
			started = true
			go func() { defer close(done); b.HandOver() }()
		}
	}
	through := false
	for n := uint64(0); n < total; {
		if n >= begin {
			start()
		}
		if random.IntN(20) == 0 {
			if mark := app.mark(n); through || b.Mark(mark) {
				through = true
				mark()
			}
		}
		var run []Message
		for range min(1+random.IntN(30), int(total-n)) {
			run = append(run, message(n+uint64(len(run)), max(-8, random.IntN(500)-50)))
		}
		for len(run) > 0 && !through {
			var taken int
			taken, through = b.Deliver(run)
			for _, m := range run[:taken] {
				clear(m.Data) // the ring goes on
			}
			n += uint64(taken)
			run = run[taken:]
			if held := b.Held(); held > bound {
				t.Fatalf("Q2: %d bytes held, bound %d", held, bound)
			}
			if len(run) > 0 && !through {
				start()
				<-wake // Q2: there is room in the end
			}
		}
		if len(run) > 0 {
			app.upcall(run)
			n += uint64(len(run))
		}
		if random.IntN(4) == 0 {
			runtime.Gosched()
		}
	}
	start()
	<-done
	if app.next != total || b.Held() != 0 {
		t.Fatalf("Q1: %d of %d messages delivered, %d bytes held at the end", app.next, total, b.Held())
	}
}

// Q2: an application that is slower than the group is through in the end, for ever less may come
// while it catches up.
func TestTheHandOverEndsThoughMessagesNeverDo(t *testing.T) {
	var b *Backlog
	n := uint64(0)
	fill := func() {
		for {
			if taken, through := b.Deliver([]Message{message(n, 100)}); taken == 0 || through {
				return
			}
			n++
		}
	}
	calls := 0
	b = New(Config{Bytes: 1 << 20, Wake: func() {}, Upcall: func([]Message) {
		calls++
		fill() // whatever room there is, is used at once
	}})
	fill()
	if b.Held() < 1<<20-1000 {
		t.Fatalf("%d bytes are held while nothing is handed over", b.Held())
	}
	if !b.HandOver() {
		t.Error("not through")
	}
	if limit := uint64(2 << 20 / 100); n > limit {
		t.Errorf("%d messages came before the end, more than %d", n, limit)
	}
}

// A mark is reached behind what was delivered before it and before what comes, and not while
// nothing is handed over.
func TestAMarkIsReachedInItsPlace(t *testing.T) {
	var got []string
	b := New(Config{Bytes: 1 << 10, Wake: func() {}, Upcall: func(run []Message) {
		for _, m := range run {
			got = append(got, fmt.Sprint(m.Seq))
		}
	}})
	b.Deliver([]Message{message(0, 0), message(1, 0)})
	b.Mark(func() { got = append(got, "mark") })
	b.Deliver([]Message{message(2, 0)})
	if len(got) > 0 {
		t.Errorf("nothing is handed over, and the application has %v", got)
	}
	if b.HandOver(); fmt.Sprint(got) != "[0 1 mark 2]" {
		t.Errorf("the application has %v", got)
	}
}

func TestADroppedBacklogHoldsUpNobodyAndHandsNothingOver(t *testing.T) {
	got, woken := 0, 0
	b := New(Config{Bytes: 1 << 10, Wake: func() { woken++ }, Upcall: func(run []Message) { got += len(run) }})
	for taken := 1; taken > 0; {
		taken, _ = b.Deliver([]Message{message(0, 100)})
	}
	b.Mark(func() { t.Error("a mark was reached") })
	b.Drop()
	if taken, through := b.Deliver([]Message{message(0, 5000)}); taken != 1 || through || woken != 1 {
		t.Errorf("taken %d, through %v, woken %d", taken, through, woken)
	}
	if b.HandOver() || got != 0 {
		t.Errorf("%d messages were handed over", got)
	}
	if _, through := b.Deliver(nil); through {
		t.Error("messages go straight to an application whose state is not there")
	}
}

// A backlog is as large as what is in it.
func TestAnEmptyBacklogTakesNoMemory(t *testing.T) {
	b := New(Config{Bytes: 1 << 30, Wake: func() {}, Upcall: func([]Message) {}})
	b.Deliver([]Message{message(0, 100)})
	if c := cap(b.parts[0].data); c > minPartBytes {
		t.Errorf("%d bytes of memory for a message of 108", c)
	}
}
