package member

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/extension"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// Open makes this process a member of a group with objects, and returns when this process has their
// state. The objects' subgroups are added to those of cfg; everything else is as squall.Open says.
// The objects are in use until the group is closed. If the group could not be opened, they can be
// opened again.
func Open(ctx context.Context, cfg squall.Config, objects ...AnyObject) (*squall.Group, error) {
	objects, servers := withServers(objects)
	all := make([]*object, len(objects))
	cfg.Subgroups = slices.Clone(cfg.Subgroups)
	for i, x := range objects {
		o := x.core()
		sg, err := o.declaration()
		if err != nil {
			return nil, err
		}
		all[i] = o
		cfg.Subgroups = append(cfg.Subgroups, sg)
	}
	onView := cfg.OnView
	cfg.OnView = func(v *squall.View) {
		if onView != nil {
			onView(v)
		}
		for _, o := range all {
			o.viewed(v)
			o.wake.Ring()
			o.outbox.wake.Ring()
		}
	}
	if err := putTogether(&cfg, all, servers); err != nil {
		return nil, err
	}
	g, err := squall.Open(ctx, cfg)
	if err != nil {
		for _, o := range all {
			o.startAnew()
		}
		return nil, err
	}
	for _, o := range all {
		if err := o.begin(ctx, g); err != nil {
			_ = g.Close(ctx)
			return nil, err
		}
	}
	return g, nil
}

// putTogether makes objects those of one group, which is about to be opened.
func putTogether(cfg *squall.Config, all []*object, servers *Object[*servers]) error {
	shared := &inside{}
	for i, o := range all {
		if !o.opened.CompareAndSwap(false, true) {
			for _, other := range all[:i] {
				other.opened.Store(false)
			}
			return fmt.Errorf("replicated: object %q was opened before: make another one with New", o.sg.Name)
		}
		o.together, o.servers, o.inside = all, servers, shared
		o.cluster, o.logger = cfg.Cluster, cfg.Logger
		if o.logger == nil {
			o.logger = slog.Default()
		}
	}
	return nil
}

// startAnew makes the object one that was not opened, after a group could not be opened with it.
func (o *object) startAnew() {
	o.mu.Lock()
	o.reset()
	o.machine, o.failed = machine.Machine{}, nil
	o.operationsEnabled()
	o.mu.Unlock()
	o.answers.mu.Lock()
	o.answers.layouts, o.answers.waiting = nil, nil
	o.answers.mu.Unlock()
	o.delivers.Store(0)
	o.opened.Store(false)
}

// begin is called once, when the group is open, and waits for the state.
func (o *object) begin(ctx context.Context, g *squall.Group) (err error) {
	sub, err := g.Subgroup(o.sg.Name)
	if err != nil {
		return err
	}
	select {
	case <-sub.Restored():
	case <-g.Done():
		return g.Err()
	case <-ctx.Done():
		return fmt.Errorf("replicated: object %q: waiting for its state: %w", o.sg.Name, context.Cause(ctx))
	}
	o.mu.Lock()
	o.group, o.sub, o.halt = g, sub, g.Halt
	err = o.failed
	o.mu.Unlock()
	if err != nil { // while the log was replayed
		return err
	}
	o.sending.limit(cmp.Or(o.sg.RingBytes, squall.DefaultRingBytes))
	sub.Extension(extension.Key{}).BeforeLeave(o.sendAll)
	o.self.Store(uint64(g.ID()))
	go o.steward()
	go o.sendBatches()
	o.viewed(g.View())
	go o.handOver()
	go o.sendAnswers()
	return nil
}

// ready returns an error if the object is in no open group.
func (o *object) ready() error {
	if o.self.Load() == 0 {
		return fmt.Errorf("replicated: object %q: %w", o.sg.Name, ErrNotOpen)
	}
	return nil
}

// tending is what the steward keeps.
type tending struct {
	wake       wait.Bell     // it has something to look at
	announcing squall.ViewID // in which it announced the operations last
	maturing   enabling
}

// steward announces what this process can execute and, at the leader, enables operations. It ends
// with the group.
func (o *object) steward() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-o.group.Done()
		cancel()
	}()
	for ctx.Err() == nil {
		again := o.tend(ctx)
		select {
		case <-o.wake:
		case <-after(again):
		case <-ctx.Done():
		}
	}
	o.calls.giveUp(o.ended())
}

// after returns a channel that is ready after d, or never.
func after(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	return time.After(d)
}

// retry is how long the steward waits before it sends again what could not be sent.
const retry = 10 * time.Millisecond

// tend sends what is due. It returns when to look again if nothing happens, or 0.
func (o *object) tend(ctx context.Context) time.Duration {
	view := o.group.View()
	shard := shardIn(view, o.sg.Name, o.group.ID())
	if shard == 0 {
		return 0
	}
	members := peers(view, shardMembers(view, o.sg.Name, shard-1))
	self, ok := find(members, o.self.Load())
	if !ok {
		return retry // of another view
	}
	h := machine.Header{Time: now()}
	if o.sharded() {
		h.Shard = shard
	}
	o.mu.RLock()
	of := o.machine.Shard()
	var next time.Duration // until another operation may be enabled
	record, announces := o.machine.Due(h, self, members, uint64(view.ID), o.names, o.announcing == view.ID, func(ready []string) (may []string) {
		may, next = o.maturing.mature(ready, time.Now())
		return may
	})
	o.mu.RUnlock()
	if of != 0 && of != h.Shard { // the state of the shard that this process has entered is not here yet
		return retry
	}
	if announces {
		o.announcing = view.ID
	}
	var touched []uint64
	var own digest
	digested := false
	if record == nil {
		if own, digested = o.takeOwnDigest(h.Shard); digested {
			record = machine.AppendDigest(nil, h, own.count, own.sum)
		}
	}
	if record == nil {
		if touched = o.takeTouched(); len(touched) == 0 {
			return next
		}
		defer o.wake.Ring() // there may be more
		record = machine.AppendTouch(nil, h, touched)
	}
	if err := o.sub.Send(ctx, record); err != nil {
		o.announcing = 0
		for _, s := range touched {
			_, _ = o.touch(s, 0)
		}
		if digested {
			o.giveBackDigest(own)
		}
		return retry
	}
	return 0
}

// peers returns the processes of a view that have the given ids.
func peers(v *squall.View, ids []squall.NodeID) (all []machine.Peer) {
	for _, id := range ids {
		for _, m := range v.Members {
			if m.ID == id {
				all = append(all, machine.Peer{Node: uint64(id), Incarnation: m.Incarnation})
			}
		}
	}
	return all
}

// shardMembers returns the members of a shard.
func shardMembers(v *squall.View, name string, shard int) (ids []squall.NodeID) {
	if all := v.Shards(name); shard < len(all) {
		for _, r := range all[shard].Members {
			ids = append(ids, v.Members[r].ID)
		}
	}
	return ids
}

// find returns the process of a node.
func find(all []machine.Peer, node uint64) (machine.Peer, bool) {
	i := slices.IndexFunc(all, func(p machine.Peer) bool { return p.Node == node })
	if i < 0 {
		return machine.Peer{}, false
	}
	return all[i], true
}

// number returns the number of a command, and waits until it is enabled if it may be soon: as long
// as members have not announced what they can execute.
func (o *object) number(ctx context.Context, s *stay, name string) (int, error) {
	if n, ok := o.enabledFor(s, name); ok {
		return n, nil
	}
	for {
		o.mu.RLock()
		n, ok := o.numbers[name]
		changed, failed := o.enabled, o.failed
		of := o.machine.Shard()
		o.mu.RUnlock()
		if failed != nil {
			return 0, failed
		}
		if s != nil && (o.stay.Load() != s || of != 0 && of != s.shard) {
			return 0, o.elsewhere()
		}
		if ok {
			return n, nil
		}
		if b := o.bound[name]; b == nil || b.query {
			return 0, fmt.Errorf("replicated: object %q: %w %q", o.sg.Name, replicated.ErrUnknownOperation, name)
		}
		if err := o.lacking(name); err != nil {
			return 0, err
		}
		select {
		case <-changed:
		case <-time.After(retry): // a view, or an announcement, may have changed which members lack it
		case <-o.group.Done():
			return 0, fmt.Errorf("replicated: object %q: %w", o.sg.Name, o.group.Err())
		case <-ctx.Done():
			return 0, fmt.Errorf("replicated: object %q: waiting until all members have the operation %q: %w", o.sg.Name, name, context.Cause(ctx))
		}
	}
}

// lacking returns an error if a member cannot execute an operation, or if it waits to be enabled.
func (o *object) lacking(name string) error {
	shard, ok := o.sub.Shard()
	if !ok {
		return fmt.Errorf("replicated: object %q: %w", o.sg.Name, squall.ErrNotSender)
	}
	members := peers(o.group.View(), o.sub.Members(shard))
	o.mu.RLock()
	defer o.mu.RUnlock()
	lacking, silent := o.machine.Lacking(name, members)
	_, enabled := o.numbers[name] // since the caller looked
	switch {
	case enabled:
	case len(silent) > 0:
	case len(lacking) > 0:
		return fmt.Errorf("replicated: object %q: %w %q at the members %v: they run another version of the program", o.sg.Name, replicated.ErrUnknownOperation, name, lacking)
	case len(o.numbers) > 0 && o.maturing.delay != 0:
		return fmt.Errorf("replicated: object %q: %w %q: all members have it, and it is not enabled yet (EnableOperations, or squall objects enable)", o.sg.Name, replicated.ErrUnknownOperation, name)
	}
	return nil
}

// command has a command of a stay ordered.
func (o *object) command(ctx context.Context, s *stay, name string, args invoke.Encoder, p invoke.Pending) error {
	if err := o.ready(); err != nil {
		return err
	}
	n, err := o.operation(ctx, s, name, args)
	if err != nil {
		return err
	}
	if !s.begin() {
		return o.elsewhere()
	}
	defer s.end()
	number, under, err := o.calls.add(p, s)
	if err != nil {
		return err
	}
	codecFails := true
	defer func() {
		if codecFails { // it panics
			o.calls.take(number)
		}
	}()
	err = o.sendCommand(ctx, machine.Header{Operation: n, Call: number, Shard: s.number()}, args, s, under <= few)
	codecFails = false
	if err != nil && o.calls.take(number) == nil { // it was given up meanwhile: the outcome says why
		return nil
	}
	if err != nil && s != nil && o.stay.Load() != s {
		return o.elsewhere()
	}
	return err
}

// operation returns the number of an operation, which args may know.
func (o *object) operation(ctx context.Context, s *stay, name string, args invoke.Encoder) (int, error) {
	if e := o.enabledIn(s); e != nil {
		if n := args.Known(e); n >= 0 {
			return n, nil
		}
	}
	return o.number(ctx, s, name)
}

// sendCommand sends a command of a stay. A command that is alone is encoded in the ring if its size
// is known before.
func (o *object) sendCommand(ctx context.Context, h machine.Header, args invoke.Encoder, s *stay, alone bool) error {
	var head [machine.CommandBytes]byte
	if data, ok := args.Raw(); ok {
		machine.PutCommand(&head, &h)
		return o.post(ctx, head[:], data, posted{h.Call, s}, alone)
	}
	size, known := 0, false
	if alone {
		size, known = args.Size()
	}
	if known {
		c, err := o.claimAlone(machine.CommandBytes + size)
		if err == nil {
			h.Time = now()
			return fill(c, h, args)
		}
		if !waits(err) {
			return err
		}
		alone = false
	}
	machine.PutCommand(&head, &h)
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	data, err := args.AppendTo((*buf)[:0])
	if err != nil {
		return err
	}
	*buf = data[:0]
	if known && len(data) != size {
		return sizeError(len(data), size)
	}
	return o.post(ctx, head[:], data, posted{h.Call, s}, alone)
}

// fill writes a command into its room in the ring, and sends it.
func fill(c squall.Claim, h machine.Header, args invoke.Encoder) error {
	filled := false
	defer func() { // a codec that fails leaves no gap in the order
		if !filled {
			_ = c.Abort()
		}
	}()
	record, err := args.AppendTo(machine.AppendCommand(c.Bytes[:0], h))
	if err != nil {
		return err
	}
	if len(record) != len(c.Bytes) || &record[0] != &c.Bytes[0] {
		return sizeError(len(record)-machine.CommandBytes, len(c.Bytes)-machine.CommandBytes)
	}
	filled = true
	return c.Commit()
}

func sizeError(appended, said int) error {
	return fmt.Errorf("replicated: the codec appended %d bytes, and said %d", appended, said)
}

// buffers are for records that are being made.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// query runs a query on the copy of a stay.
func (o *object) query(ctx context.Context, s *stay, name string, c invoke.Consistency, r invoke.Reading) error {
	b := o.bound[name]
	if b == nil || !b.query {
		return fmt.Errorf("replicated: object %q: %w %q", o.sg.Name, replicated.ErrUnknownOperation, name)
	}
	inside, err := o.readable(ctx, s, c)
	if err != nil {
		return err
	}
	defer o.unlockRead(inside)
	typed, err := o.read(b, r)
	if typed {
		return err
	}
	return fmt.Errorf("replicated: object %q: the query %q has other types here", o.sg.Name, name)
}

// readable waits until a query may read the copy of a stay, and takes the lock for it (lockToRead).
func (o *object) readable(ctx context.Context, s *stay, c invoke.Consistency) (inside bool, err error) {
	if err := o.ready(); err != nil {
		return false, err
	}
	if err := o.named(ctx, s); err != nil {
		return false, err
	}
	if c == invoke.Linearizable {
		if err := o.inCommand(); err != nil {
			return false, err
		}
		if err := o.confirmed(ctx); err != nil {
			if s != nil && o.stay.Load() != s {
				return false, o.elsewhere()
			}
			return false, err
		}
	}
	if inside, err = o.lockToRead(); err != nil {
		return false, err
	}
	err = o.failed
	if err == nil && !o.has(s) {
		err = o.elsewhere()
	}
	if err != nil {
		o.unlockRead(inside)
	}
	return inside, err
}

// lockToRead takes a lock for invoke.Reading, which unlockRead gives back. The handler of a command
// does not wait for it, and the handler of a query only if no query called that query. Inside is
// true if the lock is nested, which the handler of a query waits for.
func (o *object) lockToRead() (inside bool, err error) {
	if o.mu.TryRLock() {
		return false, nil
	}
	if err := o.inCommand(); err != nil {
		return false, err
	}
	switch depth := o.depth(); {
	case depth == 0:
		o.mu.RLock()
		return false, nil
	case depth == 1 && o.nested.rlock():
	case depth == 1 || !o.nested.tryRLock():
		return false, o.inQuery()
	}
	return true, nil
}

// confirmed is confirm for a caller that may be in a query.
func (o *object) confirmed(ctx context.Context) error {
	if o.sub.TryConfirm() {
		return nil
	}
	if err := o.inHandler(); err != nil {
		return err
	}
	return o.confirm(ctx)
}

// confirm waits until this member has executed every command that any member had executed when the
// call began.
func (o *object) confirm(ctx context.Context) error {
	if err := o.sub.Confirm(ctx); err != nil {
		return fmt.Errorf("replicated: object %q: %w", o.sg.Name, err)
	}
	return nil
}

// Sync waits until this member has executed every command that was answered anywhere before the
// call. For an object in shards these are the commands of this member's shard.
func (c *common) Sync(ctx context.Context) error {
	o := c.object
	inside, err := o.readable(ctx, o.stay.Load(), invoke.Linearizable)
	if err != nil {
		return err
	}
	o.unlockRead(inside)
	return nil
}

// Subgroup returns the object's subgroup in its group, or nil before Open.
func (c *common) Subgroup() *squall.Subgroup {
	o := c.object
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.sub
}

// Sessions returns the number of clients' sessions.
func (c *common) Sessions() int {
	o := c.object
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.machine.Sessions()
}
