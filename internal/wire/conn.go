package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is one side of a conversation. One goroutine reads; any may write.
type Conn struct {
	net.Conn
	times Times
	in    frames
	until atomic.Int64 // the end of the greeting, or of everything, in nanoseconds since 1970; 0: each frame has a time of its own

	mu  sync.Mutex
	err error // of what was written; the first one stays
}

// New begins a conversation in which frames of at most so many bytes are taken.
func New(c net.Conn, t Times, most int) *Conn {
	conversation := &Conn{Conn: c, times: t.WithDefaults()}
	conversation.in = frames{in: c, most: most, before: conversation.await}
	return conversation
}

// Take changes how many bytes a frame may have from now on.
func (c *Conn) Take(most int) { c.in.most = most }

// Greet begins a greeting: until Greeted, everything that is read and written has one deadline
// (CV3).
func (c *Conn) Greet() { c.end(c.times.Dial) }

// Greeted ends the greeting.
func (c *Conn) Greeted() { c.until.Store(0) }

func (c *Conn) end(within time.Duration) { c.until.Store(time.Now().Add(within).UnixNano()) }

// by is the deadline of what is begun now and may take so long.
func (c *Conn) by(within time.Duration) time.Time {
	if until := c.until.Load(); until != 0 {
		return time.Unix(0, until)
	}
	return time.Now().Add(within)
}

// await sets the deadline of what is read next (CV3).
func (c *Conn) await() error { return c.SetReadDeadline(c.by(c.times.Silence)) }

// Send sends a frame that has room for its header in front (NewFrame). A peer that takes nothing
// must not keep it for ever.
func (c *Conn) Send(k Kind, frame []byte) error {
	seal(k, frame)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = c.SetWriteDeadline(c.by(c.times.Stall))
	}
	if c.err == nil {
		_, c.err = c.Write(frame)
	}
	return c.err
}

// Broken is why nothing can be written any more; nil: it can.
func (c *Conn) Broken() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Say sends a message.
func (c *Conn) Say(v any) error { return c.SayAs(Message, v) }

// SayAs sends a value as JSON, in a frame of another kind.
func (c *Conn) SayAs(k Kind, v any) error {
	frame, err := encode(v)
	if err != nil {
		return err
	}
	return c.Send(k, frame)
}

// Next reads one frame, which may be a pulse. The bytes of a Bytes frame are valid until the next
// call, the bytes of other frames for ever.
func (c *Conn) Next() (Kind, []byte, error) { return c.in.next() }

// Hear reads a message. Pulses before it are skipped.
func (c *Conn) Hear(v any) error {
	for {
		k, bytes, err := c.Next()
		switch {
		case err != nil:
			return err
		case k != Pulse:
			return message(k, bytes, v)
		}
	}
}

// Pulses shows that this side lives, until stop, which waits for the last of them.
func (c *Conn) Pulses() (stop func()) { return c.repeat(c.pulse) }

func (c *Conn) pulse() error { return c.Send(Pulse, NewFrame(0)) }

// repeat does something in each interval of pulses, until stop or an error.
func (c *Conn) repeat(do func() error) (stop func()) {
	var sending sync.WaitGroup
	over := make(chan struct{})
	sending.Go(func() {
		tick := time.NewTicker(c.times.Pulse)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if do() != nil {
					return
				}
			case <-over:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(over)
		sending.Wait()
	})
}

// Ending is what an answer or a stream finishes with.
type Ending struct {
	Count uint64 `json:"count"`         // what was sent: bytes of a stream, or as the protocol says
	Sum   uint32 `json:"sum,omitempty"` // of the bytes
	Code  string `json:"code,omitempty"`
	Text  string `json:"text,omitempty"` // what is wrong; with Code
}

// Remote is what the other side said that is wrong. Its texts are bounded.
type Remote struct{ Code, Text string }

func (r *Remote) Error() string { return "the other side says: " + r.Text }

// maxTextBytes bounds the texts of a Remote.
const maxTextBytes = 1024

// Fail ends what was asked for with an error, by the name that the protocol has for it.
func (e *Ending) Fail(code string, err error) { e.Code, e.Text = code, Clip(err.Error(), maxTextBytes) }

// Frame reads the next frame of an answer or a stream. Pulses are skipped; each calls heard, which
// may be nil, and so does every frame but an end. The error of an end is io.EOF if all is well, and
// else a Remote.
func (c *Conn) Frame(e *Ending, heard func()) (Kind, []byte, error) {
	for {
		k, bytes, err := c.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // an end has a frame of its own
			}
			return 0, nil, err
		}
		if k == End {
			return 0, nil, e.take(bytes)
		}
		if heard != nil {
			heard()
		}
		if k != Pulse {
			return k, bytes, nil
		}
	}
}

// take reads an end.
func (e *Ending) take(bytes []byte) error {
	if err := Decode(bytes, e); err != nil {
		return err
	}
	if e.Code != "" {
		return &Remote{Clip(e.Code, maxTextBytes), Clip(e.Text, maxTextBytes)}
	}
	return io.EOF
}

// HangUp says that nothing more will be written, and bounds what is still read. Closing at once
// would be wrong: a message of the peer that is still on its way would reset the connection, and
// the last one of this side could be lost with it.
func (c *Conn) HangUp(within time.Duration) {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // a connection that is broken already ends the reader just as well
	}
	c.end(within)
	_ = c.await() // of the read that waits
}

// Because puts the cause of the end of a context in front of what came of that end.
func Because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
