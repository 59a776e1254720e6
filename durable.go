package squall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/catchup"
	"github.com/squall-go/squall/internal/descriptors"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/life"
	"github.com/squall-go/squall/internal/logwire"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// durable is what this process keeps in Dir for its persistent subgroups: their logs, and what it
// must not forget of views.
type durable struct {
	group   *Group
	store   *persist.Store
	memory  *restart.Memory
	server  *logwire.Server
	witness *restart.Server // tells processes that come back that the group works
	jobs    *jobs
	policy  sync.WaitGroup  // of the goroutines that take snapshots by policy
	silence func()          // ends the announcements, and waits for that; nil: they have not begun
	opening context.Context // while the logs of the directory are opened: ends what reads them

	mu      sync.Mutex
	logs    map[persist.LogID]*shardLog
	failure error // of a log's disk
	running bool  // there is something to halt
}

// shardLog is a shard's log and the recorder in front of it.
type shardLog struct {
	log      *persist.Log
	recorder *member.Recorder
	room     wait.Bell   // rung when the log may have room again
	partial  atomic.Bool // the log lacks what others have

	// replaying is held while the application takes over the log, and while a snapshot takes the
	// place of records.
	replaying sync.Mutex
}

func (k *shardLog) wake() {
	k.room.Ring()
}

// persistent reports whether any subgroup is.
func (c Config) persistent() bool {
	return slices.ContainsFunc(c.Subgroups, func(sg SubgroupConfig) bool { return sg.Mode == Persistent })
}

// openDurable opens what is kept in Dir, if anything is to be kept.
func (g *Group) openDurable(ctx context.Context) (err error) {
	if !g.cfg.persistent() {
		return nil
	}
	d := &durable{group: g, logs: map[persist.LogID]*shardLog{}, jobs: newJobs()}
	g.durable = d
	if d.store, err = persist.Open(ctx, persist.Config{Dir: g.cfg.Dir, Cluster: g.cfg.Cluster, Node: g.cfg.ID}); err != nil {
		return err
	}
	if d.memory, err = restart.Load(d.store); err != nil {
		return err
	}
	d.opening = ctx
	return nil
}

// onDisk returns the logs in Dir of the declared subgroups. Logs of subgroups that are no longer
// declared stay in Dir untouched.
func (d *durable) onDisk() (logs []restart.LogID, err error) {
	ids, err := d.store.Logs()
	for _, id := range ids {
		if d.declaration(id) >= 0 {
			logs = append(logs, restart.LogID(id))
		}
	}
	return logs, err
}

// setAside has a log begin anew that cannot be read at all.
func (d *durable) setAside(id persist.LogID, damage error) (err error) {
	told := LogRepaired{Subgroup: id.Name, Shard: id.Shard, Damage: damage}
	if told.Aside, err = d.store.SetAside(id); err == nil {
		err = d.openLog(id, true)
	}
	if err == nil {
		d.group.cfg.emit(told)
	}
	return err
}

// noteSelf stores the identity of this process. With anew it replaces an identity under which the
// process may have joined a view.
func (d *durable) noteSelf(anew bool) error {
	g := d.group
	if anew {
		g.self.Incarnation = join.NewIncarnation()
		g.present()
	}
	err := d.memory.Begin(g.self)
	g.self.Disk, g.self.GaveUp = d.memory.Disk(), d.memory.GaveUp()
	return err
}

// perform does what has to be done on the disk.
func (d *durable) perform(e life.Effect) (r life.Result) {
	g, id := d.group, persist.LogID(e.Log)
	switch e.Do {
	case life.OpenLog:
		r.Err = d.openLog(id, false)
	case life.NoteLack:
		r.Err = d.memory.MarkIncomplete(e.Log)
	case life.CutDamage:
		if r.Err = d.openLog(id, true); r.Err == nil {
			g.cfg.emit(LogRepaired{Subgroup: id.Name, Shard: id.Shard, Damage: e.Err})
		}
	case life.SetAside:
		r.Err = d.setAside(id, e.Err)
	case life.ServeLogs:
		d.serve()
	case life.NoteSelf:
		r.Err = d.noteSelf(e.Anew)
	case life.NoteView:
		r.Err = d.memory.Enter(e.View, e.Logs)
	}
	switch {
	case r.Err == nil:
	case errors.Is(r.Err, persist.ErrDamaged) && (e.Do == life.OpenLog || e.Do == life.CutDamage):
		r.Outcome = life.Damaged
	case e.Do <= life.SetAside:
		r = life.Result{Outcome: life.Fatal, Err: fmt.Errorf("log of subgroup %q: %w", id.Name, r.Err)}
	default:
		r.Outcome = life.Fatal
	}
	return r
}

func (d *durable) serve() {
	g := d.group
	d.opening = context.Background()
	d.server = logwire.NewServer(logwire.ServerConfig{
		Cluster: g.cfg.Cluster, Find: d.find, List: d.list, Partial: d.partial, Settle: d.settle, Identity: d.identity, Open: g.cfg.OpenLogs, Reject: g.port.Reject,
	})
	g.port.Handle(port.KindLog, d.server.Serve)
}

// takeSnapshots has snapshots taken by policy until the group halts.
func (d *durable) takeSnapshots() {
	ctx, cancel := context.WithCancel(context.Background())
	for _, s := range d.group.subs {
		if a := s.snapshotter; a != nil {
			d.policy.Go(func() { a.run(ctx) })
		}
	}
	d.policy.Go(func() {
		<-d.group.halted
		cancel()
	})
}

// declaration returns the index of a log's subgroup among the persistent subgroups of the
// configuration, or -1.
func (d *durable) declaration(id persist.LogID) int {
	return slices.IndexFunc(d.group.cfg.Subgroups, func(sg SubgroupConfig) bool { return sg.Name == id.Name && sg.Mode == Persistent })
}

// keep returns a log, and opens it if it is not open.
func (d *durable) keep(id persist.LogID) (*shardLog, error) {
	if k := d.get(id); k != nil {
		return k, nil
	}
	if err := d.openLog(id, false); err != nil {
		return nil, fmt.Errorf("log of subgroup %q: %w", id.Name, err)
	}
	return d.get(id), nil
}

func (d *durable) get(id persist.LogID) *shardLog {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.logs[id]
}

// openLog opens a log that is not open, and with repair drops its damaged end.
func (d *durable) openLog(id persist.LogID, repair bool) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.logs[id] != nil {
		return nil
	}
	g := d.group
	n := d.declaration(id)
	cfg := g.cfg.Subgroups[n].Log
	k := &shardLog{room: wait.NewBell()}
	open := persist.LogConfig{
		ID: id, Engine: cfg.Engine, MemoryBytes: cfg.MemoryBytes, Retain: cfg.Retain, Sign: cfg.Sign, Repair: repair,
		Wake: func() {
			g.parker.Wake()
			k.wake()
			if a := g.subs[n].snapshotter; a != nil {
				a.grown.Ring()
			}
		},
		Failed:  func(err error) { d.failed(fmt.Errorf("log of subgroup %q: %w", id.Name, err)) },
		Damaged: func(err error) { d.jobs.add(func() { d.found(id, err) }) },
	}
	if k.log, err = descriptors.Retry(func() (*persist.Log, error) { return d.store.Log(d.opening, open) }); err != nil {
		return err
	}
	if !repair {
		d.tellTorn(k.log)
	}
	k.recorder = member.NewRecorder(member.RecorderConfig{
		Log: memberLog{k.log}, Receiver: g.apps[n], AfterPersist: cfg.DeliverAfterPersist, Memory: cfg.MemoryBytes,
		Self: g.cfg.ID, Observe: func(t order.Time) { g.member.Hear(t) },
	})
	d.logs[id] = k
	return nil
}

// memberLog is a log as package member uses it.
type memberLog struct{ *persist.Log }

func (l memberLog) Append(r *journal.Record) bool { return l.Log.Append((*persist.Record)(r)) }

// found is called for the first damage that a reader of the log finds.
func (d *durable) found(id persist.LogID, damage error) {
	damage = d.condemn(id, damage)
	d.group.cfg.emit(LogDamaged{Subgroup: id.Name, Shard: id.Shard, Damage: damage})
	if !errors.Is(damage, persist.ErrDamaged) {
		d.failed(damage) // it could not be noted
	}
}

// condemn notes that a log is damaged where it cannot be cut now, and returns the damage: the next
// process cuts it, and gets the rest from others.
func (d *durable) condemn(id persist.LogID, damage error) error {
	if !d.memory.State().Elsewhere(restart.LogID(id)) {
		return life.NowhereElse(damage)
	}
	err := d.memory.MarkIncomplete(restart.LogID(id))
	if err == nil {
		err = d.store.NoteDamage(id, damage)
	}
	if err != nil {
		return fmt.Errorf("log of subgroup %q: noting that it is damaged: %w", id.Name, err)
	}
	return damage
}

// tellTorn tells of a write that had not ended when the process before this one did.
func (d *durable) tellTorn(l *persist.Log) {
	i := l.Info()
	if r := i.Repaired; r.Blocks > 0 {
		d.group.cfg.emit(LogTorn{Subgroup: i.ID.Name, Shard: i.ID.Shard, Record: r.Record, Version: r.Version})
	}
}

// identity returns the identity of the group whose logs are here; empty: of none yet, or of one of
// an earlier format.
func (d *durable) identity() (group string, secret views.Secret) {
	s := d.memory.State()
	if s.View == nil {
		return "", secret
	}
	return s.View.Group, s.Secret
}

func (d *durable) find(id persist.LogID) *persist.Log {
	if k := d.get(id); k != nil {
		return k.log
	}
	return nil
}

// settle waits until a time is settled here. A process that is in no group yet, or no more, answers
// from what it has.
func (d *durable) settle(ctx context.Context, id persist.LogID, t Time) error {
	d.mu.Lock()
	k, running := d.logs[id], d.running
	d.mu.Unlock()
	if k == nil || !running || d.group.member.Err() != nil {
		return nil
	}
	return d.handle(id, k).settle(ctx, t)
}

// partial reports whether a log may lack what others have: it is still to get that, or this process
// works in a group and is not in the log's shard.
func (d *durable) partial(id persist.LogID) bool {
	d.mu.Lock()
	k, running := d.logs[id], d.running
	d.mu.Unlock()
	var v *views.View
	if running {
		v = d.group.member.View()
	}
	return k != nil && catchup.Partial(k.partial.Load(), v, d.group.cfg.ID, id)
}

func (d *durable) list() (ids []persist.LogID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.logs {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b persist.LogID) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Shard, b.Shard))
	})
	return ids
}

// ends returns where the logs here end, for the processes with which a group is brought back.
func (d *durable) ends() (ends []restart.LogEnd) {
	for _, id := range d.list() {
		ends = append(ends, restart.LogEnd{ID: restart.LogID(id), Last: d.find(id).End().Version})
	}
	return ends
}

// latest returns the last time in any log here.
func (d *durable) latest() (t order.Time) {
	for _, id := range d.list() {
		t = max(t, d.find(id).End().Time)
	}
	return t
}

// heldBack returns the number of messages of this process in a subgroup that are delivered, and
// wait for disks until its application sees them: once it is no member any more, no disk is waited
// for.
func (d *durable) heldBack(subgroup string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.group.member.View()
	self, _ := v.RankOf(d.group.cfg.ID)
	for _, sg := range v.Subgroups {
		if k := d.logs[shardID(sg)]; k != nil && sg.Name == subgroup && sg.Has(self) {
			n += k.recorder.HeldBack()
		}
	}
	return n
}

// shardID names the log of a subgroup of a view.
func shardID(sg views.Subgroup) persist.LogID { return persist.LogID{Name: sg.Name, Shard: sg.Shard} }

// shardLog is the log of a shard that this process is in. One that cannot be opened takes nothing,
// and the group halts here.
func (g *Group) shardLog(sg views.Subgroup) *shardLog {
	l, err := g.durable.keep(shardID(sg))
	if err != nil {
		g.durable.failed(err)
		return &shardLog{recorder: member.NewRecorder(member.RecorderConfig{Log: member.NoLog, Receiver: g.apps[g.declaration(sg)], Observe: func(order.Time) {}})}
	}
	return l
}

// recorder is what records the deliveries of a persistent subgroup of a view.
func (g *Group) recorder(v *views.View, i int) *member.Recorder {
	return g.shardLog(v.Subgroups[i]).recorder
}

// fail halts the group here. Any goroutine, once the loop runs.
func (g *Group) fail(err error) {
	g.member.Call(func() { g.member.Halt(err) })
}

// failed halts the group here, as soon as there is something to halt: until then the caller that
// writes to the log gets the error itself. It does not wait.
func (d *durable) failed(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failure = or(d.failure, err)
	if d.running {
		d.group.fail(d.failure)
	}
}

// begin is called when the loop is about to run.
func (d *durable) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running = true; d.failure != nil {
		d.group.fail(d.failure)
	}
}

// record makes a decision durable beside the loop. The logs that this process needs in the next
// view are opened there, too: the loop waits for no disk.
func (g *Group) record(v *views.View, b viewchange.Ballot, d *viewchange.Decision, done func()) {
	g.durable.jobs.add(func() {
		for _, e := range g.life.Decision(d.View) {
			err := g.durable.perform(e).Err
			if e.Do == life.NoteDecision {
				err = g.durable.memory.Echo(v.ID, b, d.View)
			}
			if err != nil {
				g.fail(fmt.Errorf("recording what follows view %d: %w", v.ID, err))
				return
			}
		}
		done()
	})
}

// entered makes it durable that a view is in force. It may come late: the decision is on disk
// already.
func (d *durable) entered(v *views.View) {
	d.jobs.add(func() {
		if err := d.memory.Installed(v); err != nil {
			d.group.fail(fmt.Errorf("recording view %d: %w", v.ID, err))
		}
	})
}

// cutAll empties a log of which the others have nothing.
func (d *durable) cutAll(id persist.LogID) error {
	k, err := d.keep(id)
	if err != nil {
		return err
	}
	had, start := k.log.Info().Count, time.Now()
	if err := k.log.Cut(order.Version{}); err != nil {
		return err
	}
	if had > 0 {
		d.group.cfg.emit(LogCaughtUp{Subgroup: id.Name, Shard: id.Shard, Cut: had, Took: time.Since(start)})
	}
	return nil
}

// catchUp has a log get what a source has.
func (d *durable) catchUp(ctx context.Context, e life.Effect) life.Result {
	id, before := persist.LogID(e.Log), order.Version{}
	if e.Last != before {
		before = catchup.After(e.Last)
	}
	start := time.Now()
	got, err := d.askForLog(ctx, id, e.Source.Addr, before, e.Keep)
	switch {
	case err == nil:
		d.tellCaughtUp(id, got, time.Since(start))
		return life.Result{}
	case ctx.Err() != nil:
		return life.Result{Outcome: life.Stopped, Err: err}
	case errors.As(err, new(catchup.OwnError)):
		return life.Result{Outcome: life.Fatal, Err: err}
	}
	d.group.cfg.emit(StateSourceFailed{Subgroup: id.Name, Shard: id.Shard, Source: e.Source.Node, Err: err})
	return life.Result{Outcome: life.Failed, Err: err, Progress: got.Progress()}
}

// askForLog has a log become that of a source, up to a version, or to its end if that is zero.
func (d *durable) askForLog(ctx context.Context, id persist.LogID, addr string, before order.Version, keep bool) (got catchup.Result, err error) {
	k, err := d.keep(id)
	if err != nil {
		return got, catchup.OwnError{Err: err}
	}
	cfg := logwire.CatchUpConfig{Cluster: d.group.cfg.Cluster, ID: id, Log: k.log, Before: before, Keep: keep}
	cfg.Dial = func(ctx context.Context) (net.Conn, error) {
		return port.Dial(ctx, addr, port.KindLog, d.group.cfg.TLS)
	}
	cfg.Group, cfg.Secret = d.identity()
	return logwire.CatchUp(ctx, cfg)
}

// tellCaughtUp tells what a log got from others, and lost.
func (d *durable) tellCaughtUp(id persist.LogID, got catchup.Result, took time.Duration) {
	if got.Records > 0 || got.Cut > 0 || got.Snapshot != (Version{}) {
		d.group.cfg.emit(LogCaughtUp{Subgroup: id.Name, Shard: id.Shard, Records: got.Records, Cut: got.Cut, Snapshot: got.Snapshot, Took: took})
	}
}

// close ends everything; what was delivered is on disk then.
func (d *durable) close() error {
	d.policy.Wait()
	d.jobs.close()
	d.group.port.Handle(port.KindLog, nil)
	d.group.port.Handle(port.KindRestart, nil)
	if d.silence != nil {
		d.silence()
	}
	if d.witness != nil {
		d.witness.Close()
	}
	if d.server != nil {
		d.server.Close()
	}
	if d.store == nil {
		return nil
	}
	return d.store.Close()
}

// jobs is a goroutine that does one thing after the other.
type jobs struct {
	mu     sync.Mutex
	queue  []func()
	bell   wait.Bell
	closed bool
	done   chan struct{}
}

func newJobs() *jobs {
	j := &jobs{bell: wait.NewBell(), done: make(chan struct{})}
	go j.run()
	return j
}

func (j *jobs) add(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	j.queue = append(j.queue, f)
	j.bell.Ring()
}

func (j *jobs) run() {
	defer close(j.done)
	for range j.bell {
		j.mu.Lock()
		queue, closed := j.queue, j.closed
		j.queue = nil
		j.mu.Unlock()
		for _, f := range queue {
			f()
		}
		if closed {
			return
		}
	}
}

// close does what is left, and waits for it.
func (j *jobs) close() {
	j.mu.Lock()
	j.closed = true
	j.bell.Ring()
	j.mu.Unlock()
	<-j.done
}
