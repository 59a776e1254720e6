package restart

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/views"
)

// Config is what a process needs to take part in a restart.
type Config struct {
	Cluster string
	Self    views.Member // with a new incarnation
	Memory  *Memory
	Join    []string // addresses to ask, besides the addresses of the last view's members
	// Logs are the ends of this process's own logs, durably. It answers at once.
	Logs func() []LogEnd
	// Reconcile brings this process's own logs to the agreed ends, and nothing behind them, and
	// returns when that is durable, or the context is done. Where the process is itself a source
	// there is nothing to do. Others fetch from it meanwhile: it serves its logs. With a LogError
	// Run ends; after other errors Reconcile is called again.
	Reconcile func(ctx context.Context, plan []Agreed) error
	// Place makes the next view out of its members (see CoreConfig). It gets a new key here, if it
	// has none.
	Place func(previous *views.View, members []views.Member) (*views.View, error)
	// Persistent says which subgroups have logs.
	Persistent func(name string) bool
	// Port takes the connections for restarts while Run runs.
	Port *port.Port
	// TLS is used to dial; nil is plain.
	TLS *tls.Config
	// OnEvent is told what happens, one event at a time. It must not block.
	OnEvent func(Event)
	Times
}

// Validate reports everything that is missing.
func (c Config) Validate() error {
	var errs []error
	for _, need := range []struct {
		what string
		ok   bool
	}{
		{"a member with an id and an incarnation", c.Self.ID != 0 && c.Self.Incarnation != 0 && checkMember(c.Self) == nil},
		{"a memory", c.Memory != nil}, {"a port", c.Port != nil},
		{"Logs, Reconcile, Place and Persistent", c.Logs != nil && c.Reconcile != nil && c.Place != nil && c.Persistent != nil},
	} {
		if !need.ok {
			errs = append(errs, fmt.Errorf("restart: a configuration needs %s", need.what))
		}
	}
	return errors.Join(errs...)
}

// Run takes part in a restart until the group is back, with this process or without it. It goes on
// as long as it takes, and says what it waits for.
func Run(ctx context.Context, c Config) (Outcome, error) {
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	s := c.Memory.State()
	if err := s.belongs(c.Self.ID); err != nil {
		return Outcome{}, err
	}
	if s.View != nil && s.View.Cluster != c.Cluster {
		return Outcome{}, fmt.Errorf("restart: %w: the disk is of cluster %q, and %q is configured", ErrOtherHistory, s.View.Cluster, c.Cluster)
	}
	r := newRunner(ctx, c)
	defer r.close()
	return r.run(s)
}

// runner carries out what a Core decides. All of the core is the goroutine's that runs run.
type runner struct {
	cfg   Config
	core  *Core
	epoch time.Time
	ctx   context.Context // of everything that is begun here
	stop  context.CancelFunc
	tasks sync.WaitGroup

	inputs   chan func(now time.Duration) Effects
	sessions map[string]*session
	cancel   context.CancelFunc // of the reconciliation under way
	callers  *wire.Callers      // that dialed this process
	dialed   *wire.Callers      // that this process dialed
}

// queued is how many inputs wait for the core.
const queued = 64

func newRunner(ctx context.Context, c Config) *runner {
	r := &runner{
		cfg: c, epoch: time.Now(), inputs: make(chan func(time.Duration) Effects, queued), sessions: map[string]*session{},
		cancel: func() {}, callers: newCallers(), dialed: wire.NewCallers(0, 0, 0),
	}
	r.cfg.Times = c.Times.withDefaults()
	r.ctx, r.stop = context.WithCancel(ctx)
	return r
}

func (r *runner) run(s State) (Outcome, error) {
	c := r.cfg
	r.core = NewCore(CoreConfig{
		Cluster: c.Cluster, Self: c.Self, Join: c.Join, Logs: c.Logs, Place: r.place, Persistent: c.Persistent, Times: c.Times,
	}, s)
	c.Port.Handle(port.KindRestart, r.serve)
	defer c.Port.Handle(port.KindRestart, nil)
	next := r.core.Start
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		outcome, err := r.apply(next(time.Since(r.epoch)))
		switch {
		case err != nil:
			return Outcome{}, err
		case outcome != nil:
			return *outcome, nil
		}
		timer.Reset(max(0, r.core.Next()-time.Since(r.epoch)))
		select {
		case next = <-r.inputs:
		case <-timer.C:
			next = r.core.Tick
		case <-r.ctx.Done():
			return Outcome{}, r.ended()
		}
	}
}

// ended says that the context did, and what was waited for then.
func (r *runner) ended() error {
	if r.core.foreign != nil {
		return fmt.Errorf("restart: %s: %w; %w", r.core.waits, context.Cause(r.ctx), r.core.foreign)
	}
	if r.core.waits == "" || r.core.attempt != nil {
		return fmt.Errorf("restart: %w", context.Cause(r.ctx))
	}
	return fmt.Errorf("restart: %s: %w", r.core.waits, context.Cause(r.ctx))
}

// apply does what the core says, in its order. What is not durable is not said.
func (r *runner) apply(e Effects) (*Outcome, error) {
	if e.State != nil {
		if err := r.cfg.Memory.Keep(*e.State); err != nil {
			return nil, err
		}
	}
	if e.Stop {
		r.cancel()
	}
	if e.Reconcile != nil {
		r.reconcile(*e.Reconcile)
	}
	for _, s := range e.Sends {
		r.send(s)
	}
	for _, event := range e.Events {
		if r.cfg.OnEvent != nil {
			r.cfg.OnEvent(event)
		}
	}
	if o := e.Outcome; o != nil && o.Err != nil {
		return nil, o.Err
	}
	return e.Outcome, nil
}

// input hands the core something, unless the restart has ended.
func (r *runner) input(do func(now time.Duration) Effects) {
	select {
	case r.inputs <- do:
	case <-r.ctx.Done():
	}
}

func (r *runner) reconcile(order Reconciliation) {
	ctx, cancel := context.WithCancel(r.ctx)
	r.cancel = cancel
	r.tasks.Go(func() {
		defer cancel()
		err := r.cfg.Reconcile(ctx, order.Plan)
		r.input(func(now time.Duration) Effects { return r.core.Reconciled(now, order.Ballot, err) })
	})
}

// place gives a view its key, and its group an identity if it has none.
func (r *runner) place(previous *views.View, members []views.Member) (*views.View, error) {
	v, err := r.cfg.Place(previous, members)
	if err != nil {
		return nil, err
	}
	keyed := *v
	if v.Key() == "" || v.Key() == previous.Key() {
		keyed.SetKey(rand.Text())
	}
	if previous.Group == "" {
		keyed.Bootstrap(rand.Text(), views.NewSecret(rand.Text()+rand.Text())) // after views of an earlier format
	}
	return &keyed, nil
}

// close ends everything that was begun, and waits for it. What was said last leaves first, if a
// peer takes it.
func (r *runner) close() {
	r.cancel()
	for _, s := range r.sessions {
		close(s.out)
	}
	flushed := time.AfterFunc(r.cfg.Beat, r.stop)
	defer flushed.Stop()
	for _, s := range r.sessions {
		<-s.flushed
	}
	r.stop()
	r.callers.HangUp()
	r.dialed.HangUp()
	r.tasks.Wait()
}
