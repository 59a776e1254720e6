package member

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Why a member halts, or is suspected.
var (
	ErrClosed = errors.New("closed")
	ErrSilent = errors.New("no heartbeat")
	// ErrAbsent is an ErrSilent: the member has not shown a heartbeat since the view began.
	ErrAbsent   = fmt.Errorf("%w since the view began", ErrSilent)
	ErrReported = errors.New("reported as failed by the application")
	ErrJoining  = errors.New("its conversation ended while it joined")
	// ErrDiskStuck says that the member's disk does not answer.
	ErrDiskStuck = errors.New("the disk does not answer")
)

// Config is one process's part in a group.
type Config struct {
	Self order.NodeID
	View *views.View // the first one here
	// Open makes the table of a view, with links that may come up later.
	Open func(v *views.View, self order.Rank, l *Layout) (*fabric.Table, error)
	// Retire takes back the table of a view that no code here needs any more.
	Retire func(*fabric.Table)
	// Next makes the view that follows another one, out of its members.
	Next func(previous *views.View, members []views.Member, mute func(id order.NodeID, declaration int) bool) (*views.View, error)
	// Receiver takes what a subgroup of a view delivers here.
	Receiver func(v *views.View, subgroup int) Receiver
	// Transfers moves the bodies of a subgroup's large messages in a view, or is nil: then there
	// are none, here or anywhere.
	Transfers func(v *views.View, subgroup int) Transfers
	Limits    func(name string) Limits // of a declaration; nil if Transfers is
	// Room makes the body of a large message that is to be sent, if there is memory; nil: it is
	// made in plain memory.
	Room func(size int) (*multicast.Body, error)
	// Recorder is what keeps what a persistent subgroup of a view delivers here. It is the same one
	// for the same shard in all views.
	Recorder func(v *views.View, subgroup int) *Recorder
	// Record makes the decision about the view that follows one durable, and has done called then,
	// on any goroutine. It does not wait. It is asked only if a subgroup is persistent; nil:
	// nothing is kept.
	Record func(v *views.View, b viewchange.Ballot, d *viewchange.Decision, done func())
	// Wall is the wall clock, for persistent subgroups.
	Wall      func() order.Time
	Tuning    multicast.Tuning
	Heartbeat time.Duration // how often the heartbeat is bumped
	FailAfter time.Duration // how long a peer may be silent
	// Slice bounds the time that Receiver takes in one step. Time has it ended after some time, unless
	// Time is called again before. nil: nothing bounds it.
	Slice *Slice
	Time  func(slice time.Duration)
	// Late returns how much later than at the end of the slice the timer of Time ran, or by how much
	// it is late if it has not run. Nil: not known.
	Late func() time.Duration
	// Wake ends the sleep of the loop that steps the member. Any goroutine.
	Wake func()
	// OnEvent is told what moves the view change.
	OnEvent func(viewchange.Event)
	// Installed is told of every view but the first, before anything is delivered in it.
	Installed func(*views.View)
	// Halted is told, once, that the member halted; Err says why already.
	Halted func(reason error)
}

// Receiver takes what a subgroup delivers here.
type Receiver interface {
	multicast.Receiver
	// Begin is called once for each view, before its first delivery, when everything of the views
	// before is delivered. If the subgroup has fresh members, they need the state as it is now.
	Begin(v *views.View, subgroup int)
	// Given reports whether the application was given everything that Deliver has taken so far. If
	// not, f is called when it was, on any goroutine; or never, if it will not be given that.
	Given(f func()) bool
	// HasAll reports whether Given would report true.
	HasAll() bool
	// Whole reports whether the application has the subgroup's state.
	Whole() bool
	// Refuses reports whether Deliver takes nothing until the state or the log is here that other
	// members give.
	Refuses() bool
}

// Member is one process's part in a group, over all its views. All methods are the loop's, except
// Call, View, Err and the methods of its outboxes.
type Member struct {
	cfg      Config
	now      time.Duration
	settleAt time.Duration // when what waits for company is pushed; 0: nothing waited
	last     time.Duration // when the last step began
	epoch    *epoch        // the view in force
	past     []*epoch      // views that are over here, the oldest first
	out      []*Outbox     // in the order of declarations
	kept     []keptShard   // all shards that this member was in
	view     atomic.Pointer[views.View]
	clock    clock
	walls    walls
	leave    bool
	left     bool   // the decision without this member is in force
	mute     uint64 // where the application does not want to send, a bit for each declaration
	muted    uint64 // where the others were told so
	joiners  []views.Member

	ran     []*part // the parts that delivered in this step
	doomed  bool    // the next step begins with a halt
	stalled stall

	halted   atomic.Pointer[halt]
	calls    calls
	confirms confirms
}

type halt struct{ err error }

// keptShard is a shard that this member was in, and what recorded its deliveries.
type keptShard struct {
	recorder *Recorder
	name     string
	shard    int
}

// New lays a process's part on the table of its first view.
func New(cfg Config) (*Member, error) {
	m := &Member{cfg: cfg}
	for _, sg := range cfg.View.Subgroups {
		m.outbox(sg)
	}
	e, err := m.open(cfg.View)
	if err != nil {
		return nil, err
	}
	m.begin(e)
	return m, nil
}

// recorder is what keeps what a subgroup of a view delivers here. A goroutine that waits for its
// disks does so even when this member is in that shard no more.
func (m *Member) recorder(v *views.View, i int) *Recorder {
	r := m.cfg.Recorder(v, i)
	if !slices.ContainsFunc(m.kept, func(k keptShard) bool { return k.recorder == r }) {
		m.kept = append(m.kept, keptShard{r, v.Subgroups[i].Name, v.Subgroups[i].Shard})
	}
	return r
}

// outbox returns the outbox of a subgroup's declaration; it is made when it is first asked for.
func (m *Member) outbox(sg views.Subgroup) *Outbox {
	i := slices.IndexFunc(m.out, func(o *Outbox) bool { return o.name == sg.Name })
	if i >= 0 {
		return m.out[i]
	}
	o := &Outbox{Stats: new(multicast.Stats), member: m, name: sg.Name, why: ErrNotProvisioned, left: wait.NewBell()}
	o.ringLeft = o.left.Ring
	if m.cfg.Limits != nil {
		o.larges.limits = m.cfg.Limits(sg.Name)
	}
	m.out = append(m.out, o)
	return o
}

// Outbox is where an application sends to a subgroup, or nil if none of that name is declared.
func (m *Member) Outbox(name string) *Outbox {
	i := slices.IndexFunc(m.out, func(o *Outbox) bool { return o.name == name })
	if i < 0 {
		return nil
	}
	return m.out[i]
}

// View is the view in force. Any goroutine.
func (m *Member) View() *views.View { return m.view.Load() }

// Table is the table of the view in force.
func (m *Member) Table() *fabric.Table { return m.epoch.table.Table }

// next makes a view for the change core.
func (m *Member) next(members []views.Member, mute func(order.NodeID, int) bool) (*views.View, error) {
	v, err := m.cfg.Next(m.epoch.view.Updated(m.epoch.whole), members, mute)
	if err == nil && v.Persistent() {
		v.Time = m.Now()
	}
	return v, err
}

// begin puts a view in force.
func (m *Member) begin(e *epoch) {
	m.epoch = e
	m.view.Store(e.view)
	for _, o := range m.out {
		if !slices.ContainsFunc(e.mine, func(p *part) bool { return p.outbox == o }) {
			o.retire(unable(e.view, o.name))
			o.direct.Store(nil)
		}
	}
	for _, p := range e.mine {
		p.outbox.direct.Store(p.confirms)
	}
	for _, k := range m.kept {
		if k.left(e) {
			k.recorder.leave()
		} else {
			k.recorder.enter()
		}
	}
	if m.leave {
		e.change.Leave()
	}
	e.change.Join(m.joiners)
	e.change.Mute(m.muted)
	e.confirmAnew()
}

// left reports whether a member is not in the shard any more. While the shard has no members, the
// processes that were in it are in none, and wait for it.
func (k keptShard) left(e *epoch) bool {
	return slices.ContainsFunc(e.view.Shards(k.name), func(sg views.Subgroup) bool {
		if sg.Shard == k.shard {
			return sg.Provisioned() && !sg.Has(e.self)
		}
		return sg.Has(e.self)
	})
}

// unable returns the reason for which a member that is in no shard of a declaration cannot send.
func unable(v *views.View, name string) error {
	if slices.ContainsFunc(v.Shards(name), views.Subgroup.Provisioned) {
		return ErrNotSender
	}
	return ErrNotProvisioned
}

// Step is one cycle at a time on the member's own monotonic clock. It returns the work done; 0
// means that nothing more can be done until something arrives, an application asks, or Deadline
// passes.
func (m *Member) Step(now time.Duration) (work int) {
	m.now = now
	m.watch()
	work = m.runCalls()
	if m.doomed {
		m.Halt(m.explain(m.epoch.change.Err()))
	}
	if m.isHalted() {
		for _, t := range m.Tables() {
			t.Poll() // what stayed in a socket, or waits for one, would keep the loop from sleeping
			t.Flush()
		}
		return work
	}
	if len(m.past) > 0 {
		work += m.linger()
	}
	if m.settleAt != 0 && now >= m.settleAt {
		work += m.settle()
	}
	work += m.epoch.cycle.Step()
	if m.muted != m.mute {
		work += m.publishMute()
	}
	work += m.turn()
	if m.settleAt == 0 && m.Unsettled() {
		m.settleAt = now + SettleTime
	}
	return work
}

// SettleTime is how long a counter waits for company at most.
const SettleTime = time.Millisecond

// settle pushes the counters that wait for company. A loop that goes on stepping pushes them
// earlier (multicast.SettleAfter), and a loop without work sleeps meanwhile.
func (m *Member) settle() (work int) {
	m.settleAt = 0
	for _, p := range m.epoch.mine {
		if p.core.Unsettled() {
			p.core.Settle()
			work++
		}
	}
	return work
}

// isHalted reports whether the member halted, so that nothing of the protocol may happen here any
// more (B3).
func (m *Member) isHalted() bool {
	return m.halted.Load() != nil && !(mutant.Enabled && mutant.On(mutant.AfterHalt))
}

// linger steps the views that are over here.
func (m *Member) linger() (work int) {
	for _, e := range m.past {
		work += e.linger()
	}
	m.past = slices.DeleteFunc(m.past, func(e *epoch) bool {
		if !e.over() || slices.ContainsFunc(m.out, func(o *Outbox) bool { return o.keeps(e.view.ID) }) {
			return false
		}
		e.close()
		m.cfg.Retire(e.table.Table)
		return true
	})
	return work
}

// turn follows the view change: it halts the member, or installs the next view.
func (m *Member) turn() int {
	change := m.epoch.change
	switch d := change.Done(); {
	case change.Err() != nil && len(m.ran) > 0:
		m.doomed = true // how long the upcalls of this step took is known in the next one
	case change.Err() != nil:
		m.Halt(m.explain(change.Err()))
	case m.epoch.stuck():
		m.Halt(fmt.Errorf("%w: what follows view %d is not on disk after %v", ErrDiskStuck, m.epoch.view.ID, m.cfg.FailAfter))
	case m.left:
		if m.epoch.leaves() {
			m.Halt(ErrClosed)
		}
		return 0
	case d == nil:
		return 0
	default:
		if err := m.install(d); err != nil {
			m.Halt(err)
		}
	}
	return 1
}

// install ends the view in force and begins the next one, as every member that goes on does.
func (m *Member) install(d *viewchange.Decision) error {
	old := m.epoch
	old.table.Flush() // others wait for what was said last
	if err := old.end(d); err != nil {
		return err
	}
	if d.View == nil {
		m.left = true
		return nil
	}
	if _, ok := d.View.RankOf(m.cfg.Self); !ok {
		m.left = true
		return nil
	}
	old.rest()
	e, err := m.open(d.View)
	if err != nil {
		return err
	}
	m.past = append(m.past, old)
	m.joiners = slices.DeleteFunc(slices.Clone(m.joiners), func(j views.Member) bool { return slices.Contains(d.View.Members, j) })
	m.begin(e)
	m.remember(old)
	m.cfg.Installed(d.View)
	return nil
}

// remember suspects in the new view the members that this member suspected as the old view ended.
func (m *Member) remember(old *epoch) {
	if mutant.Enabled && mutant.On(mutant.Forgiving) {
		return
	}
	for _, r := range old.change.Suspected().List() {
		who := old.view.Members[r]
		if now, ok := m.epoch.view.RankOf(who.ID); ok && m.epoch.view.Members[now] == who {
			m.epoch.change.Report(now, old.change.Cause(r))
		}
	}
}

// Leave asks to be in no further view. The member halts with ErrClosed when it is in none.
func (m *Member) Leave() {
	m.leave = true
	m.epoch.change.Leave()
}

// Report says that a node failed.
func (m *Member) Report(id order.NodeID, why error) {
	if r, ok := m.epoch.view.RankOf(id); ok {
		m.epoch.change.Report(r, why)
	}
}

// Lost says that something that this process needs of another member, and that only it can be at
// fault for or the way to it, does not work any more. It is held back as a connection that ended
// is.
func (m *Member) Lost(id order.NodeID, why error) {
	if r, ok := m.epoch.view.RankOf(id); ok {
		m.epoch.lost(fabric.Failure{Rank: r, Err: why})
	}
}

// Join replaces the list of processes that are ready to join.
func (m *Member) Join(ready []views.Member) {
	m.joiners = ready
	m.epoch.change.Join(ready)
}

// Mute says in which declarations this member does not want to send, a bit each. It takes no more
// messages there, and the others hear of it when they have all that it took: what is left as a view
// without this sender begins would have to wait until it is one again.
func (m *Member) Mute(declarations uint64) {
	m.mute = declarations
	for i, o := range m.out {
		o.mute(declarations>>i&1 == 1)
	}
	m.publishMute()
}

// publishMute tells the others where this member is mute and has nothing left to send.
func (m *Member) publishMute() (work int) {
	muted := m.muted & m.mute
	for i, o := range m.out {
		if m.mute>>i&1 == 1 && o.Undelivered() == 0 {
			muted |= 1 << i
		}
	}
	if muted == m.muted {
		return 0
	}
	m.muted = muted
	m.epoch.change.Mute(muted)
	return 1
}

// Leader returns the member that makes the next proposal, as far as this member knows.
func (m *Member) Leader() views.Member { return m.epoch.view.Members[m.epoch.change.Leader()] }

// Skip declares n rounds of silence in a subgroup.
func (m *Member) Skip(name string, n order.Index) {
	for _, p := range m.epoch.mine {
		if p.sg.Name == name && p.core.Sender != nil && !m.epoch.change.Wedged() {
			p.core.Skip(n)
		}
	}
}

// Deadline is how long after now Step must be called again even if nothing happens: until the next
// heartbeat, or until what waits for company is pushed. A halted member has no next heartbeat: less
// than 0 is never.
func (m *Member) Deadline(now time.Duration) time.Duration {
	if m.halted.Load() != nil {
		return -1
	}
	if slices.ContainsFunc(m.epoch.mine, func(p *part) bool { return p.core.Holding() }) {
		return 0
	}
	at := m.epoch.deadline(now)
	for _, e := range m.past {
		if left := e.until - now; left > 0 { // later it waits for the application, which wakes the loop
			at = min(at, left)
		}
	}
	if m.settleAt != 0 && m.Unsettled() {
		at = min(at, max(0, m.settleAt-now))
	}
	return at
}

// Unsettled reports whether something waits for company to be pushed.
func (m *Member) Unsettled() bool {
	return m.halted.Load() == nil && slices.ContainsFunc(m.epoch.mine, func(p *part) bool { return p.core.Unsettled() })
}

// Halt stops the member for good (B3). The first reason stays.
func (m *Member) Halt(reason error) {
	if !m.halted.CompareAndSwap(nil, &halt{reason}) {
		return
	}
	for _, o := range m.out {
		o.direct.Store(nil)
		o.broken(reason)
	}
	m.confirms.halted(m.out, reason)
	for _, e := range append(slices.Clone(m.past), m.epoch) {
		e.table.Flush() // the last words
		for _, p := range e.mine {
			p.lost(reason)
		}
		e.close()
	}
	for _, k := range m.kept {
		k.recorder.close(reason)
	}
	m.cfg.Halted(reason)
}

// Err is why the member halted, or nil. Any goroutine.
func (m *Member) Err() error {
	if h := m.halted.Load(); h != nil {
		return h.err
	}
	return nil
}

// Tables returns the tables of all views that are not over at every member.
func (m *Member) Tables() (tables []*fabric.Table) {
	for _, e := range append(slices.Clone(m.past), m.epoch) {
		tables = append(tables, e.table.Table)
	}
	return tables
}

// Announce tells peers on this host that the loop is about to sleep, Retract that it is awake.
func (m *Member) Announce() {
	for _, e := range m.past {
		e.table.AnnounceParked()
	}
	m.epoch.table.AnnounceParked()
}

// Retract is the opposite of Announce.
func (m *Member) Retract() {
	for _, e := range m.past {
		e.table.RetractParked()
	}
	m.epoch.table.RetractParked()
}

// stall is a time in which this member did nothing.
type stall struct {
	took, ended time.Duration
	in          []string // the subgroups whose callbacks ran then; empty: the process did not run
}

// watch notes when a step took long: the reason of an eviction should say so.
func (m *Member) watch() {
	took := m.now - m.last
	if m.last == 0 { // the first step
		took = 0
	}
	m.last = m.now
	if took >= m.cfg.FailAfter/2 {
		m.stalled = stall{took: took, ended: m.now}
		if m.cfg.Late != nil && m.cfg.Late() >= took/5*4 {
			m.ran = m.ran[:0] // the timers of this process did not run either, so no callback is the cause
		}
		for _, p := range m.ran {
			if !slices.Contains(m.stalled.in, p.sg.Name) {
				m.stalled.in = append(m.stalled.in, p.sg.Name)
			}
		}
	}
	m.ran = m.ran[:0]
}

// explain adds to the reason of a halt what this member knows of itself. A member that stood still
// for FailAfter and finds all connections ended was evicted, although no other member could tell it
// so.
func (m *Member) explain(err error) error {
	s := m.stalled
	if s.took == 0 || m.now-s.ended > m.cfg.FailAfter {
		return err
	}
	if errors.Is(err, viewchange.ErrPartitioned) && s.took >= m.cfg.FailAfter {
		err = fmt.Errorf("%w: the connections to the others ended", viewchange.ErrEvicted)
	}
	took, bound := s.took.Round(time.Millisecond), m.cfg.FailAfter
	switch {
	case len(s.in) > 0:
		return fmt.Errorf("%w; a callback of subgroup %q blocked this member for %v, and FailAfter is %v: with AsyncQueueBytes, callbacks block their own subgroup only", err, s.in, took, bound)
	case s.took < bound:
		return fmt.Errorf("%w; this process did not run for %v, and FailAfter is %v: it was stopped, or had no processor", err, took, bound)
	}
	return fmt.Errorf("%w; this process did not run for %v, longer than FailAfter (%v), so the others removed it: it was stopped, or had no processor", err, took, bound)
}

// calls are what other goroutines want done on the loop.
type calls struct {
	pending atomic.Bool
	mu      sync.Mutex
	queue   []func()
}

// Call has f run on the loop, soon. Any goroutine.
func (m *Member) Call(f func()) {
	m.calls.mu.Lock()
	m.calls.queue = append(m.calls.queue, f)
	m.calls.pending.Store(true)
	m.calls.mu.Unlock()
	m.cfg.Wake()
}

func (m *Member) runCalls() int {
	if !m.calls.pending.Load() {
		return 0
	}
	m.calls.mu.Lock()
	queue := m.calls.queue
	m.calls.queue = nil
	m.calls.pending.Store(false)
	m.calls.mu.Unlock()
	for _, f := range queue {
		f()
	}
	return len(queue)
}

// Dump prints the table of the view in force, a line per member.
func (m *Member) Dump(w io.Writer) error { return m.epoch.table.Dump(w) }
