package member_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/ripc"
)

// journal keeps the events of a client, and what it logs.
type journal struct {
	mu     sync.Mutex
	events []replicated.ClientEvent
	text   strings.Builder
}

func (j *journal) add(e replicated.ClientEvent) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func TestAClientReportsWhatHappensToIt(t *testing.T) {
	t.Parallel()
	all := open(t, 2, ordered, nil)
	_, servers := serve(t, all, ripc.TransportAuto)
	var j journal
	c := dial(t, replicated.ClientConfig{
		Addresses: []string{servers[0].Addr(), servers[1].Addr()}, Seed: 1, Events: j.add, Logger: slog.New(slog.NewTextHandler(&j, nil)),
	})
	for range 2 {
		if _, err := deposit.Call(testutil.Within(t), c.Object("accounts"), depositArgs{"ann", 1}); err != nil {
			t.Fatal(err)
		}
		_ = servers[0].Close()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.events) != 4 {
		t.Fatalf("events: %v", j.events)
	}
	first, _ := j.events[0].(replicated.MemberConnected)
	opened, _ := j.events[1].(replicated.SessionOpened)
	left, _ := j.events[2].(replicated.MemberLost)
	second, _ := j.events[3].(replicated.MemberConnected)
	if first.Addr != servers[0].Addr() || opened.Session == 0 || left.Addr != first.Addr || left.Err == nil || second.Addr != servers[1].Addr() {
		t.Errorf("events: %v", j.events)
	}
	if text := j.text.String(); !strings.Contains(text, left.Err.Error()[:10]) || !strings.Contains(text, "level=WARN") {
		t.Errorf("the log is %s", text)
	}
}

// Clients that have the same addresses begin with different ones.
func TestClientsSpreadOverTheMembers(t *testing.T) {
	t.Parallel()
	all := open(t, 2, ordered, nil)
	_, servers := serve(t, all, ripc.TransportAuto)
	addrs := []string{servers[0].Addr(), servers[1].Addr()}
	begins := func(seed uint64) string {
		var j journal
		c := dial(t, replicated.ClientConfig{Addresses: addrs, Seed: seed, Events: j.add})
		if _, err := total.Call(testutil.Within(t), c.Object("accounts"), "ann"); err != nil {
			t.Fatal(err)
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.events[0].(replicated.MemberConnected).Addr
	}
	for seed := range uint64(4) {
		if addr := begins(1 + seed); addr != addrs[seed%2] {
			t.Errorf("with seed %d the client begins with %s", 1+seed, addr)
		}
	}
	for first, n := begins(0), 0; begins(0) == first; n++ {
		if n == 100 {
			t.Fatal("all clients begin with the same member")
		}
	}
}

// An object that no member has, or that is of another cluster, is an error at once, and not at the
// end of the call's context.
func TestAnObjectThatNobodyHasIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	all := open(t, 2, ordered, nil)
	c, servers := serve(t, all, ripc.TransportAuto)
	ctx := testutil.Within(t)
	if _, err := total.Call(ctx, c.Object("account"), "ann"); !errors.Is(err, replicated.ErrNoObject) || !strings.Contains(err.Error(), "accounts") || ctx.Err() != nil {
		t.Errorf("an object that nobody has: %v", err)
	}
	if _, err := deposit.Call(ctx, c.Object("account"), depositArgs{}); !errors.Is(err, replicated.ErrNoObject) || ctx.Err() != nil {
		t.Errorf("a command of an object that nobody has: %v", err)
	}
	other, err := replicated.Dial(t.Context(), replicated.ClientConfig{Cluster: "another", Addresses: []string{servers[0].Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := total.Call(ctx, other.Object("accounts"), "ann"); !errors.Is(err, replicated.ErrNoObject) || !strings.Contains(err.Error(), "another") || ctx.Err() != nil {
		t.Errorf("another cluster: %v", err)
	}
}

// A member that cannot be reached may have the object that no other member has: the call goes on.
func TestAnObjectMayBeAtAMemberThatCannotBeReached(t *testing.T) {
	t.Parallel()
	all := open(t, 2, ordered, nil)
	_, servers := serve(t, all, ripc.TransportAuto)
	c, err := replicated.Dial(t.Context(), replicated.ClientConfig{Cluster: "test", Addresses: []string{servers[0].Addr(), servers[1].Addr(), testutil.FreeAddress(t)}, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := total.Call(ctx, c.Object("account"), "ann"); errors.Is(err, replicated.ErrNoObject) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
