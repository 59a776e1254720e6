package ripc

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// fillWindow sends as many messages to a service as its window takes, and returns how many.
func fillWindow(t *testing.T, s *Service, to *Remote, body []byte) (sent int) {
	t.Helper()
	for sent = range s.e.cfg.RingBytes / 2 / pair.FrameBytes(len(body)) {
		must(t, s.Send(testutil.Within(t), to, body))
	}
	return sent + 1
}

// A sender that waits for buffer space goes on when the receiver gives some back, and stops when
// its context ends.
func TestASenderWaitsForRoom(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{}), "")
		to := client.To("server")
		if err := client.TrySend(to, nil); !errors.Is(err, ErrNotConnected) {
			t.Errorf("%v", err)
		}
		must(t, to.Connect(ctx))
		body := make([]byte, 1000)
		sent := fill(t, client, to, body)
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		if err := client.Send(short, to, body); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() {
				if err := client.Send(ctx, to, body); err != nil {
					t.Error(err)
				}
			})
		}
		for range sent + 3 {
			m, err := server.Receive(ctx)
			must(t, err)
			m.Release()
		}
		waiting.Wait()
		if m, ok := server.TryReceive(); ok {
			t.Errorf("one more message: %d bytes", len(m.Data))
		}
	})
}

// Of many senders that wait for buffer space, those go on that there is room for, and the others
// sleep on.
func TestRoomWakesTheSendersThatFindIt(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		here := open(Config{})
		server, client := register(t, open(Config{}), "server"), register(t, here, "")
		to := client.To("server")
		must(t, to.Connect(ctx))
		body := make([]byte, 1000)
		sent := fill(t, client, to, body)
		const senders, freed = 60, 6
		var done atomic.Int32
		var waiting sync.WaitGroup
		for range senders {
			waiting.Go(func() {
				if err := client.Send(ctx, to, body); err != nil {
					t.Error(err)
				}
				done.Add(1)
			})
		}
		p := to.route.Load().peer
		eventually(t, here, "a sender does not wait", func() bool { return p.send.room.Len() == senders })
		before := here.Stats().Wakes
		for k := range freed {
			m, err := server.Receive(ctx)
			must(t, err)
			m.Release()
			eventually(t, here, "no sender goes on", func() bool { return done.Load() > int32(k) })
		}
		if woken := here.Stats().Wakes - before; woken > senders {
			t.Errorf("with room for %d messages, %d senders were woken %d times", freed, senders, woken)
		}
		for range sent + senders - freed {
			m, err := server.Receive(ctx)
			must(t, err)
			m.Release()
		}
		waiting.Wait()
	})
}

// What senders to one service take of the ring does not count in the window of another service
// (RP16).
func TestRoomInTheWindowOfAnotherServiceWakesItsSender(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		here, there := open(Config{}), open(Config{})
		client := register(t, here, "")
		body := make([]byte, 1000)
		var services []*Service
		var waiting sync.WaitGroup
		var done [2]atomic.Int32
		var sent [2]int
		for i, id := range []ID{"a", "b"} {
			services = append(services, register(t, there, id))
			to := client.To(id)
			must(t, to.Connect(ctx))
			sent[i] = 2 + fillWindow(t, client, to, body)
			p := to.route.Load().peer
			for k := range 2 {
				waiting.Go(func() {
					if err := client.Send(ctx, to, body); err != nil {
						t.Error(err)
					}
					done[i].Add(1)
				})
				eventually(t, here, "a sender does not wait", func() bool { return p.send.room.Len() == 2*i+k+1 })
			}
		}
		var kept []Message
		for _, s := range services {
			m, err := s.Receive(ctx)
			must(t, err)
			kept = append(kept, m)
		}
		here.lock() // it looks when both channels have room
		for i := range kept {
			kept[i].Release()
		}
		here.unlock()
		for i := range done {
			eventually(t, here, "a sender does not go on", func() bool { return done[i].Load() == 1 })
		}
		for i, s := range services {
			for range sent[i] - 1 {
				m, err := s.Receive(ctx)
				must(t, err)
				m.Release()
			}
		}
		waiting.Wait()
	})
}

// A receiver publishes what it frees in large parts as long as no sender waits. One that sleeps
// with room that it has not published is woken by a sender that waits for it (RP16).
func TestRoomThatWasNotPublishedIsGivenToASenderThatWaits(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		here, there := open(Config{RingBytes: 4 << 10}), open(Config{RingBytes: 4 << 10, MaxSpin: -1})
		server, client := register(t, there, "server"), register(t, here, "")
		to := client.To("server")
		must(t, to.Connect(ctx))
		body := make([]byte, 100)
		sent := fillWindow(t, client, to, body)
		held, err := server.Receive(ctx)
		must(t, err)
		defer held.Release()
		for range 3 { // less than is published at a time
			m, err := server.Receive(ctx)
			must(t, err)
			m.Release()
		}
		if err := client.TrySend(to, body); !errors.Is(err, ErrFull) {
			t.Fatalf("what was freed is published: %v", err)
		}
		idle := register(t, there, "idle")
		waits, stop := context.WithCancel(ctx)
		var sleeping sync.WaitGroup
		sleeping.Go(func() {
			if _, err := idle.Receive(waits); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		defer sleeping.Wait()
		defer stop()
		eventually(t, there, "the receiver does not sleep", func() bool { return there.role.IsAsleep() && !there.role.Poller().Yields })
		for range 3 {
			must(t, client.Send(ctx, to, body))
		}
		for range sent - 4 + 3 {
			m, err := server.Receive(ctx)
			must(t, err)
			m.Release()
		}
	})
}

// A sender that was woken and gives up leaves its space to the others (RP16).
func TestASenderThatGivesUpLeavesItsSpaceToOthers(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		register(t, open(Config{}), "server")
		here := open(Config{})
		client := register(t, here, "")
		to := client.To("server")
		must(t, to.Connect(ctx))
		body := make([]byte, to.MaxMessageBytes())
		must(t, client.Send(ctx, to, body)) // there is space for one more
		r := to.route.Load()
		room := &r.peer.send.room
		here.lock()
		defer here.unlock()
		first, other := here.waiter(), here.waiter()
		defer here.giveBack(first)
		defer here.giveBack(other)
		first.goal, first.peer, first.route = goalRoom, r.peer, r
		first.halts = func() bool { // it was woken
			other.entry.Sender = other
			room.Join(&other.entry, pair.Message, r.channel, len(body))
			r.peer.wakeSenders()
			if other.entry.Woken() {
				t.Error("space for one wakes two")
			}
			return true
		}
		accepted, err := r.peer.waitForRoom(ctx, first, r, pair.Message, 0, [][]byte{body}, nil)
		if accepted || err != nil || !other.entry.Woken() {
			t.Errorf("the first message is accepted: %v, %v; the other sender is woken: %v", accepted, err, other.entry.Woken())
		}
		room.Leave(&other.entry)
		r.peer.setHungry()
	})
}
