package rdmc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/squall-go/squall/internal/progress"
	"github.com/squall-go/squall/internal/relay"
)

// Start begins to send a message, and returns at once. Several may be in progress; they arrive in
// the order of these calls.
func (g *Group) Start(o Outgoing) (*Sending, error) {
	if o.Filled < 0 || o.Filled > int64(len(o.Data)) {
		o.Filled = int64(len(o.Data))
	}
	s := &Sending{group: g, out: o, size: int64(len(o.Data))}
	s.hold, s.place, s.claimed = g.node.space.Hold(o.Data)
	if err := s.begin(); err != nil {
		if s.claimed {
			s.hold.Drop(false)
		}
		return nil, err
	}
	return s, nil
}

// begin gives the message to the relay.
func (s *Sending) begin() (err error) {
	s.group.do(func(r *relay.Relay, out *relay.Effects) {
		if err = s.start(r, out); err == nil {
			s.group.sendings[s.started.Number] = s
		}
	})
	return public(err)
}

// Send sends a message, and returns when data may be used again. If ctx ends before that, the
// message is given up at every member.
//
// If data is memory of Alloc and a receiver still looks at it when ctx ends, the error wraps
// ErrInUse too: the memory must not be written any more, only released.
func (g *Group) Send(ctx context.Context, data []byte) error {
	sent, everywhere := make(chan error, 1), make(chan error, 1)
	s, err := g.Start(Outgoing{
		Data: data, Filled: -1, Sent: func(err error) { sent <- err }, Everywhere: func(err error) { everywhere <- err },
	})
	if err != nil {
		return err
	}
	return s.await(ctx, sent, everywhere)
}

// await waits until sent tells that the data may be used again. When ctx ends, it gives the message
// up.
func (s *Sending) await(ctx context.Context, sent, everywhere <-chan error) error {
	select {
	case err := <-sent:
		return err
	case <-ctx.Done():
	}
	s.Abort(context.Cause(ctx))
	select {
	case err := <-sent:
		return s.given(ctx, err)
	case <-everywhere:
	}
	select {
	case err := <-sent: // it is told first if no goroutine looks at the data
		return s.given(ctx, err)
	default:
		return fmt.Errorf("%w: %w", context.Cause(ctx), ErrInUse)
	}
}

// given is the result of a message that was given up when ctx ended.
func (s *Sending) given(ctx context.Context, err error) error {
	if err == nil && s.wasWithdrawn() {
		return context.Cause(ctx)
	}
	return err
}

func (s *Sending) wasWithdrawn() bool {
	s.group.mu.Lock()
	defer s.group.mu.Unlock()
	return s.started.Withdrawn()
}

const (
	// fillBytes is how much SendFrom reads at a time.
	fillBytes = 256 << 10
	// aheadBytes is how much SendFrom reads ahead of what the schedule needs, if it keeps a window
	// only.
	aheadBytes = 8 << 20
)

// errUnread is why a message is given up whose reader does not return.
var errUnread = errors.New("its reader panicked")

// SendFrom sends size bytes that it reads. Blocks leave while later ones are still being read. If r
// fails, or returns neither bytes nor an error a hundred times in a row (io.ErrNoProgress), or ctx
// ends, the message is given up at every member.
//
// Memory: where all members see memory of this process (Alloc), the message lies there once, for
// all of them. Elsewhere, if the schedule sends each block soon after the one before, as the
// schedules that are chosen for large messages do, a window of some blocks and 8 MiB is kept; with
// the others the whole message is, until it has left.
func (g *Group) SendFrom(ctx context.Context, r io.Reader, size int64) error {
	if size < 0 || size > g.cfg.MaxMessageBytes {
		return fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, size, g.cfg.MaxMessageBytes)
	}
	sent, everywhere := make(chan error, 1), make(chan error, 1)
	out := Outgoing{Sent: func(err error) { sent <- err }, Everywhere: func(err error) { everywhere <- err }}
	var s *Sending
	window, err := g.window(size)
	if err != nil {
		return err
	}
	if window > 0 {
		s = &Sending{group: g, out: out, size: size, window: make([]byte, window)}
		err = s.begin()
	} else {
		var memory *Memory
		if memory, err = g.allocFor(int(size)); err != nil {
			return err
		}
		defer memory.Release() // not used again while a receiver looks at it
		out.Data = memory.Bytes()
		s, err = g.Start(out)
	}
	if err != nil {
		return err
	}
	filled := false
	defer func() {
		if !filled { // the reader panicked
			s.Abort(errUnread)
		}
	}()
	err = s.fill(ctx, progress.Reader(r))
	if filled = true; err != nil {
		s.Abort(err)
		return <-sent
	}
	return s.copied(ctx, sent, everywhere)
}

// copied waits until a message has left. Receivers may look at the memory for longer: it is not the
// caller's.
func (s *Sending) copied(ctx context.Context, sent, everywhere <-chan error) (err error) {
	select {
	case err = <-sent:
		return err
	case err = <-everywhere:
		return err
	case <-ctx.Done():
	}
	s.Abort(context.Cause(ctx))
	select {
	case err = <-sent:
	case err = <-everywhere:
	}
	return s.given(ctx, err)
}

// window is how many bytes of a message SendFrom keeps at a time; 0: all of it.
func (g *Group) window(size int64) (int64, error) {
	if g.isSeen() {
		return 0, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	span, err := g.relay.Span(size)
	if err != nil {
		return 0, err
	}
	block := int64(g.relay.BlockBytes(size)) // a whole number of them, so that none wraps
	blocks := (span + aheadBytes + block - 1) / block
	if blocks*block > size/2 {
		return 0, nil
	}
	return blocks * block, nil
}

// fill reads the message, and announces what was read. It returns early, without an error, if the
// message was given up meanwhile.
func (s *Sending) fill(ctx context.Context, r io.Reader) error {
	stop := context.AfterFunc(ctx, func() {
		s.group.mu.Lock()
		defer s.group.mu.Unlock()
		s.group.conds.toFill.Broadcast()
	})
	defer stop()
	for n := int64(0); n < s.size; {
		into := s.room(ctx, n)
		if into == nil {
			return nil // await finds out why
		}
		more, err := io.ReadFull(r, into)
		n += int64(more)
		if err != nil {
			return fmt.Errorf("reading byte %d of %d: %w", n, s.size, err)
		}
		s.Fill(n)
	}
	return nil
}

// room is where to read on from byte n; nil: ctx ended, or the message was given up. It waits until
// the window has room.
func (s *Sending) room(ctx context.Context, n int64) []byte {
	g := s.group
	g.mu.Lock()
	defer g.mu.Unlock()
	end := min(n+fillBytes, s.size)
	for ctx.Err() == nil && s.told == 0 {
		if s.window == nil {
			return s.out.Data[n:end]
		}
		length := int64(len(s.window))
		at := n % length
		end = min(end, n+length-at)
		if end-g.relay.Needed(s.started) <= length {
			return s.window[at:][:end-n]
		}
		g.conds.toFill.Wait()
	}
	return nil
}
