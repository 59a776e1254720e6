package ripc

import (
	"errors"
	"fmt"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
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
		e.seen[ID(fmt.Sprint("service ", k))] = Place{}
	}
	e.unlock()
	must(t, register(t, e, "").To("server").Connect(ctx))
	e.lock()
	defer e.unlock()
	if _, ok := e.seen["server"]; !ok || len(e.seen) != maxSeen {
		t.Errorf("%d places are remembered, the last one: %v", len(e.seen), ok)
	}
}
