package directory

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	_ "github.com/squall-go/squall/persist/bolt"
	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/directory/internal/registry"
	"github.com/squall-go/squall/trust"
	"go.uber.org/goleak"
)

// TestMain makes the test binary a member in a process of its own when it is started again as one.
func TestMain(m *testing.M) {
	testutil.BecomeProgramOf(runMember)
	goleak.VerifyTestMain(m)
}

// must fails the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// member is one member of a group with a directory.
type member struct {
	dir      *Directory
	group    *squall.Group
	endpoint *ripc.Endpoint
	end      func() // ends Serve
	stop     func() // ends it
	messages chan string
}

// options are what the members of a test have in common.
type options struct {
	tls    *tls.Config
	secret string
	dirs   []string      // of persistent members
	names  int           // that one owner may have
	lease  time.Duration // of members
}

// cluster starts members, which the test ends.
func cluster(t *testing.T, n int, o options) (members []*member) {
	t.Helper()
	for k := range n {
		var join []string
		if k > 0 {
			join = []string{members[0].group.Addr()}
		}
		members = append(members, newMember(t, k+1, join, o))
	}
	return members
}

// newMember starts a member, which the test ends.
func newMember(t *testing.T, id int, join []string, o options) *member {
	t.Helper()
	ctx := testutil.Within(t)
	m := &member{dir: New(Config{Persistent: o.dirs != nil, MaxNamesPerOwner: o.names, Lease: o.lease}), messages: make(chan string, 1000)}
	cfg := squall.Config{
		Cluster: t.Name(), ID: squall.NodeID(id), Listen: "127.0.0.1:0", Join: join, InitialMembers: max(1, len(join)),
		Heartbeat: 20 * time.Millisecond, FailAfter: 500 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Subgroups: []squall.SubgroupConfig{m.dir.Subgroup(), {Name: "news", Deliver: func(s squall.Message) { m.messages <- string(s.Data) }}},
	}
	if o.dirs != nil {
		cfg.Dir = o.dirs[id-1]
	}
	var err error
	m.group, err = squall.Open(ctx, cfg)
	must(t, err)
	m.endpoint, err = ripc.Open(ctx, ripc.Config{Listen: "127.0.0.1:0", Resolver: m.dir, TLS: o.tls, Secret: []byte(o.secret)})
	must(t, err)
	serving, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := m.dir.Serve(serving, m.group, m.endpoint); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	m.end = func() {
		cancel()
		running.Wait()
	}
	m.stop = sync.OnceFunc(func() {
		m.end()
		must(t, m.endpoint.Close())
		closing, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		if err := m.group.Close(closing); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(m.stop)
	return m
}

// addresses returns the addresses of the members' endpoints.
func addresses(members []*member) (addrs []string) {
	for _, m := range members {
		addrs = append(addrs, m.endpoint.Addr())
	}
	return addrs
}

// client is a client of a directory with an endpoint.
func client(t *testing.T, cfg ClientConfig, of ripc.Config) (*Client, *ripc.Endpoint) {
	t.Helper()
	c, err := Dial(t.Context(), cfg)
	must(t, err)
	of.Resolver = c
	if of.Listen == "" {
		of.Listen = "127.0.0.1:0"
	}
	if of.Transport == ripc.TransportAuto {
		of.Transport = ripc.TransportTCP
	}
	e, err := ripc.Open(t.Context(), of)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	t.Cleanup(func() { e.Close() })
	return c, e
}

// serve answers requests with a name.
func serve(t *testing.T, s *ripc.Service, name string) (wait func()) {
	var serving sync.WaitGroup
	serving.Go(func() {
		s.Serve(context.Background(), func(_ context.Context, m *ripc.Message) { m.Reply([]byte(name)) })
	})
	return serving.Wait
}

// call is what a service answers.
func call(t *testing.T, s *ripc.Service, id ripc.ID) string {
	t.Helper()
	m, err := s.Call(testutil.Within(t), s.To(id), []byte("?"))
	must(t, err)
	defer m.Release()
	return string(m.Data)
}

func key(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for ctx := testutil.Within(t); !holds(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal(what)
		}
	}
}

// Resolver cache poisoning: an attacker that has the secret cannot have a service's messages,
// whether it claims the name, says what it heard again, answers in place of a member, or tells a
// client that the service has moved.
func TestACacheIsNotPoisoned(t *testing.T) {
	ctx := testutil.Within(t)
	members := cluster(t, 2, options{secret: "s"})
	cfg := ClientConfig{Addresses: addresses(members), Secret: []byte("s"), Key: key(1)}
	_, victim := client(t, cfg, ripc.Config{})
	s, err := victim.Register(ctx, "42")
	must(t, err)
	defer serve(t, s, "the victim")()
	defer s.Close()

	// A false member, which does not know the secret, comes first in the list of the client.
	false_, err := ripc.Open(ctx, ripc.Config{Listen: "127.0.0.1:0", Resolver: ripc.Static{}, Secret: []byte("guessed")})
	must(t, err)
	defer false_.Close()
	_, err = false_.Register(ctx, ServiceID)
	must(t, err)
	c, e := client(t, ClientConfig{Addresses: append([]string{false_.Addr()}, addresses(members)...), Secret: []byte("s")}, ripc.Config{})
	caller, err := e.Register(ctx, "")
	must(t, err)
	if got := call(t, caller, "42"); got != "the victim" {
		t.Fatal(got)
	}

	// The attacker claims the name, with a key of its own.
	_, attacker := client(t, ClientConfig{Addresses: addresses(members), Secret: []byte("s"), Key: key(6)}, ripc.Config{})
	if _, err := attacker.Register(ctx, "42"); !errors.Is(err, ErrOwned) || !errors.Is(err, ripc.ErrRefused) {
		t.Errorf("the attacker registered the name: %v", err)
	}
	if _, err := attacker.RegisterShared(ctx, "42"); !errors.Is(err, ErrOwned) {
		t.Errorf("the attacker shares the name: %v", err)
	}
	if _, err := attacker.RegisterShared(ctx, ServiceID); !errors.Is(err, ErrOwned) {
		t.Errorf("the attacker is the directory: %v", err)
	}

	// It tells the client's connection to the directory that the name has changed, under the
	// directory's id, from an endpoint that has a service with the name.
	c.mu.Lock()
	conn, before := c.conn, c.cache["42"]
	c.mu.Unlock()
	forger, err := ripc.Open(ctx, ripc.Config{Secret: []byte("s"), Listen: "127.0.0.1:0", Resolver: ripc.Static{conn.service.ID(): conn.endpoint.Place()}})
	must(t, err)
	defer forger.Close()
	as, err := forger.Register(ctx, ServiceID)
	must(t, err)
	decoy, err := forger.Register(ctx, "42")
	must(t, err)
	must(t, as.Notify(ctx, as.To(conn.service.ID()), 1, []byte(`{"name":"42","version":9000000000000}`)))
	eventually(t, "the notice did not come", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		now, ok := c.cache["42"]
		return ok && c.conn == conn && len(c.fetching) == 0 && now.version == before.version
	})
	for range 10 {
		if got := call(t, caller, "42"); got != "the victim" {
			t.Errorf("%s answered", got)
		}
		if at, err := c.Resolve(ctx, "42"); err != nil || at != victim.Place() {
			t.Error(at, err)
		}
	}
	if m, ok := decoy.TryReceive(); ok {
		t.Errorf("the attacker received %q", m.Data)
	}
}

// With TLS a name belongs to the identity in the certificate that registered it first.
func TestANameBelongsToTheIdentityOfACertificate(t *testing.T) {
	ctx := testutil.Within(t)
	authority := testutil.NewAuthority(t)
	members := cluster(t, 2, options{tls: authority.TLS()})
	register := func(of *tls.Config, id ripc.ID) (*ripc.Service, error) {
		_, e := client(t, ClientConfig{Addresses: addresses(members), TLS: of}, ripc.Config{TLS: of})
		return e.Register(ctx, id)
	}
	s, err := register(authority.Named("web"), "web")
	must(t, err)
	if _, err := register(authority.Named("thief"), "web"); !errors.Is(err, ErrOwned) {
		t.Error(err)
	}
	if _, err := register(authority.Named("web"), "web"); err != nil { // the service moves to another process of its owner
		t.Error(err)
	}
	if e := members[0].dir.List("web"); len(e) != 1 || e[0].Owner != "identity CN=web" {
		t.Errorf("%+v", e)
	}
	must(t, s.Close())
}

// A client that registers more services than one owner may have is told so, and a service that it
// closes makes room.
func TestAClientWithTooManyNamesIsRefused(t *testing.T) {
	t.Parallel()
	ctx := testutil.Within(t)
	const most = 3
	members := cluster(t, 2, options{names: most})
	_, greedy := client(t, ClientConfig{Addresses: addresses(members), Lease: time.Second}, ripc.Config{})
	var last *ripc.Service
	for k := range most {
		var err error
		last, err = greedy.Register(ctx, ripc.ID(fmt.Sprint("service ", k)))
		must(t, err)
	}
	if _, err := greedy.Register(ctx, "one more"); !errors.Is(err, ErrTooManyNames) || !errors.Is(err, ripc.ErrRefused) {
		t.Fatal(err)
	}
	_, other := client(t, ClientConfig{Addresses: addresses(members)}, ripc.Config{})
	if _, err := other.Register(ctx, "of another"); err != nil {
		t.Error(err)
	}
	must(t, last.Close())
	eventually(t, "a name that was given up makes no room", func() bool {
		_, err := greedy.Register(ctx, "one more")
		return err == nil
	})
}

// The leases of a process that says nothing more end, and not while it renews them. Its names are
// free again. A service that its owner registered elsewhere is lost, once.
func TestADeadProcessFreesItsNames(t *testing.T) {
	t.Parallel()
	ctx := testutil.Within(t)
	members := cluster(t, 2, options{})
	lost := make(chan string, 20)
	c, err := Dial(ctx, ClientConfig{
		Addresses: addresses(members), Key: key(1), Lease: 2 * time.Second, Hold: -1, OnLost: func(id ripc.ID, err error) { lost <- fmt.Sprint(id, errors.Is(err, registry.ErrMoved)) },
	})
	must(t, err)
	defer c.Close()
	other, _ := client(t, ClientConfig{Addresses: addresses(members), Key: key(1)}, ripc.Config{})
	at := placeOf(1, 1)
	const names = 2*maxRecords + 1 // they are renewed by several requests
	name := func(k int) ripc.ID { return ripc.ID(fmt.Sprint("mortal", k)) }
	for k := range names {
		_, err := c.Publish(ctx, name(k), at)
		must(t, err)
	}
	_, err = other.Publish(ctx, name(0), placeOf(2, 2))
	must(t, err)
	if what := <-lost; what != "mortal0true" {
		t.Error(what)
	}
	c.pub.mu.Lock()
	c.pub.at = time.Now().Add(time.Minute) // its next renewals say that the leases have ended
	c.pub.mu.Unlock()
	now := func() registry.Time {
		members[1].dir.mu.Lock()
		defer members[1].dir.mu.Unlock()
		return members[1].dir.state.Time
	}
	began := now()
	eventually(t, "the group's time stands still", func() bool {
		for k := 1; k < names; k++ {
			if found, err := members[1].dir.Resolve(ctx, name(k)); err != nil || found != at {
				t.Fatalf("after %d ms: %v, %v", now()-began, found, err)
			}
		}
		return now() > began+3000 // longer than its lease
	})
	c.cancel() // it says nothing more
	for k := 1; k < names; k++ {
		eventually(t, "a dead process has its name for ever", func() bool {
			_, err := other.Resolve(ctx, name(k))
			return errors.Is(err, ripc.ErrNoService)
		})
	}
	third, _ := client(t, ClientConfig{Addresses: addresses(members), Key: key(2)}, ripc.Config{})
	_, err = third.Publish(ctx, name(1), at)
	must(t, err)
	if found, err := third.Resolve(ctx, name(0)); err != nil || found != placeOf(2, 2) || len(lost) > 0 {
		t.Error(found, err, len(lost))
	}
}

// A client outside of the group sends to all members of a subgroup through one of them, in one
// order.
func TestAMessageToASubgroupIsRelayedIntoItsOrder(t *testing.T) {
	ctx := testutil.Within(t)
	members := cluster(t, 3, options{})
	relaying, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, m := range members {
		news, err := m.group.Subgroup("news")
		must(t, err)
		running.Go(func() {
			if err := m.dir.Relay(relaying, m.endpoint, news); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	defer running.Wait()
	defer stop()
	_, e := client(t, ClientConfig{Addresses: addresses(members)}, ripc.Config{})
	s, err := e.Register(ctx, "")
	must(t, err)
	eventually(t, "the members do not relay", func() bool {
		at, err := members[0].dir.ResolveAll(ctx, ToSubgroup("news"))
		return err == nil && len(at) == len(members)
	})
	const count = 50
	spread := s.Spread(ToSubgroup("news"))
	versions := map[squall.Version]bool{}
	for k := range count {
		reply, err := s.Call(ctx, s.To(ToSubgroup("news")), fmt.Append(nil, k))
		if k%2 == 1 {
			reply.Release()
			reply, err = spread.Call(ctx, fmt.Append(nil, "again ", k))
		}
		must(t, err)
		v, ok := Relayed(reply.Data)
		if !ok || versions[v] {
			t.Errorf("message %d has version %v", k, v)
		}
		versions[v] = true
		reply.Release()
	}
	must(t, s.Send(ctx, s.To(ToSubgroup("news")), []byte("the last")))
	var orders [][]string
	for _, m := range members {
		var order []string
		for len(order) == 0 || order[len(order)-1] != "the last" {
			select {
			case text := <-m.messages:
				order = append(order, text)
			case <-ctx.Done():
				t.Fatal("a message did not come")
			}
		}
		orders = append(orders, order)
	}
	if len(orders[0]) != count+count/2+1 || !slices.Equal(orders[0], orders[1]) || !slices.Equal(orders[0], orders[2]) {
		t.Errorf("%q", orders)
	}
}

// A directory with a log knows after the end of all members whose the names are.
func TestOwnersAreKnownAfterARestart(t *testing.T) {
	ctx := testutil.Within(t)
	dirs := []string{t.TempDir()}
	members := cluster(t, 1, options{dirs: dirs})
	c, e := client(t, ClientConfig{Addresses: addresses(members), Key: key(1)}, ripc.Config{})
	_, err := e.Register(ctx, "mine")
	must(t, err)
	must(t, e.Close())
	must(t, c.Close())
	members[0].stop()
	members = cluster(t, 1, options{dirs: dirs})
	_, thief := client(t, ClientConfig{Addresses: addresses(members), Key: key(2)}, ripc.Config{})
	if _, err := thief.Register(ctx, "mine"); !errors.Is(err, ErrOwned) {
		t.Error(err)
	}
	_, again := client(t, ClientConfig{Addresses: addresses(members), Key: key(1)}, ripc.Config{})
	_, err = again.Register(ctx, "mine")
	must(t, err)
}

// A service that moves again and again is called all the time: every call is answered.
func TestCallsGoOnWhileAServiceMovesInTheDirectory(t *testing.T) {
	t.Parallel()
	ctx := testutil.Within(t)
	members := cluster(t, 2, options{})
	cfg := ClientConfig{Addresses: addresses(members), Key: key(1)}
	var ends []*ripc.Endpoint
	for range 3 {
		_, e := client(t, cfg, ripc.Config{})
		ends = append(ends, e)
	}
	_, e := client(t, ClientConfig{Addresses: addresses(members)}, ripc.Config{})
	caller, err := e.Register(ctx, "")
	must(t, err)
	s, err := ends[0].Register(ctx, "moving")
	must(t, err)
	wait := serve(t, s, "0")
	must(t, caller.To("moving").Connect(ctx))
	var calls atomic.Int64
	running, stop := context.WithCancel(ctx)
	var calling sync.WaitGroup
	for range 3 {
		calling.Go(func() {
			for running.Err() == nil {
				m, err := caller.Call(ctx, caller.To("moving"), []byte("x"))
				if err != nil {
					t.Error(err)
					return
				}
				m.Release()
				calls.Add(1)
			}
		})
	}
	defer calling.Wait()
	defer stop()
	for move := range 30 {
		from := calls.Load()
		eventually(t, "no client is answered", func() bool { return calls.Load() > from+20 || t.Failed() })
		next := ends[(move+1)%len(ends)]
		if move%2 == 0 { // the new place is known before the old one closes, or after
			old, oldWait := s, wait
			s, err = next.Register(ctx, "moving")
			must(t, err)
			wait = serve(t, s, fmt.Sprint(move))
			must(t, old.Close())
			oldWait()
			continue
		}
		must(t, s.Close())
		wait()
		s, err = next.Register(ctx, "moving")
		must(t, err)
		wait = serve(t, s, fmt.Sprint(move))
	}
	stop()
	calling.Wait()
	must(t, s.Close())
	wait()
}

// A request has so many records.
func TestTheRecordsOfARequestAreBounded(t *testing.T) {
	for n, want := range map[int]bool{8: true, 9: false} {
		records := make([]*registry.Record, n)
		for i := range records {
			records[i] = &registry.Record{} // which is wrong by itself, and is not ordered
		}
		r, err := new(Directory).say(t.Context(), records, "", "")
		if want && (err != nil || len(r.Results) != n) || !want && !errors.Is(err, ripc.ErrLimit) {
			t.Errorf("%d records: %d results, %v", n, len(r.Results), err)
		}
	}
}

// A client asks no member again if all members fail whenever they are asked.
func TestAClientWithAnotherSecretIsToldSoAfterOneRound(t *testing.T) {
	t.Parallel()
	var rejected atomic.Int32
	there, err := ripc.Open(t.Context(), ripc.Config{Listen: "127.0.0.1:0", Secret: []byte("a"), OnReject: func(error) { rejected.Add(1) }})
	must(t, err)
	defer there.Close()
	c, _ := client(t, ClientConfig{Addresses: []string{there.Addr(), there.Addr()}, Secret: []byte("b")}, ripc.Config{})
	if _, err := c.Resolve(testutil.Within(t), "name"); !errors.Is(err, trust.ErrSecret) {
		t.Error(err)
	}
	eventually(t, "the endpoint did not tell of the client", func() bool { return rejected.Load() >= 2 })
	if n := rejected.Load(); n != 2 {
		t.Errorf("the two members were asked %d times", n)
	}
}
