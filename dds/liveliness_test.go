package dds_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/testutil"
)

// A writer that is not asserted is told so, and its readers are, at one position; an assertion
// brings it back. It may be of a member or of a client.
func TestALeaseEndsAtOnePosition(t *testing.T) {
	t.Parallel()
	lost, changed := make(chan dds.LivelinessLost, 10), []chan dds.LivelinessChanged{make(chan dds.LivelinessChanged, 10), make(chan dds.LivelinessChanged, 10)}
	ofWriter := func(e dds.Event) {
		if e, ok := e.(dds.LivelinessLost); ok {
			lost <- e
		}
	}
	all := open(t, 2, func(i int, p *member.Config, _ *squall.Config) {
		p.Events = func(e dds.Event) {
			ofWriter(e)
			if e, ok := e.(dds.LivelinessChanged); ok {
				changed[i] <- e
			}
		}
	})
	client := dial(t, ofWriter, serve(t, all[0], member.RelayConfig{}).Addr())
	lease := qos.Liveliness{Kind: qos.ManualByTopic, Lease: 50 * time.Millisecond}
	tp := topic(t, all[0], dds.QoS{})
	reader(t, tp, dds.QoS{Liveliness: lease})
	reader(t, topic(t, all[1], dds.QoS{}), dds.QoS{})
	ctx := testutil.Within(t)
	take := func(alive bool) (position uint64) {
		t.Helper()
		for _, c := range changed {
			select {
			case e := <-c:
				if e.Alive != alive || e.Liveliness != lease || position != 0 && e.Position != position {
					t.Fatalf("changed: %+v; at position %d of another reader", e, position)
				}
				position = e.Position
			case <-ctx.Done():
				t.Fatal("a reader was told nothing")
			}
		}
		return position
	}
	for _, p := range []*dds.Participant{all[0].Participant, client} {
		w := writer(t, topic(t, p, dds.QoS{}), dds.QoS{Liveliness: lease})
		at := take(false)
		select {
		case e := <-lost:
			if e.Endpoint != w.ID() || e.Position != at || e.Liveliness != lease {
				t.Errorf("lost: %+v; the readers were told at position %d", e, at)
			}
		case <-ctx.Done():
			t.Fatal("the writer was told nothing")
		}
		if err := w.AssertLiveliness(ctx); err != nil {
			t.Fatal(err)
		}
		take(true)
		if err := w.Close(ctx); err != nil {
			t.Fatal(err)
		}
		for len(lost) > 0 { // it may have been silent again, before it was closed
			<-lost
		}
		for _, c := range changed {
			for len(c) > 0 {
				<-c
			}
		}
	}
	if _, err := tp.Writer(ctx, dds.QoS{Liveliness: qos.Liveliness{Lease: time.Second}}); !errors.Is(err, qos.ErrRefused) {
		t.Errorf("a lease of AUTOMATIC: %v", err)
	}
}

// The writers of a client that are MANUAL_BY_PARTICIPANT are asserted together, also at another
// relay, and those of another client of the relay are not.
func TestAClientAssertsItsWriters(t *testing.T) {
	t.Parallel()
	changed := make(chan dds.LivelinessChanged, 100)
	all := open(t, 2, func(i int, p *member.Config, _ *squall.Config) {
		p.Events = func(e dds.Event) {
			if e, ok := e.(dds.LivelinessChanged); ok && i == 1 {
				changed <- e
			}
		}
	})
	relays := []*member.Relay{serve(t, all[0], member.RelayConfig{}), serve(t, all[1], member.RelayConfig{})}
	reader(t, topic(t, all[1], dds.QoS{}), dds.QoS{})
	set := dds.QoS{Liveliness: qos.Liveliness{Kind: qos.ManualByParticipant, Lease: 50 * time.Millisecond}}
	used := make(chan string, 10)
	one := dial(t, func(e dds.Event) {
		if e, ok := e.(dds.RelayChanged); ok && e.Err == nil {
			used <- e.Relay
		}
	}, relays[0].Addr(), relays[1].Addr())
	other := dial(t, nil, relays[0].Addr())
	ctx := testutil.Within(t)
	if err := one.AssertLiveliness(ctx); !errors.Is(err, dds.ErrUnknown) {
		t.Errorf("a client without writers: %v", err)
	}
	writer(t, topic(t, one, dds.QoS{}), set)
	writer(t, topic(t, one, dds.QoS{}), set)
	writer(t, topic(t, other, dds.QoS{}), set)
	take := func(alive bool, n int) (of []dds.ID) {
		t.Helper()
		for range n {
			select {
			case e := <-changed:
				if e.Alive != alive {
					t.Fatalf("changed: %+v", e)
				}
				of = append(of, e.Peer)
			case <-ctx.Done():
				t.Fatalf("the reader was told of %v", of)
			}
		}
		return of
	}
	take(false, 3)
	assert := func() {
		t.Helper()
		if err := one.AssertLiveliness(ctx); err != nil {
			t.Fatal(err)
		}
	}
	assert()
	of := take(true, 2)
	if again := take(false, 2); !slices.Equal(of, again) {
		t.Errorf("%v are alive, and %v are not", of, again)
	}
	if len(changed) > 0 {
		t.Errorf("changed, too: %+v", <-changed)
	}
	if at := <-used; at == relays[0].Addr() {
		if err := relays[0].Close(); err != nil {
			t.Fatal(err)
		}
		<-used
	}
	// The writers at the other relay are silent, or fall silent: the first relay has ended its own
	// before these were opened, perhaps.
	alive := map[dds.ID]bool{}
	for len(alive) < 2 {
		assert()
		select {
		case e := <-changed:
			if e.Alive && !slices.Contains(of, e.Peer) {
				alive[e.Peer] = true
			}
		case <-time.After(set.Liveliness.Lease):
		case <-ctx.Done():
			t.Fatalf("the reader was told of %v", alive)
		}
	}
}
