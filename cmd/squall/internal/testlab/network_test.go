//go:build system

package testlab

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/netlab"
)

// network makes hosts, or says why there are none.
func network(t *testing.T, n int) *netlab.Lab {
	t.Helper()
	w, err := netlab.New(netlab.Config{Hosts: n})
	if errors.Is(err, netlab.ErrUnavailable) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// partitioned fails the test unless these halt because they are cut off.
func partitioned(t *testing.T, of ...*Process) {
	t.Helper()
	for _, p := range of {
		if halted, err := p.AwaitHalt(); err != nil || !strings.HasPrefix(halted, HaltedPartitioned) {
			t.Errorf("node %d halted: %q, %v; want it to be partitioned", p.ID(), halted, err)
		}
	}
}

func TestAMajorityGoesOnAndAMinorityComesBackWhenThePartitionHeals(t *testing.T) {
	t.Parallel()
	w := network(t, 5)
	lab := NewCluster(t, Options{Network: w})
	members := lab.Form(5)
	lab.AwaitProgress(messagesBefore, members...)
	lab.must(w.Partition(w.Hosts[0], w.Hosts[3])) // the leader among them
	rest := []*Process{members[1], members[2], members[4]}
	lab.AwaitView(rest...)
	partitioned(t, members[0], members[3])
	lab.AwaitProgress(messagesBefore, rest...)
	lab.must(w.HealPartition(w.Hosts[0], w.Hosts[3]))
	for _, p := range []*Process{members[0], members[3]} {
		back, err := lab.Join(p.ID())
		lab.must(err)
		rest = append(rest, back)
	}
	lab.AwaitView(rest...)
	lab.AwaitProgress(messagesBefore, rest...)
	lab.Finish()
}

func TestHalfGoesOnOnlyWithRankZero(t *testing.T) {
	takesTime(t)
	t.Parallel()
	w := network(t, 4)
	lab := NewCluster(t, Options{Network: w})
	members := lab.Form(4)
	lab.AwaitProgress(messagesBefore, members...)
	first := members[0].View().Members[0].ID // rank 0
	with, without := []*Process{}, []*Process{}
	for _, p := range members {
		if p.ID() == first || len(with) == 0 && p == members[3] || len(without) == 2 {
			with = append(with, p)
		} else {
			without = append(without, p)
		}
	}
	lab.must(w.Partition(without[0].host, without[1].host))
	lab.AwaitView(with...)
	partitioned(t, without...)
	lab.AwaitProgress(messagesBefore, with...)
	lab.Finish()
}

func TestWhoSpeaksAndIsNotHeardIsRemoved(t *testing.T) {
	t.Parallel()
	w := network(t, 3)
	lab := NewCluster(t, Options{Network: w})
	members := lab.Form(3)
	lab.AwaitProgress(messagesBefore, members...)
	for _, to := range w.Hosts[:2] {
		lab.must(w.Cut(w.Hosts[2], to))
	}
	lab.AwaitView(members[:2]...)
	lab.AwaitProgress(messagesBefore, members[:2]...)
	// It still hears the others, which say that it failed.
	if halted, err := members[2].AwaitHalt(); err != nil {
		t.Error(err)
	} else {
		t.Logf("halted: %s", halted)
	}
	lab.Finish()
}

// One direction between two members is cut, and both hear the third. One of the two has to go.
func TestACutInOneDirectionBetweenTwoMembersCostsOneOfThem(t *testing.T) {
	takesTime(t)
	t.Parallel()
	w := network(t, 3)
	lab := NewCluster(t, Options{Network: w})
	members := lab.Form(3)
	lab.AwaitProgress(messagesBefore, members...)
	lab.must(w.Cut(w.Hosts[0], w.Hosts[2]))
	lab.must(members[1].await("a view of two", patience, func() bool { return len(members[1].view.Members) == 2 }))
	var rest []*Process
	for _, p := range members {
		if members[1].View().has(p.ID()) {
			rest = append(rest, p)
		} else if _, err := p.AwaitHalt(); err != nil {
			t.Error(err)
		}
	}
	lab.AwaitView(rest...)
	lab.AwaitProgress(messagesBefore, rest...)
	lab.Finish()
}

// A short outage is no failure: what is lost is sent again.
func TestAPartitionThatIsShorterThanFailAfterHurtsNobody(t *testing.T) {
	t.Parallel()
	w := network(t, 3)
	lab := NewCluster(t, Options{Network: w})
	members := lab.Form(3)
	lab.AwaitProgress(messagesBefore, members...)
	lab.must(w.Partition(w.Hosts[0]))
	time.Sleep(lab.opts.FailAfter / 5)
	lab.must(w.HealPartition(w.Hosts[0]))
	lab.AwaitProgress(messagesBefore, members...)
	for _, p := range members {
		if v := p.View(); v.ID != 1 {
			t.Errorf("node %d is in view %d", p.ID(), v.ID)
		}
	}
	lab.Finish()
}
