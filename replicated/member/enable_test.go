package member_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// upgrade starts two members of an older program, and then two of a newer one in their place. The
// leader of what is left is of the newer program.
func upgrade(t *testing.T, delay time.Duration) []*node[*gated] {
	t.Helper()
	object := func(newer bool) *member.Object[*gated] {
		o := newGated(newer, nil)
		o.EnableAfter(delay)
		return o
	}
	old := open(t, 2, func(int) *member.Object[*gated] { return object(false) }, nil)
	if _, err := oldAdd.Call(t.Context(), old[0].bank, 1); err != nil {
		t.Fatal(err)
	}
	var all []*node[*gated]
	for id := squall.NodeID(8); id <= 9; id++ {
		n := &node[*gated]{bank: object(true)}
		var err error
		n.group, err = member.Open(t.Context(), squall.Config{Cluster: "test", ID: id, Listen: "127.0.0.1:0", Join: []string{old[0].group.Addr()}, InitialMembers: 2, Logger: quiet}, n.bank)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	t.Cleanup(func() { closeAll(t, all) })
	if _, err := newAdd.Call(t.Context(), all[0].bank, 1); !errors.Is(err, replicated.ErrUnknownOperation) {
		t.Fatalf("an operation that the older program lacks: %v", err)
	}
	closeAll(t, old)
	await(t, "a view of the newer program", func() bool { return len(all[1].group.View().Members) == 2 })
	return all
}

// With a delay of 0 a new operation is enabled as soon as all members have it.
func TestAnOperationIsEnabledAtOnceWithoutADelay(t *testing.T) {
	t.Parallel()
	all := upgrade(t, 0)
	await(t, "the operation is enabled", func() bool {
		_, err := newAdd.Call(t.Context(), all[1].bank, 1)
		return err == nil
	})
}

// Until an operation is enabled an older program can come back; afterwards it cannot.
func TestAnOperationWaitsToBeEnabled(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{-1, time.Hour} {
		all := upgrade(t, delay)
		s, err := member.Serve(t.Context(), member.ServerConfig{Endpoint: ripc.Config{Listen: "127.0.0.1:0"}}, all[1].bank)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		c := dial(t, replicated.ClientConfig{Cluster: "test", Addresses: []string{s.Addr()}})
		await(t, "all members have the operation", func() bool {
			info, err := c.Objects(t.Context())
			return err == nil && slices.ContainsFunc(info[0].Operations, func(o replicated.OperationInfo) bool { return o.Name == "new add" && o.Ready && !o.Enabled })
		})
		if _, err := newAdd.Call(t.Context(), all[0].bank, 1); !errors.Is(err, replicated.ErrUnknownOperation) {
			t.Errorf("a member's call: %v", err)
		}
		if _, err := newAdd.Call(t.Context(), c.Object("accounts"), 1); !errors.Is(err, replicated.ErrUnknownOperation) {
			t.Errorf("a client's call: %v", err)
		}
		back := &node[*gated]{bank: newGated(false, nil)}
		back.group, err = member.Open(t.Context(), squall.Config{Cluster: "test", ID: 7, Listen: "127.0.0.1:0", Join: []string{all[0].group.Addr()}, InitialMembers: 2, Logger: quiet}, back.bank)
		if err != nil {
			t.Fatalf("the older program cannot come back: %v", err)
		}
		closeAll(t, []*node[*gated]{back})
		await(t, "a view without the older program", func() bool { return len(all[1].group.View().Members) == 2 })
		if _, err := c.EnableOperations(t.Context(), "nothing"); err == nil {
			t.Error("operations of an object that nobody has were enabled")
		}
		names, err := c.EnableOperations(t.Context(), "accounts")
		if err != nil || !slices.Equal(names, []string{"new add"}) {
			t.Fatalf("enabled %q, %v", names, err)
		}
		if _, err := newAdd.Call(t.Context(), c.Object("accounts"), 1); err != nil {
			t.Errorf("after it was enabled: %v", err)
		}
		if names, err := all[0].bank.EnableOperations(t.Context()); err != nil || len(names) != 0 {
			t.Errorf("enabled again: %q, %v", names, err)
		}
	}
}
