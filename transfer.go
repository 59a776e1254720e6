package squall

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/transfer"
	"github.com/squall-go/squall/views"
)

// nothingToRestore is closed.
var nothingToRestore = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// states hands states over: from here to fresh members of a subgroup, and to here.
type states struct {
	group   *Group
	source  *transfer.Source
	ctx     context.Context // until this process halts
	end     context.CancelCauseFunc
	pending []*receiver // those that begin to get a state with the view that is being installed. Loop.
	own     []*receiver // by declaration, the last one of each; nil: none. Loop.
	running sync.WaitGroup
}

// arrival tells when a state is here. If the state of a later view takes its place, those who wait go on waiting for that one.
type arrival struct {
	here chan struct{}
	mu   sync.Mutex
	whom *receiver // that gets the state; nil: it is here
}

func newArrival(r *receiver) *arrival { return &arrival{here: make(chan struct{}), whom: r} }

// passTo is the arrival of the one that comes next.
func (a *arrival) passTo(r *receiver) *arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.whom == nil {
		return newArrival(r)
	}
	a.whom = r
	return a
}

// of notes that one has ended: its state is here, or is not needed any more.
func (a *arrival) of(r *receiver) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.whom == r {
		a.whom = nil
		close(a.here)
	}
}

func newStates(g *Group) *states {
	s := &states{group: g, own: make([]*receiver, len(g.cfg.Subgroups))}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	s.source = transfer.NewSource(transfer.SourceConfig{
		Self: g.cfg.ID, ID: g.identity, Reject: g.port.Reject, Given: func(given transfer.Given) { g.cfg.emit(StateGiven{given}) },
		Keeps: func(name string) bool {
			return slices.ContainsFunc(g.cfg.Subgroups, func(sg SubgroupConfig) bool { return sg.Name == name && sg.handsOver() })
		},
	})
	g.port.Handle(port.KindState, s.source.Serve)
	return s
}

// fetch prepares to get the state of a subgroup in which this process is fresh.
func (s *states) fetch(v *views.View, i int, restore func(io.Reader) error) *transfer.Fetch {
	sg := v.Subgroups[i]
	return transfer.NewFetch(transfer.FetchConfig{
		Self: s.group.cfg.ID, ID: s.group.identity, View: v, Subgroup: i, Dial: s.dial, Restore: restore,
		Trying: func(source NodeID) { s.group.cfg.emit(StateRestoring{sg.Name, sg.Shard, source}) },
		Failed: func(source NodeID, err error) { s.group.cfg.emit(StateSourceFailed{sg.Name, sg.Shard, source, err}) },
	})
}

func (s *states) dial(ctx context.Context, addr string) (net.Conn, error) {
	return port.Dial(ctx, addr, port.KindState, s.group.cfg.TLS)
}

// installed takes a view, before anything is delivered in it.
func (s *states) installed(v *views.View) {
	s.source.Installed(v)
	for _, r := range s.own {
		switch {
		case r == nil:
		case r.last < v.ID:
			r.leave()
		case r.fetch != nil:
			r.fetch.Installed(v)
		}
	}
	for _, r := range s.pending {
		s.running.Go(r.run)
	}
	s.pending = nil
}

// halted ends what is not restored yet.
func (s *states) halted(reason error) { s.end(reason) }

// close ends everything, and waits for it.
func (s *states) close() {
	s.group.port.Handle(port.KindState, nil)
	s.end(ErrClosed)
	s.source.Close()
	s.running.Wait()
}

// run gets the state, and then hands over what was delivered meanwhile.
func (r *receiver) run() {
	defer close(r.ended)
	defer r.cancel(nil)
	if r.before != nil && r.before.ended != nil {
		<-r.before.ended
	}
	r.before = nil
	select {
	case <-r.ready:
	case <-r.ctx.Done():
	}
	start := time.Now()
	got, err := r.get()
	switch {
	case err == nil:
		r.catchUp(got, start)
	case errors.Is(err, transfer.ErrSuperseded):
		r.backlog.Drop()
		r.here.of(r)
	default:
		r.group.fail(err)
	}
}

// get has the application take over the state.
func (r *receiver) get() (got transfer.Fetched, err error) {
	if r.fetch != nil {
		return r.fetch.Run(r.group.states.ctx)
	}
	return got, r.take()
}

// catchUp hands over what was delivered while the application took over the state.
func (r *receiver) catchUp(got transfer.Fetched, start time.Time) {
	g := r.group
	if r.fetch != nil {
		g.states.running.Go(func() { r.fetch.Done(g.states.ctx) })
		start = time.Now()
	}
	through := r.backlog.HandOver()
	r.here.of(r)
	if !through {
		return
	}
	g.member.Call(r.through)
	if r.fetch != nil {
		g.cfg.emit(StateRestored{r.subgroup.Name, r.subgroup.Shard, got.Source, got.Bytes, got.Took, time.Since(start)})
	}
}

// handOver gives the application what was delivered while it took over the state. In a log it comes behind what the log got
// from others.
func (r *receiver) handOver(run []Message) {
	if r.log != nil {
		if !r.record(run) || r.group.cfg.Subgroups[r.declaration].Log.DeliverAfterPersist {
			return
		}
	}
	if !errors.Is(context.Cause(r.ctx), transfer.ErrSuperseded) {
		r.app.call(run)
	}
}

// record appends messages to the log, and waits for room there. It reports whether the log took all of them before the group
// halted here.
func (r *receiver) record(run []Message) bool {
	for i := range run {
		for !r.log.recorder.Take(&run[i]) {
			select {
			case <-r.log.room:
			case <-r.group.halted:
				return false
			}
		}
	}
	return true
}
