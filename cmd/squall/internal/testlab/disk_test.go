//go:build system

package testlab

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// diskFailAfter is the FailAfter of groups with logs: their members end by being killed, not by
// silence, and a sync on a disk that other work shares may take seconds.
const diskFailAfter = 5 * time.Second

// formDurable makes a group whose members have acknowledged messages.
func formDurable(t *testing.T, engine string, o Options) (*Cluster, []*Process) {
	t.Helper()
	o.FailAfter = cmp.Or(o.FailAfter, diskFailAfter)
	o.Loads = []Load{DurableMessages(engine)}
	lab := NewCluster(t, o)
	members := lab.Found(durableNodes)
	lab.AwaitAcks(acksBefore, members...)
	return lab, members
}

// settleDurable makes all processes stop and leave, and checks that all disks have the same
// records.
func settleDurable(lab *Cluster) {
	lab.t.Helper()
	live := lab.Live()
	lab.AwaitAcks(acksBefore, live...)
	lab.Rest(live...)
	lab.Finish()
	lab.t.Log(lab.Audit(true, ids(live)...))
}

// records is how many a process's application has.
func records(t *testing.T, p *Process) uint64 {
	t.Helper()
	a, err := p.Status()
	if err != nil {
		t.Fatal(err)
	}
	return a.States[0].Messages
}

func eachEngine(t *testing.T, test func(t *testing.T, engine string)) {
	for _, engine := range engines {
		if testing.Short() && engine != "bolt" {
			continue
		}
		t.Run("engine="+engine, func(t *testing.T) { test(t, engine) })
	}
}

func TestMembersThatAreKilledOneAfterTheOtherCatchUpByRange(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, engine string) {
		for _, f := range fabrics[:2] {
			t.Run("fabric="+f.name, func(t *testing.T) {
				lab, members := formDurable(t, engine, Options{Fabric: f.of})
				for victim := range squall.NodeID(durableNodes) {
					i := slices.IndexFunc(members, func(p *Process) bool { return p.ID() == victim+1 })
					members[i].Kill()
					rest := slices.Delete(slices.Clone(members), i, i+1)
					lab.AwaitView(rest...)
					lab.AwaitAcks(acksBefore, rest...)
					back, err := lab.Restart(durableNodes, nil, victim+1)
					lab.must(err)
					got := awaitCatchUp(t, back[0])
					lab.AwaitView(append(rest, back[0])...)
					lab.must(back[0].Send())
					members[i] = back[0]
					// It had what was acknowledged before it was killed, and got only what came
					// after that.
					if had := uint64(durableNodes * acksBefore); got.records == 0 || got.records+had > records(t, rest[0]) {
						t.Errorf("node %d had at least %d records, and got %+v of %d", victim+1, had, got, records(t, rest[0]))
					}
				}
				settleDurable(lab)
			})
		}
	})
}

func TestTwoOfThreeGoOnAndTheThirdComesLater(t *testing.T) {
	takesTime(t)
	eachEngine(t, func(t *testing.T, engine string) {
		lab, members := formDurable(t, engine, Options{})
		lab.CutPower(members)
		two := lab.Back(durableNodes, 3, 1)
		lab.AwaitAcks(acksBefore, two...)
		third, err := lab.Restart(durableNodes, nil, 2)
		lab.must(err)
		awaitCatchUp(t, third[0])
		lab.AwaitView(append(two, third...)...)
		lab.must(third[0].Send())
		settleDurable(lab)
	})
}

// tries is how often a moment is looked for that may not come.
const tries = 20

func TestWhatOnlyOneDiskHadIsCutWhenTheOthersWentOnWithoutIt(t *testing.T) {
	takesTime(t)
	eachEngine(t, func(t *testing.T, engine string) {
		lab, members := formDurable(t, engine, Options{})
		for try := 1; ; try++ {
			// The first two stand still with what they have received and not on disk yet: the third
			// one delivers it, and keeps it.
			lab.must(members[0].Stop())
			lab.must(members[1].Stop())
			time.Sleep(20 * time.Millisecond) // for what it has received to come to its disk
			lab.CutPower(members)
			apart := lab.Audit(false, 1, 2, 3)
			if lab.Audit(false, 1, 2).Records < apart.Records {
				t.Log(apart)
				break
			}
			if try == tries {
				t.Skipf("in %d tries, no disk had more than the others", tries)
			}
			members = lab.Back(durableNodes, 1, 2, 3)
			lab.AwaitAcks(acksBefore, members...)
		}
		two := lab.Back(durableNodes, 1, 2)
		lab.AwaitAcks(acksBefore, two...)
		third, err := lab.Restart(durableNodes, nil, 3)
		lab.must(err)
		if got := awaitCatchUp(t, third[0]); got.cut == 0 {
			t.Errorf("node 3 got %+v", got)
		}
		lab.AwaitView(append(two, third...)...)
		lab.must(third[0].Send())
		settleDurable(lab)
	})
}

func TestARestartWaitsForAMajorityAndSaysForWhom(t *testing.T) {
	lab, members := formDurable(t, "bolt", Options{})
	lab.CutPower(members)
	two, err := lab.Restart(durableNodes, nil, 2)
	lab.must(err)
	waits, err := two[0].AwaitEvents("waiting for node 1, node 3: 1 of 3 members of view 1 are here", 1)
	lab.must(err)
	t.Log(waits)
	three, err := lab.Restart(durableNodes, nil, 3)
	lab.must(err)
	members = append(two, three...)
	lab.Each(members, (*Process).AwaitOpen)
	lab.Each(members, (*Process).Send)
	lab.AwaitView(members...)
	lab.AwaitAcks(acksBefore, members...)
	one, err := lab.Restart(durableNodes, nil, 1)
	lab.must(err)
	lab.AwaitView(append(members, one...)...)
	lab.must(one[0].Send())
	settleDurable(lab)
}

func TestAReplacedDiskIsFilledFromTheOthers(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, engine string) {
		for _, node := range []squall.NodeID{1, 3} { // node 1 bootstrapped the group
			for _, alone := range []bool{true, false} {
				t.Run(fmt.Sprintf("node=%d/alone=%v", node, alone), func(t *testing.T) {
					if node == 3 {
						takesTime(t)
					}
					lab, members := formDurable(t, engine, Options{})
					if alone {
						members[node-1].Kill()
						members = slices.Delete(members, int(node)-1, int(node))
						lab.AwaitView(members...)
					} else {
						lab.CutPower(members)
						members = nil
					}
					lab.Replace(node)
					nodes := []squall.NodeID{node}
					if !alone {
						nodes = []squall.NodeID{node, 2, 4 - node}
					}
					back, err := lab.Restart(durableNodes, nil, nodes...)
					lab.must(err)
					got := awaitCatchUp(t, back[0])
					lab.Each(back, (*Process).AwaitOpen)
					lab.AwaitView(append(members, back...)...)
					lab.Each(back, (*Process).Send)
					t.Logf("%+v", got)
					settleDurable(lab)
				})
			}
		}
	})
}
