package squalltest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/sim"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/replicated/internal/simulate"
	"github.com/squall-go/squall/views"
)

// run is one seed: the application of a simulated world, and what is known of it.
type run struct {
	cfg      Config
	object   func() simulated
	work     func(*Client)
	check    func(any) error
	declared simulate.Declaration
	world    *sim.World
	random   *rand.Rand
	result   sim.Result

	clients []*Client
	lanes   []*lane
	current *lane // that runs; nil: the world does
	breakIn int   // one in so many connections to members breaks before the answer; 0: none

	digests    map[place]uint64 // of copies, by the last record in them
	hash       maphash.Seed
	places     map[place]simulate.At  // of records
	lost       map[int]bool           // shards in memory that lost all their members: they began anew
	owns       map[ownKey]*ownCall    // commands of members
	executions map[number]simulate.At // of clients' commands
	calls      []call
	answered   int
	attempts   int
	refused    int           // commands that the object refused at first
	latest     order.ViewID  // view
	provided   time.Duration // since when all shards of it have members
	vacant     map[int]bool  // shards on disks that had no members for a while: the tail of their last view may be lost
	bare       bool          // one has none: its log is on disks of processes that are not there
	ownCalls   int
	outcomes   [3]int // of members' own commands
	forwarded  int
	shared     int // records that were applied, not the first ones of their messages
}

// place is the place of a record in a shard.
type place struct {
	shard int
	v     order.Version
}

// number is a client's command.
type number struct {
	shard           int
	session, number uint64
}

func newRun(cfg Config, declared simulate.Declaration, object func() simulated, work func(*Client), check func(any) error) *run {
	return &run{
		cfg: cfg, declared: declared, object: object, work: work, check: check, hash: maphash.MakeSeed(),
		digests: map[place]uint64{}, places: map[place]simulate.At{}, executions: map[number]simulate.At{},
		lost: map[int]bool{}, vacant: map[int]bool{}, owns: map[ownKey]*ownCall{},
	}
}

func (r *run) String() string {
	if r.world == nil {
		return ""
	}
	return r.world.Plan().String()
}

// Begin implements sim.Application.
func (r *run) Begin(w *sim.World) {
	r.world, r.random = w, w.Dice(1)
	if len(w.Plan().Faults) > 0 {
		r.breakIn = []int{0, 40, 8}[r.random.IntN(3)]
	}
	n := r.cfg.Clients
	if n == 0 {
		n = 3
	}
	for i := range n {
		r.newClient(i)
	}
}

// Copy implements sim.Application.
func (r *run) Copy(h *sim.Host) sim.Copy {
	c, err := r.object().Simulate().Copy()
	if err != nil {
		r.world.Fail(err)
	}
	return &copyAt{run: r, host: h, copy: c}
}

// copyAt is a copy at a process.
type copyAt struct {
	run    *run
	host   *sim.Host
	copy   simulate.Copy
	joined bool
	gone   bool

	last  *ownCall // of the process, in its stay in this shard
	shard int      // that it is in, from 0; -1: none
	// how many records of a forwarded command the process sent in this view, and has not applied
	inFlight map[string]int
}

var errEnded = errors.New("the member has ended")

// Deliver implements sim.Copy.
func (c *copyAt) Deliver(m *multicast.Message, shard int, data []byte, replayed bool) {
	r := c.run
	executed := c.copy.Executed()
	v := place{shard, order.Version{View: m.View, Seq: m.Seq}}
	c.copy.Deliver(uint64(m.View), uint64(m.Seq), uint64(m.Sender), uint64(m.Time), data, replayed, func(record []byte, index uint64) {
		before := executed
		executed = c.copy.Executed()
		c.applied(v, uint64(m.Sender), record, index, executed > before)
	})
	r.places[v] = simulate.At{View: uint64(m.View), Seq: uint64(m.Seq), Time: c.copy.Time(), Member: uint64(m.Sender)}
	if err := c.copy.Failed(); err != nil {
		r.world.Fail(err)
		return
	}
	image, err := c.copy.Snapshot()
	if err != nil {
		r.world.Fail(err)
		return
	}
	sum := maphash.Bytes(r.hash, image)
	if other, known := r.digests[v]; known && other != sum {
		r.world.Fail(fmt.Errorf("the copies differ: that of %v at version %v is not the one that another member had there", c.host, v.v))
	}
	r.digests[v] = sum
	c.handOver()
}

// applied notes a record that was applied, the index-th of its message.
func (c *copyAt) applied(v place, sender uint64, record []byte, index uint64, executed bool) {
	r := c.run
	if index > 0 {
		r.shared++
	}
	r.cameOwn(v, sender, record, index, executed)
	if origin, ok := machine.ForwardedOf(record); ok && sender == c.ID() {
		c.inFlight[origin]--
	}
	if n, ok := clientOf(v.shard, record); ok && executed {
		at := simulate.At{View: uint64(v.v.View), Seq: uint64(v.v.Seq), Index: index, Time: c.copy.Time(), Member: sender, Session: n.session}
		if before, twice := r.executions[n]; twice && before != at && !r.forgets() && !r.lost[v.shard] {
			r.world.Fail(fmt.Errorf("RO1 is violated: %v executes number %d of session %x at %v, and it was executed at %d:%d", c.host, n.number, n.session, v.v, before.View, before.Seq))
		}
		r.executions[n] = at
	}
	if c.copy.Failed() != nil {
		return
	}
	if err := r.check(c.copy.State()); err != nil {
		r.world.Fail(fmt.Errorf("%v: an invariant does not hold at version %v: %w", c.host, v.v, err))
	}
}

// forgets reports whether the group may lose what it has answered: a persistent object that
// executes commands before they are on disk, when all members end.
func (r *run) forgets() bool { return r.declared.Persistent && !r.declared.AfterPersist }

// clientOf returns the number of a client's command in a record.
func clientOf(shard int, data []byte) (number, bool) {
	session, n, ok := machine.ClientOf(data)
	return number{shard, session, n}, ok
}

// Snapshot implements sim.Copy.
func (c *copyAt) Snapshot() []byte {
	image, err := c.copy.Snapshot()
	if err != nil {
		c.run.world.Fail(err)
	}
	return image
}

// Restore implements sim.Copy.
func (c *copyAt) Restore(image []byte) {
	if err := c.copy.Restore(image); err != nil {
		c.run.world.Fail(fmt.Errorf("%v: restoring a state: %w", c.host, err))
	}
}

// Installed implements sim.Copy.
func (c *copyAt) Installed(v *views.View) {
	c.run.follow(v)
	for _, sg := range v.Subgroups {
		if sg.Lost && !c.run.declared.Persistent {
			c.run.lost[sg.Shard] = true
		}
	}
	if !c.joined {
		c.joined = true
		c.copy.Join(c, c.run.random.Uint32)
		if c.run.cfg.own != nil {
			c.callOwn()
		}
	}
	c.inFlight = map[string]int{}
	rank, _ := v.RankOf(c.host.ID())
	if at := slices.IndexFunc(v.Subgroups, func(sg views.Subgroup) bool { return sg.Has(rank) }); at != c.shard {
		for own := c.last; own != nil; own = own.before {
			own.left = !own.done
		}
		c.shard, c.last = at, nil
	}
	c.copy.Installed()
	c.handOver()
}

// follow notes whether all shards have members.
func (r *run) follow(v *views.View) {
	if v.ID <= r.latest {
		return
	}
	bare := false
	for _, sg := range v.Subgroups {
		if !sg.Provisioned() {
			bare, r.vacant[sg.Shard] = true, true
		}
	}
	if r.latest = v.ID; bare != r.bare {
		r.bare, r.provided = bare, r.world.Now()
	}
}

// works reports whether a quorum has worked for a while, and each shard had members, without
// anything going wrong.
func (r *run) works(since time.Duration) bool {
	return r.world.Works(since) && !r.bare && r.world.Now() > r.provided+since
}

// Ended implements sim.Copy.
func (c *copyAt) Ended() {
	c.gone = true
	c.copy.Leave(errEnded)
}

// ID implements simulate.Host.
func (c *copyAt) ID() uint64 { return uint64(c.host.ID()) }

// View implements simulate.Host.
func (c *copyAt) View() (id uint64, shards [][]simulate.Member) {
	v := c.host.View()
	shards = make([][]simulate.Member, c.run.declared.Shards)
	for _, sg := range v.Subgroups {
		for _, rank := range sg.Members {
			m := v.Members[rank]
			shards[sg.Shard] = append(shards[sg.Shard], simulate.Member{Node: uint64(m.ID), Incarnation: m.Incarnation, Place: strconv.Itoa(c.run.world.Place(m.ID))})
		}
	}
	return uint64(v.ID), shards
}

// Later implements simulate.Host.
func (c *copyAt) Later(f func()) {
	c.run.world.After(c.run.world.Plan().FailAfter()/8, func() {
		if !c.gone {
			f()
		}
	})
}

// Soon implements simulate.Host.
func (c *copyAt) Soon(f func()) {
	done := c.run.world.Hold()
	c.run.world.After(c.run.hop(), func() {
		defer done()
		if !c.gone {
			f()
		}
	})
}

// Secret implements simulate.Host.
func (c *copyAt) Secret(use string, text []byte) []byte {
	sum := sha256.Sum256(append([]byte("what the members know\x00"+use+"\x00"), text...))
	return sum[:]
}

// Wall implements simulate.Host.
func (c *copyAt) Wall() uint64 { return uint64(c.host.Wall()) }

// mostInFlight is how many records for one forwarded command a process may have in flight: one of
// each view, and those of the two views before may wait for others with which they share a message.
const mostInFlight = 3

// Send implements simulate.Host.
func (c *copyAt) Send(record []byte) {
	records := machine.Split(record)
	for one, ok := records.Next(); ok; one, ok = records.Next() {
		if origin, forwarded := machine.ForwardedOf(one); forwarded {
			if c.inFlight[origin]++; c.inFlight[origin] > mostInFlight {
				c.run.world.Fail(fmt.Errorf("%v has %d records for one forwarded command in flight", c.host, c.inFlight[origin]))
			}
		}
	}
	c.host.Send(record)
}

// Confirm implements simulate.Host.
func (c *copyAt) Confirm(f func(error)) { c.host.Confirm(f) }

// Halt implements simulate.Host.
func (c *copyAt) Halt(reason error) { c.host.Halt(reason) }

// hop draws how long something takes between a client and a member.
func (r *run) hop() time.Duration {
	most := int64(r.world.Plan().Hop())
	if r.random.IntN(20) == 0 {
		most *= 20
	}
	return 1 + time.Duration(r.random.Int64N(most))
}
