package copy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/squall-go/squall/internal/wire"
)

// version is that of the conversation; both ends have the same.
const version = 3

// hello is the first that a pusher says, in the clear.
type hello struct {
	Version int `json:"version"`
}

// greeting is the answer to it, in the clear.
type greeting struct {
	Version int    `json:"version"`
	Sealed  bool   `json:"sealed,omitempty"` // a token is needed, and all that follows is encrypted under it
	Rack    string `json:"rack,omitempty"`
}

// call is what the pusher says. One field is set.
type call struct {
	Offer   *offer  `json:"offer,omitempty"`
	Entries []entry `json:"entries,omitempty"` // as many of these as it takes
	Start   *start  `json:"start,omitempty"`   // all receivers accepted
	Verify  []byte  `json:"verify,omitempty"`  // all is sent: the digest of the digests
	Place   bool    `json:"place,omitempty"`   // all receivers have all: put the files in their places
	Keep    bool    `json:"keep,omitempty"`    // all receivers did
	Quit    string  `json:"quit,omitempty"`    // why nothing comes of it
}

// offer is how much is to be pushed.
type offer struct {
	ID      uint64 `json:"id"` // the receiver's, in this push
	Entries int    `json:"entries"`
	Force   bool   `json:"force,omitempty"`
}

// start describes the group in which the files travel.
type start struct {
	Key       string   `json:"key"`
	Members   []member `json:"members"` // the pusher first
	Algorithm uint8    `json:"algorithm,omitempty"`
	Block     int      `json:"block,omitempty"`
}

type member struct {
	ID   uint64 `json:"id"`
	Addr string `json:"addr"`
	Rack string `json:"rack,omitempty"`
}

// answer is what a receiver says. One field is set.
type answer struct {
	Refused  []string `json:"refused,omitempty"` // why it does not take the push
	Accepted bool     `json:"accepted,omitempty"`
	Pieces   int      `json:"pieces,omitempty"` // so many are hashed and written
	Ready    bool     `json:"ready,omitempty"`  // all is here, and right
	Placed   bool     `json:"placed,omitempty"`
	Kept     bool     `json:"kept,omitempty"`
	Failed   string   `json:"failed,omitempty"`
	Hearsay  bool     `json:"hearsay,omitempty"` // with Failed: it is not this receiver that failed
}

// Times of a conversation.
const (
	greetTime = 10 * time.Second // for both greetings
	silence   = 15 * time.Second // after which the other side is taken to be gone
)

// maxGreeting bounds the two greetings.
const maxGreeting = 4 << 10

var (
	errFrame   = errors.New("the other end says something that is no part of the conversation")
	errVersion = errors.New("the versions differ")
	errToken   = errors.New("the other end has another token")
	errGone    = errors.New("it is gone")
	errSilent  = fmt.Errorf("%w: nothing was heard of it for %v", errGone, silence)
	errEnded   = fmt.Errorf("%w: its connection ended", errGone)
)

// talk is one side of a conversation, over TLS if there is a token.
type talk struct {
	*wire.Conn
	stop func() // ends the pulses, once they have begun
}

// newTalk begins a conversation with a greeting.
func newTalk(conn net.Conn) *talk {
	t := &talk{Conn: converse(conn, maxGreeting)}
	t.Greet()
	return t
}

func converse(conn net.Conn, most int) *wire.Conn {
	return wire.New(conn, wire.Times{Dial: greetTime, Silence: silence, Stall: silence}, most)
}

// say sends a value. It may be called from any goroutine.
func (t *talk) say(v any) error { return gone(t.Say(v)) }

// hear reads the next value.
func (t *talk) hear(v any) error { return gone(t.Hear(v)) }

// gone is what an error of a connection means.
func gone(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, wire.ErrCorrupt):
		return fmt.Errorf("%w: %w", errFrame, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errSilent
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return errEnded
	}
	return fmt.Errorf("%w: %w", errGone, err)
}

// greeted ends the greeting. From now on the other side is shown that this one is there.
func (t *talk) greeted() {
	t.Greeted()
	t.Take(wire.MaxMessageBytes)
	t.stop = t.Pulses()
}

// close ends the conversation. What was said before reaches the other side.
func (t *talk) close() {
	t.Conn.Close() // first: a pulse may wait for a reader that takes nothing
	t.stop()
}

// heard is a value, or why there will be no more.
type heard[T any] struct {
	value T
	err   error
}

// listen reads values on a goroutine until the conversation ends or ctx does.
func listen[T any](ctx context.Context, t *talk) <-chan heard[T] {
	out := make(chan heard[T])
	go func() {
		defer close(out)
		for {
			var h heard[T]
			h.err = t.hear(&h.value)
			select {
			case out <- h:
			case <-ctx.Done():
				return
			}
			if h.err != nil {
				return
			}
		}
	}()
	return out
}

// partTime bounds how long a side that has said its last word waits for the other to hang up.
const partTime = 3 * time.Second

// partWays hangs up when the other side has heard the last word. The channel is closed when all that
// the other side says has been read.
func (t *talk) partWays(read <-chan struct{}) {
	t.HangUp(partTime)
	<-read
	t.close()
}
