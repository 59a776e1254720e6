package ripc

import (
	"errors"
	"fmt"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/ripc/internal/stream"
	"github.com/squall-go/squall/ripc/internal/table"
)

// An endpoint has so many services, and one more when one was closed.
func TestTheServicesOfAnEndpointAreBounded(t *testing.T) {
	ctx := testutil.Within(t)
	e := open(t, Config{Resolver: Static{}})
	first := register(t, e, "")
	for range MaxServices - 1 {
		register(t, e, "")
	}
	if _, err := e.Register(ctx, ""); !errors.Is(err, ErrLimit) {
		t.Fatalf("one more service than an endpoint has: %v", err)
	}
	must(t, first.Close())
	register(t, e, "")
}

// A service has so many windows, and takes none of those that are too many.
func TestTheWindowsOfAServiceAreBounded(t *testing.T) {
	s := register(t, open(t, Config{Resolver: Static{}}), "")
	windows := make([]*Window, maxWindows)
	for i := range windows {
		windows[i] = NewWindow(make([]byte, 1))
	}
	must(t, s.Post(windows[1:]...))
	if err := s.Post(windows[0], NewWindow(make([]byte, 1))); !errors.Is(err, ErrLimit) {
		t.Fatalf("more windows than a service has: %v", err)
	}
	must(t, s.Post(windows[0]))
}

// So many events wait for the application; further ones are counted.
func TestTheEventsThatWaitAreBounded(t *testing.T) {
	ctx := testutil.Within(t)
	const more = 10
	told := make(chan Event, maxEvents+more)
	e := open(t, Config{Resolver: Static{}, Events: func(v Event) { told <- v }})
	e.lock() // so that none is told meanwhile
	for range maxEvents + more {
		e.emit(ServiceMoved{})
	}
	e.unlock()
	for range maxEvents {
		select {
		case <-told:
		case <-ctx.Done():
			t.Fatal("an event is missing")
		}
	}
	if n := e.Stats().EventsDropped; n != more || len(told) != 0 {
		t.Errorf("%d events were dropped, and %d came after the bound", n, len(told))
	}
}

// An endpoint remembers the places of so many services.
func TestThePlacesThatAreRememberedAreBounded(t *testing.T) {
	ctx := testutil.Within(t)
	register(t, open(t, Config{}), "server")
	e := open(t, Config{})
	e.lock()
	for k := range maxSeen {
		e.dialer.seen[ID(fmt.Sprint("service ", k))] = Place{}
	}
	e.unlock()
	must(t, register(t, e, "").To("server").Connect(ctx))
	e.lock()
	defer e.unlock()
	if _, ok := e.dialer.seen["server"]; !ok || len(e.dialer.seen) != maxSeen {
		t.Errorf("%d places are remembered, the last one: %v", len(e.dialer.seen), ok)
	}
}

// A peer that opens more streams than its limit, and does not read, has a bounded number of
// refusals waiting for it.
func TestTheStreamsThatWaitToBeRefusedAreBounded(t *testing.T) {
	const most = 1024
	s := register(t, open(t, Config{Resolver: Static{}}), "")
	s.streaming()
	o := newCallers(&peer{e: s.e}, &inbound{service: s}, 1)
	o.table, o.back = stream.NewTable(1, DefaultStreamBytes), newStreamRemote(s, "nowhere")
	limit := make([]byte, 8)
	if _, what, err := o.table.Take(stream.ID(stream.Open, false, 1), limit); what != stream.Opened || err != nil { // the one that it may have
		t.Fatal(what, err)
	}
	for number := range uint64(most + 1) {
		err := o.take(&pair.Frame{ID: stream.ID(stream.Open, false, number+2), Data: limit})
		if over := number == most; errors.Is(err, ErrLimit) != over || (err != nil) != over {
			t.Fatalf("%d streams are to be refused: %v", number+1, err)
		}
	}
}

// So many bytes of answers wait for a peer that does not take them; with one more its connection
// ends.
func TestTheAnswersThatWaitForAPeerAreBounded(t *testing.T) {
	const most = 1 << 20
	server, client := register(t, open(t, Config{}), "server"), register(t, open(t, Config{}), "")
	must(t, client.To("server").Connect(testutil.Within(t)))
	e := server.e
	e.lock()
	defer e.unlock()
	p := e.peers[0]
	first := table.Answer{Kind: pair.Reply} // one of them waits already, so that none goes to the ring
	p.answers.Push(first)
	p.charge(int64(first.Bytes()))
	for left := most - first.Bytes(); left > 0; {
		n := min(left, 1<<16)
		p.say(pair.Reply, 0, 0, make([]byte, n-first.Bytes()))
		left -= n
	}
	if p.ended() {
		t.Errorf("%d bytes wait, and the connection has ended", most)
	}
	if p.say(pair.Reply, 0, 0, nil); !p.ended() {
		t.Errorf("more than %d bytes wait", most)
	}
}
