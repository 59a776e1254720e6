package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall/internal/trust"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

var (
	// ErrStateLost says that nobody is left who has the state.
	ErrStateLost = errors.New("no member is left that has the state of the subgroup")
	// ErrSuperseded says that this member is out of the subgroup, or fresh in it once more: the state is not wanted any more.
	ErrSuperseded = errors.New("the state of this view is not wanted any more")

	errRefused    = errors.New("refused")
	errSourceGone = errors.New("it is no member any more")
)

// FetchConfig describes the state that a fresh member needs.
type FetchConfig struct {
	Self     order.NodeID
	ID       *trust.Identity
	View     *views.View // in which the member is fresh
	Subgroup int         // its place in the view
	Dial     func(ctx context.Context, addr string) (net.Conn, error)
	// Restore is the application's. It reads one source's stream; what is left of an earlier one it must drop.
	Restore func(io.Reader) error
	Trying  func(source order.NodeID)            // told of each stream that begins
	Failed  func(source order.NodeID, err error) // told of each source that did not give the state, though it could have
	Times   Times
}

// Fetch gets a state. Installed may be called from any goroutine.
type Fetch struct {
	cfg FetchConfig

	mu      sync.Mutex
	now     *views.View // in force
	over    bool        // superseded
	source  views.Member
	cut     context.CancelCauseFunc // of the attempt at it; nil: there is none
	refused []order.NodeID          // who keeps no state, for good. Run's own.
	why     []error                 // the same
}

// Fetched is what came of it.
type Fetched struct {
	Source order.NodeID
	Bytes  uint64
	Took   time.Duration
}

// NewFetch prepares to get a state.
func NewFetch(cfg FetchConfig) *Fetch {
	cfg.Times = cfg.Times.withDefaults()
	return &Fetch{cfg: cfg, now: cfg.View}
}

// Installed takes a later view: only who is in it is a source.
func (f *Fetch) Installed(v *views.View) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = v
	if self, ok := f.cfg.View.RankOf(f.cfg.Self); v.ID > f.cfg.View.ID && ok {
		f.over = f.over || !waits(v, f.cfg.Subgroup, f.cfg.View.Members[self])
	}
	switch {
	case f.cut == nil:
	case f.over:
		f.cut(ErrSuperseded)
	case !slices.Contains(v.Members, f.source):
		f.cut(errSourceGone)
	}
}

// Superseded reports whether the state is not wanted any more.
func (f *Fetch) Superseded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over
}

// Supersede ends the fetch.
func (f *Fetch) Supersede() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	if f.cut != nil {
		f.cut(ErrSuperseded)
	}
}

// Run tries source after source until one gave the state. It fails with ErrStateLost, ErrSuperseded, what the application's Restore
// said of a stream that was right, or the end of ctx.
func (f *Fetch) Run(ctx context.Context) (Fetched, error) {
	for pause := f.cfg.Times.Pause; ; pause = min(2*pause, f.cfg.Times.Longest) {
		tried := map[order.NodeID]bool{}
		for range views.MaxMembers {
			source, ok, err := f.next(tried)
			if err != nil {
				return Fetched{}, err
			}
			if !ok {
				break
			}
			tried[source.ID] = true
			got, err := f.attempt(ctx, source)
			if err == nil || !f.goesOn(ctx, source.ID, err) {
				return got, f.reason(ctx, err)
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return Fetched{}, context.Cause(ctx)
		}
	}
}

// sources are those members of the view in force that were in the subgroup before this one, in the order in which this member asks
// them: fresh members begin at different ones. Those of which it was not known that they have all of the state come last.
func (f *Fetch) sources() (list []views.Member) {
	sg := f.cfg.View.Subgroups[f.cfg.Subgroup]
	var late []views.Member
	for _, r := range sg.Members {
		switch m := f.cfg.View.Members[r]; {
		case slices.Contains(sg.Fresh, r):
		case slices.Contains(sg.Partial, r):
			late = append(late, m)
		default:
			list = append(list, m)
		}
	}
	if len(list) > 0 {
		self, _ := f.cfg.View.RankOf(f.cfg.Self)
		first := slices.Index(sg.Fresh, self) % len(list)
		list = append(list[first:len(list):len(list)], list[:first]...)
	}
	return append(list, late...)
}

// next is the next source of a round.
func (f *Fetch) next(tried map[order.NodeID]bool) (source views.Member, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return source, false, ErrSuperseded
	}
	left := 0
	for _, m := range slices.Backward(f.sources()) {
		if !slices.Contains(f.now.Members, m) || slices.Contains(f.refused, m.ID) {
			continue
		}
		left++
		if !tried[m.ID] {
			source, ok = m, true
		}
	}
	if left == 0 {
		sg := f.cfg.View.Subgroups[f.cfg.Subgroup]
		return source, false, errors.Join(append([]error{fmt.Errorf("subgroup %q as of view %d: %w", sg.Name, f.cfg.View.ID, ErrStateLost)}, f.why...)...)
	}
	return source, ok, nil
}

// failure is what an application said of a stream that was right.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// goesOn reports whether another source may be tried after an error.
func (f *Fetch) goesOn(ctx context.Context, source order.NodeID, err error) bool {
	switch {
	case errors.As(err, &failure{}), ctx.Err() != nil, errors.Is(err, ErrSuperseded):
		return false
	case errors.Is(err, errLater):
		return true
	case errors.Is(err, errRefused):
		f.refused = append(f.refused, source)
		f.why = append(f.why, fmt.Errorf("node %d: %w", source, err))
	}
	f.cfg.Failed(source, err)
	return true
}

// reason is what Run ends with.
func (f *Fetch) reason(ctx context.Context, err error) error {
	var own failure
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &own):
		return fmt.Errorf("restoring subgroup %q: %w", f.cfg.View.Subgroups[f.cfg.Subgroup].Name, own.error)
	}
	return err
}

// attempt gets the state from one source.
func (f *Fetch) attempt(ctx context.Context, source views.Member) (got Fetched, err error) {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	f.aim(source, cut)
	defer f.aim(views.Member{}, nil)
	start := time.Now()
	conn, err := f.call(ctx, source, false)
	if err != nil {
		return got, because(ctx, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	f.cfg.Trying(source.ID)
	in := &reader{conn: conn, silence: f.cfg.Times.Silence}
	own := f.cfg.Restore(in)
	if in.err == nil && own != nil {
		return got, failure{own}
	}
	if err := in.finish(); err != nil {
		return got, because(ctx, fmt.Errorf("after %d bytes: %w", in.total, err))
	}
	if own != nil {
		return got, failure{own}
	}
	return Fetched{source.ID, in.total, time.Since(start)}, nil
}

// aim notes whom the attempt is at, so that Installed can end it. A source that went meanwhile is not begun with.
func (f *Fetch) aim(source views.Member, cut context.CancelCauseFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.source, f.cut = source, cut
	switch {
	case cut == nil:
	case f.over:
		cut(ErrSuperseded)
	case !slices.Contains(f.now.Members, source):
		cut(errSourceGone)
	}
}

// because puts the reason for which an attempt was ended in front of what came of that.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// call asks a source, and returns the connection if it grants what was asked.
func (f *Fetch) call(ctx context.Context, source views.Member, done bool) (net.Conn, error) {
	dialing, cancel := context.WithTimeout(ctx, f.cfg.Times.Greet)
	defer cancel()
	conn, err := f.cfg.Dial(dialing, source.Addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	a, err := f.ask(conn, source, done)
	switch {
	case err != nil:
	case a.Later != "":
		err = fmt.Errorf("%w: %s", errLater, clip(a.Later))
	case a.Refused != "":
		err = fmt.Errorf("%w: %s", errRefused, clip(a.Refused))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// ask says what this member wants. An answer that the source did not authenticate is at most a reason to ask again (X5).
func (f *Fetch) ask(conn net.Conn, source views.Member, done bool) (a answer, err error) {
	v := f.cfg.View
	k, err := key(f.cfg.ID, v, f.cfg.Self, source.ID)
	if err != nil {
		return a, err
	}
	var c challenge
	if err := hear(conn, f.cfg.Times.Greet, &c); err != nil {
		return a, err
	}
	q := request{View: v.ID, Subgroup: f.cfg.Subgroup, Node: f.cfg.Self, Done: done, Nonce: trust.NewNonce()}
	q.sign(k, c)
	if err := say(conn, f.cfg.Times.Greet, q); err != nil {
		return a, err
	}
	if err := hear(conn, f.cfg.Times.Greet, &a); err != nil {
		return a, err
	}
	if a.MAC.IsZero() && a.Later != "" {
		return answer{Later: a.Later}, nil // it has not heard of the view
	}
	if err := a.check(k, q); err != nil {
		return a, fmt.Errorf("its answer: %w", err)
	}
	return a, trust.CheckCertificate(conn, source.Certificate)
}

// clip bounds text that came from elsewhere.
func clip(text string) string { return text[:min(len(text), 512)] }

// doneTries is how often each member is told.
const doneTries = 3

// Done tells all members that keep the snapshot that it is not needed any more. It is best effort: those that do not hear it keep the
// snapshot until this member is gone.
func (f *Fetch) Done(ctx context.Context) {
	var telling sync.WaitGroup
	defer telling.Wait()
	for _, m := range f.sources() {
		telling.Go(func() {
			for range doneTries {
				conn, err := f.call(ctx, m, true)
				if err == nil {
					conn.Close()
				}
				if err == nil || ctx.Err() != nil || !f.member(m) {
					return
				}
				select {
				case <-time.After(f.cfg.Times.Longest):
				case <-ctx.Done():
				}
			}
		})
	}
}

// member reports whether a source is in the view in force.
func (f *Fetch) member(m views.Member) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.now.Members, m)
}
