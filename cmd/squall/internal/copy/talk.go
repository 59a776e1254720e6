package copy

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// version is that of the conversation; both ends have the same.
const version = 2

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

// call is what the pusher says. One field is set; none is a pulse.
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

// answer is what a receiver says. One field is set; none is a pulse.
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
	pulseTime = time.Second      // how often each side shows that it is there
	silence   = 15 * time.Second // after which the other one is not
)

const (
	lengthBytes = 4
	maxGreeting = 4 << 10
	maxFrame    = 1 << 20
)

var (
	errFrame   = errors.New("the other end says something that is no part of the conversation")
	errVersion = errors.New("the versions differ")
	errToken   = errors.New("the other end has another token")
	errGone    = errors.New("it is gone")
	errSilent  = fmt.Errorf("%w: nothing was heard of it for %v", errGone, silence)
	errEnded   = fmt.Errorf("%w: its connection ended", errGone)
)

// talk is one side of a conversation: frames of a length and JSON, over TLS if there is a token. It
// is closed with close.
type talk struct {
	conn        net.Conn
	mu          sync.Mutex // of what is said
	stop        chan struct{}
	stopPulses  sync.Once
	pulsesEnded sync.WaitGroup
}

func newTalk(conn net.Conn) *talk { return &talk{conn: conn, stop: make(chan struct{})} }

// say sends a value. It may be called from any goroutine.
func (t *talk) say(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	frame := append(make([]byte, lengthBytes, lengthBytes+len(body)), body...)
	if len(frame) > lengthBytes+maxFrame {
		return fmt.Errorf("a message of %d bytes, of at most %d", len(frame), maxFrame)
	}
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-lengthBytes))
	_ = t.conn.SetWriteDeadline(time.Now().Add(silence)) // it fails only if the write will
	_, err = t.conn.Write(frame)
	return gone(err)
}

// hear reads the next value.
func (t *talk) hear(v any, most int) error {
	var header [lengthBytes]byte
	if _, err := io.ReadFull(t.conn, header[:]); err != nil {
		return gone(err)
	}
	length := binary.LittleEndian.Uint32(header[:])
	if int64(length) > int64(most) {
		return fmt.Errorf("%w: %d bytes of at most %d", errFrame, length, most)
	}
	var frame bytes.Buffer // it grows with what comes: announcing much costs who announces
	if _, err := io.CopyN(&frame, t.conn, int64(length)); err != nil {
		return gone(err)
	}
	if err := json.Unmarshal(frame.Bytes(), v); err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	return nil
}

// gone is what the end of a connection means.
func gone(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errSilent
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return errEnded
	}
	return fmt.Errorf("%w: %w", errGone, err)
}

// pulse shows the other side that this one is there, until the conversation is closed.
func (t *talk) pulse() {
	_ = t.conn.SetDeadline(time.Time{})
	t.pulsesEnded.Go(func() {
		ticker := time.NewTicker(pulseTime)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				if t.say(struct{}{}) != nil {
					return // the reader will find out
				}
			case <-t.stop:
				return
			}
		}
	})
}

// close ends the conversation. What was said before reaches the other side.
func (t *talk) close() {
	t.stopPulses.Do(func() { close(t.stop) })
	t.conn.Close()
	t.pulsesEnded.Wait()
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
			_ = t.conn.SetReadDeadline(time.Now().Add(silence))
			h.err = t.hear(&h.value, maxFrame)
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

// partWays hangs up when the other side has heard the last word: closing while something of it is
// on its way would reset the connection, and lose that word. The channel is closed when somebody
// has read all that the other side says.
func (t *talk) partWays(read <-chan struct{}) {
	defer t.close()
	if half, ok := t.conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	select {
	case <-read:
	case <-time.After(partTime):
	}
}
