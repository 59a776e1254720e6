package faultfs

import (
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Disk holds files and directories as programs see them, and as the platter has them.
type Disk struct {
	mu      sync.Mutex
	dice    *rand.Rand
	faults  Faults
	power   *Power
	nodes   map[uint64]*node // by number
	last    uint64           // number of a node
	steps   uint64           // changes and syncs so far
	pending []*naming        // in the order of steps
	syncs   map[Synced]int
	struck  int // operations that a fault happened to
}

// rootNode is FUSE's number of the root.
const rootNode = 1

// node is a file or a directory.
type node struct {
	number uint64
	dir    bool
	mode   uint32 // permissions
	time   time.Time
	parent *node // where it is seen; nil: nowhere, or it is the root
	name   string

	seen    content
	platter content
	pending []change

	names map[string]*node // of a directory, as they are seen
	kept  map[string]*node // and as they are on the platter
}

// New returns an empty disk. What is drawn follows from the seed.
func New(seed uint64) *Disk {
	d := &Disk{dice: rand.New(rand.NewPCG(seed, 2)), power: NewPower(), nodes: map[uint64]*node{}, syncs: map[Synced]int{}}
	d.node(true, 0o755)
	return d
}

// Fail replaces the faults of the disk. At and CutAt count from now on.
func (d *Disk) Fail(f Faults) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = f
	if f.CutAt > 0 {
		d.faults.CutAt += int(d.steps)
	}
}

// On has the disk run on other power.
func (d *Disk) On(p *Power) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.power = p
}

// Steps counts the changes of files and names, and the syncs, since the disk was made or settled.
func (d *Disk) Steps() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int(d.steps)
}

// Syncs counts the syncs, including failed ones.
func (d *Disk) Syncs() map[Synced]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.syncs)
}

// Struck counts the operations that a fault made fail. A power cut at a step is one.
func (d *Disk) Struck() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.struck
}

// node makes a node that has no name yet.
func (d *Disk) node(dir bool, mode uint32) *node {
	d.last++
	n := &node{number: d.last, dir: dir, mode: mode & 0o7777, time: time.Now()}
	if dir {
		n.names, n.kept = map[string]*node{}, map[string]*node{}
	}
	d.nodes[n.number] = n
	return n
}

func (n *node) path() string {
	if n.parent == nil {
		return n.name
	}
	return path.Join(n.parent.path(), n.name)
}

// step begins a change or a sync.
func (d *Disk) step() syscall.Errno {
	if d.power.isGone() {
		return syscall.EIO
	}
	if d.steps++; d.faults.CutAt > 0 && d.steps >= uint64(d.faults.CutAt) {
		d.struck++
		d.power.Cut()
		return syscall.EIO
	}
	return 0
}

// strikes reports whether a fault happens to an operation on a node.
func (d *Disk) strikes(f *Fault, n *node) bool {
	if d.faults.Where != nil && !d.faults.Where(n.path()) || !f.strikes(d.dice) {
		return false
	}
	d.struck++
	return true
}

// find is the node of a number. The caller holds mu, as for all that follow.
func (d *Disk) find(number uint64) (*node, syscall.Errno) {
	if d.power.isGone() {
		return nil, syscall.EIO
	}
	if n := d.nodes[number]; n != nil {
		return n, 0
	}
	return nil, syscall.ESTALE
}

// rename gives names what they lead to, at once for programs and not yet for the platter.
func (d *Disk) rename(gone *node, slots ...slot) syscall.Errno {
	if errno := d.step(); errno != 0 {
		return errno
	}
	for _, s := range slots {
		if old := s.dir.names[s.name]; old != nil && old.parent == s.dir && old.name == s.name {
			old.parent, old.name = nil, "removed: "+old.path()
		}
		delete(s.dir.names, s.name)
		s.dir.time = time.Now()
	}
	for _, s := range slots {
		if s.to != nil {
			s.dir.names[s.name], s.to.parent, s.to.name = s.to, s.dir, s.name
		}
	}
	d.pending = append(d.pending, &naming{step: d.steps, slots: slots, gone: gone})
	return 0
}

// change changes a file, at once for programs and not yet for the platter.
func (d *Disk) change(n *node, g change) syscall.Errno {
	if errno := d.step(); errno != 0 {
		return errno
	}
	if d.strikes(&d.faults.Write, n) {
		return d.faults.Write.Err
	}
	g.step, n.time = d.steps, time.Now()
	g.apply(&n.seen)
	n.pending = append(n.pending, g)
	return 0
}

// write changes bytes. With through this write, but nothing that came before, is durable when it
// returns.
func (d *Disk) write(n *node, p []byte, off int64, through bool) syscall.Errno {
	g := change{off: off, data: slices.Clone(p)}
	if errno := d.change(n, g); errno != 0 || !through {
		return errno
	}
	what := Synced{n.path(), Through}
	d.syncs[what]++
	if d.faults.Lies != nil && d.faults.Lies(what) {
		return 0
	}
	n.pending[len(n.pending)-1].synced = true
	return 0
}

// delay takes the time of a sync, with the lock given up.
func (d *Disk) delay() {
	if d.faults.Delay == 0 {
		return
	}
	delay := time.NewTimer(time.Duration(d.dice.Int64N(int64(d.faults.Delay) + 1)))
	defer delay.Stop()
	d.mu.Unlock()
	select {
	case <-delay.C:
	case <-d.power.Gone():
	}
	d.mu.Lock()
}

// sync makes durable what was done to a node before. It holds no lock while it takes its time.
func (d *Disk) sync(number uint64, kind Kind) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, errno := d.find(number)
	if errno == 0 {
		errno = d.step()
	}
	if errno != 0 {
		return errno
	}
	upTo, what := d.steps, Synced{n.path(), kind}
	d.syncs[what]++
	d.delay()
	switch {
	case d.power.isGone():
		return syscall.EIO
	case d.faults.Lies != nil && d.faults.Lies(what):
		return 0
	case d.strikes(&d.faults.Sync, n):
		d.faults.Fate.or(d.dice).settle(&n.platter, n.pending, d.dice)
		n.pending = nil
		return d.faults.Sync.Err
	case n.dir:
		d.pending = syncNames(d.pending, n, upTo)
		return 0
	}
	n.arrive(upTo)
	return 0
}

// arrive brings what was done up to a step onto the platter.
func (n *node) arrive(upTo uint64) {
	for len(n.pending) > 0 && n.pending[0].step <= upTo {
		n.pending[0].apply(&n.platter)
		n.pending = n.pending[1:]
	}
}

// Settle brings a disk without power to its next state: the platter has what was synced, and the
// part of the rest that fate chooses. Then the disk has power of its own again, and no faults. The
// disk must not be mounted.
func (d *Disk) Settle(fate Fate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fate.or(d.dice).settleNames(d.pending, d.dice)
	for _, number := range slices.Sorted(maps.Keys(d.nodes)) {
		if n := d.nodes[number]; len(n.pending) > 0 {
			fate.or(d.dice).settle(&n.platter, n.pending, d.dice)
			n.pending = nil
		}
	}
	root := d.nodes[rootNode]
	d.nodes, d.pending, d.last, d.steps, d.struck, d.faults, d.power = map[uint64]*node{}, nil, 0, 0, 0, Faults{}, NewPower()
	d.again(root, map[*node]bool{})
}

// again makes a node anew from what the platter has of it.
func (d *Disk) again(old *node, made map[*node]bool) *node {
	n := d.node(old.dir, old.mode)
	made[old] = true
	n.seen, n.platter, n.time = old.platter.clone(), old.platter, old.time
	for _, name := range slices.Sorted(maps.Keys(old.kept)) {
		if child := old.kept[name]; !made[child] { // a file has one name
			c := d.again(child, made)
			c.parent, c.name = n, name
			n.names[name], n.kept[name] = c, c
		}
	}
	return n
}
