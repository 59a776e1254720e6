package restart

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// world is a group with its processes, disks and network, in which everything that may happen next
// is drawn from one generator: messages lost, repeated and reordered, partitions, crashes before
// and behind every effect, restarts. Between restarts the group works: versions become stable, are
// delivered and synced, and views change, as far as it matters to what the disks have.
type world struct {
	rng    *rand.Rand
	now    time.Duration
	nodes  []*worldNode
	net    []packet
	groups map[string]*group                    // by the key of their view
	chain  map[order.ViewID]string              // the key of the view with a number: there is one
	acked  map[LogID]order.Version              // what every member had on its disk
	began  map[string]map[LogID][]order.Version // by key: the logs with which a restarted view begins
	keys   int
	group  string // the identity of the group
	decls  []views.Declaration
	seen   func(packet)      // called with every message; nil: not called
	meddle func(*worldNode)  // what strangers do to a process in a restart; nil: nothing
	storm  bool              // restarts over restarts, and little else
	lose   func(packet) bool // nil: as it is drawn
	calm   bool              // nothing breaks
	sides  []bool            // by node: nodes on the same side reach each other; nil: all
	trace  func(format string, args ...any)
	err    error

	restarts, adoptions, changes int
	waits, returns               int // of shards for a member that has their log
}

type packet struct {
	to  string
	msg Message
}

// worldNode is a disk, and one process after the other.
type worldNode struct {
	w    *world
	id   order.NodeID
	inc  uint64
	disk State
	logs map[LogID]*worldLog

	up      bool
	core    *Core       // in a restart
	view    *views.View // in a group that works
	joining bool
	work    *Reconciliation
	stop    bool
}

// worldLog is a log of which the last part is not on the disk yet.
type worldLog struct {
	list   []order.Version
	synced int
}

func (l *worldLog) last() (v order.Version) {
	if l.synced > 0 {
		v = l.list[l.synced-1]
	}
	return v
}

// group is what happens in one view.
type group struct {
	view    *views.View
	wedged  bool
	stable  map[LogID]int
	attempt uint64
	rows    map[order.NodeID]row // what was echoed
	next    row                  // the decision of the last ballot
	chosen  bool
}

type row struct {
	ballot viewchange.Ballot
	view   *views.View
	trim   map[LogID]int
}

var errBroken = errors.New("broken")

// worldDecls are the logs of a world. The shards of some come to wait for a member that has their
// log: "pair" if a fresh member outlives the one from which it gets the log, "one", which a third
// of the worlds has, whenever the group goes on without its only member.
func worldDecls(seed uint64) (decls []views.Declaration) {
	decls = []views.Declaration{
		{Name: "orders", Mode: views.Persistent, RingBytes: 1 << 16, Window: 64},
		{Name: "pair", Mode: views.Persistent, Members: []order.NodeID{1, 2}, RingBytes: 1 << 16, Window: 64},
	}
	if seed%3 == 2 {
		decls = append(decls, views.Declaration{Name: "one", Mode: views.Persistent, MaxMembers: 1, RingBytes: 1 << 16, Window: 64})
	}
	return decls
}

func newWorld(seed uint64, n int) *world { return newWorldOf(seed, n, "first") }

// newWorldOf makes the world of a group with an identity.
func newWorldOf(seed uint64, n int, identity string) *world {
	w := &world{
		group: identity, decls: worldDecls(seed),
		rng: rand.New(rand.NewPCG(seed, 31)), groups: map[string]*group{}, chain: map[order.ViewID]string{},
		acked: map[LogID]order.Version{}, began: map[string]map[LogID][]order.Version{}, trace: func(string, ...any) {},
	}
	w.storm = seed%2 == 1
	var members []views.Member
	for i := 1; i <= n; i++ {
		one := &worldNode{w: w, id: order.NodeID(i), inc: 1, up: true, disk: State{Disk: 1}, logs: map[LogID]*worldLog{}}
		one.disk.begin(one.self())
		w.nodes = append(w.nodes, one)
		members = append(members, one.self())
	}
	first, _ := w.place(nil, members)
	w.groups[first.Key()] = &group{view: first, stable: map[LogID]int{}, rows: map[order.NodeID]row{}}
	for _, one := range w.nodes {
		w.enter(one, first)
	}
	for i, one := range w.nodes {
		if i > 0 && w.rng.IntN(4) == 0 {
			one.crash()
		}
	}
	return w
}

func (n *worldNode) self() views.Member {
	return views.Member{ID: n.id, Incarnation: n.inc, Addr: n.addr(), Disk: n.disk.Disk}
}

func (n *worldNode) addr() string { return fmt.Sprintf("10.0.0.%d:1", n.id) }

func (n *worldNode) log(id LogID) *worldLog {
	if n.logs[id] == nil {
		n.logs[id] = &worldLog{}
	}
	return n.logs[id]
}

func (w *world) place(previous *views.View, members []views.Member) (*views.View, error) {
	w.keys++
	p := views.Placement{
		ID: 1, Cluster: "blue", Key: fmt.Sprint("key", w.keys), Group: w.group, Secret: views.NewSecret("of the " + w.group), Members: members, Declarations: w.decls,
		Previous: previous,
	}
	if previous != nil {
		p.ID = previous.ID + 1
	}
	v, _, err := views.Place(p)
	return v, err
}

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("%w: at %v: %s", errBroken, w.now, fmt.Sprintf(format, args...))
	}
}

// enter begins a view at a node.
func (w *world) enter(n *worldNode, v *views.View) {
	r, _ := v.RankOf(n.id)
	var fresh []LogID
	for _, sg := range v.Subgroups {
		if slices.Contains(sg.Fresh, r) {
			fresh = append(fresh, idOf(sg))
		}
	}
	if err := n.disk.enter(v, fresh); err != nil {
		w.fail("%v", err)
		return
	}
	n.core, n.joining, n.view = nil, false, v
	w.known(n)
	n.remembers(v)
}

// known checks that no two views follow one (Y6).
func (w *world) known(n *worldNode) {
	v := n.disk.View
	if v == nil {
		return
	}
	if key, ok := w.chain[v.ID]; ok && key != v.Key() {
		w.fail("node %d knows %s as view %d, another one knows %s", n.id, v.Key(), v.ID, key)
	}
	if before := w.groups[w.chain[v.ID-1]]; before != nil && w.chain[v.ID] == "" {
		w.count(before.view, v)
	}
	w.chain[v.ID] = v.Key()
}

// count counts the shards that begin to wait for a member that has their log, and the shards whose
// wait ends.
func (w *world) count(before, v *views.View) {
	for i, sg := range v.Subgroups {
		switch was := before.Subgroups[i]; {
		case was.Provisioned() && !sg.Provisioned() && len(sg.Holders) > 0:
			w.waits++
		case !was.Provisioned() && len(was.Holders) > 0 && sg.Provisioned():
			w.returns++
		}
	}
}

// remembers checks that a member that is taken for one with the whole log of a shard has what every
// disk had.
func (n *worldNode) remembers(v *views.View) {
	r, _ := v.RankOf(n.id)
	for _, sg := range v.Subgroups {
		id, l := idOf(sg), n.log(idOf(sg))
		_, late := n.w.chain[v.ID+1]
		if acked := n.w.acked[id]; !late && sg.Has(r) && !slices.Contains(sg.Partial, r) && acked != (order.Version{}) && !slices.Contains(l.list[:l.synced], acked) {
			n.w.fail("node %d is taken in view %d for one with all of %v, and has not %v, which every disk had: %v", n.id, v.ID, id, acked, l.list)
		}
	}
}

func (n *worldNode) crash() {
	n.up, n.core, n.view, n.joining, n.work, n.stop = false, nil, nil, false, nil, false
	for _, l := range n.logs {
		l.list = l.list[:l.synced]
	}
}

// start gives a node another process, which takes part in a restart.
func (n *worldNode) start() {
	n.crash()
	n.up = true
	n.inc++
	c := CoreConfig{Cluster: "blue", Self: n.self(), Logs: n.ends, Place: n.w.place, Persistent: func(string) bool { return true }}
	if n.w.storm {
		c.Times = Times{Beat: 100 * time.Millisecond, Silence: 300 * time.Millisecond, Settle: 100 * time.Millisecond}
	}
	for _, other := range n.w.nodes {
		c.Join = append(c.Join, other.addr())
	}
	n.core = NewCore(c, n.disk)
	n.apply(n.core.Start(n.w.now))
}

func (n *worldNode) ends() (ends []LogEnd) {
	for _, d := range n.w.decls {
		id := LogID{Name: d.Name}
		ends = append(ends, LogEnd{ID: id, Last: n.log(id).last()})
	}
	return ends
}

// dies crashes a node now and then.
func (n *worldNode) dies() bool {
	rare := 100
	if n.w.storm {
		rare = 60
	}
	if n.w.calm || n.w.rng.IntN(rare) > 0 {
		return false
	}
	n.w.trace("node %d crashes", n.id)
	n.crash()
	return true
}

// apply does what the core says, and may crash anywhere in between.
func (n *worldNode) apply(e Effects) {
	w := n.w
	if e.State != nil {
		if n.dies() {
			return
		}
		n.disk = *e.State
		w.known(n)
		if n.dies() {
			return
		}
	}
	n.stop = n.stop || e.Stop
	if e.Reconcile != nil {
		n.work, n.stop = e.Reconcile, false
	}
	for _, s := range e.Sends {
		if n.dies() {
			return
		}
		w.net = append(w.net, packet{s.To, s.Message})
		if w.seen != nil {
			w.seen(packet{s.To, s.Message})
		}
	}
	for _, event := range e.Events {
		w.trace("node %d.%d: %v", n.id, n.inc, event)
		if _, ok := event.(Completing); ok {
			w.adoptions++
		}
	}
	if o := e.Outcome; o != nil {
		n.outcome(*o)
	}
}

func (n *worldNode) outcome(o Outcome) {
	n.core, n.work = nil, nil
	if o.View == nil {
		n.inc++
		n.disk.begin(n.self())
		n.joining = true
		return
	}
	n.begins(o.View)
	if n.w.groups[o.View.Key()] == nil {
		n.w.restarts++
		n.w.groups[o.View.Key()] = &group{view: o.View, stable: map[LogID]int{}, rows: map[order.NodeID]row{}}
	}
	n.w.enter(n, n.w.groups[o.View.Key()].view) // of which the core has a copy
}

// begins checks a node's logs at the beginning of a restarted view (Y4, Y7).
func (n *worldNode) begins(v *views.View) {
	w := n.w
	r, _ := v.RankOf(n.id)
	for _, sg := range v.Subgroups {
		if !sg.Has(r) {
			continue
		}
		id, l := idOf(sg), n.log(idOf(sg))
		_, late := w.chain[v.ID+1] // it is out of the group already, and does not know
		if acked := w.acked[id]; !late && acked != (order.Version{}) && !slices.Contains(l.list[:l.synced], acked) {
			w.fail("node %d begins view %d without version %v of %v, which every disk had: %v", n.id, v.ID, acked, id, l.list)
		}
		if w.began[v.Key()] == nil {
			w.began[v.Key()] = map[LogID][]order.Version{}
		}
		if other, ok := w.began[v.Key()][id]; ok && !slices.Equal(other, l.list) {
			w.fail("node %d begins view %d with %v of %v, another one with %v", n.id, v.ID, l.list, id, other)
		}
		w.began[v.Key()][id] = slices.Clone(l.list)
	}
}

// reconcile moves a reconciliation on: it may fail, and be stopped.
func (n *worldNode) reconcile() {
	if n.work == nil {
		return
	}
	work, stop := n.work, n.stop
	err := error(nil)
	if stop {
		err = errors.New("stopped")
	}
	for _, a := range work.Plan {
		if err != nil || n.dies() {
			break
		}
		err = n.fetch(a)
	}
	if !n.up {
		return
	}
	n.work, n.stop = nil, false
	n.apply(n.core.Reconciled(n.w.now, work.Ballot, err))
}

func (n *worldNode) fetch(a Agreed) error {
	l := n.log(a.ID)
	defer n.kept(a.ID, slices.Clone(l.list))
	for _, s := range a.Sources {
		if s.Node == n.id {
			return nil
		}
		from := n.w.node(s.Node)
		at := slices.Index(from.log(a.ID).list[:from.log(a.ID).synced], a.End)
		if !from.up || at < 0 && a.End != (order.Version{}) {
			continue
		}
		l.list = slices.Clone(from.log(a.ID).list[:at+1])
		l.synced = len(l.list)
		return nil
	}
	return errors.New("no source")
}

// kept checks that a log that was whole lost nothing (Y7).
func (n *worldNode) kept(id LogID, before []order.Version) {
	s, now := n.core.State(), n.log(id).list
	r, ok := s.View.RankOf(n.id)
	if ok && s.Counts(s.View) && shard(s.View, id).Has(r) && n.whole(id) && !slices.Equal(before, now[:min(len(before), len(now))]) {
		n.w.fail("node %d had %v of %v, which is whole, and has %v", n.id, before, id, now)
	}
}

func (w *world) node(id order.NodeID) *worldNode { return w.nodes[id-1] }

// step does one thing.
func (w *world) step() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	if w.meddle != nil && n.core != nil {
		w.meddle(n)
	}
	switch k := w.rng.IntN(100); {
	case k < 10:
		w.pass(time.Duration(w.rng.IntN(200)) * time.Millisecond)
	case k < 25 && !n.up:
		n.start()
	case k < 30 && n.core != nil:
		n.reconcile()
	case k < 45 && n.view != nil:
		if w.storm && w.rng.IntN(4) == 0 {
			n.start()
		}
		if n.view != nil && w.rng.IntN(3) == 0 {
			w.turn(n)
		}
		for range w.rng.IntN(12) {
			if n.view != nil {
				w.work(n)
			}
		}
	case k < 46 && n.joining:
		n.start() // what it joined is gone, as far as it can see
	case k < 49:
		w.disaster(n)
	default:
		for range w.rng.IntN(8) {
			w.deliver()
		}
	}
}

func (w *world) disaster(n *worldNode) {
	switch k := w.rng.IntN(20); {
	case k == 0:
		for _, n := range w.nodes {
			n.crash()
		}
	case k < 4:
		n.crash()
	case k < 9:
		w.sides = nil
		for range w.nodes {
			w.sides = append(w.sides, w.rng.IntN(2) == 0)
		}
	case k < 12:
		w.sides = nil
	}
}

func (w *world) pass(d time.Duration) {
	w.now += d
	for _, n := range w.nodes {
		if n.core != nil && w.now >= n.core.Next() {
			n.apply(n.core.Tick(w.now))
			if n.core != nil && !n.core.Over() && n.core.Next() <= w.now && w.err == nil {
				w.err = fmt.Errorf("at %v node %d wants to be called again at %v: a process would spin", w.now, n.id, n.core.Next())
			}
		}
	}
}

func (w *world) deliver() {
	if len(w.net) == 0 {
		return
	}
	i := 0
	if !w.calm {
		i = w.rng.IntN(min(len(w.net), 20))
	}
	p := w.net[i]
	w.net = slices.Delete(w.net, i, i+1)
	if !w.calm && w.rng.IntN(10) == 0 { // it comes late, or again
		w.net = append(w.net, p)
		if w.rng.IntN(3) > 0 {
			return
		}
	}
	if !w.calm && w.rng.IntN(12) == 0 || len(w.net) > 4000 {
		return
	}
	j := slices.IndexFunc(w.nodes, func(n *worldNode) bool { return n.addr() == p.to })
	n := w.nodes[j]
	if w.lose != nil && w.lose(p) || w.sides != nil && w.sides[j] != w.sides[p.msg.From.ID-1] {
		return
	}
	switch {
	case n.core != nil:
		n.apply(n.core.Hear(w.now, p.msg))
	case n.view != nil:
		s := NewServer("blue", n.self(), func() *views.View { return n.view })
		if answer, ok := s.answer(p.msg); ok && p.msg.Verb != Running {
			w.net = append(w.net, packet{p.msg.From.Addr, answer})
		}
	}
}
