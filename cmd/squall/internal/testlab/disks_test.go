//go:build system

package testlab

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/persist"
)

// DurableMessages is a load whose subgroup is persistent.
func DurableMessages(engine string) Load {
	return Load{Name: "durable", Bytes: 100, RingBytes: 64 << 10, Window: 512, Durable: true, Engine: engine}
}

// durable reports whether nodes keep anything.
func (c *Cluster) durable() bool {
	return slices.ContainsFunc(c.opts.Loads, func(l Load) bool { return l.Durable })
}

// Disk is the directory that the processes of a node keep.
func (c *Cluster) Disk(id squall.NodeID) string {
	if dir := c.opts.Disks[id]; dir != "" {
		return dir
	}
	return filepath.Join(c.dir, fmt.Sprintf("disk-%d", id))
}

// durablePort is where nodes with disks listen, each at a loopback address of its own.
const durablePort = 7654

// address is where all processes of a node listen: processes that come back look for each other
// where they were. A cluster has a network of its own among the loopback addresses, so that no
// other process has the port.
func (c *Cluster) address(id squall.NodeID) string {
	return fmt.Sprintf("127.%d.%d.%d:%d", 64+c.network>>8, c.network&0xff, id, durablePort)
}

// Restart starts processes of nodes of a cluster of n, one after the other with pauses between
// them, and does not wait for anything else.
func (c *Cluster) Restart(n int, pause func() time.Duration, nodes ...squall.NodeID) (started []*Process, err error) {
	var join []string
	for id := squall.NodeID(1); int(id) <= n; id++ {
		join = append(join, c.address(id))
	}
	for _, id := range nodes {
		p, err := c.begin(id, n, join...)
		if err != nil {
			return started, err
		}
		started = append(started, p)
		if pause != nil {
			time.Sleep(pause())
		}
	}
	return started, nil
}

// Found starts nodes 1 to n with empty disks, waits until they are a group, and has them send.
func (c *Cluster) Found(n int) []*Process {
	c.t.Helper()
	var nodes []squall.NodeID
	for id := 1; id <= n; id++ {
		nodes = append(nodes, squall.NodeID(id))
	}
	return c.Back(n, nodes...)
}

// Back starts nodes of a cluster of n again, waits until they are a view, and has them send.
func (c *Cluster) Back(n int, nodes ...squall.NodeID) []*Process {
	c.t.Helper()
	started, err := c.Restart(n, nil, nodes...)
	c.must(err)
	c.Each(started, (*Process).AwaitOpen)
	c.AwaitView(started...)
	c.Each(started, (*Process).Send)
	return started
}

// KillAll kills processes one after the other. The remaining ones may notice, and go on in a view
// without the others.
func KillAll(of []*Process, pause func() time.Duration) {
	for i, p := range of {
		if i > 0 {
			time.Sleep(pause())
		}
		p.Kill()
	}
}

// CutPower ends processes at one moment: all of them stand still before the first one is gone, so
// none notices that another one is, and the view in which they were is the last one.
func (c *Cluster) CutPower(of []*Process) {
	c.t.Helper()
	for _, p := range of {
		c.must(p.Stop())
	}
	for _, p := range of {
		p.Kill()
	}
}

// Harm says that what a node's disk had is gone, or may be: that the disk holds what was
// acknowledged before is not checked until the node has caught up.
func (c *Cluster) Harm(id squall.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.harmed[id] = len(c.all)
}

// Replace replaces a node's disk by an empty one.
func (c *Cluster) Replace(id squall.NodeID) {
	c.t.Helper()
	c.Harm(id)
	entries, err := os.ReadDir(c.Disk(id)) // the directory itself may be where a file system is mounted
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(c.Disk(id), e.Name())))
	}
	c.must(err)
}

// AwaitAcks waits until n more messages of each of these are acknowledged.
func (c *Cluster) AwaitAcks(n int, of ...*Process) {
	c.t.Helper()
	c.Each(of, func(p *Process) error {
		begun := p.acknowledged()
		return p.await(fmt.Sprintf("%d messages to be on every disk", n), patience, func() bool { return len(p.acked) >= begun+n })
	})
}

func (p *Process) acknowledged() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.acked)
}

// Rest has processes stop sending, and waits until all is on every disk and their applications have
// the same state.
func (c *Cluster) Rest(of ...*Process) {
	c.t.Helper()
	c.Each(of, (*Process).Hold)
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := sameStates(of)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatal(err)
		}
	}
}

// sameStates compares what the applications of durable loads have.
func sameStates(of []*Process) error {
	var all []Account
	for _, p := range of {
		a, err := p.Status()
		if err != nil {
			return err
		}
		who := fmt.Sprintf("node %d (process %d)", p.ID(), p.Spec.Life)
		for _, s := range a.States {
			if s.Fault != "" {
				return fmt.Errorf("%s: %s", who, s.Fault)
			}
		}
		all = append(all, Account{who, &a})
	}
	if faults := Differ(all); len(faults) > 0 {
		return errors.New(strings.Join(faults, "; "))
	}
	return nil
}

// Audit reads the disks of nodes, none of which runs. With same, all have to have everything.
func (c *Cluster) Audit(same bool, nodes ...squall.NodeID) Findings {
	c.t.Helper()
	f, err := c.audit(same, nodes...)
	c.must(err)
	return f
}

func (c *Cluster) audit(same bool, nodes ...squall.NodeID) (all Findings, err error) {
	for i, l := range c.opts.Loads {
		if !l.Durable {
			continue
		}
		a := Audit{Log: persist.LogID{Name: l.Name}, Same: same, Acknowledged: c.acknowledged(i)}
		for _, id := range nodes {
			a.Disks = append(a.Disks, Disk{id, c.Disk(id)})
		}
		for i := range a.Acknowledged {
			a.Acknowledged[i].On = slices.DeleteFunc(slices.Clone(a.Acknowledged[i].On), func(id squall.NodeID) bool { return !slices.Contains(nodes, id) })
		}
		f, err := a.Run()
		if err != nil {
			return all, err
		}
		all.add(f)
	}
	return all, nil
}

// acknowledged is what all processes were told is on every disk, in the order of the log.
func (c *Cluster) acknowledged(subgroup int) (list []Acknowledged) {
	c.mu.Lock()
	all, harmed := slices.Clone(c.all), c.harmed
	c.mu.Unlock()
	lives := map[uint64]int{} // by incarnation
	for _, p := range all {
		lives[p.incarnation()] = p.Spec.Life
	}
	for _, p := range all {
		on := p.disks(func(m Incarnation) bool { return lives[m.Incarnation] > harmed[m.ID] })
		p.mu.Lock()
		for _, a := range p.acked {
			if a.Subgroup == subgroup {
				list = append(list, Acknowledged{a.Version(), p.Spec.Life, a.Number, on[a.in]})
			}
		}
		p.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b Acknowledged) int { return a.Version.Compare(b.Version) })
	return list
}

// heard is an ack, and the view that was in force when it was told. Its message may be of an
// earlier one: then it is on the disks of the processes that are left.
type heard struct {
	Ack
	in squall.ViewID
}

// incarnation is which one of its node the process is; 0: it was in no view.
func (p *Process) incarnation() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.view == nil {
		return 0
	}
	i := slices.IndexFunc(p.view.Members, func(m Incarnation) bool { return m.ID == p.ID() })
	return p.view.Members[i].Incarnation
}

// disks returns the nodes whose disks must have the messages that were acknowledged while a view
// was in force: the members of the view whose disk was not harmed since.
func (p *Process) disks(whole func(Incarnation) bool) map[squall.ViewID][]squall.NodeID {
	p.mu.Lock()
	defer p.mu.Unlock()
	on := map[squall.ViewID][]squall.NodeID{}
	for _, v := range p.views {
		for _, m := range v.Members {
			if whole(m) {
				on[v.ID] = append(on[v.ID], m.ID)
			}
		}
		slices.SortFunc(on[v.ID], cmp.Compare)
	}
	return on
}
