package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

var (
	// ErrLater says that a source cannot give the state yet. It is no failure.
	ErrLater = errors.New("not now")
	// ErrRefused says that a source will never give the state.
	ErrRefused = errors.New("refused")
)

// RestoreError is what an application said of a stream that was right.
type RestoreError struct{ Err error }

func (e *RestoreError) Error() string { return e.Err.Error() }

func (e *RestoreError) Unwrap() error { return e.Err }

// FetchConfig describes the state that a fresh member needs.
type FetchConfig struct {
	Self     order.NodeID
	ID       *trust.Identity
	View     *views.View // in which the member is fresh
	Subgroup int         // its place in the view
	Dial     func(ctx context.Context, addr string) (net.Conn, error)
	// Restore is the application's. It reads one source's stream; what is left of an earlier one it
	// must drop.
	Restore func(io.Reader) error
	Trying  func(source order.NodeID) // told of each stream that begins
	Times   wire.Times
}

// Fetch gets a state. Package shard says from which source.
type Fetch struct{ cfg FetchConfig }

// Fetched is what came of it.
type Fetched struct {
	Source order.NodeID
	Bytes  uint64
	Took   time.Duration
}

// NewFetch prepares to get a state.
func NewFetch(cfg FetchConfig) *Fetch {
	cfg.Times = cfg.Times.WithDefaults()
	return &Fetch{cfg: cfg}
}

// From gets the state from one source. It fails with ErrLater, ErrRefused, a RestoreError, the end
// of ctx, or what went wrong on the way.
func (f *Fetch) From(ctx context.Context, source views.Member) (got Fetched, err error) {
	start := time.Now()
	c, err := f.call(ctx, source, false)
	if err != nil {
		return got, wire.Because(ctx, err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	f.cfg.Trying(source.ID)
	c.Take(maxFrameBytes)
	in := wire.NewReader(func(e *wire.Ending) (wire.Kind, []byte, error) { return c.Frame(e, nil) })
	own := f.cfg.Restore(in)
	if in.Err() == nil && !in.Ended() && own != nil {
		return got, &RestoreError{own}
	}
	if err := in.Finish(); err != nil {
		return got, wire.Because(ctx, fmt.Errorf("after %d bytes: %w", in.Total(), err))
	}
	if own != nil {
		return got, &RestoreError{own}
	}
	return Fetched{source.ID, in.Total(), time.Since(start)}, nil
}

// call asks a source, and returns the conversation if it grants what was asked.
func (f *Fetch) call(ctx context.Context, source views.Member, done bool) (*wire.Conn, error) {
	dialing, cancel := context.WithTimeout(ctx, f.cfg.Times.Dial)
	defer cancel()
	raw, err := f.cfg.Dial(dialing, source.Addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	c := wire.New(raw, f.cfg.Times, maxGreetingBytes)
	c.Greet()
	a, err := f.ask(c, source, done)
	c.Greeted()
	switch {
	case err != nil:
	case a.Later != "":
		err = fmt.Errorf("%w: %s", ErrLater, wire.Clip(a.Later, maxReasonBytes))
	case a.Refused != "":
		err = fmt.Errorf("%w: %s", ErrRefused, wire.Clip(a.Refused, maxReasonBytes))
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	return c, nil
}

// maxReasonBytes bounds why a source gives nothing.
const maxReasonBytes = 512

// ask says what this member wants. An answer that the source did not authenticate is at most a
// reason to ask again (X5).
func (f *Fetch) ask(c *wire.Conn, source views.Member, done bool) (a answer, err error) {
	v := f.cfg.View
	k, err := key(f.cfg.ID, v, f.cfg.Self, source.ID)
	if err != nil {
		return a, err
	}
	var hello challenge
	if err := c.Hear(&hello); err != nil {
		return a, err
	}
	q := request{View: v.ID, Subgroup: f.cfg.Subgroup, Node: f.cfg.Self, Done: done, Nonce: trust.NewNonce()}
	q.sign(k, hello)
	if err := c.Say(q); err != nil {
		return a, err
	}
	if err := c.Hear(&a); err != nil {
		return a, err
	}
	if a.MAC.IsZero() && a.Later != "" {
		return answer{Later: a.Later}, nil // it has not heard of the view
	}
	if err := a.check(k, q); err != nil {
		return a, fmt.Errorf("its answer: %w", err)
	}
	return a, trust.CheckCertificate(c.Conn, source.Certificate)
}

// doneTries is how often each member is told.
const doneTries = 3

// Done tells the members that keep the snapshot that it is not needed any more. It is best effort:
// members that do not receive it keep the snapshot until this member is gone.
func (f *Fetch) Done(ctx context.Context, sources []views.Member) {
	var telling sync.WaitGroup
	defer telling.Wait()
	for _, m := range sources {
		telling.Go(func() {
			for try := range doneTries {
				c, err := f.call(ctx, m, true)
				if err == nil {
					c.Close()
				}
				if err == nil || ctx.Err() != nil || try == doneTries-1 {
					return
				}
				_ = wait.Sleep(ctx, f.cfg.Times.Longest)
			}
		})
	}
}
