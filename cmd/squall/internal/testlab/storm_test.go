//go:build system

package testlab

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
)

var (
	stormCycles = flag.Int("cycles", 10, "changes of membership in a storm")
	stormSeed   = flag.Uint64("seed", 0, "of a storm; 0 is a new one")
)

// Bounds of a storm's membership.
const (
	leastMembers = 3
	mostMembers  = 5
)

// storm changes a cluster's membership again and again, under load.
type storm struct {
	lab     *Cluster
	dice    *rand.Rand
	witness squall.NodeID // is left alone; 0: none
	gone    []squall.NodeID
	last    squall.NodeID // the highest id so far
}

// newStorm forms the group. The seed decides what happens, but not when.
func newStorm(t *testing.T, o Options, witness bool) *storm {
	t.Helper()
	seed := *stormSeed
	if seed == 0 {
		seed = testutil.Seed(t)
	}
	o.Replay = fmt.Sprintf("-args -seed %d -cycles %d", seed, *stormCycles)
	t.Log("storm:", o.Replay)
	s := &storm{lab: NewCluster(t, o), dice: rand.New(rand.NewPCG(seed, 0)), last: leastMembers}
	members := s.lab.Form(leastMembers)
	if witness { // it is never the last one, which takes no calls of others
		s.witness = members[0].View().Members[1].ID
	}
	s.lab.AwaitProgress(messagesBefore, members...)
	return s
}

// cycle is one change, or two at the same time, and then all agree on the members.
func (s *storm) cycle() {
	s.lab.t.Helper()
	var changes []func()
	live := s.lab.Live()
	switch n := len(live); {
	case n <= leastMembers:
		if s.dice.IntN(3) == 0 {
			changes = append(changes, s.restart(live))
		} else {
			changes = append(changes, s.join())
		}
	case n >= mostMembers:
		changes = append(changes, s.remove(live))
		if s.dice.IntN(2) == 0 { // two, of which one may be gone before the other one is missed
			changes = append(changes, s.remove(s.others(live)))
		}
	default:
		which := s.dice.IntN(3)
		if which != 0 {
			changes = append(changes, s.join())
		}
		if which != 1 {
			changes = append(changes, s.remove(live))
		}
	}
	var done = make(chan struct{})
	for _, change := range changes {
		go func() { change(); done <- struct{}{} }()
	}
	for range changes {
		<-done
	}
	s.agree()
}

// agree waits until all that are live are a view, in which something is delivered.
func (s *storm) agree() {
	s.lab.t.Helper()
	live := s.lab.Live()
	s.lab.AwaitView(live...)
	s.lab.AwaitProgress(1, live...)
}

// victims are the processes that may go.
func (s *storm) victims(live []*Process) []*Process {
	return slices.DeleteFunc(slices.Clone(live), func(p *Process) bool { return p.ID() == s.witness })
}

// others are the processes that the last remove did not choose.
func (s *storm) others(live []*Process) []*Process {
	return slices.DeleteFunc(slices.Clone(live), func(p *Process) bool { return slices.Contains(s.gone, p.ID()) })
}

// join prepares a join, of a node that was there before or of another one.
func (s *storm) join() func() {
	id := s.last + 1
	if len(s.gone) > 0 && s.dice.IntN(2) == 0 {
		i := s.dice.IntN(len(s.gone))
		id = s.gone[i]
		s.gone = slices.Delete(s.gone, i, i+1)
	} else {
		s.last++
	}
	return func() {
		if _, err := s.lab.Join(id); err != nil {
			s.lab.t.Errorf("node %d does not get in: %v", id, err)
		}
	}
}

// remove prepares the end of a member.
func (s *storm) remove(live []*Process) func() {
	victims := s.victims(live)
	p := victims[s.dice.IntN(len(victims))]
	s.gone = append(s.gone, p.ID())
	if s.dice.IntN(2) == 0 {
		return p.Kill
	}
	return func() {
		if err := p.Leave(); err != nil {
			s.lab.t.Errorf("node %d: %v", p.ID(), err)
		}
	}
}

// restart prepares a kill after which the node is back at once.
func (s *storm) restart(live []*Process) func() {
	victims := s.victims(live)
	p := victims[s.dice.IntN(len(victims))]
	return func() {
		p.Kill()
		if _, err := s.lab.Join(p.ID()); err != nil {
			s.lab.t.Errorf("node %d does not come back: %v", p.ID(), err)
		}
	}
}

// calm brings the membership to the least, with the load on.
func (s *storm) calm() {
	s.lab.t.Helper()
	for live := s.lab.Live(); len(live) > leastMembers; live = s.lab.Live() {
		s.remove(live)()
		s.agree()
	}
}

func TestAGroupSurvivesAStorm(t *testing.T) {
	cycles := *stormCycles
	if testing.Short() {
		cycles = min(cycles, 3)
	}
	for _, f := range fabrics {
		for _, witness := range []bool{false, true} {
			if testing.Short() && !witness {
				continue
			}
			t.Run(fmt.Sprintf("fabric=%s/witness=%v", f.name, witness), func(t *testing.T) {
				o := Options{Fabric: f.of, FailAfter: 3 * time.Second}
				if f.name == "verbs" { // in a guest: callbacks of the last messages of a view must not take a tenth of it
					o.FailAfter = 10 * time.Second
				}
				if f.name == "mixed" {
					o.Loads = []Load{SmallMessages, LargeMessages, QueuedMessages, BulkMessages}
				}
				s := newStorm(t, o, witness)
				var before Use
				if witness {
					before = settled(t, s.process(s.witness), Use{})
				}
				start := time.Now()
				for range cycles {
					s.cycle()
					if t.Failed() {
						t.FailNow()
					}
				}
				t.Logf("%d cycles in %v", cycles, time.Since(start).Round(time.Millisecond))
				s.calm()
				if witness && f.name != "mixed" { // what a link holds depends on its kind, and other pairs are left of a mix
					if now := settled(t, s.process(s.witness), before); !now.within(before) {
						t.Errorf("the member that lived through it held %v before, and holds %v\n%s", before, now, now.Stacks)
					} else {
						t.Logf("held before and after: %v; %v", before, now)
					}
				}
				s.lab.Finish()
			})
		}
	}
}

func (s *storm) process(id squall.NodeID) *Process {
	live := s.lab.Live()
	return live[slices.IndexFunc(live, func(p *Process) bool { return p.ID() == id })]
}

func (u Use) within(other Use) bool {
	return u.Goroutines <= other.Goroutines && u.Descriptors <= other.Descriptors && u.Mappings <= other.Mappings
}

// settled is what a process holds when it is within what it may, or, if that does not come about,
// in the end. Tables of views that are over go some time after them, so it looks several times;
// without a bound it waits until two looks are the same.
func settled(t *testing.T, p *Process, may Use) (now Use) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience / 3); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		before := now
		if now, err = p.Use(); err != nil {
			t.Fatal(err)
		}
		if may.Goroutines > 0 && now.within(may) || may.Goroutines == 0 && now.within(before) && before.within(now) {
			break
		}
	}
	return now
}
