//go:build system && unix

package testlab

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// stopped has a member stand still for a while: it is given back to the group when the others have
// seen what they will.
func stopped(t *testing.T, p *Process, for_ func()) {
	t.Helper()
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	for_()
	if err := p.Continue(); err != nil {
		t.Fatal(err)
	}
}

func TestAMemberThatStandsStillForLessThanFailAfterStays(t *testing.T) {
	takesTime(t)
	for _, f := range fabrics {
		for _, victim := range []int{1, 2} {
			t.Run(fmt.Sprintf("fabric=%s/node=%d", f.name, victim), func(t *testing.T) {
				lab := NewCluster(t, Options{Fabric: f.of})
				members := lab.Form(3)
				lab.AwaitProgress(messagesBefore, members...)
				// The stop itself is what is tested, so that it has to take its time.
				stopped(t, members[victim-1], func() { time.Sleep(lab.opts.FailAfter / 5) })
				lab.AwaitProgress(messagesBefore, members...)
				for _, p := range members {
					if v := p.View(); v.ID != 1 {
						t.Errorf("node %d is in view %d", p.ID(), v.ID)
					}
				}
				lab.Finish()
			})
		}
	}
}

func TestAMemberThatStandsStillForLongerLearnsThatItIsEvicted(t *testing.T) {
	for _, f := range fabrics {
		for _, victim := range []int{1, 3} {
			t.Run(fmt.Sprintf("fabric=%s/node=%d", f.name, victim), func(t *testing.T) {
				t.Parallel() // they mostly wait
				if victim == 3 || f.name == "mixed" {
					takesTime(t)
				}
				lab := NewCluster(t, Options{Fabric: f.of})
				members := lab.Form(3)
				lab.AwaitProgress(messagesBefore, members...)
				var rest []*Process
				for _, p := range members {
					if p != members[victim-1] {
						rest = append(rest, p)
					}
				}
				stopped(t, members[victim-1], func() {
					lab.AwaitView(rest...)
					lab.AwaitProgress(messagesBefore, rest...)
				})
				halted, err := members[victim-1].AwaitHalt()
				if err != nil || !strings.HasPrefix(halted, HaltedEvicted) {
					t.Errorf("halted: %q, %v; want it to be evicted", halted, err)
				}
				lab.Finish()
			})
		}
	}
}

func TestAnUpcallThatBlocksForLongerThanFailAfterIsNamed(t *testing.T) {
	t.Parallel()
	lab := NewCluster(t, Options{})
	members := lab.Form(3)
	lab.AwaitProgress(messagesBefore, members...)
	if err := members[1].Block(0, 3*lab.opts.FailAfter/2); err != nil {
		t.Fatal(err)
	}
	lab.AwaitView(members[0], members[2])
	halted, err := members[1].AwaitHalt()
	if err != nil || !strings.HasPrefix(halted, HaltedEvicted) || !strings.Contains(halted, `callback of subgroup ["small"]`) {
		t.Errorf("halted: %q, %v; want it to be evicted, with the subgroup's name", halted, err)
	}
	lab.Finish()
}

func TestAnAsynchronousUpcallMayBlock(t *testing.T) {
	takesTime(t)
	t.Parallel()
	lab := NewCluster(t, Options{Loads: []Load{QueuedMessages}})
	members := lab.Form(3)
	lab.AwaitProgress(messagesBefore, members...)
	if err := members[1].Block(0, 3*lab.opts.FailAfter/2); err != nil {
		t.Fatal(err)
	}
	lab.AwaitProgress(20*messagesBefore, members...)
	for _, p := range members {
		if v := p.View(); v.ID != 1 {
			t.Errorf("node %d is in view %d", p.ID(), v.ID)
		}
	}
	lab.Finish()
}

func TestAMemberThatIsReportedIsEvicted(t *testing.T) {
	lab := NewCluster(t, Options{})
	members := lab.Form(3)
	lab.AwaitProgress(messagesBefore, members...)
	if err := members[2].Report(squall.NodeID(1)); err != nil {
		t.Fatal(err)
	}
	lab.AwaitView(members[1:]...)
	if halted, err := members[0].AwaitHalt(); err != nil || !strings.HasPrefix(halted, HaltedEvicted) {
		t.Errorf("halted: %q, %v; want it to be evicted", halted, err)
	}
	lab.Finish()
}
