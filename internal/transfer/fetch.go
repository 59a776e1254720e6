package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/squall-go/squall/internal/trust"
	"github.com/squall-go/squall/order"
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
	// Restore is the application's. It reads one source's stream; what is left of an earlier one it must drop.
	Restore func(io.Reader) error
	Trying  func(source order.NodeID) // told of each stream that begins
	Times   Times
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
	cfg.Times = cfg.Times.withDefaults()
	return &Fetch{cfg: cfg}
}

// From gets the state from one source. It fails with ErrLater, ErrRefused, a RestoreError, the end of ctx, or what went wrong on the way.
func (f *Fetch) From(ctx context.Context, source views.Member) (got Fetched, err error) {
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
		return got, &RestoreError{own}
	}
	if err := in.finish(); err != nil {
		return got, because(ctx, fmt.Errorf("after %d bytes: %w", in.total, err))
	}
	if own != nil {
		return got, &RestoreError{own}
	}
	return Fetched{source.ID, in.total, time.Since(start)}, nil
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
		err = fmt.Errorf("%w: %s", ErrLater, clip(a.Later))
	case a.Refused != "":
		err = fmt.Errorf("%w: %s", ErrRefused, clip(a.Refused))
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

// Done tells the members that keep the snapshot that it is not needed any more. It is best effort: those that do not hear it keep the
// snapshot until this member is gone.
func (f *Fetch) Done(ctx context.Context, sources []views.Member) {
	var telling sync.WaitGroup
	defer telling.Wait()
	for _, m := range sources {
		telling.Go(func() {
			for try := range doneTries {
				conn, err := f.call(ctx, m, true)
				if err == nil {
					conn.Close()
				}
				if err == nil || ctx.Err() != nil || try == doneTries-1 {
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
