package squall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/internal/catchup"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/internal/transfer"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// receiver performs one stay of this process in a shard: it takes what the shard delivers, and does
// what package shard decides. The loop owns all fields except those of the activities.
type receiver struct {
	member.Intake
	stays   *stays
	id      shard.Stay
	view    *views.View // the first one
	index   int         // of the subgroup in it
	before  *receiver   // the one of the stay before, while this one begins; nil: there is none
	log     *shardLog   // nil: the subgroup is not persistent
	arrived bool
	here    chan struct{} // closed when the state is here, or that of a later stay in its place; nil: there is nothing to wait for
	silent  atomic.Bool   // the application gets nothing more out of the backlog
	fetch   *transfer.Fetch

	// The activities', one after the other.
	last     order.Version // where the log ends, as another member told
	caught   catchup.Result
	catching time.Duration
	got      transfer.Fetched
	handing  time.Time // when the hand-over began
}

func (r *receiver) subgroup() views.Subgroup { return r.view.Subgroups[r.index] }

func (r *receiver) group() *Group { return r.stays.states.group }

func (r *receiver) config() *SubgroupConfig { return &r.group().cfg.Subgroups[r.stays.declaration] }

// begins is the Intake's.
func (r *receiver) begins(v *views.View, i int) {
	r.stays.core.Begins(r.id, v.ID, i, r.stays.states.source.Wanted(v.ID, i))
	r.stays.perform()
}

// offer takes a snapshot where the deliveries of a view begin. With a log it only marks where the
// log ends; messages that wait in the backlog are not in it yet, so that the backlog has the mark.
func (r *receiver) offer(v order.ViewID, i int) {
	source := r.stays.states.source
	f := func() {
		if source.Wanted(v, i) { // a message in a backlog is delivered later, and by then the waiting members may have the state
			source.Put(v, i, r.config().Snapshot())
		}
	}
	if r.log != nil {
		f = func() { source.Put(v, i, boundary{r.log.recorder.Last()}.write) }
	}
	switch {
	case !r.Whole() && !r.Backlog().Mark(f):
	case r.log != nil:
		f()
	default:
		r.group().apps[r.stays.declaration].mark(f)
	}
}

// arrive ends the waits for the state.
func (r *receiver) arrive() {
	if !r.arrived {
		r.arrived = true
		close(r.here)
	}
}

// run performs an activity.
func (r *receiver) run(ctx context.Context, e shard.Effect) shard.Result {
	switch e.Do {
	case shard.FetchState:
		return r.fetchState(ctx, e.Source)
	case shard.FillLog:
		return r.fillLog(ctx, e)
	case shard.EmptyLog:
		return fatal(r.group().durable.cutAll(shardID(r.subgroup())))
	case shard.SyncLog:
		return r.syncLog(ctx)
	case shard.CompleteLog:
		return r.completeLog(e.View)
	case shard.Recover:
		return r.takeOver(ctx)
	case shard.RestoreEmpty:
		return r.restoreEmpty()
	case shard.HandOver:
		r.handing = time.Now()
		if !r.Backlog().HandOver() {
			return shard.Result{Outcome: shard.Dropped}
		}
		return shard.Result{}
	}
	select {
	case <-time.After(e.Pause):
	case <-ctx.Done():
	}
	return shard.Result{}
}

// fatal is the result of what only this process itself can fail at.
func fatal(err error) shard.Result {
	if err != nil {
		return shard.Result{Outcome: shard.Fatal, Err: err}
	}
	return shard.Result{}
}

func (r *receiver) fetchState(ctx context.Context, source views.Member) shard.Result {
	got, err := r.fetch.From(ctx, source)
	var own *transfer.RestoreError
	switch {
	case err == nil:
		r.got = got
		return shard.Result{Last: r.last}
	case errors.As(err, &own):
		return fatal(fmt.Errorf("restoring subgroup %q: %w", r.subgroup().Name, own.Err))
	case errors.Is(err, transfer.ErrLater):
		return shard.Result{Outcome: shard.Later, Err: err}
	case errors.Is(err, transfer.ErrRefused):
		return shard.Result{Outcome: shard.Refused, Err: err}
	}
	return shard.Result{Outcome: shard.Failed, Err: err}
}

// restore reads what another member gives: the state or, in a persistent subgroup, where the log
// ends.
func (r *receiver) restore(in io.Reader) error {
	if r.log == nil {
		return r.config().Restore(in)
	}
	b, err := readBoundary(in)
	if err != nil {
		return fmt.Errorf("where its log ends: %w", err)
	}
	r.last = b.Last
	return nil
}

func (r *receiver) fillLog(ctx context.Context, e shard.Effect) shard.Result {
	d, id := r.group().durable, shardID(r.subgroup())
	start := time.Now()
	got, err := d.askForLog(ctx, id, e.Source.Addr, catchup.After(e.Last), false)
	r.caught.Records, r.caught.Cut, r.catching = r.caught.Records+got.Records, r.caught.Cut+got.Cut, r.catching+time.Since(start)
	if got.Snapshot != (Version{}) {
		r.caught.Snapshot = got.Snapshot
	}
	switch {
	case err == nil:
		d.tellCaughtUp(id, r.caught, r.catching)
		return shard.Result{}
	case ctx.Err() != nil || !errors.As(err, new(catchup.OwnError)):
		return shard.Result{Outcome: shard.Failed, Err: err, Progress: got.Progress()}
	case errors.Is(err, persist.ErrDamaged):
		return fatal(d.condemn(id, err))
	}
	return fatal(err)
}

func (r *receiver) syncLog(ctx context.Context) shard.Result {
	err := r.log.log.Sync(ctx)
	if ctx.Err() != nil {
		return shard.Result{Outcome: shard.Failed, Err: err}
	}
	return fatal(err)
}

func (r *receiver) completeLog(since order.ViewID) shard.Result {
	id := shardID(r.subgroup())
	if err := r.group().durable.memory.Complete(restart.LogID(id), since); err != nil {
		return fatal(fmt.Errorf("subgroup %q: its log is complete: %w", id.Name, err))
	}
	return shard.Result{}
}

func (r *receiver) restoreEmpty() shard.Result {
	if err := r.config().Restore(strings.NewReader("")); err != nil {
		return fatal(fmt.Errorf("subgroup %q: restoring from an empty reader, because its shard begins: %w", r.subgroup().Name, err))
	}
	return shard.Result{}
}

// Given implements member.Receiver.
func (r *receiver) Given(f func()) bool {
	afterDisks := r.log != nil && r.config().Log.DeliverAfterPersist // then a backlog is for the log alone
	if !r.Whole() && !afterDisks && !r.Backlog().Mark(f) {
		return false
	}
	app := r.group().apps[r.stays.declaration]
	if app.idle() {
		return true
	}
	app.mark(f)
	return false
}

// HasAll implements member.Receiver.
func (r *receiver) HasAll() bool { return r.Whole() && r.group().apps[r.stays.declaration].idle() }

// handOver gives the application what was delivered while it took over the state. In a log it comes
// after what the log got from others.
func (r *receiver) handOver(run []multicast.Message) {
	if r.log != nil {
		if !r.record(run) || r.config().Log.DeliverAfterPersist {
			return
		}
	}
	if !r.silent.Load() {
		r.deliver(run)
	}
}

// record appends messages to the log, and waits for buffer space there. It reports whether the log
// took all of them before the group halted here.
func (r *receiver) record(run []multicast.Message) bool {
	for i := range run {
		for !r.log.recorder.Take(&run[i]) {
			select {
			case <-r.log.room:
			case <-r.group().halted:
				return false
			}
		}
	}
	return true
}
