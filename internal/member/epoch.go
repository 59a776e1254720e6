package member

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/predicates"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// epoch is a member's part in one view.
type epoch struct {
	m      *Member
	view   *views.View
	self   order.Rank
	first  bool // of this member's views
	layout *Layout
	table  *sst.Table
	cycle  predicates.Cycle
	change *viewchange.Change
	rounds *viewchange.Rounds
	subs   []*part // by subgroup of the view; nil where this member is not in it
	mine   []*part // the parts of this member
	to     []order.Rank
	line   *sst.Line // the own member line

	nextBeat, nextLook, lastLook time.Duration
	arrived                      bool   // something, since the last look: it may be a heartbeat
	unseen                       bool   // what changes in some row does so unnoticed
	peers                        []peer // by rank
	held                         []held // failures that are not reported yet
	lacks, looked                bool   // a shard has no members; and it was looked for some

	recording []recording // decisions on their way to the disk, the first one first

	until    time.Duration // once over: the time from which no member is waited for any longer
	lingered time.Duration // and when it was stepped last
}

// peer is what is known of a member's heartbeat.
type peer struct {
	heartbeat uint64
	changed   time.Duration // when it was last seen to change
	linked    bool          // before its first heartbeat: its link was seen to be up
	sign      time.Duration // and when it last gave a sign of life
	whole     uint64        // its word complete, as of the last look for members of shards without members
}

// Counters of the member line.
const (
	wordHeartbeat sst.Counter[uint64]     = 0
	wordClock     sst.Counter[order.Time] = 1 // if there are persistent subgroups
	wordComplete  sst.Counter[uint64]     = 2
	wordWall      sst.Counter[order.Time] = 3 // if there are persistent subgroups: its wall clock
)

// memberWords are the names of these counters.
var memberWords = []string{"heartbeat", "clock", "complete", "wall"}

// open lays this member on the table of a view.
func (m *Member) open(v *views.View) (*epoch, error) {
	self, ok := v.RankOf(m.cfg.Self)
	if !ok {
		return nil, fmt.Errorf("node %d is not a member of view %d", m.cfg.Self, v.ID)
	}
	m.Observe(v.Time) // B9
	if v.Persistent() {
		m.wall()
	}
	layout, err := NewLayout(v)
	if err != nil {
		return nil, err
	}
	rows, err := m.cfg.Open(v, self, layout)
	if err != nil {
		return nil, fmt.Errorf("table of view %d: %w", v.ID, err)
	}
	table, err := sst.NewTable(layout.Layout, rows)
	if err != nil {
		rows.Close()
		return nil, err
	}
	e := &epoch{m: m, view: v, self: self, first: m.epoch == nil, layout: layout, table: table, peers: make([]peer, len(v.Members)), subs: make([]*part, len(v.Subgroups))}
	for r := range order.Rank(len(v.Members)) {
		e.to = append(e.to, r)
	}
	e.line = table.Line(self, layout.line[self])
	e.change = viewchange.NewChange(viewchange.Config{
		View: v, Self: self, Table: table, Columns: layout.change, Wedge: e.wedge, Told: e.told, Latest: m.latest, Next: m.next, Whole: e.whole, OnEvent: e.happened, Record: e.recorder(),
	})
	e.rounds = viewchange.NewRounds(e.change, layout.rounds)
	e.lacks = slices.ContainsFunc(v.Subgroups, func(sg views.Subgroup) bool { return !sg.Provisioned() })
	e.subgroups()
	e.steps()
	table.OnMove(e.moved)
	return e, nil
}

// aheadAfter returns the counts of Ahead for the next view. It subtracts the indexes that a sender
// used in another shard, up to the trim of that shard, because those messages are not sent again.
// Messages beyond that trim are sent again, and this member still has to drop them.
func (e *epoch) aheadAfter(name string, all []multicast.Ahead, trims [][]order.Index) (left []multicast.Ahead) {
	for _, a := range all {
		r, ok := e.view.RankOf(a.Sender)
		for i, sg := range e.view.Subgroups {
			if !ok || sg.Name != name || sg.Has(e.self) {
				continue
			}
			if k, sends := sg.SenderRank(r); sends && trims[i] != nil { // nil: no member there goes on
				if a.Indexes -= min(a.Indexes, trims[i][k]); mutant.Enabled && mutant.On(mutant.AheadForgotten) {
					a.Indexes = 0
				}
			}
		}
		if a.Indexes > 0 {
			left = append(left, a)
		}
	}
	return left
}

// subgroups makes this member's parts, each of which takes over what its outbox still has to send.
func (e *epoch) subgroups() {
	for i, sg := range e.view.Subgroups {
		if sg.Has(e.self) {
			e.subs[i] = e.m.part(e, i)
			e.mine = append(e.mine, e.subs[i])
		}
	}
}

// steps is the order of a cycle: take in, affirm rounds, exchange, look after peers and the view,
// send, and only then the upcalls, for which no member waits.
func (e *epoch) steps() {
	e.cycle.Then(e.poll)
	e.cycle.Then(e.confirm)
	for _, p := range e.mine {
		e.cycle.Then(e.exchange(p))
	}
	e.cycle.Then(e.beat)
	e.cycle.Then(e.lookAfterPeers)
	e.cycle.Then(e.change.Step)
	e.cycle.Then(e.flush)
	for _, p := range e.mine {
		e.cycle.Then(p.deliver)
	}
}

// poll takes in what has arrived.
func (e *epoch) poll() int {
	work := e.table.Poll()
	if work > 0 {
		e.heard()
	}
	return work
}

// heard notes that words of rows may have changed that are looked at only now and then.
func (e *epoch) heard() {
	e.arrived = true
	for _, p := range e.mine {
		p.told = true
	}
}

// exchange is a part's exchange. Where little is to be delivered, it runs upcalls already.
func (e *epoch) exchange(p *part) predicates.Step {
	return func() int {
		before := p.core.Delivered()
		work := p.exchange()
		if p.core.Delivered() != before {
			e.m.ran = append(e.m.ran, p)
		}
		return work
	}
}

// happened reports steps of the view in force. How a view that is over comes apart is not reported;
// the members that this one suspects then, it suspects in the next view too.
func (e *epoch) happened(what viewchange.Event) {
	if e.m.epoch == e && e.change.Done() == nil {
		e.m.cfg.OnEvent(what)
	}
}

// moved gives all cores the new memory of a row, at once: none of them may read the old one any
// more.
func (e *epoch) moved(r order.Rank) {
	e.change.Rebind(r)
	e.rounds.Rebind(r)
	for _, p := range e.mine {
		p.core.Rebind(r)
	}
}

// wedge stops all subgroups and returns what is here.
func (e *epoch) wedge() [][]order.Index {
	here := make([][]order.Index, len(e.subs))
	for i, p := range e.subs {
		if p != nil {
			p.wedge()
			here[i] = p.core.Reach()
		}
	}
	return here
}

// told is the least that a member of a subgroup has, as it told. Of one that this member is not in
// it knows nothing.
func (e *epoch) told(subgroup int, r order.Rank) []order.Index {
	if p := e.subs[subgroup]; p != nil {
		return p.core.Told(r)
	}
	return nil
}

// flush sends what was pushed. What it sent is not work: it was counted when it was pushed.
func (e *epoch) flush() int {
	e.table.Flush()
	return 0
}

// beat bumps the heartbeat when it is due (B1).
func (e *epoch) beat() int {
	if e.m.now < e.nextBeat {
		if s := e.m.cfg.Slice; s != nil && s.Over() {
			e.m.slice()
		}
		return 0
	}
	e.nextBeat = e.m.now + e.m.cfg.Heartbeat
	e.m.slice()
	e.tellWall()
	wordHeartbeat.Store(e.line, e.line[wordHeartbeat]+1) // the loop is the only writer, so the plain load is its own value
	e.tellTime()
	e.tellComplete()
	e.table.PushLineQuietly(e.to, e.layout.line[e.self])
	e.nextLook = e.m.now
	e.heard()
	e.refill()
	return 0
}

// refill has the leader look for members of shards that have none: once, and again when a member
// has told that it has a state or a log.
func (e *epoch) refill() {
	if !e.lacks || e.change.Leader() != e.self {
		return
	}
	news := !e.looked
	for r := range e.peers {
		whole := wordComplete.Load(e.table.Line(order.Rank(r), e.layout.line[r]))
		news = news || e.peers[r].whole != whole
		e.peers[r].whole = whole
	}
	if e.looked = true; news {
		e.change.Refill()
	}
}

// lookAfterPeers reports peers that failed, for whatever reason, and peers that are silent (B2).
func (e *epoch) lookAfterPeers() int {
	if e.m.now >= e.lookAt() {
		e.listen()
	}
	failures := e.table.Failures()
	for _, f := range failures {
		if errors.Is(f.Err, fabric.ErrPeerGone) {
			e.lost(f)
			continue
		}
		e.change.Report(f.Rank, f.Err)
		if errors.Is(f.Err, fabric.ErrGivenUp) {
			e.refused(f)
		}
	}
	e.held = slices.DeleteFunc(e.held, func(h held) bool {
		if h.until > e.m.now {
			return false
		}
		e.change.Report(h.Rank, h.Err)
		return true
	})
	return len(failures)
}

// refused holds back the report about a member that gave this one up before they were connected. If
// that member published its suspicion, the others adopt it long before the report, and this member
// halts. Otherwise that member has failed, and the report says so.
func (e *epoch) refused(f fabric.Failure) {
	f.Err = fmt.Errorf("%w: it refused the connection: %v", fabric.ErrPeerGone, f.Err)
	e.held = append(e.held, held{f, e.m.now + e.m.cfg.FailAfter})
}

// lost reports a member to which the way is broken; a senior one a moment later.
func (e *epoch) lost(f fabric.Failure) {
	if f.Rank < e.self {
		e.held = append(e.held, held{f, e.m.now + e.m.cfg.Heartbeat/yieldsPerHeartbeat})
		return
	}
	e.change.Report(f.Rank, f.Err)
}

// yieldsPerHeartbeat says for what part of a heartbeat a member gives way to a senior one whose
// connection to it ended. If only the connection failed, both find the other one gone; if both said
// so, some would believe the one and some the other, and both would have to go. The junior one
// waits long enough to hear that it is the one.
const yieldsPerHeartbeat = 10

// held is a failure that is not reported yet.
type held struct {
	fabric.Failure
	until time.Duration
}

// looksPerHeartbeat is how often, at most, peers' heartbeats are looked at in the time of one.
const looksPerHeartbeat = 4

// lookAt is when the peers' heartbeats are looked at next: nextLook, or sooner if one may have
// arrived since the last look.
func (e *epoch) lookAt() time.Duration {
	if e.arrived || e.unseen {
		return min(e.nextLook, e.lastLook+e.m.cfg.Heartbeat/looksPerHeartbeat)
	}
	return e.nextLook
}

// listen records which peers were heard from, and reports the silent ones. What it did not look at
// says nothing about its peers: the time by which a look is late does not count as their silence,
// and a member that slept through half of FailAfter starts to count anew. So a host that stands
// still again and again makes no member fail.
//
// Bytes that arrive from a peer are a sign of life as well: on a slow link its heartbeat waits for
// a whole ring that is in flight before it.
//
// A heartbeat that comes over a connection is noticed as it arrives. In shared memory it changes
// unnoticed, and before the first one there are other signs of life: then the next look is due
// after a part of a heartbeat, whatever arrives.
func (e *epoch) listen() {
	now, cfg := e.m.now, &e.m.cfg
	asleep, missed := e.lastLook == 0 || e.slept(e.lastLook), now-e.lastLook-cfg.Heartbeat
	e.lastLook, e.nextLook, e.arrived, e.unseen = now, e.nextBeat, false, len(e.m.past) > 0
	e.hearWalls()
	var silent, nearly viewchange.Ranks
	for r := range e.peers {
		rank := order.Rank(r)
		if rank == e.self || e.table.Frozen(rank) {
			continue
		}
		p := &e.peers[r]
		beat := wordHeartbeat.Load(e.table.Line(rank, e.layout.line[r]))
		if e.bytesCame(rank) || beat != p.heartbeat || asleep {
			p.heartbeat, p.changed = beat, now
		} else if missed > cfg.Heartbeat {
			p.changed, p.sign = p.changed+missed, p.sign+missed
		}
		until := p.changed + cfg.FailAfter
		if p.heartbeat == 0 {
			until = e.awaited(rank)
		}
		e.unseen = e.unseen || p.heartbeat == 0 || e.table.Direct(rank)
		e.nextLook = min(e.nextLook, until)
		silent = silent.With(rank, now >= until)
		nearly = nearly.With(rank, now >= until-apart(cfg.Heartbeat, cfg.FailAfter))
	}
	e.nextLook = max(e.nextLook, now+1)
	if silent != 0 {
		e.silent(silent, nearly)
	}
}

// bytesCame reports whether anything has arrived from a member since the last look.
func (e *epoch) bytesCame(r order.Rank) bool {
	return e.table.Heard(r) && !(mutant.Enabled && mutant.On(mutant.BeatsAlone))
}

// awaited is how long a peer that was not heard of in this view may stay silent: for FailAfter
// since it last gave another sign of life. Its link came up, or it still beats in the view before,
// where it takes so long to see that it waits for one that failed. In the first view of this member
// one whose link is not up may be there much later: a group that comes back from its disks begins
// like this. All of it is bounded.
func (e *epoch) awaited(r order.Rank) time.Duration {
	p, patience := &e.peers[r], e.m.cfg.FailAfter
	latest := p.changed + 2*patience
	switch {
	case e.table.Linked(r) && !p.linked:
		p.linked, p.sign = true, e.m.now
	case !p.linked && e.first:
		return latest
	}
	for _, before := range e.m.past {
		p.sign = max(p.sign, before.sign(e.view.Members[r]))
	}
	return min(latest, max(p.changed, p.sign)+patience)
}

// sign is when a member of this view, which is over here, was last heard of; 0 for all others.
func (e *epoch) sign(m views.Member) time.Duration {
	r, ok := e.view.RankOf(m.ID)
	if !ok || e.view.Members[r] != m || r == e.self {
		return 0
	}
	p := &e.peers[r]
	if beat := wordHeartbeat.Load(e.table.Line(r, e.layout.line[r])); e.bytesCame(r) || beat != p.heartbeat {
		p.heartbeat, p.changed = beat, e.m.now
	}
	return p.changed
}

// silent reports the members that are silent. If they and the members that are nearly so are so
// many that the rest is no quorum, it may be this member that is cut off: then it reports all of
// them at once.
func (e *epoch) silent(silent, nearly viewchange.Ranks) {
	if !e.change.Quorate(nearly) {
		silent = nearly
	}
	for _, r := range silent.List() {
		why := ErrSilent
		if e.peers[r].heartbeat == 0 {
			why = ErrAbsent
		}
		e.change.Report(r, fmt.Errorf("%w for %v", why, e.m.now-e.peers[r].changed))
	}
}

// apart is by how much the last heartbeats of members may differ that all fell silent together.
// Where few heartbeats fit into FailAfter it is less than two, so that a member whose next
// heartbeat is merely late is none of them.
func apart(heartbeat, failAfter time.Duration) time.Duration {
	return min(2*heartbeat, (failAfter-heartbeat)/2)
}

// slept reports whether this member did so little since some time that it was not awake.
func (e *epoch) slept(since time.Duration) bool {
	return e.m.now-since > max(e.m.cfg.FailAfter/2, 2*e.m.cfg.Heartbeat)
}

// deadline is when the epoch must be stepped again even if nothing happens, and all is settled.
func (e *epoch) deadline(now time.Duration) time.Duration {
	if e.change.Restless() {
		return 0
	}
	at := min(e.nextBeat, e.lookAt())
	for _, p := range e.mine {
		if p.settling() && (p.told || e.unseen) {
			at = min(at, p.nextSettle)
		}
	}
	for _, h := range e.held {
		at = min(at, h.until)
	}
	return max(0, at-now)
}

// end stops the view here: what is left of it is delivered, as the decision says.
func (e *epoch) end(d *viewchange.Decision) error {
	e.lingered = e.m.now
	e.until = e.m.now + 2*(e.m.cfg.FailAfter+e.m.cfg.Heartbeat) // longer than the next view waits for a member that is not through yet
	for i, p := range e.subs {
		if p == nil {
			continue
		}
		p.wedge() // its own proposal or ack did, if it was asked
		if mutant.Enabled && mutant.On(mutant.NoTail) {
			d.Trim[i] = make([]order.Index, len(d.Trim[i]))
		}
		if err := p.core.Trim(d.Trim[i]); err != nil {
			return fmt.Errorf("the end of view %d: subgroup %q: %w", e.view.ID, p.sg.Name, err)
		}
		p.outbox.ahead = p.core.Ahead()
		if k, ok := p.sg.SenderRank(e.self); ok {
			p.outbox.ended(p, d.Trim[i][k])
		}
	}
	for _, o := range e.m.out {
		o.ahead = e.aheadAfter(o.name, o.ahead, d.Trim)
	}
	return nil
}

// rest delivers what the end of the view left, as far as the applications have room: that is to
// come before they hear of the next view.
func (e *epoch) rest() {
	for _, p := range e.mine {
		p.deliver()
	}
}

// close frees what the view left.
func (e *epoch) close() {
	for _, p := range e.mine {
		p.close()
	}
}

// linger is a step of a view that is over here: others may still need this member's row, and its
// application what is left of it.
func (e *epoch) linger() (work int) {
	if e.slept(e.lingered) { // a member that waits for this row may not have seen it in that time
		e.until += e.m.now - e.lingered
	}
	e.lingered = e.m.now
	work = e.table.Poll()
	for _, f := range e.table.Failures() {
		e.change.Report(f.Rank, f.Err)
	}
	for _, h := range e.held {
		e.change.Report(h.Rank, h.Err)
	}
	e.held = nil
	work += e.change.Step()
	e.table.Flush()
	for _, p := range e.mine {
		work += p.deliver()
	}
	return work
}

// over reports whether the view can be closed: no other member needs its row of it any more, or the
// time in which one may need it has passed (until), and the application here got all of it.
func (e *epoch) over() bool {
	return e.unneeded() && !slices.ContainsFunc(e.mine, (*part).unfinished)
}

// unneeded reports whether no other member needs this member's row.
func (e *epoch) unneeded() bool { return e.change.Through() || e.m.now >= e.until }

// leaves reports whether a member that is not in the next view may halt: it has delivered the rest
// of this one. Where it delivers nothing before it has a state or a log, it gives that up (B14): no
// member waits for it any more, and none may give it anything.
func (e *epoch) leaves() bool {
	missing := func(p *part) bool {
		return p.unfinished() && (!p.receiver.Refuses() || mutant.Enabled && mutant.On(mutant.LeaverWaits))
	}
	return e.unneeded() && !slices.ContainsFunc(e.mine, missing)
}

// stuck reports whether the disk has not taken a decision for so long that the other members, which
// wait for it with their view wedged, go on sooner without this member.
func (e *epoch) stuck() bool {
	return len(e.recording) > 0 && e.change.Done() == nil && e.m.now-e.recording[0].since > e.m.cfg.FailAfter
}

// recording is a decision on its way to the disk. There may be several: of one ballot after the
// other.
type recording struct {
	ballot viewchange.Ballot
	since  time.Duration
}

// recorder is what makes the decision about the next view durable; nil: that is not needed.
func (e *epoch) recorder() func(viewchange.Ballot, *viewchange.Decision) {
	if e.m.cfg.Record == nil || !e.view.Persistent() {
		return nil
	}
	return func(b viewchange.Ballot, d *viewchange.Decision) {
		e.recording = append(e.recording, recording{b, e.m.now})
		e.m.cfg.Record(e.view, b, d, func() {
			e.m.Call(func() {
				e.recording = slices.DeleteFunc(e.recording, func(r recording) bool { return r.ballot == b })
				e.change.Recorded(b)
			})
		})
	}
}
