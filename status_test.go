package squall_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
)

// A member tells, to itself and over its port alike, who is in the view, over which links, and how
// far each member is.
func TestAStatusTellsHowFarEachMemberIs(t *testing.T) {
	journals := newJournals(3)
	groups := cluster(t, 3, func(i int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "chat", Deliver: journals[i].deliver}}
	})
	everybodySends(t, "chat", 10, groups...)
	same(t, 30, journals...)
	var s *squall.Status
	eventually(t, "every member has delivered everything, and the others know it", func() bool {
		var err error
		if s, err = squall.AskStatus(t.Context(), groups[1].Addr(), squall.StatusConfig{}); err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Subgroups[0].Progress {
			if p.Delivered < 30 || p.Received != s.Subgroups[0].Progress[0].Received || p.Delivered != p.Received {
				return false
			}
		}
		return true
	})
	if s.Cluster != t.Name() || s.Group != groups[0].View().Group || s.Node != 2 || s.View != groups[0].View().ID || !s.Ready || s.Reason != "" {
		t.Errorf("the status is %+v", s)
	}
	if len(s.Members) != 3 || len(s.Subgroups) != 1 {
		t.Fatalf("the status has %d members and %d subgroups", len(s.Members), len(s.Subgroups))
	}
	for i, m := range s.Members {
		if m.Node != groups[0].View().Members[i].ID || m.Addr != groups[0].View().Members[i].Addr || m.Suspected || m.Silence < 0 || (m.Link == "self") != (m.Node == 2) {
			t.Errorf("member %d is %+v", i, m)
		}
	}
	sg := s.Subgroups[0]
	if sg.Name != "chat" || sg.Mode != "ordered" || !sg.Provisioned || !sg.Here || !sg.Restored || len(sg.Members) != 3 || len(sg.Senders) != 3 || len(sg.Progress) != 3 || sg.Log != nil || sg.State != nil {
		t.Errorf("the subgroup is %+v", sg)
	}
	own, err := groups[1].Status(t.Context())
	if err != nil || own.Node != 2 || len(own.Members) != 3 || own.Stats.Cycles == 0 {
		t.Errorf("the process itself gets %+v, %v", own, err)
	}
}

// J14: the status of a group with a secret is for processes that know it.
func TestAStatusOfAGroupWithASecretNeedsTheSecret(t *testing.T) {
	secret := []byte("sixteen bytes or more")
	groups := cluster(t, 1, func(i int, c *squall.Config) { c.Secret = secret })
	for _, wrong := range [][]byte{nil, []byte("another secret of 16 bytes")} {
		if s, err := squall.AskStatus(testutil.Within(t), groups[0].Addr(), squall.StatusConfig{Secret: wrong}); err == nil || !strings.Contains(err.Error(), "--secret-file") {
			t.Errorf("with the secret %q: %+v, %v", wrong, s, err)
		}
	}
	for _, fresh := range []bool{false, true} {
		s, err := squall.AskStatus(testutil.Within(t), groups[0].Addr(), squall.StatusConfig{Secret: secret, Fresh: fresh})
		if err != nil || s.Node != 1 {
			t.Errorf("%+v, %v", s, err)
		}
	}
}

// What a shard lacks is a reason for which a process is not ready.
func TestAStatusTellsWhyAProcessIsNotReady(t *testing.T) {
	groups := cluster(t, 2, func(i int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "big", MinMembers: 3, Deliver: func(squall.Message) {}}}
	})
	s, err := groups[0].Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Ready || !strings.Contains(s.Reason, `"big"`) || len(s.Subgroups) != 1 || s.Subgroups[0].Provisioned || s.Subgroups[0].Here || s.Subgroups[0].Reason == "" {
		t.Errorf("the status is %+v", s)
	}
}

// The log's ends are in the status, and so is the hash that the application took.
func TestAStatusHasTheLogAndTheHashOfTheState(t *testing.T) {
	dir := t.TempDir()
	asked := make(chan bool, 16)
	groups, _ := durableCluster(t, dir, 2, func(i int, c *squall.Config) {
		c.Subgroups[0].StateHash = func(_ context.Context, fresh bool) (squall.StateHash, error) {
			if i == 1 {
				return squall.StateHash{}, squall.ErrNoStateHash
			}
			asked <- fresh
			return squall.StateHash{Position: 7, Sum: 11}, nil
		}
	})
	persistSome(t, groups, "x", 5)
	s, err := squall.AskStatus(t.Context(), groups[0].Addr(), squall.StatusConfig{Fresh: true})
	if err != nil {
		t.Fatal(err)
	}
	sg := s.Subgroups[0]
	if fresh := <-asked; !fresh || sg.State == nil || *sg.State != (squall.StateHash{Position: 7, Sum: 11}) {
		t.Errorf("asked for a new hash: %v; it is %+v", fresh, sg.State)
	}
	if sg.Log == nil || sg.Log.Records != 10 || sg.Log.First == "" || sg.Log.Last == "" || sg.Log.Snapshot != "" || sg.Log.DiskBytes == 0 || sg.Log.Incomplete {
		t.Errorf("the log is %+v", sg.Log)
	}
	if s, err = squall.AskStatus(t.Context(), groups[1].Addr(), squall.StatusConfig{}); err != nil || s.Subgroups[0].State != nil {
		t.Errorf("a process that took no hash has the status %+v, %v", s, err)
	}
}

// A loop that a callback blocks gives no status: the error says so, and in the callback itself it
// is another one.
func TestAStatusOfABlockedLoopIsAnError(t *testing.T) {
	blocked, release := make(chan error), make(chan struct{})
	var group *squall.Group
	groups := cluster(t, 1, func(i int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "chat", Deliver: func(squall.Message) {
			_, err := group.Status(t.Context())
			blocked <- err
			<-release
		}}}
	})
	group = groups[0]
	send(t, must(groups[0].Subgroup("chat")), "block")
	if err := <-blocked; !errors.Is(err, squall.ErrInCallback) {
		t.Errorf("in the callback: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := groups[0].Status(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "callback") {
		t.Errorf("while it is blocked: %v", err)
	}
	close(release)
	closeWell(t, groups...)
	if _, err := groups[0].Status(t.Context()); !errors.Is(err, squall.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
