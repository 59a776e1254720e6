package member

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/predicates"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// Errors that halt a member.
var (
	ErrClosed       = errors.New("closed")
	ErrMemberFailed = errors.New("member failed")
	ErrMemberLeft   = errors.New("member left")
	ErrSilent       = errors.New("no heartbeat")
)

// Config is one member's part in a view.
type Config struct {
	View      *views.View
	Self      order.Rank
	Layout    *Layout
	Table     *fabric.Table
	Receivers []multicast.Receiver // by subgroup; nil where this member is not in it
	Tuning    multicast.Tuning
	Heartbeat time.Duration // how often the heartbeat is bumped
	FailAfter time.Duration // how long a peer may be silent
	// Wake ends the sleep of whoever steps the member. Any goroutine.
	Wake func()
	// PeerDown is told, on the loop, that a peer failed or left. The member halts after it if it returns true.
	PeerDown func(PeerDown) (halt bool)
	// Halted is told, once, that the member halted; Err says why already.
	Halted func(reason error)
}

// PeerDown says that a peer is not there any more.
type PeerDown struct {
	Member views.Member
	Rank   order.Rank
	Left   bool  // on purpose
	Err    error // what was seen
}

// Error describes it as the reason of a halt.
func (p PeerDown) Error() string {
	what := ErrMemberFailed
	if p.Left {
		what = ErrMemberLeft
	}
	return fmt.Sprintf("%v: node %d (rank %d, %s): %v", what, p.Member.ID, p.Rank, p.Member.Addr, p.Err)
}

// Is makes errors.Is tell a member that left from one that failed.
func (p PeerDown) Is(target error) bool {
	return target == ErrMemberLeft && p.Left || target == ErrMemberFailed && !p.Left
}

// Unwrap is what was seen.
func (p PeerDown) Unwrap() error { return p.Err }

// words of the member line.
const (
	wordHeartbeat = iota
	wordLeaving
)

// Layout is the table layout of a view, the same at every member.
type Layout struct {
	*sst.Layout
	line []int               // of the member line, by rank
	subs []multicast.Columns // by subgroup
}

// NewLayout lays a view out: first the member line of every row, then each subgroup in the rows of its members.
func NewLayout(v *views.View) (*Layout, error) {
	l := &Layout{Layout: sst.NewLayout(len(v.Members))}
	for r := range v.Members {
		l.line = append(l.line, l.Line(order.Rank(r), "member", "heartbeat", "leaving"))
	}
	for _, sg := range v.Subgroups {
		l.subs = append(l.subs, multicast.Declare(l.Layout, sg))
	}
	return l, l.Check()
}

// Member is one member of one view. All methods are the loop's, but for Call, Halted, Err and those of its outboxes.
type Member struct {
	cfg       Config
	table     *sst.Table
	cycle     predicates.Cycle
	everybody []order.Rank
	subs      []*Subgroup // by subgroup of the view; nil where this member is not in it
	mine      []*Subgroup // those that it is in
	own       *sst.Line

	now      time.Duration
	nextBeat time.Duration
	lastLook time.Duration
	peers    []peer // by rank

	halted atomic.Pointer[halt]
	calls  calls
}

type peer struct {
	heartbeat uint64
	changed   time.Duration // when it was last seen to change
}

type halt struct{ err error }

// New lays a member on its table.
func New(cfg Config) (*Member, error) {
	table, err := sst.NewTable(cfg.Layout.Layout, cfg.Table)
	if err != nil {
		return nil, err
	}
	m := &Member{cfg: cfg, table: table, peers: make([]peer, len(cfg.View.Members)), own: table.Line(cfg.Self, cfg.Layout.line[cfg.Self])}
	for r := range cfg.View.Members {
		m.everybody = append(m.everybody, order.Rank(r))
	}
	m.cycle.Then(table.Poll)
	m.cycle.Then(m.runCalls)
	for i, sg := range cfg.View.Subgroups {
		var s *Subgroup
		if sg.Has(cfg.Self) {
			s = newSubgroup(m, multicast.New(cfg.View, sg, cfg.Layout.subs[i], table, cfg.Receivers[i], cfg.Tuning))
			m.mine = append(m.mine, s)
			m.cycle.Then(s.exchange)
		}
		m.subs = append(m.subs, s)
	}
	m.cycle.Then(m.beat)
	m.cycle.Then(m.lookAfterPeers)
	m.cycle.Then(m.flush) // before the upcalls: nobody waits for those
	for _, s := range m.mine {
		m.cycle.Then(s.deliver)
	}
	return m, nil
}

// Subgroup is this member's part in a subgroup of the view, or nil if it has none.
func (m *Member) Subgroup(i int) *Subgroup { return m.subs[i] }

// Table is the member's table.
func (m *Member) Table() *sst.Table { return m.table }

// Step is one cycle at a time on the member's own monotonic clock. It returns the work done; 0 means that nothing more can
// be done until something arrives, an application asks, or Deadline passes.
func (m *Member) Step(now time.Duration) int {
	m.now = now
	if m.stands() {
		m.table.Poll() // what stayed in a socket, or waits for one, would keep the loop from sleeping
		m.table.Flush()
		return m.runCalls()
	}
	return m.cycle.Step()
}

// stands reports whether the member halted, so that nothing of the protocol may happen here any more (B3).
func (m *Member) stands() bool {
	return m.halted.Load() != nil && !(mutant.Enabled && mutant.On(mutant.AfterHalt))
}

// Deadline is how long after now Step must be called again even if nothing happens: until the next heartbeat, or at once
// while something is not settled. A halted member has no next heartbeat: less
// than 0 is never.
func (m *Member) Deadline(now time.Duration) time.Duration {
	if m.halted.Load() != nil {
		return -1
	}
	for _, s := range m.mine {
		if s.core.Unsettled() {
			return 0
		}
	}
	return max(0, m.nextBeat-now)
}

// flush sends what was pushed. What it sent is not work: it was counted when it was pushed.
func (m *Member) flush() int {
	m.table.Flush()
	return 0
}

// beat bumps the heartbeat when it is due (B1).
func (m *Member) beat() int {
	if m.now < m.nextBeat {
		return 0
	}
	m.nextBeat = m.now + m.cfg.Heartbeat
	sst.Store(m.own, wordHeartbeat, m.own[wordHeartbeat]+1) // the loop is the only writer, so the plain load is its own value
	m.table.PushLineQuietly(m.everybody, m.cfg.Layout.line[m.cfg.Self])
	return 0
}

// lookAfterPeers fails silent peers (B2) and reports those that failed for whatever reason.
func (m *Member) lookAfterPeers() int {
	m.listen()
	failures := m.table.Failures()
	for _, f := range failures {
		m.peerDown(f)
		if m.halted.Load() != nil {
			break
		}
	}
	return len(failures)
}

// listen notes whose heartbeat changed. If this member itself slept through half of FailAfter, it starts to count anew:
// what it did not look at says nothing about its peers.
func (m *Member) listen() {
	if m.now-m.lastLook < m.cfg.Heartbeat && m.lastLook > 0 {
		return
	}
	asleep := m.now-m.lastLook > max(m.cfg.FailAfter/2, 2*m.cfg.Heartbeat) || m.lastLook == 0
	m.lastLook = m.now
	for r := range m.peers {
		rank := order.Rank(r)
		if rank == m.cfg.Self || m.table.Frozen(rank) {
			continue
		}
		p := &m.peers[r]
		beat := sst.Load(m.table.Line(rank, m.cfg.Layout.line[r]), wordHeartbeat)
		if beat != p.heartbeat || asleep {
			p.heartbeat, p.changed = beat, m.now
		} else if m.now-p.changed >= m.cfg.FailAfter {
			m.table.Fail(rank, fmt.Errorf("%w for %v", ErrSilent, m.now-p.changed))
		}
	}
}

// peerDown takes a failed peer out of the table and reports it.
func (m *Member) peerDown(f fabric.Failure) {
	for _, s := range m.subs {
		if s != nil {
			s.core.Rebind()
		}
	}
	left := sst.Load(m.table.Line(f.Rank, m.cfg.Layout.line[f.Rank]), wordLeaving) != 0
	down := PeerDown{Member: m.cfg.View.Members[f.Rank], Rank: f.Rank, Left: left, Err: f.Err}
	if m.cfg.PeerDown(down) {
		m.Halt(down)
	}
}

// Halt stops the member for good (B3). The first reason stays.
func (m *Member) Halt(reason error) {
	if !m.halted.CompareAndSwap(nil, &halt{reason}) {
		return
	}
	for _, s := range m.subs {
		if s != nil {
			s.Outbox.halt(reason)
		}
	}
	if m.cfg.Halted != nil {
		m.cfg.Halted(reason)
	}
}

// Err is why the member halted, or nil. Any goroutine.
func (m *Member) Err() error {
	if h := m.halted.Load(); h != nil {
		return h.err
	}
	return nil
}

// Leave tells the peers that this member goes on purpose, and halts it. One that has halted tells them too: a peer that has
// not heard yet of what halted it would else take its going for a failure.
func (m *Member) Leave() {
	for _, s := range m.mine {
		s.core.Settle() // others may wait for this member to have delivered what they sent
	}
	sst.Store(m.own, wordLeaving, 1)
	m.table.PushLine(m.everybody, m.cfg.Layout.line[m.cfg.Self])
	for range 3 { // a socket that stays full belongs to a peer that does not read
		m.table.Flush()
	}
	m.Halt(ErrClosed)
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
