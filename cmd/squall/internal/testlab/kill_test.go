//go:build system

package testlab

import (
	"fmt"
	"slices"
	"testing"

	"github.com/squall-go/squall"
)

// messagesBefore is how much load there has to be before something happens.
const messagesBefore = 2000

func TestAKilledMemberIsRemovedAndNothingElseIsLost(t *testing.T) {
	for _, f := range fabrics {
		for _, c := range []struct{ nodes, victim int }{{3, 1}, {3, 3}, {5, 1}, {5, 4}} {
			if testing.Short() && c.nodes == 5 {
				continue
			}
			t.Run(fmt.Sprintf("fabric=%s/nodes=%d/node=%d", f.name, c.nodes, c.victim), func(t *testing.T) {
				lab := NewCluster(t, Options{Fabric: f.of})
				members := lab.Form(c.nodes)
				lab.AwaitProgress(messagesBefore, members...)
				members[c.victim-1].Kill()
				rest := slices.Delete(slices.Clone(members), c.victim-1, c.victim)
				lab.AwaitView(rest...)
				lab.AwaitProgress(messagesBefore, rest...)
				lab.Finish()
			})
		}
	}
}

func TestAMemberIsKilledBetweenSmallAndLargeMessages(t *testing.T) {
	lab := NewCluster(t, Options{Fabric: mixed, Loads: []Load{SmallMessages, LargeMessages}})
	members := lab.Form(3)
	lab.AwaitProgress(messagesBefore, members...)
	members[1].Kill()
	lab.AwaitView(members[0], members[2])
	lab.AwaitProgress(messagesBefore, members[0], members[2])
	lab.Finish()
}

// The member that dies, sender, relay or receiver, is in the middle of large messages of all
// members.
func TestAMemberIsKilledAmongBulkMessages(t *testing.T) {
	for _, f := range fabrics {
		for victim := range 3 {
			t.Run(fmt.Sprintf("fabric=%s/victim=%d", f.name, victim), func(t *testing.T) {
				lab := NewCluster(t, Options{Fabric: f.of, Loads: []Load{SmallMessages, BulkMessages}})
				members := lab.Form(3)
				lab.AwaitProgress(messagesBefore, members...)
				members[victim].Kill()
				rest := slices.Delete(slices.Clone(members), victim, victim+1)
				lab.AwaitView(rest...)
				lab.AwaitProgress(messagesBefore, rest...)
				back, err := lab.Join(members[victim].ID())
				lab.must(err)
				rest = append(rest, back)
				lab.AwaitView(rest...)
				lab.AwaitProgress(messagesBefore, rest...)
				lab.Finish()
			})
		}
	}
}

func TestManyJoinAtOnceAndThenTwoDieAtOnce(t *testing.T) {
	for _, f := range fabrics {
		t.Run("fabric="+f.name, func(t *testing.T) {
			lab := NewCluster(t, Options{Fabric: f.of})
			members := lab.Form(3)
			lab.AwaitProgress(messagesBefore, members...)
			var joining []*Process
			for id := squall.NodeID(4); id <= 6; id++ {
				p, err := lab.Begin(id)
				lab.must(err)
				joining = append(joining, p)
			}
			lab.Each(joining, (*Process).AwaitOpen)
			lab.Each(joining, (*Process).Send)
			members = append(members, joining...)
			lab.AwaitView(members...)
			lab.AwaitProgress(messagesBefore, members...)
			lab.Each([]*Process{members[0], members[4]}, func(p *Process) error { p.Kill(); return nil })
			rest := lab.Live()
			lab.AwaitView(rest...)
			lab.AwaitProgress(messagesBefore, rest...)
			lab.Finish()
		})
	}
}
