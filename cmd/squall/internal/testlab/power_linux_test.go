//go:build system

package testlab

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/testlab/faultfs"
)

// outage is a group whose nodes have disks that forget what was not synced when the power goes.
type outage struct {
	wreck
	t      *testing.T
	disks  map[squall.NodeID]*faultfs.Disk
	mounts map[squall.NodeID]*faultfs.Mount
	powers map[squall.NodeID]*faultfs.Power
}

func newOutage(t *testing.T, load Load) *outage {
	t.Helper()
	o := &outage{
		wreck: *newWreck(t, Options{Loads: []Load{load}, Disks: map[squall.NodeID]string{}}), t: t,
		disks: map[squall.NodeID]*faultfs.Disk{}, mounts: map[squall.NodeID]*faultfs.Mount{}, powers: map[squall.NodeID]*faultfs.Power{},
	}
	for _, id := range o.nodes() {
		o.disks[id] = faultfs.New(o.dice.Uint64())
	}
	t.Cleanup(func() {
		for _, p := range o.lab.Processes() {
			p.close()
		}
		for id := range o.mounts {
			o.unmount(id)
		}
	})
	return o
}

// all are the nodes, in their order.
func (o *outage) all() []squall.NodeID {
	return slices.Sorted(maps.Keys(o.disks))
}

// on gives disks power, which goes for all of them at once, and mounts them.
func (o *outage) on(nodes ...squall.NodeID) {
	o.t.Helper()
	power := faultfs.NewPower()
	for _, id := range nodes {
		m, err := o.disks[id].Mount(power)
		if errors.Is(err, faultfs.ErrUnavailable) {
			o.t.Skip(err)
		}
		o.lab.must(err)
		o.mounts[id], o.powers[id] = m, power
		o.lab.opts.Disks[id] = filepath.Join(m.Dir, "disk")
	}
}

func (o *outage) unmount(id squall.NodeID) {
	o.t.Helper()
	if err := o.mounts[id].Close(); err != nil {
		o.t.Error(err)
	}
	delete(o.mounts, id)
}

// off ends the power of disks of which no process runs any more. What is left on each goes to a
// directory, where the audit reads it.
func (o *outage) off(fate faultfs.Fate, nodes ...squall.NodeID) {
	o.t.Helper()
	for _, id := range nodes {
		o.powers[id].Cut()
	}
	for _, id := range nodes {
		o.unmount(id)
		o.disks[id].Settle(fate)
		to := filepath.Join(o.lab.dir, fmt.Sprintf("platter-%d", id))
		o.lab.must(o.disks[id].Export(to))
		o.lab.opts.Disks[id] = filepath.Join(to, "disk")
	}
}

// cut has the power of all disks go while processes run: they stand still before it does, unless it
// is gone already.
func (o *outage) cut(fate faultfs.Fate) {
	o.t.Helper()
	for _, p := range o.lab.Processes() {
		if p.running() {
			_ = p.Stop() // it may just have ended: its disk failed
		}
	}
	for _, power := range o.powers {
		power.Cut()
	}
	for _, p := range o.lab.Processes() {
		p.Kill()
	}
	o.off(fate, o.all()...)
}

func (p *Process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.gone
}

// sound fails the test if a process said something of its disk that no power cut can cause: a write
// that did not end is all that one leaves behind.
func (o *outage) sound() {
	o.t.Helper()
	for _, p := range o.lab.Processes() {
		p.mu.Lock()
		halted, events := p.halted, slices.Clone(p.events)
		p.mu.Unlock()
		for _, e := range events {
			if strings.HasPrefix(e, repairedPrefix) || strings.HasPrefix(e, damagedPrefix) {
				o.t.Fatalf("process %d (node %d): %s", p.Spec.Life, p.ID(), e)
			}
		}
		for _, kind := range []string{HaltedDamaged, HaltedOtherCluster, HaltedOtherNode, HaltedNewerFormat} {
			if strings.HasPrefix(halted, kind) {
				o.t.Fatalf("process %d (node %d) ended: %s", p.Spec.Life, p.ID(), halted)
			}
		}
	}
}

// found forms the group on disks that have nothing.
func (o *outage) found() {
	o.t.Helper()
	o.on(o.all()...)
	o.lab.AwaitAcks(1, o.lab.Found(durableNodes)...)
	o.cut(faultfs.Drawn)
}

// settle has all come back, be the same, and leave. Nothing that was not synced by then is needed.
func (o *outage) settle() Findings {
	o.t.Helper()
	o.on(o.all()...)
	members := o.lab.Back(durableNodes, o.nodes()...)
	o.lab.AwaitAcks(1, members...)
	o.lab.Rest(members...)
	o.lab.Finish()
	o.sound()
	o.off(faultfs.Nothing, o.all()...)
	return o.lab.Audit(true, o.all()...)
}

// longestSync is how long a sync of a slow disk takes at most.
const longestSync = 5 * time.Millisecond

// stepsAhead is within how many steps of a disk the power goes, when a step is what it goes at.
const stepsAhead = 400

// round has the power go at all nodes at once, at some moment or at some step of one disk.
func (o *outage) round() (how string) {
	o.t.Helper()
	nodes := o.nodes()
	o.on(nodes...)
	var faults [durableNodes]faultfs.Faults
	if o.dice.IntN(3) == 0 {
		how = "slow, "
		for i := range faults {
			faults[i].Delay = longestSync
		}
	}
	atStep, early := o.dice.IntN(2) == 0, o.dice.IntN(3) == 0
	if atStep {
		faults[0].CutAt = 1 + o.dice.IntN(stepsAhead)
	}
	fail := func() {
		for i, id := range nodes {
			o.disks[id].Fail(faults[i])
		}
	}
	if early {
		fail()
	}
	started, err := o.lab.Restart(durableNodes, o.upTo(20*time.Millisecond), nodes...)
	o.lab.must(err)
	if !early {
		o.lab.Each(started, (*Process).AwaitOpen)
		o.lab.Each(started, (*Process).Send)
		o.lab.AwaitAcks(1, started...)
		fail()
	}
	within := o.upTo(300 * time.Millisecond)()
	if atStep {
		within = time.Second // then all that there was to do is done
	}
	moment := time.NewTimer(within)
	defer moment.Stop()
	select {
	case <-moment.C:
		how += "at a moment"
	case <-o.powers[nodes[0]].Gone():
		how += "at a step"
	}
	if early {
		how += ", while they start"
	}
	o.cut(faultfs.Drawn)
	o.sound()
	return how
}

// The power goes at all members at once. What was on every disk is there afterwards, whatever
// became of what was not.
func TestNothingAcknowledgedIsLostWhenThePowerGoes(t *testing.T) {
	for _, engine := range engines {
		t.Run("engine="+engine, func(t *testing.T) {
			rounds := *durableRounds
			if testing.Short() {
				rounds = min(rounds, 1)
			}
			load := DurableMessages(engine)
			load.Most = 4000 // so that reading everything after each round takes no longer than the round
			o := newOutage(t, load)
			o.lab.opts.Fabric = fabrics[0].of
			o.found()
			start := time.Now()
			var f Findings
			for round := range rounds {
				o.lab.opts.Fabric = fabrics[round%len(fabrics)].of
				o.lab.opts.Loads[0].AfterPersist = o.dice.IntN(2) == 0
				how := o.round()
				f = o.lab.Audit(false, o.all()...)
				t.Logf("round %d, %s: %v", round+1, how, f)
			}
			t.Logf("%d rounds in %v: %v", rounds, time.Since(start).Round(time.Millisecond), o.settle())
		})
	}
}

// A disk that only says that it has synced loses what was acknowledged, and the audit sees it.
func TestAnAuditSeesWhatDisksThatLieLose(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine string) {
		o := newOutage(t, DurableMessages(engine))
		o.found()
		o.on(o.all()...)
		members := o.lab.Back(durableNodes, o.nodes()...)
		for _, id := range o.all() {
			o.disks[id].Fail(faultfs.Faults{Lies: func(faultfs.Synced) bool { return true }})
		}
		o.lab.AwaitAcks(acksBefore, members...)
		o.cut(faultfs.Nothing)
		if f, err := o.lab.audit(false, o.all()...); err == nil || !strings.Contains(err.Error(), "lost: ") {
			t.Errorf("the audit says %v, %v; want something to be lost", f, err)
		} else {
			t.Log(err)
		}
	})
}

// One disk fails, or loses power. The others go on without its member, and it comes back with what
// its platter has.
func TestAMemberWhoseDiskFailsComesBackWithWhatIsLeft(t *testing.T) {
	t.Parallel()
	takesTime(t)
	for _, engine := range engines {
		for _, failure := range []struct {
			name   string
			faults faultfs.Faults
		}{
			{"the power goes", faultfs.Faults{CutAt: 1}},
			{"a write fails", faultfs.Faults{Write: faultfs.Fault{Err: syscall.EIO, At: 1}}},
			{"there is no room", faultfs.Faults{Write: faultfs.Fault{Err: syscall.ENOSPC, At: 1}}},
			{"a sync fails", faultfs.Faults{Sync: faultfs.Fault{Err: syscall.EIO, At: 1}}},
		} {
			t.Run(fmt.Sprintf("engine=%s/%s", engine, failure.name), func(t *testing.T) {
				load := DurableMessages(engine)
				load.Most = 4000
				o := newOutage(t, load)
				o.found()
				for range min(*durableRounds, 2) {
					o.loseOne(failure.faults)
				}
				t.Log(o.settle())
			})
		}
	}
}

// loseOne has the disk of one node fail, at some operation, while the group works.
func (o *outage) loseOne(f faultfs.Faults) {
	o.t.Helper()
	o.on(o.all()...)
	one := o.nodes()[0]
	o.powers[one] = faultfs.NewPower() // it loses power by itself
	o.disks[one].On(o.powers[one])
	members := o.lab.Back(durableNodes, o.nodes()...)
	for _, at := range []*int{&f.CutAt, &f.Write.At, &f.Sync.At} {
		if *at > 0 {
			*at += o.dice.IntN(50)
		}
	}
	o.lab.AwaitAcks(1, members...)
	o.disks[one].Fail(f)
	i := slices.IndexFunc(members, func(p *Process) bool { return p.ID() == one })
	rest := append(members[:i:i], members[i+1:]...)
	why, err := members[i].AwaitHalt()
	o.lab.must(err)
	o.t.Logf("node %d ended: %s", one, why)
	<-members[i].ended
	o.lab.AwaitView(rest...)
	o.off(faultfs.Drawn, one)
	o.on(one)
	back, err := o.lab.Restart(durableNodes, nil, one)
	o.lab.must(err)
	o.lab.Each(back, (*Process).AwaitOpen)
	o.lab.AwaitView(append(rest, back...)...)
	o.lab.Each(back, (*Process).Send)
	o.lab.AwaitAcks(1, back...)
	o.cut(faultfs.Drawn)
	o.sound()
	o.t.Log(o.lab.Audit(false, o.all()...))
}
