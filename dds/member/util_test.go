package member_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/internal/testutil"
)

// start opens a member of a group.
func start(ctx context.Context, node squall.NodeID, listen, to string, members int) (*member.Member, error) {
	return member.Open(ctx, member.Config{
		Group: squall.Config{
			Cluster: "test", ID: node, Listen: listen, Join: []string{to}, InitialMembers: members, Logger: slog.New(slog.DiscardHandler),
		},
		Subgroup: squall.SubgroupConfig{Name: "fleet"},
	})
}

// open returns the members of a new group.
func open(t *testing.T, n int) []*member.Member {
	t.Helper()
	all, errs := make([]*member.Member, n), make([]error, n)
	addr := testutil.FreeAddress(t)
	var opening sync.WaitGroup
	for i := range all {
		listen := "127.0.0.1:0"
		if i == 0 {
			listen = addr
		}
		opening.Go(func() { all[i], errs[i] = start(testutil.Within(t), squall.NodeID(i+1), listen, addr, n) })
	}
	opening.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, all...) })
	return all
}

// join adds a member to the group of another one.
func join(t *testing.T, to *member.Member, node squall.NodeID, members int) *member.Member {
	t.Helper()
	m, err := start(t.Context(), node, "127.0.0.1:0", to.Group().Addr(), members)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, m) })
	return m
}

func closeAll(t *testing.T, all ...*member.Member) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var closing sync.WaitGroup
	for _, m := range all {
		closing.Go(func() {
			if err := m.Close(ctx); err != nil && m.Group().Err() == nil && !errors.Is(err, squall.ErrClosed) {
				t.Errorf("closing: %v", err)
			}
		})
	}
	closing.Wait()
}
