package member_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// serve has all members serve clients, and returns a client of them.
func serve[S any](t testing.TB, all []*node[S], transport ripc.Transport) (*replicated.Client, []*member.Server) {
	t.Helper()
	var addrs []string
	var servers []*member.Server
	for _, m := range all {
		s, err := member.Serve(t.Context(), member.ServerConfig{Endpoint: ripc.Config{Listen: "127.0.0.1:0", Transport: transport}}, m.bank)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		servers = append(servers, s)
		addrs = append(addrs, s.Addr())
	}
	return dial(t, replicated.ClientConfig{Addresses: addrs}), servers
}

// A server without an address would have the same name on its host as every other such server.
func TestAServerThatNobodyWouldFindIsRefused(t *testing.T) {
	t.Parallel()
	bank := open(t, 1, ordered, nil)[0].bank
	for _, cfg := range []ripc.Config{{}, {Listen: "127.0.0.1:0", Transport: ripc.TransportSHM}} {
		if s, err := member.Serve(t.Context(), member.ServerConfig{Endpoint: cfg}, bank); err == nil || !strings.Contains(err.Error(), "Endpoint.Listen") {
			t.Errorf("%+v: %v, %v", cfg, s, err)
		}
	}
}

func dial(t testing.TB, cfg replicated.ClientConfig) *replicated.Client {
	t.Helper()
	cfg.Cluster = "test"
	c, err := replicated.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestASessionEndsWhenItsClientIsSilent(t *testing.T) {
	t.Parallel()
	all := open(t, 2, ordered, nil)
	c, _ := serve(t, all, ripc.TransportAuto)
	bank := c.Object("accounts")
	if _, err := deposit.Call(t.Context(), bank, depositArgs{"ann", 1}); err != nil {
		t.Fatal(err)
	}
	await(t, "the members have the session", func() bool { return all[0].bank.Sessions() == 1 && all[1].bank.Sessions() == 1 })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "the members have no session after the client was closed", func() bool { return all[0].bank.Sessions() == 0 && all[1].bank.Sessions() == 0 })
	// The time of the object is ahead of all clocks, and passes when the test lets it pass.
	pass := func(d time.Duration) squall.Version {
		at, err := all[0].bank.Pass(testutil.Within(t), d)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	pass(time.Hour)
	const timeout = 300 * time.Millisecond
	var lost atomic.Bool
	idle := dial(t, replicated.ClientConfig{Addresses: []string{serverOf(t, all[0])}, SessionTimeout: timeout, Events: func(e replicated.ClientEvent) {
		if _, ok := e.(replicated.SessionLost); ok {
			lost.Store(true)
		}
	}})
	if n, err := deposit.Call(t.Context(), idle.Object("accounts"), depositArgs{"ann", 1}); n != 2 || err != nil {
		t.Fatalf("the client that is to be idle: %d, %v", n, err)
	}
	// A client that touches its session keeps it.
	for range 3 {
		at := pass(timeout * 9 / 10)
		await(t, "the session is touched", func() bool { return all[0].bank.Applied() != at || lost.Load() })
	}
	if n, err := deposit.Call(t.Context(), idle.Object("accounts"), depositArgs{"ann", 1}); n != 3 || err != nil || lost.Load() {
		t.Errorf("the client that was idle: %d, %v; its session was lost: %v", n, err, lost.Load())
	}
	pass(timeout)
	await(t, "the session of a silent client ends", func() bool { return all[0].bank.Sessions() == 0 && all[1].bank.Sessions() == 0 })
}

func serverOf(t *testing.T, m *bankNode) string {
	s, err := member.Serve(t.Context(), member.ServerConfig{Endpoint: ripc.Config{Listen: "127.0.0.1:0"}}, m.bank)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.Addr()
}

// A call that ends with its context says why no member was reached before.
func TestACallThatEndsSaysWhyNoMemberWasReached(t *testing.T) {
	t.Parallel()
	c := dial(t, replicated.ClientConfig{Addresses: []string{testutil.FreeAddress(t)}, Endpoint: ripc.Config{Transport: ripc.TransportTCP}})
	ctx := testutil.Within(t)
	for wait := 100 * time.Millisecond; ; wait *= 2 { // until the address was tried in time
		short, cancel := context.WithTimeout(ctx, wait)
		_, err := balance.Call(short, c.Object("accounts"), "ann")
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Fatalf("the call ends with: %v", err)
		}
		if errors.Is(err, ripc.ErrUnreachable) && errors.Is(err, replicated.ErrUnreachable) {
			break
		}
	}
}

// A client goes on with another member when the one that it asks first takes connections and says
// nothing, as a stopped process does, although a handshake may take longer.
func TestAClientLeavesAMemberThatSaysNothing(t *testing.T) {
	t.Parallel()
	all := open(t, 1, ordered, nil)
	_, servers := serve(t, all, ripc.TransportTCP)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var j journal
	c := dial(t, replicated.ClientConfig{
		Addresses: []string{silent.Addr().String(), servers[0].Addr()}, Seed: 1, MemberTimeout: 400 * time.Millisecond, Endpoint: ripc.Config{Transport: ripc.TransportTCP},
		Events: j.add,
	})
	if _, err := deposit.Call(testutil.Within(t), c.Object("accounts"), depositArgs{"ann", 1}); err != nil {
		t.Fatal(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if left, ok := j.events[0].(replicated.MemberLost); !ok || left.Addr != silent.Addr().String() || !errors.Is(left.Err, replicated.ErrMemberTimeout) {
		t.Errorf("events: %v", j.events)
	}
}

// A client whose members are all gone asks each of them once as it is closed, and does not wait for
// MemberTimeout.
func TestAClientOfMembersThatAreGoneIsClosedAtOnce(t *testing.T) {
	t.Parallel()
	all := open(t, 2, ordered, nil)
	_, servers := serve(t, all, ripc.TransportAuto)
	c := dial(t, replicated.ClientConfig{Addresses: []string{servers[0].Addr(), servers[1].Addr()}, MemberTimeout: time.Hour})
	if _, err := deposit.Call(testutil.Within(t), c.Object("accounts"), depositArgs{Account: "ann", Amount: 1}); err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-testutil.Within(t).Done():
		t.Error("it waits")
	}
}
