package dds_test

import (
	"context"
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

// The futures of a client say that samples are in the order and, in a persistent space, on the
// disks: also of topics that are not PERSISTENT, and after the writer was closed.
func TestFuturesOfAClientAreAboutTheOrderAndTheDisks(t *testing.T) {
	for _, persistent := range []bool{false, true} {
		all := open(t, 2, func(_ int, p *member.Config, c *squall.Config) {
			if persistent {
				p.Subgroup.Mode, c.Dir = squall.Persistent, t.TempDir()
			}
		})
		c := dial(t, nil, serve(t, all[0], member.RelayConfig{}).Addr())
		durabilities := []qos.Durability{qos.Volatile}
		if persistent {
			durabilities = append(durabilities, qos.Persistent)
		}
		for _, d := range durabilities {
			tp, err := dds.NewTopic(t.Context(), c, d.String(), dds.CBOR[position](), dds.QoS{Durability: d})
			if err != nil {
				t.Fatal(err)
			}
			w := writer(t, tp, dds.QoS{Durability: d})
			var futures []dds.Future
			for range 10 {
				f, err := w.WriteFuture(t.Context(), position{})
				if err != nil {
					t.Fatal(err)
				}
				futures = append(futures, f)
			}
			last := futures[len(futures)-1]
			<-last.Done()
			if at, err := last.Wait(testutil.Within(t)); err != nil || at == (squall.Version{}) {
				t.Errorf("at %v: %v", at, err)
			}
			if err := w.Close(testutil.Within(t)); err != nil {
				t.Fatal(err)
			}
			for _, f := range futures {
				_, err := f.Persisted(testutil.Within(t), dds.OnThisDisk)
				if persistent && err != nil || !persistent && !errors.Is(err, dds.ErrNotPersistent) {
					t.Errorf("persistent=%v: %v", persistent, err)
				}
			}
		}
	}
}

// A client's relay is closed again and again while samples with futures are on their way: each
// future comes true, and each sample takes effect once.
func TestFuturesOfAClientComeTrueAtAnotherRelay(t *testing.T) {
	const laps, samples = 4, 500
	all := open(t, 2, func(_ int, p *member.Config, c *squall.Config) {
		p.Subgroup.Mode, c.Dir = squall.Persistent, t.TempDir()
	})
	relays := []*member.Relay{serve(t, all[0], member.RelayConfig{}), serve(t, all[1], member.RelayConfig{})}
	addresses := []string{relays[0].Addr(), relays[1].Addr()}
	found := make(chan string, 100)
	c := dial(t, func(e dds.Event) {
		if e, ok := e.(dds.RelayChanged); ok && e.Err == nil {
			found <- e.Relay
		}
	}, addresses...)
	r := reader(t, topic(t, all[1], dds.QoS{}), dds.QoS{History: qos.KeepAll()})
	w := writer(t, topic(t, c, dds.QoS{}), dds.QoS{})
	var last squall.Version
	for lap := range int32(laps) {
		var futures []dds.Future
		for n := range int32(samples) {
			f, err := w.WriteFuture(t.Context(), position{N: lap*samples + n})
			if err != nil {
				t.Fatal(err)
			}
			futures = append(futures, f)
		}
		if lap < laps-1 {
			at := <-found
			n := slices.Index(addresses, at)
			if err := relays[n].Close(); err != nil {
				t.Fatal(err)
			}
			relays[n] = serveAt(t, all[n], at)
		}
		for _, f := range futures {
			at, err := f.Persisted(testutil.Within(t), dds.OnEveryDisk)
			if err != nil || at.Before(last) {
				t.Fatalf("at %v, after %v: %v", at, last, err)
			}
			last = at
		}
	}
	for want := int32(0); want < laps*samples; {
		s, err := r.Next(testutil.Within(t))
		if err != nil {
			t.Fatal(err)
		}
		if s.Info.Valid {
			if s.Value.N != want {
				t.Fatalf("sample %d comes instead of %d", s.Value.N, want)
			}
			want++
		}
	}
}

// The future of a sample that has not come to a relay when the client is closed says so.
func TestAFutureEndsWithItsClient(t *testing.T) {
	t.Parallel()
	all := open(t, 1, nil)
	relay := serve(t, all[0], member.RelayConfig{})
	gone := make(chan struct{}, 10)
	events := func(e dds.Event) {
		if e, ok := e.(dds.RelayChanged); ok && e.Err != nil {
			gone <- struct{}{}
		}
	}
	c, err := dds.Dial(t.Context(), dds.ClientConfig{Space: "fleet", Cluster: "test", Addresses: []string{relay.Addr()}, RelayTimeout: 600 * time.Millisecond, Events: events})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, topic(t, c, dds.QoS{}), dds.QoS{})
	if err := relay.Close(); err != nil {
		t.Fatal(err)
	}
	<-gone
	f, err := w.WriteFuture(t.Context(), position{})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("without a relay: %v", err)
	}
	if err := c.Close(testutil.Within(t)); err == nil {
		t.Error("closing says nothing of the sample")
	}
	if _, err := f.Wait(testutil.Within(t)); !errors.Is(err, dds.ErrNotOpen) {
		t.Errorf("after the end of the client: %v", err)
	}
}
