package dds

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/goroutine"
)

// QoS is a value for each policy.
type QoS = qos.Set

// Config declares a participant.
type Config struct {
	// Subgroup is the space: its name, mode, limits and log. Its functions, AsyncQueueBytes, Members, Senders, Shards and Layout must not be set: all
	// members of the group have the space. RingBytes of 0 is 2 MiB here, and Window of 0 is 16 384: all topics share the rings, and with more room
	// processes that share a processor change less often.
	Subgroup squall.SubgroupConfig
	// Unordered is a subgroup for samples that need no order, if its name is set; all members set it alike. Its Mode is Unordered, and what Subgroup
	// must not have it must not have, either. Writers send there that are BEST_EFFORT, VOLATILE and SHARED, offer no coherent access, no order by source,
	// no deadline and no manual liveliness: see Info.Position.
	Unordered squall.SubgroupConfig
	// Events is called for what happens to the writers and readers of this process, in order. It must not block.
	Events func(Event)
}

// Of the subgroups of a space, unless they are configured.
const (
	ringBytes = 2 << 20
	window    = 16 << 10
)

// Participant is this process's part in a space of topics.
type Participant struct {
	cfg     Config
	err     error // of the declaration
	group   *squall.Group
	cluster string
	sub     *squall.Subgroup
	loose   *squall.Subgroup // for samples that need no order; nil: there is none
	self    space.Process

	mu      sync.Mutex
	space   space.Space
	changed chan struct{}         // closed when records were applied while a call waits, and made anew
	waits   int                   // calls that wait
	number  uint32                // of the last endpoint of this process
	set     uint64                // number of the last coherent set
	calls   map[uint64]chan error // what waits for the result of a record of this process, by the number of the call
	called  uint64                // number of the last call
	closing bool
	told    []space.Event  // within a batch
	telling bool           // a goroutine calls Events
	version squall.Version // of the last record that was applied
	changes uint64         // records that were no samples
	stalled bool           // a reader had no room for the next record

	keeper  *keeper       // of a space with the mode Ordered; otherwise nil
	client  *client       // of a process outside of the group; nil: this is a member
	hearers goroutine.Set // call listeners, other than on the group's loop
	binders binders
	clients map[uint32]*attended // endpoints that this process has for clients, by their numbers

	time  atomic.Int64 // of samples
	fresh atomic.Int32 // samples that it is still used for

	views    chan struct{}
	rostered squall.ViewID // whose roster this process sent last
	done     chan struct{}
	ended    sync.WaitGroup
}

// Errors of this package; package qos has the errors of policies.
var (
	// ErrNotOpen is returned before Open and after Close.
	ErrNotOpen = errors.New("dds: the participant is not open")
	// ErrUnknown is returned for a topic, a writer or a reader that the space does not have, or not any more.
	ErrUnknown = space.ErrUnknown
	// ErrInUse is returned for a topic that is to be forgotten and has writers or readers.
	ErrInUse = space.ErrInUse
	// ErrInconsistentTopic is returned where a topic has another type, or other policies.
	ErrInconsistentTopic = space.ErrInconsistentTopic
	// ErrImmutable is returned for a policy that cannot be changed.
	ErrImmutable = space.ErrImmutable
)

// NewParticipant returns a participant, which Open makes a member of a group.
func NewParticipant(cfg Config) *Participant {
	p := &Participant{cfg: cfg, calls: map[uint64]chan error{}, changed: make(chan struct{}), views: make(chan struct{}, 1), done: make(chan struct{})}
	sg := &p.cfg.Subgroup
	if sg.Mode == squall.Unordered {
		p.err = errors.New("a space has an order: Mode must not be Unordered")
	}
	p.err = errors.Join(p.err, whole(sg))
	sg.DeliverSome, sg.Snapshot, sg.Restore = p.deliver, p.snapshot, p.restore
	sg.RingBytes, sg.Window = cmp.Or(sg.RingBytes, ringBytes), cmp.Or(sg.Window, window)
	if sg.Mode == squall.Ordered {
		p.keeper = newKeeper(p, sg)
	}
	if loose := &p.cfg.Unordered; loose.Name != "" {
		if loose.Mode != squall.Unordered && loose.Mode != squall.Ordered {
			p.err = errors.Join(p.err, errors.New("the mode of the subgroup without an order is Unordered"))
		}
		p.err = errors.Join(p.err, whole(loose))
		loose.Mode, loose.DeliverBatch = squall.Unordered, p.pass
		loose.RingBytes, loose.Window = cmp.Or(loose.RingBytes, ringBytes), cmp.Or(loose.Window, window)
	}
	p.space.Told = func(e space.Event) { p.told = append(p.told, e) }
	return p
}

// whole returns what a subgroup of a participant must not have.
func whole(sg *squall.SubgroupConfig) (err error) {
	if sg.Deliver != nil || sg.DeliverBatch != nil || sg.DeliverSome != nil || sg.AsyncQueueBytes != 0 || sg.Snapshot != nil || sg.Restore != nil {
		err = errors.New("the functions of the subgroup belong to the participant, and there is no queue in front of them")
	}
	if len(sg.Senders) > 0 || sg.Shards > 1 {
		err = errors.Join(err, errors.New("all members send: Senders must be empty and Shards not more than 1"))
	}
	if len(sg.Members) > 0 || sg.MaxMembers > 0 || sg.Layout != nil || sg.LayoutName != "" {
		err = errors.Join(err, errors.New("all members of the group have the space: Members, MaxMembers and Layout must not be set"))
	}
	return err
}

// Open makes this process a member of a group with the space, and returns when this process has the state. The
// subgroup of the space is added to the subgroups of cfg. A participant is opened once.
func (p *Participant) Open(ctx context.Context, cfg squall.Config) error {
	if p.err != nil {
		return fmt.Errorf("dds: space %q: %w", p.cfg.Subgroup.Name, p.err)
	}
	if p.group != nil || p.client != nil {
		return fmt.Errorf("dds: space %q was opened before", p.cfg.Subgroup.Name)
	}
	cfg.Subgroups = append(append([]squall.SubgroupConfig(nil), cfg.Subgroups...), p.cfg.Subgroup)
	if p.cfg.Unordered.Name != "" {
		cfg.Subgroups = append(cfg.Subgroups, p.cfg.Unordered)
	}
	onView := cfg.OnView
	cfg.OnView = func(v *squall.View) {
		if onView != nil {
			onView(v)
		}
		select {
		case p.views <- struct{}{}:
		default:
		}
	}
	g, err := squall.Open(ctx, cfg)
	if err != nil {
		return err
	}
	p.group, p.cluster = g, cfg.Cluster
	if err := p.begin(ctx); err != nil {
		return errors.Join(err, p.Close(ctx))
	}
	return nil
}

func (p *Participant) begin(ctx context.Context) (err error) {
	sub, err := p.group.Subgroup(p.cfg.Subgroup.Name)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.sub = sub
	p.mu.Unlock()
	if p.cfg.Unordered.Name != "" {
		if p.loose, err = p.group.Subgroup(p.cfg.Unordered.Name); err != nil {
			return err
		}
	}
	select {
	case <-p.sub.Restored():
	case <-p.group.Done():
		return p.group.Err()
	case <-ctx.Done():
		return fmt.Errorf("dds: waiting for the state of space %q: %w", p.sub.Name(), context.Cause(ctx))
	}
	p.mu.Lock()
	for _, m := range p.group.View().Members {
		if m.ID == p.group.ID() {
			p.self = space.Process{Node: uint64(m.ID), Incarnation: m.Incarnation}
		}
	}
	p.mu.Unlock()
	p.ended.Go(p.steward)
	return nil
}

// Group returns the group, once the participant is open. A client has none.
func (p *Participant) Group() *squall.Group { return p.group }

// Subgroup returns the subgroup that is the space, once the participant is open. A client has none.
func (p *Participant) Subgroup() *squall.Subgroup { return p.sub }

// Close ends the part of this process: its readers take nothing any more, its writers end at one position everywhere, and the process
// leaves the group.
func (p *Participant) Close(ctx context.Context) error {
	if p.client != nil {
		return p.client.close(ctx)
	}
	if p.group == nil {
		return nil
	}
	p.mu.Lock()
	if !p.closing {
		p.closing = true
		close(p.done)
	}
	p.wake()
	p.roomy()
	p.ended.Wait()
	return p.group.Close(ctx)
}

// Position is the number of records that this process has applied: two participants at one position are in the same state.
func (p *Participant) Position() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.space.Position()
}

// deliver applies records, and tells what happened. It takes none that a reader has no room for.
func (p *Participant) deliver(batch []squall.Message) (taken int) {
	p.fresh.Store(0)
	p.mu.Lock()
	stays, largest, first := p.keeper.stays(), 0, p.space.Position()+1
	// One record for all, filled field by field and not copied: a processor that copies a whole record right after that waits until
	// the fields are stored.
	var r space.Record
	for taken < len(batch) {
		m := &batch[taken]
		r.View, r.Sender, r.Data = uint64(m.View), uint64(m.Sender), m.Data
		r.Stays = stays && len(m.Data) <= p.keeper.largest && m.Body() == nil
		applied, err := p.space.TryApply(&r)
		if !applied {
			if !p.closing {
				p.stalled = true
				break
			}
			err = p.space.Apply(r)
		}
		taken++
		largest = max(largest, len(m.Data))
		if space.IsSample(m.Data) {
			continue
		}
		p.changes++
		if call := space.Call(m.Data); call != 0 && r.Sender == p.self.Node && p.self.Node != 0 && !m.Replayed() {
			if result := p.calls[call]; result != nil {
				result <- err
			}
		}
	}
	if taken > 0 {
		p.version = batch[taken-1].Version()
	}
	p.space.Settle()
	switch {
	case !stays || taken == 0:
	case largest > p.keeper.largest: // such messages need room in one piece
		p.keeper.letGo()
	default:
		p.keeper.delivered(run{batch[0].Seq, first, p.space.Position()})
	}
	p.wake()
	p.tellAll()
	serves := len(p.clients) > 0
	p.mu.Unlock()
	if serves { // the goroutines that send to clients may share the only processor with the loop, which goes on while there is something to deliver
		runtime.Gosched()
	}
	return taken
}

// pass gives samples without an order to the readers of this process.
func (p *Participant) pass(batch []squall.Message) {
	p.mu.Lock()
	for i := range batch {
		p.space.Pass(space.Record{Sender: uint64(batch[i].Sender), Data: batch[i].Data})
	}
	p.tellAll()
	p.mu.Unlock()
}

// roomy ends a section under the lock that made room.
func (p *Participant) roomy() {
	resume := p.stalled
	p.stalled = false
	p.mu.Unlock()
	switch {
	case !resume:
	case p.client != nil:
		p.client.roomy()
	case p.sub != nil:
		p.sub.Resume()
	}
}

// wait waits until something changes. The lock is held, and released meanwhile.
func (p *Participant) wait(ctx context.Context) error { return p.waitUntil(ctx, nil) }

// waitUntil is wait, and returns when something comes on at, too.
func (p *Participant) waitUntil(ctx context.Context, at <-chan time.Time) error {
	changed := p.changed
	p.waits++
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-changed:
	case <-at:
	case <-p.done:
		return ErrNotOpen
	case <-p.over():
		return p.cause()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// over is closed when the group is over. A client does not know.
func (p *Participant) over() <-chan struct{} {
	if p.group == nil {
		return nil
	}
	return p.group.Done()
}

// cause is why the group is over.
func (p *Participant) cause() error { return cmp.Or(p.group.Err(), ErrNotOpen) }

// wake wakes all calls that wait. The lock is held.
func (p *Participant) wake() {
	if p.waits > 0 {
		p.waits = 0
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// control sends a record and waits until it is applied here.
func (p *Participant) control(ctx context.Context, record func(now int64) ([]byte, error)) error {
	if p.sub == nil {
		return ErrNotOpen
	}
	data, err := record(now())
	if err != nil {
		return err
	}
	result := make(chan error, 1)
	p.mu.Lock()
	p.called++
	call := p.called
	p.calls[call] = result
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.calls, call)
		p.mu.Unlock()
	}()
	space.SetCall(data, call)
	if err := p.sub.Send(ctx, data); err != nil {
		return err
	}
	select {
	case err := <-result:
		return err
	case <-p.group.Done():
		return p.cause()
	case <-ctx.Done(): // the record takes effect nevertheless
		return context.Cause(ctx)
	}
}

// now is the wall clock, in nanoseconds since the Unix epoch. It is read once a second; the monotonic clock, which costs half as much, tells what has
// passed since.
func now() int64 {
	at := lastRead.Load()
	if at != nil {
		if since := time.Since(*at); since < time.Second {
			return at.UnixNano() + int64(since)
		}
	}
	t := time.Now()
	lastRead.Store(&t)
	return t.UnixNano()
}

var lastRead atomic.Pointer[time.Time]

// Samples that are written before anything else happens here have one time: reading the clock costs as much as all the rest. A time is used for so
// many of them, and not beyond the next delivery or look of the steward.
const samplesOfATime = 16

// sampleTime is the time of a sample that is written now.
func (p *Participant) sampleTime() int64 {
	if p.fresh.Add(-1) > 0 {
		return p.time.Load()
	}
	t := now()
	p.time.Store(t)
	p.fresh.Store(samplesOfATime)
	return t
}

func (p *Participant) snapshot() func(io.Writer) error {
	p.mu.Lock()
	write := p.space.Snapshot()
	p.mu.Unlock()
	return func(w io.Writer) error { return write(yielding{w}) }
}

// yielding is a writer of a long state, which is written beside everything else that this process does: others have the processor first.
type yielding struct{ w io.Writer }

func (y yielding) Write(b []byte) (int, error) {
	runtime.Gosched()
	return y.w.Write(b)
}

func (p *Participant) restore(r io.Reader) error {
	in, state := bufio.NewReader(r), &space.Space{}
	if _, err := in.Peek(1); err == nil {
		if state, err = space.ReadState(in); err != nil {
			return err
		}
	} else if err != io.EOF { // the space begins
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.space.Replace(state)
	return nil
}

// steward sends, at the first member of the space, the roster of each view, the deadlines that were missed, and the leases that have ended. It runs at every
// member, because any of them may become the first.
func (p *Participant) steward() {
	ctx, cancel := p.lifetime()
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-p.views:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		timer.Reset(p.tend(ctx))
	}
}

// lifetime returns a context that ends with the participant.
func (p *Participant) lifetime() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		select {
		case <-p.done:
		case <-p.group.Done():
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// Times between two looks of the steward. A missed deadline, and the end of a lease, is ordered within a quarter of it.
const (
	leastLook = 2 * time.Millisecond
	mostLook  = 250 * time.Millisecond
)

// tend sends what is due, and returns when to look again.
func (p *Participant) tend(ctx context.Context) time.Duration {
	p.fresh.Store(0)
	v := p.group.View()
	p.mu.Lock()
	roster, patience := p.space.Roster(), p.space.LeastPatience()
	p.mu.Unlock()
	if first := p.sub.Members(0); v == nil || len(first) == 0 || first[0] != p.group.ID() {
		return mostLook
	}
	// Records are sent without waiting for them: what is delivered here may be held up by a reader.
	if roster < uint64(v.ID) && p.rostered != v.ID {
		members := make([]space.Process, len(v.Members))
		for i, m := range v.Members {
			members[i] = space.Process{Node: uint64(m.ID), Incarnation: m.Incarnation}
		}
		data, err := space.AppendRoster(nil, now(), uint64(v.ID), members)
		if err == nil && p.sub.Send(ctx, data) == nil {
			p.rostered = v.ID
		}
	}
	if patience == 0 {
		return mostLook
	}
	p.mu.Lock()
	missed, silent := p.space.Lapses(now()), p.space.Silences(now())
	p.mu.Unlock()
	for _, l := range missed {
		if data, err := space.AppendLapse(nil, now(), l); err == nil {
			_ = p.sub.Send(ctx, data) // if it fails, the next look finds it again
		}
	}
	for _, l := range silent {
		if data, err := space.AppendSilence(nil, now(), l); err == nil {
			_ = p.sub.Send(ctx, data) // as above
		}
	}
	return min(max(patience/4, leastLook), mostLook)
}

// mayWait returns ErrInUpcall if the caller, which is about to wait for buffer space, is a listener: what it would wait for may wait
// for the listener.
func (p *Participant) mayWait() error {
	if p.hearers.HasCaller() {
		return squall.ErrInUpcall
	}
	return nil
}
