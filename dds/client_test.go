package dds_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
)

// serve has a member serve clients.
func serve(t testing.TB, m *member.Member, cfg member.RelayConfig) *member.Relay {
	t.Helper()
	cfg.Endpoint.Listen = testutil.FreeAddress(t) // so that nobody takes it while it is closed
	return serveWith(t, m, cfg)
}

// serveAt is serve at an address that was closed before.
func serveAt(t testing.TB, m *member.Member, addr string) *member.Relay {
	t.Helper()
	return serveWith(t, m, member.RelayConfig{Endpoint: ripc.Config{Listen: addr}})
}

func serveWith(t testing.TB, m *member.Member, cfg member.RelayConfig) *member.Relay {
	t.Helper()
	cfg.Member = m
	r := testutil.Reopen(t, func(context.Context) (*member.Relay, error) { return member.Serve(t.Context(), cfg) })
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("closing a relay: %v", err)
		}
	})
	return r
}

// dial returns a client of relays.
func dial(t testing.TB, events func(dds.Event), addresses ...string) *dds.Participant {
	t.Helper()
	p, err := dds.Dial(t.Context(), dds.ClientConfig{Space: "fleet", Cluster: "test", Addresses: addresses, Seed: 1, Events: events})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("closing a client: %v", err)
		}
	})
	return p
}

// next takes n samples and returns their numbers.
func numbers(t testing.TB, r *dds.Reader[position], n int) (got []int32) {
	t.Helper()
	ctx := testutil.Within(t)
	for range n {
		s, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("after %v: %v", got, err)
		}
		if !s.Info.Valid {
			got = append(got, -int32(s.Info.Instance))
			continue
		}
		got = append(got, s.Value.N)
	}
	return got
}

func TestAClientHasTopicsLikeAMember(t *testing.T) {
	for _, transport := range []ripc.Transport{ripc.TransportAuto, ripc.TransportTCP} {
		t.Run(fmt.Sprint(transport), func(t *testing.T) {
			all := open(t, 2, nil)
			relay := serve(t, all[0], member.RelayConfig{Endpoint: ripc.Config{Transport: transport}})
			c := dial(t, nil, relay.Addr())
			inside, outside := topic(t, all[1], dds.QoS{Durability: qos.Transient}), topic(t, c, dds.QoS{Durability: qos.Transient})
			set := dds.QoS{Durability: qos.Transient, History: qos.KeepAll()}
			wi := writer(t, inside, dds.QoS{Durability: qos.Transient, KeepUnregistered: true})
			for n := range int32(3) {
				if err := wi.Write(t.Context(), position{Vehicle: n, N: n + 1}); err != nil {
					t.Fatal(err)
				}
			}
			if err := wi.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			ri, ro := reader(t, inside, set), reader(t, outside, set)
			wo := writer(t, outside, dds.QoS{Durability: qos.Transient})
			for n, w := range []*dds.Writer[position]{wi, wo, wi, wo} {
				if got, err := w.Matched(t.Context(), 2); got != 2 || err != nil {
					t.Fatalf("%d readers match: %v", got, err)
				}
				if err := w.Write(t.Context(), position{Vehicle: 7, N: int32(n + 4)}); err != nil {
					t.Fatal(err)
				}
				if err := w.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if n, err := ro.Matched(t.Context(), 2); n != 2 || err != nil {
				t.Fatalf("%d writers match: %v", n, err)
			}
			if err := wo.Dispose(t.Context(), position{Vehicle: 7}); err != nil {
				t.Fatal(err)
			}
			if err := wo.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := wi.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := []int32{1, 2, 3, 4, 5, 6, 7, -int32(dds.InstanceDisposed), -int32(dds.InstanceNoWriters), -int32(dds.InstanceNoWriters), -int32(dds.InstanceNoWriters)}
			for _, r := range []*dds.Reader[position]{ri, ro} {
				if got := numbers(t, r, len(want)); !slices.Equal(got, want) {
					t.Errorf("got %v", got)
				}
			}
			if got := c.Topics(); len(got) != 1 || got[0].Name != "positions" {
				t.Errorf("topics: %+v", got)
			}
			verdicts, err := c.Explain(wi.ID(), ro.ID())
			if err == nil {
				t.Errorf("a writer that was closed is explained: %v", verdicts)
			}
		})
	}
}

func TestTheEndOfAClientIsThatOfItsWriters(t *testing.T) {
	all := open(t, 1, nil)
	relay := serve(t, all[0], member.RelayConfig{})
	c := dial(t, nil, relay.Addr())
	r := reader(t, topic(t, all[0], dds.QoS{}), dds.QoS{History: qos.KeepAll()})
	w := writer(t, topic(t, c, dds.QoS{}), dds.QoS{})
	if err := w.Write(t.Context(), position{Vehicle: 1, N: 1}); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(testutil.Within(t)); err != nil {
		t.Fatal(err)
	}
	// It is not disposed of, as at the end of a member.
	if got := numbers(t, r, 2); !slices.Equal(got, []int32{1, -int32(dds.InstanceNoWriters)}) {
		t.Errorf("got %v", got)
	}
	if err := w.Write(t.Context(), position{}); !errors.Is(err, dds.ErrNotOpen) {
		t.Errorf("a closed client writes: %v", err)
	}
}

// A client's relay is closed again and again while it writes and reads. Its samples take effect
// once each, in order, and it misses none.
func TestAClientGoesOnWithAnotherRelay(t *testing.T) {
	t.Parallel()
	const samples = 3000
	for _, durability := range []qos.Durability{qos.Volatile, qos.Transient} {
		t.Run(durability.String(), func(t *testing.T) {
			all := open(t, 2, nil)
			relays := []*member.Relay{serve(t, all[0], member.RelayConfig{}), serve(t, all[1], member.RelayConfig{})}
			addresses := []string{relays[0].Addr(), relays[1].Addr()}
			lost := make(chan dds.SampleLost, 10)
			found := make(chan string, 100)
			c := dial(t, func(e dds.Event) {
				switch e := e.(type) {
				case dds.SampleLost:
					lost <- e
				case dds.RelayChanged:
					if e.Err == nil {
						found <- e.Relay
					}
				}
			}, addresses...)
			inside, outside := topic(t, all[1], dds.QoS{Durability: durability}), topic(t, c, dds.QoS{Durability: durability})
			set := dds.QoS{Durability: durability, History: qos.KeepAll()}
			ri, ro := reader(t, inside, set), reader(t, outside, set)
			w := writer(t, outside, dds.QoS{Durability: durability})
			wrote := make(chan error, 1)
			go func() {
				for n := range int32(samples) {
					if err := w.Write(t.Context(), position{Vehicle: n % 10, N: n}); err != nil {
						wrote <- err
						return
					}
					if n%(samples/10) == 0 {
						time.Sleep(10 * time.Millisecond) // there is something to write while relays go
					}
				}
				wrote <- nil
			}()
			for i := range 4 {
				at := <-found
				n := slices.Index(addresses, at)
				if err := relays[n].Close(); err != nil {
					t.Fatal(err)
				}
				if i < 3 {
					relays[n] = serveAt(t, all[n], at)
				}
			}
			if err := <-wrote; err != nil {
				t.Fatal(err)
			}
			for _, r := range []*dds.Reader[position]{ri, ro} {
				for want := int32(0); want < samples; {
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
			select {
			case e := <-lost:
				t.Errorf("lost: %+v", e)
			default:
			}
		})
	}
}

func TestAClientOpensItsWritersAnewAsTheyWereChanged(t *testing.T) {
	all := open(t, 1, nil)
	first := serve(t, all[0], member.RelayConfig{ClientGrace: time.Millisecond})
	c := dial(t, nil, first.Addr())
	set := dds.QoS{Ownership: qos.Exclusive, Strength: 1}
	w := writer(t, topic(t, c, dds.QoS{Ownership: qos.Exclusive}), set)
	set.Strength = 5
	if err := w.Change(testutil.Within(t), set); err != nil {
		t.Fatal(err)
	}
	addr := first.Addr()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	serveAt(t, all[0], addr)
	write(t, w, position{N: 1})
	if err := w.Flush(testutil.Within(t)); err != nil {
		t.Fatal(err)
	}
	for _, e := range all[0].Endpoints() {
		if e.QoS.Strength != 5 {
			t.Errorf("%+v", e)
		}
	}
}

func TestWhatAClientCannotHaveIsRefused(t *testing.T) {
	all := open(t, 1, nil)
	c := dial(t, nil, serve(t, all[0], member.RelayConfig{}).Addr())
	tp := topic(t, c, dds.QoS{})
	w, r := writer(t, tp, dds.QoS{}), reader(t, tp, dds.QoS{})
	_, carrier := tp.WriterFor(t.Context(), dds.QoS{}, dds.Origin{})
	_, persistent := dds.NewTopic(t.Context(), c, "p", dds.CBOR[position](), dds.QoS{Durability: qos.Persistent})
	_, served := member.Serve(t.Context(), member.RelayConfig{})
	for _, refused := range []struct {
		err, is error
		why     string
	}{
		{carrier, qos.ErrRefused, "of a member"},
		{persistent, qos.ErrRefused, "mode Persistent"},
		{r.Change(t.Context(), dds.QoS{Partitions: []string{"a"}}), dds.ErrImmutable, "open another reader"},
		{served, dds.ErrNotOpen, "only a member"},
		{w.Write(t.Context(), position{From: strings.Repeat("x", 1<<20)}), dds.ErrTooLarge, "bytes"},
	} {
		if !errors.Is(refused.err, refused.is) || !strings.Contains(fmt.Sprint(refused.err), refused.why) {
			t.Errorf("%v is no %v that says %q", refused.err, refused.is, refused.why)
		}
	}
}

var relayKills = flag.Int("relay-kills", 2, "relays that are killed under the load of a client: the group begins with twice as many members")

// The processes of relays are killed while a client writes and reads. Every sample is in the order
// once, and comes to the client's reader; how long it is without a relay is logged.
func TestAClientSurvivesKilledRelays(t *testing.T) {
	t.Parallel()
	members := 2 * *relayKills
	_, all := startRelays(t, members, members)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	children, addresses := relaysAt(t, ctx, all)
	found := make(chan string, 100)
	client := dial(t, func(e dds.Event) {
		switch e := e.(type) {
		case dds.RelayChanged:
			if e.Err == nil {
				found <- e.Relay
			}
		case dds.SampleLost:
			t.Errorf("lost: %+v", e)
		}
	}, addresses...)
	set := dds.QoS{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}}
	tp := topic(t, client, set)
	set.Service = qos.DurabilityService{}
	w := writer(t, tp, set)
	set.History = qos.KeepAll()
	r := reader(t, tp, set)
	writing, stop := context.WithCancel(ctx)
	wrote := make(chan int32, 1)
	var begun atomic.Int32 // samples whose write has begun
	go func() {
		n := int32(0)
		for writing.Err() == nil {
			begun.Add(1)
			if w.Write(ctx, position{Vehicle: n % 5, N: n}) != nil {
				break
			}
			n++
		}
		wrote <- n
	}()
	next := int32(0)
	read := func(r *dds.Reader[position], want int32) {
		t.Helper()
		s, err := r.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case !s.Info.Valid: // the view without the relay came before the client's writer at another one
		case s.Value.N != want:
			t.Fatalf("sample %d comes instead of %d", s.Value.N, want)
		default:
			next++
		}
	}
	for range *relayKills {
		at := <-found
		for len(found) > 0 { // the client has gone on
			at = <-found
		}
		for goal := next + 1000; next < goal; {
			read(r, next)
		}
		children[at].Kill()
		killed := time.Now()
		for goal := max(next+1000, begun.Load()+1); next < goal; { // samples that are ordered after it: the next kill does not come before the next view
			read(r, next)
		}
		t.Logf("the samples that were written before it came within %v of the kill", time.Since(killed))
	}
	<-found
	stop()
	n := <-wrote
	if err := w.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for next < n {
		read(r, next)
	}
	// The history is what the members have.
	late := reader(t, tp, set)
	for next = 0; next < n; {
		read(late, next)
	}
	t.Logf("%d samples", n)
}

// A client that reaches no relay says what became of its last attempt.
func TestAClientSaysWhyItReachedNoRelay(t *testing.T) {
	t.Parallel()
	address := testutil.FreeAddress(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := dds.Dial(ctx, dds.ClientConfig{Space: "fleet", Cluster: "test", Addresses: []string{address}, Endpoint: ripc.Config{Transport: ripc.TransportTCP}})
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ripc.ErrUnreachable) || !strings.Contains(err.Error(), address) {
		t.Errorf("the client says: %v", err)
	}
}

// Dial fails at once if each relay fails whenever it is asked.
func TestAClientThatNoRelayWillEverTakeFailsAtOnce(t *testing.T) {
	t.Parallel()
	all := open(t, 2, nil)
	secret := ripc.Config{Secret: []byte("a")}
	relays := []string{serve(t, all[0], member.RelayConfig{Endpoint: secret}).Addr(), serve(t, all[1], member.RelayConfig{Endpoint: secret}).Addr()}
	for name, c := range map[string]struct {
		cfg  dds.ClientConfig
		text string
	}{
		"the port of members": {dds.ClientConfig{Space: "fleet", Cluster: "test", Addresses: []string{all[0].Group().Addr(), all[1].Group().Addr()}}, "use the address at which a member serves clients"},
		"another secret":      {dds.ClientConfig{Space: "fleet", Cluster: "test", Addresses: relays}, "set the same Config.Secret at both"},
		"another cluster":     {dds.ClientConfig{Space: "fleet", Cluster: "other", Addresses: relays, Endpoint: secret}, `space "fleet" of cluster "other" is not there`},
		"another space":       {dds.ClientConfig{Space: "ships", Cluster: "test", Addresses: relays, Endpoint: secret}, `space "ships" of cluster "test" is not there`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testutil.Within(t)
			if p, err := dds.Dial(ctx, c.cfg); ctx.Err() != nil || err == nil || strings.Count(err.Error(), c.text) != 1 {
				t.Errorf("Dial returns %v, %v", p, err)
			}
		})
	}
}

// A client begins with the relay that its seed names, or with a random one, and logs what it uses.
func TestClientsBeginWithDifferentRelays(t *testing.T) {
	t.Parallel()
	all := open(t, 2, nil)
	addresses := []string{serve(t, all[0], member.RelayConfig{}).Addr(), serve(t, all[1], member.RelayConfig{}).Addr()}
	begins := func(seed uint64) string {
		var log bytes.Buffer
		first := make(chan string, 1)
		c, err := dds.Dial(testutil.Within(t), dds.ClientConfig{
			Space: "fleet", Cluster: "test", Addresses: addresses, Seed: seed, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Events: func(e dds.Event) {
				select {
				case first <- e.(dds.RelayChanged).Relay:
				default:
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		addr := <-first
		if err := c.Close(testutil.Within(t)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), addr) {
			t.Errorf("with the relay at %s the log is: %s", addr, &log)
		}
		return addr
	}
	for seed, want := range map[uint64]string{1: addresses[0], 2: addresses[1], 3: addresses[0]} {
		if got := begins(seed); got != want {
			t.Errorf("seed %d: the client begins at %s of %v", seed, got, addresses)
		}
	}
	for seen := map[string]bool{}; len(seen) < 2; {
		seen[begins(0)] = true
	}
}

// A client refuses a group with the name of the one that it used first. It goes on when that one is
// back.
func TestAClientStaysWithItsGroup(t *testing.T) {
	t.Parallel()
	first, second := open(t, 1, nil)[0], open(t, 1, nil)[0]
	at := testutil.FreeAddress(t)
	closed := func(r *member.Relay) {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	one := serveAt(t, first, at)
	c := dial(t, nil, at)
	w := writer(t, topic(t, c, dds.QoS{}), dds.QoS{})
	write(t, w, position{N: 1})
	if err := w.Flush(testutil.Within(t)); err != nil {
		t.Fatal(err)
	}
	closed(one)
	two := serveAt(t, second, at)
	write(t, w, position{N: 2})
	err := w.Flush(testutil.Within(t))
	if !errors.Is(err, dds.ErrOtherGroup) || !strings.Contains(err.Error(), first.Group().View().Group) || !strings.Contains(err.Error(), second.Group().View().Group) {
		t.Errorf("with another group: %v", err)
	}
	if _, err := dds.NewTopic(testutil.Within(t), c, "another", dds.CBOR[position](), dds.QoS{}); !errors.Is(err, dds.ErrOtherGroup) {
		t.Errorf("a request, with another group: %v", err)
	}
	closed(two)
	serveAt(t, first, at)
	ctx := testutil.Within(t)
	for err = w.Flush(ctx); errors.Is(err, dds.ErrOtherGroup); err = w.Flush(ctx) {
	}
	if err != nil {
		t.Errorf("with the first group again: %v", err)
	}
}

// startMembers starts processes that are members of a group, each with so many processors of the
// runtime. It returns an address of the group.
func startMembers(t *testing.T, processors int, specs ...memberSpec) (addr string, all []*proc.Child) {
	t.Helper()
	addr = testutil.FreeAddress(t)
	for i, spec := range specs {
		spec.ID, spec.Listen, spec.Join = squall.NodeID(i+1), "127.0.0.1:0", addr
		if i == 0 {
			spec.Listen = addr
		}
		c, err := proc.Start(context.Background(), "member", spec, proc.Options{ID: i + 1, Env: []string{fmt.Sprint("GOMAXPROCS=", processors)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			c.Kill()
			_ = c.Wait() // it was killed
		})
		all = append(all, c)
	}
	return addr, all
}

// startRelays starts processes that are relays, and members of a group of so many. It returns an
// address of the group.
func startRelays(t *testing.T, n, members int) (addr string, all []*proc.Child) {
	t.Helper()
	return startMembers(t, 1, slices.Repeat([]memberSpec{{Members: members, Relay: true}}, n)...)
}

// relaysAt waits until relays serve clients, and returns them by address.
func relaysAt(t *testing.T, ctx context.Context, all []*proc.Child) (children map[string]*proc.Child, addresses []string) {
	t.Helper()
	children = map[string]*proc.Child{}
	for _, c := range all {
		var at string
		if err := c.Receive(ctx, &at); err != nil {
			t.Fatal(err)
		}
		children[at], addresses = c, append(addresses, at)
	}
	return children, addresses
}
