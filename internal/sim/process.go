package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/attach"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/life"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// stepsAfterHalt is for how many steps a halted member is watched before its process ends.
const stepsAfterHalt = 20

// spinIn says that a process spins for as long as its pace says in one of so many idle times. Such
// steps find nothing, as what comes would wake it: a few are enough to see that they change
// nothing.
const spinIn = 24

// process is one process of a node: it joins, is a member, and ends.
type process struct {
	world  *world
	node   *node
	self   views.Member
	pace   Pace
	random *rand.Rand
	turn   *turn
	idle   int           // steps that found nothing, in a row
	spins  int           // of these are before it sleeps
	asleep bool          // steps no more until something wakes it, or its turn comes
	rung   bool          // was to be woken since its last step began
	due    time.Duration // its inboxes want nothing before
	hangs  time.Duration // does not step before
	jumped time.Duration // its clock is ahead by so much
	slow   time.Duration // its next upcall takes so long
	spent  time.Duration // by the callbacks of this step
	slice  member.Slice
	sliced time.Duration // when the slice ends

	applicant *join.Joiner   // while it joins, and a while longer
	calls     []*talk        // of the applicant
	gate      *join.Acceptor // of a member
	guests    []*talk        // of the gate
	tickets   join.Ticket
	leader    order.Rank // as the gate knows it

	host        *Host          // of an application that is not drawn; nil: there is none
	member      *member.Member // nil: not yet
	seats       []*seat        // one for each view that it installed
	ledgers     []*ledger      // by declaration
	flows       map[*ledger]*flow
	bodies      []*bodies // one for each view and subgroup with large messages
	links       []*linkEnd
	key         trust.PublicKey             // by which others recognise the process
	meets       attach.Node                 // in groups of transfers
	groups      map[attach.Token]*transfers // those that it has open
	memories    []*memory                   // of large messages that it sends
	pulsing     bool                        // the silence of its links is watched
	keepers     []*keeper
	memory      *restart.Memory // nil: nothing is kept
	life        *life.Core
	former      uint64        // its incarnation until a restart ended without it; 0: none did
	core        *restart.Core // of one that comes back
	base        *views.View   // in force as the core's last step began
	reconciling *reconciling  // of its logs, the last one
	apps        []*app        // that have something to do
	within      bool          // it does something in the middle of which it may crash
	stepping    bool          // its member is within a step
	beside      bool          // and its application goes on there
	lettersLeft int           // of a restart, until it ends; 0: it does not
	recording   int           // decisions that are being written down
	promised    bool          // to a restart that it has not voted in yet
	noted       time.Duration // when the last of what it has to remember is written
	mute        uint64
	stays       []*stays // by declaration
	inputs      []func() // of their cores, for the next step
	offers      shard.Offers[offered]
	// beginning is this process's copy of the view that it installed last.
	beginning *views.View

	leaving   bool          // it was asked to
	leaveBy   time.Duration // when it leaves whether all it sent was delivered or not
	drained   bool          // it was
	said      bool          // the member was told
	told      bool          // the world knows that it halted
	afterHalt int           // steps since
	restarted bool          // its first view was made by processes that had come back
	// places of the processes to which a letter that told of its first view was lost
	untold     uint64
	liar       bool         // it is hostile, and has ended as far as the others' promises go
	over       bool         // the process ended
	unpowered  bool         // its host loses power when it ends
	blame      string       // why it may be removed
	reporter   *process     // that reported it …
	reportedIn order.ViewID // … in this view
	move       Move         // the last one of its join
}

// seat is a process's part in one view.
type seat struct {
	record *viewRecord
	began  time.Duration // when its table was opened
	self   order.Rank
	table  *fabric.Table
	own    []byte // its row
	closed bool
	frozen []frozenRow
	wedged bool
	steps  int // since it is in force
	// members of the view before that were suspected as it ended
	remembered []*process
	seen       [fabric.WordsPerLine]uint64 // of its view line, as of its last step
	lines      []multicastLine             // as the trace printed them last
}

// multicastLine is what the trace last printed of a subgroup: skipped, sent, received, delivered.
type multicastLine [4]uint64

// process begins a node's next process.
func (w *world) process(n *node) *process {
	incarnation := uint64(1)
	if n.proc != nil {
		incarnation = n.proc.self.Incarnation + 1
	}
	p := &process{
		world: w, node: n, pace: n.Pace, flows: map[*ledger]*flow{}, groups: map[attach.Token]*transfers{},
		self:   views.Member{ID: n.ID, Incarnation: incarnation, Addr: n.address()},
		random: rand.New(rand.NewPCG(w.plan.Seed, 100+uint64(n.place)+incarnation<<32)),
	}
	p.meets.FailAfter = w.plan.FailAfter()
	p.offers = shard.Offers[offered]{Self: n.ID, Keeps: func(name string) bool { return w.handsOver(w.declNamed(name)) }}
	for k := range w.plan.Decls {
		p.stays = append(p.stays, newStays(p, k))
		p.ledgers = append(p.ledgers, &ledger{proc: p, decl: k, key: stream(k, n.ID, incarnation)})
	}
	n.proc = p
	w.procs = append(w.procs, p)
	binary.LittleEndian.PutUint64(p.key[:], uint64(len(w.procs)))
	p.attach(w.application)
	p.turn = w.schedule.add(w.now+time.Duration(p.random.Int64N(int64(p.pace.Step))), p)
	return p
}

// address is where a node's processes are before it moves: what the configurations of the others
// name.
func address(id order.NodeID) string { return fmt.Sprintf("node-%d:1", id) }

// address is where the node's processes are.
func (n *node) address() string {
	if n.addr == "" {
		n.addr = fmt.Sprintf("node-%d:%d", n.ID, 1+n.moved)
	}
	return n.addr
}

// local is the time on the process's own clock.
func (p *process) local() time.Duration { return p.world.now + p.jumped }

// enter makes the process a member of a view that was installed elsewhere, or of the first one.
func (p *process) enter(v *views.View) (err error) {
	w := p.world
	self, _ := v.RankOf(p.self.ID)
	p.gate = join.NewAcceptor(join.AcceptorConfig{Cluster: cluster, Declarations: w.plan.Decls, FailAfter: w.plan.FailAfter(), Silence: w.plan.Silence()}, v, self)
	p.member, err = member.New(member.Config{
		Self: p.self.ID, View: v, Open: p.openTable, Retire: p.retire, Next: p.next,
		Receiver: p.receiver, Recorder: p.recorder, Record: p.recordDecision(), Wall: p.wall,
		Tuning: w.plan.Tuning, Heartbeat: w.plan.Heartbeat(), FailAfter: w.plan.FailAfter(), Wake: p.wake,
		Slice: &p.slice, Time: func(d time.Duration) { p.sliced = w.now + d },
		Transfers: p.transfers, Limits: p.limits, Room: p.roomToSend,
		OnEvent: p.onEvent, Installed: p.installed, Halted: p.onHalted,
	})
	if err != nil {
		return err
	}
	if p.memory != nil {
		p.announce()
	}
	p.observeLogs()
	w.net.Listen(p.self.ID, p.accept)
	w.begins(p, v)
	p.stateInstalled(v)
	if p.host != nil {
		p.host.copy.Installed(v)
		return nil
	}
	for k := range w.plan.Decls {
		w.addApp(p, k)
		w.addAsker(p, k)
	}
	return nil
}

// openTable is the member's Open.
func (p *process) openTable(v *views.View, self order.Rank, l *member.Layout) (*fabric.Table, error) {
	w := p.world
	var ends []simnet.Endpoint
	for r, m := range v.Members {
		ends = append(ends, simnet.Endpoint{ID: m.ID, Shape: l.Shape(order.Rank(r))})
	}
	t := w.net.OpenView(v.ID, v.Key(), self, ends)
	p.seats = append(p.seats, &seat{record: w.record(v), began: w.now, self: self, table: t, own: t.Row(self), lines: make([]multicastLine, len(v.Subgroups))})
	return t, nil
}

func (p *process) retire(t *fabric.Table) {
	i := slices.IndexFunc(p.seats, func(s *seat) bool { return s.table == t })
	p.world.judge("brain", checkFrozen(p, p.seats[i]))
	p.world.judge("content", checkLetGo(p, p.seats[i].record.view.ID))
	p.seats[i].closed = true
	if err := t.Close(); err != nil {
		p.world.fail(err)
	}
}

// checkLetGo checks that the application keeps nothing of a view whose memory goes.
func checkLetGo(p *process, v order.ViewID) error {
	if p.keepsOf(v) {
		return violated("content", "node %d: messages of view %d are kept when its memory goes", p.self.ID, v)
	}
	return nil
}

// next is the member's Next.
func (p *process) next(previous *views.View, members []views.Member, mute func(order.NodeID, int) bool) (*views.View, error) {
	v, _, err := views.Place(views.Placement{
		ID: previous.ID + 1, Cluster: cluster, Key: p.world.key(), Members: members, Declarations: p.world.plan.Decls, Previous: previous, Mute: mute,
		Layouts: layouts,
	})
	return v, err
}

// seat is the process's part in the view in force there, or nil.
func (p *process) seat() *seat {
	if len(p.seats) == 0 {
		return nil
	}
	return p.seats[len(p.seats)-1]
}

// seatIn is its part in some view, or nil.
func (p *process) seatIn(r *viewRecord) *seat {
	for _, s := range p.seats {
		if s.record == r {
			return s
		}
	}
	return nil
}

// wake has a process that sleeps step soon; it is what the member's own bell does. Sleeping ones
// are also woken by what is due on the network.
func (p *process) wake() { p.wakeAt(p.world.now) }

func (p *process) wakeAt(at time.Duration) {
	if p.asleep {
		p.world.schedule.pull(p.turn, max(at, p.hangs)+p.rest())
	}
	p.rung = p.rung || at <= p.world.now
}

// rest is the time between two steps, or from a bell to the step that follows.
func (p *process) rest() time.Duration {
	if p.pace.Even {
		return p.pace.Step
	}
	return p.pace.Step/2 + time.Duration(p.random.Int64N(int64(p.pace.Step)))
}

// held reports whether the process does nothing now, and until when: it hangs, or it has ended.
func (p *process) held(now time.Duration) (until time.Duration, held bool) {
	switch {
	case p.over:
		return never, true
	case now < p.hangs:
		return p.hangs, true
	}
	return now, false
}

// act implements actor: one step.
//
// A step that did nothing but take in what arrived is followed by no other one until something is
// due, as one that found nothing: all that could follow from what arrived was looked at after it,
// within the same step. TestStepsThatAreLeftOutChangeNothing plays these.
func (p *process) act(now time.Duration) time.Duration {
	w := p.world
	if p.over {
		return never
	}
	if p.asleep = false; now < p.hangs {
		return p.hangs
	}
	p.due = math.MaxInt64 / 2
	polled := w.net.Polled(p.self.ID)
	p.rung = false
	work := p.step()
	if p.over {
		return never
	}
	p.look()
	if p.over {
		return never
	}
	polled = w.net.Polled(p.self.ID) - polled
	if p.pace.PauseEvery > 0 && p.random.IntN(p.pace.PauseEvery) == 0 {
		w.probes[MemberPaused]++
		return now + time.Duration(p.random.Int64N(int64(p.pace.Pause)))
	}
	if work > polled || p.rung || p.told {
		p.idle = 0
		return now + p.rest()
	}
	return p.idles(now, work)
}

// idles is when a process steps next that had nothing to do but to take in what arrived.
func (p *process) idles(now time.Duration, work int) time.Duration {
	if work > 0 {
		p.idle = 0
	}
	if p.idle++; p.idle == 1 {
		p.spins = 0
		if p.pace.Spins > 0 && p.random.IntN(spinIn) == 0 {
			p.spins = p.pace.Spins
		}
	}
	if p.idle <= p.spins {
		return now + p.rest()
	}
	return p.sleep(now)
}

// sleep takes the process at its word: a step that found nothing to do is followed by none until
// something is due.
func (p *process) sleep(now time.Duration) time.Duration {
	p.asleep = true
	at := min(p.due, p.joinDue())
	if len(p.inputs) > 0 {
		at = now
	}
	unsettled := p.member != nil && p.member.Unsettled()
	if p.member != nil {
		if d := p.member.Deadline(p.local()); d >= 0 {
			at = min(at, now+d)
		}
	}
	if due, ok := p.world.net.Due(p.self.ID); ok {
		at = min(at, due)
	}
	if p.world.extra && at > now && !unsettled { // a step counts, for what waits for company
		p.stepsOnceMore()
	}
	return max(at, now) + p.rest()
}

// stepsOnceMore plays a step that is left out otherwise. It must not change anything.
func (p *process) stepsOnceMore() {
	w := p.world
	if w.net.Fused(p.self.ID) {
		return // every call of the fabric brings its end nearer, also one that does nothing
	}
	before, hash, rows := w.net.Stats, w.trace.hash, p.rows()
	work := p.step()
	w.result.Steps--
	w.result.extras++
	if work > 0 || w.net.Stats != before || w.trace.hash != hash || p.rows() != rows {
		w.fail(fmt.Errorf("node %d: a step that would have been left out did %d, and changed something: %v, %v, %v",
			p.self.ID, work, w.net.Stats != before, w.trace.hash != hash, p.rows() != rows))
	}
}

// rows is a digest of the words in the process's rows.
func (p *process) rows() (sum uint64) {
	for _, s := range p.seats {
		if sum = scramble(sum + uint64(one(s.closed))); !s.closed {
			for off := 0; off < s.lineOff(len(s.record.groups)); off += 8 {
				sum = scramble(sum ^ *fabric.Word(s.own, off))
			}
		}
	}
	return sum
}

// step steps the process; it may crash in the middle.
func (p *process) step() (work int) {
	p.survive(func() { work = p.cycle() })
	return work
}

func (p *process) cycle() (work int) {
	p.world.result.Steps++
	if p.leaving {
		p.tryLeave()
	}
	work = p.converse() + p.restartOn()
	if p.member == nil {
		return work
	}
	if !p.told {
		work += p.takeInputs()
	}
	p.stepping = true
	work += p.member.Step(p.local())
	p.stepping = false
	if p.spent > 0 {
		p.world.hang(p, p.spent)
		p.spent = 0
	}
	p.lead()
	return work
}

// survive has a process do something in the middle of which it may crash.
func (p *process) survive(do func()) {
	p.within = true
	defer func() {
		p.within = false
		switch crash := recover().(type) {
		case nil:
		case simnet.Crashed:
			p.world.probes[CrashedInStep]++
			p.crashed("crashed within a step")
		case powerCut:
			p.unpowered = true
			p.world.probes[CrashedInSync]++
			p.world.net.PowerOff(p.self.ID)
			p.crashed("loses power as it syncs")
		default:
			panic(crash)
		}
	}()
	do()
}

// takes has a process take a turn, in the middle of which it may crash, and returns when the next
// one is.
func (p *process) takes(now time.Duration, turn func(now time.Duration) time.Duration) (next time.Duration) {
	next = never
	p.survive(func() { next = turn(now) })
	return next
}

// leave makes the application leave: it accepts no more messages, and waits for the accepted ones.
func (p *process) leave() {
	p.leaving, p.leaveBy = true, p.world.now+4*p.world.plan.FailAfter()
	for _, d := range p.world.plan.Decls {
		p.member.Outbox(d.Name).Close()
	}
	p.wake()
}

// tryLeave has the member leave when all that was accepted is delivered.
func (p *process) tryLeave() {
	if p.member == nil || p.member.Err() != nil {
		return
	}
	if p.said {
		if !p.drained {
			p.tryClose()
		}
		return
	}
	drained, inVain := true, p.refuses()
	for k, d := range p.world.plan.Decls {
		if p.member.Outbox(d.Name).Undelivered() > 0 {
			drained, inVain = false, inVain && p.stays[k].refuses()
		}
	}
	for _, k := range p.keepers {
		drained = drained && k.recorder.HeldBack() == 0
	}
	for k := range p.stays {
		drained = drained && !p.waits(k)
	}
	depended, until := p.offers.Depended(p.member.View()), p.leaveBy
	if !depended && inVain {
		until -= 3 * p.world.plan.FailAfter() // as Group.Leave
	}
	if (!drained || depended) && p.world.now < until {
		p.due = min(p.due, until)
		return
	}
	p.said, p.drained = true, drained
	p.blamed("leaves")
	p.print("leaves")
	p.member.Leave()
}

// tryClose is Close, of an application that has not waited for all: the member halts if it does not
// get out. Nobody gives it what it lacks of its last view once the others have gone on. For a state
// it does not wait: a leave that does so has no end, which is a failure.
func (p *process) tryClose() {
	if p.refuses() {
		return
	}
	if closeBy := p.leaveBy + 16*p.world.plan.FailAfter(); p.world.now < closeBy {
		p.due = min(p.due, closeBy)
		return
	}
	p.print("closes")
	p.member.Halt(member.ErrClosed)
}

// crashed is the end of a process that did not want to end.
func (p *process) crashed(how string) {
	w := p.world
	if p.over {
		return
	}
	if p.member != nil {
		w.watchEnd(p)
	} else {
		w.watchJoinersEnd(p)
	}
	if p.core != nil && !p.core.Over() {
		w.sometimes(PromiserDied, p.promised)
		w.sometimes(VoterDied, !p.promised && p.memory.State().Accepted != nil)
	}
	p.blamed(how)
	w.event(ended, p.node.place)
	p.print("✝ %s", how)
	p.ends()
}

// ends is the end of a process, however it came.
func (p *process) ends() {
	w := p.world
	p.over = true
	p.host.end()
	if !p.liar { // its links stand
		p.endLinks()
	}
	p.leaveDisk()
	w.calm = w.now
	w.stir()
	if n := p.node; n.Returns > 0 && n.times < n.Times {
		n.times++
		w.pending++
		w.schedule.add(w.now+n.Returns, &birth{world: w, node: n})
	}
}

// close is the end of a process whose member halted.
func (p *process) close() {
	p.world.net.Crash(p.self.ID) // to the others it is the same, and no fuse burns any more
	for _, s := range p.seats {
		if !s.closed {
			p.retire(s.table)
		}
	}
	for _, t := range append(p.calls, p.guests...) {
		t.conn.Close()
	}
	p.print("ends")
	p.ends()
}

// look notes what the step did to the process as a whole.
func (p *process) look() {
	w := p.world
	if p.told {
		if p.afterHalt++; p.afterHalt > stepsAfterHalt {
			p.close()
			return
		}
	}
	if p.applicant != nil && p.applicant.Err() != nil {
		p.print("refused: %v", p.applicant.Err())
		p.refusedToJoin()
		return
	}
	if p.member == nil {
		return
	}
	p.watch()
	if p.node.disk != nil && !p.told {
		w.judge("log", checkKept(w, p))
	}
	w.judge("live", checkRemembered(p))
	if w.trace.out == nil {
		return
	}
	for _, s := range p.seats {
		p.printLines(s)
	}
}

// onHalted is the member's Halted.
func (p *process) onHalted(reason error) {
	w := p.world
	p.told = true
	for _, s := range p.seats {
		w.judge("content", checkLetGo(p, s.record.view.ID))
	}
	p.host.end()
	w.stir()
	w.event(halted, p.node.place)
	p.print("halted: %v", reason)
	w.sometimes(LeftWithoutState, p.leaving && errors.Is(reason, member.ErrClosed) && p.refuses())
	w.watchHalt(p, reason)
	for _, c := range w.checkers {
		w.judge(c.name(), c.halted(w, p, reason))
	}
	p.blamed("halted")
	p.apply(&p.guests, p.gate.Halted(reason))
}

// blamed notes why a process may be removed from the group.
func (p *process) blamed(why string) {
	if p.blame == "" {
		p.blame = why
	}
}

// installed is the member's Installed.
func (p *process) installed(v *views.View) {
	w := p.world
	w.begins(p, v)
	p.placed(v)
	p.stateInstalled(v)
	if p.host != nil {
		p.host.copy.Installed(v)
	}
	p.notes(func() error { return p.memory.Installed(v) })
	if w.result.Err != nil {
		return
	}
	self, _ := v.RankOf(p.self.ID)
	e, lost := p.gate.Installed(p.local(), v, self)
	p.leader = 0
	p.apply(&p.guests, e)
	for _, m := range lost {
		p.print("lost joiner %d", m.ID)
		// one of the two slept, and took the other for silent
		if j := w.processOf(m); p.jumped > 0 || j.jumped > 0 || p.blame != "" {
			j.blamed("lost a member that slept, or did itself")
		}
		p.member.Report(m.ID, member.ErrJoining)
	}
}

// birth begins a node's next process.
type birth struct {
	world *world
	node  *node
}

// act implements actor.
func (b *birth) act(now time.Duration) time.Duration {
	w := b.world
	w.pending--
	w.calm = now
	w.stir()
	if n := b.node; n.proc != nil {
		w.net.Restart(n.ID)
		w.probes[CameBack]++
	}
	p := w.process(b.node)
	w.event(born, b.node.place, p.self.Incarnation)
	p.print("process %d begins", p.self.Incarnation)
	if slices.ContainsFunc(w.nodes, func(o *node) bool { return o.cuts>>b.node.place&1 != 0 }) || b.node.cuts != 0 {
		p.blamed(cutOff)
	}
	if d := b.node.disk; d != nil && d.slow == memoName && now < d.slowUntil {
		p.blamed("its disk is slow") // it hangs until the view that it enters is written down
	}
	p.survive(p.begin)
	return never
}
