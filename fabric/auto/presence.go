package auto

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/internal/wire"
)

// errAnotherProcess says that another process than the expected one listens at an address.
var errAnotherProcess = errors.New("another process listens at its address")

// presenceRequest asks whether the process that listens at an address is a certain one.
type presenceRequest struct {
	Process string `json:"process"` // fabric.Peer.Process
}

// presenceAnswer says whether it is. If it is, the connection lasts as long as the process.
type presenceAnswer struct {
	Here bool `json:"here"`
}

// Bounds of the presence conversations.
const (
	presenceBytes = 1 << 10         // of a message
	presenceTime  = 5 * time.Second // for a request or an answer
	presenceSeats = 256             // conversations that last at a time; one more takes the place of the oldest
	maxReached    = 1024            // processes that are remembered as reached
	// presenceGrace is how long the link to a process that was reached before may take before the
	// process is asked for.
	presenceGrace = 10 * time.Millisecond
	// presenceAgain is how long after a refused connection a process that was reached before is
	// asked for again.
	presenceAgain    = 20 * time.Millisecond
	presencePauseMin = 5 * time.Millisecond
	presencePauseMax = 100 * time.Millisecond
)

// presence finds out that a process ended although it has no link to this one yet. It asks the port
// of that process which process listens there. Two answers prove the end:
//
//   - another process listens there, as the node was started again;
//   - no process listens there, twice in a row, and the process answered this one at that address
//     before. Without an earlier answer a refused connection may be the work of a firewall; and one
//     that is refused once may be the work of a host that is short of something.
//
// Everything else, a connection that breaks or no answer at all, proves nothing: the question is
// asked again. A process that is stopped has not ended, and is left to the heartbeats.
type presence struct {
	port *port.Port
	tls  *tls.Config
	dial func(ctx context.Context, addr string, kind port.Kind, c *tls.Config) (net.Conn, error)

	ctx  context.Context // of the questions, which outlive the calls that want the answers: a question that is broken off looks like an attack
	stop context.CancelFunc
	busy sync.WaitGroup

	mu      sync.Mutex
	self    string     // this process; empty: not known yet
	lasting []net.Conn // conversations that others hold, the oldest first
	reached []string   // processes that answered, the earliest first
	closed  bool
}

func newPresence(p *port.Port, tlsConfig *tls.Config) *presence {
	s := &presence{port: p, tls: tlsConfig, dial: port.Dial}
	s.ctx, s.stop = context.WithCancel(context.Background())
	p.Handle(port.KindPresence, s.serve)
	return s
}

// present says which process this is.
func (s *presence) present(process string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.self = process
}

func (s *presence) close() {
	s.port.Handle(port.KindPresence, nil)
	s.stop()
	s.mu.Lock()
	s.closed = true
	for _, conn := range s.lasting {
		conn.Close()
	}
	s.mu.Unlock()
	s.busy.Wait()
}

// serve answers another process, and keeps the connection until that one ends it.
func (s *presence) serve(conn net.Conn) {
	defer conn.Close()
	if !s.enter(conn) {
		return
	}
	defer s.leave(conn)
	conn.SetDeadline(time.Now().Add(presenceTime))
	var q presenceRequest
	if err := wire.ReadMessage(conn, presenceBytes, &q); err != nil {
		if !errors.Is(err, io.EOF) { // the other side does not need the answer any more
			s.port.Reject(port.NewRejection(port.KindPresence, conn.RemoteAddr().String(), err))
		}
		return
	}
	s.mu.Lock()
	self := s.self
	s.mu.Unlock()
	if self == "" {
		return // it will ask again
	}
	if wire.WriteMessage(conn, presenceAnswer{q.Process == self}) != nil || q.Process != self {
		return
	}
	conn.SetDeadline(time.Time{})
	var b [1]byte
	_, _ = conn.Read(b[:]) // the other side has nothing more to say: this is the end
}

func (s *presence) enter(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if len(s.lasting) >= presenceSeats {
		s.lasting[0].Close()
		s.lasting = slices.Delete(s.lasting, 0, 1)
	}
	s.lasting = append(s.lasting, conn)
	s.busy.Add(1)
	return true
}

func (s *presence) leave(conn net.Conn) {
	s.mu.Lock()
	s.lasting = slices.DeleteFunc(s.lasting, func(o net.Conn) bool { return o == conn })
	s.mu.Unlock()
	s.busy.Done()
}

func (s *presence) note(process string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.reached, process) {
		return
	}
	if len(s.reached) >= maxReached {
		s.reached = slices.Delete(s.reached, 0, 1)
	}
	s.reached = append(s.reached, process)
}

func (s *presence) wasReached(process string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.reached, process)
}

// ask asks a peer's port once, or returns ctx's cause as soon as that ends. The connection that it
// returns lasts as long as the peer's process. An error that wraps fabric.ErrPeerGone proves that
// the process ended.
func (s *presence) ask(ctx context.Context, peer fabric.Peer) (net.Conn, error) {
	type outcome struct {
		conn net.Conn
		err  error
	}
	answers := make(chan outcome)
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.busy.Add(1)
	}
	s.mu.Unlock()
	if closed {
		return nil, net.ErrClosed
	}
	go func() {
		defer s.busy.Done()
		conn, err := s.question(peer)
		select {
		case answers <- outcome{conn, err}:
		case <-ctx.Done():
			if conn != nil {
				conn.Close()
			}
		}
	}()
	select {
	case o := <-answers:
		return o.conn, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *presence) question(peer fabric.Peer) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(s.ctx, presenceTime)
	defer cancel()
	conn, err := s.dial(ctx, peer.Addr, port.KindPresence, s.tls)
	if errors.Is(err, syscall.ECONNREFUSED) && s.wasReached(peer.Process()) && wait.Sleep(ctx, presenceAgain) == nil {
		conn, err = s.dial(ctx, peer.Addr, port.KindPresence, s.tls)
	}
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) && s.wasReached(peer.Process()) {
			err = fmt.Errorf("%w: its process ended: %w", fabric.ErrPeerGone, err)
		}
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	var answer presenceAnswer
	if err = wire.WriteMessage(conn, presenceRequest{peer.Process()}); err == nil {
		err = wire.ReadMessage(conn, presenceBytes, &answer)
	}
	if err == nil && !answer.Here {
		err = fmt.Errorf("%w: %w", fabric.ErrPeerGone, errAnotherProcess)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	s.note(peer.Process())
	return conn, nil
}

// watch returns the proof that a peer's process ended, or nil when ctx ends first. A process that
// was not reached before is asked for at once: the answer is what makes a refused connection a
// proof later.
func (s *presence) watch(ctx context.Context, peer fabric.Peer) error {
	if s.wasReached(peer.Process()) && wait.Sleep(ctx, presenceGrace) != nil {
		return nil
	}
	pause := wait.Backoff{First: presencePauseMin, Longest: presencePauseMax}
	for {
		conn, err := s.ask(ctx, peer)
		if errors.Is(err, fabric.ErrPeerGone) && ctx.Err() == nil {
			return err
		}
		if err == nil {
			pause.Reset()
			s.outlast(ctx, conn)
		}
		if pause.Wait(ctx) != nil {
			return nil
		}
	}
}

// outlast waits until the other side ends a conversation, or ctx ends.
func (s *presence) outlast(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var b [1]byte
	conn.SetDeadline(time.Time{})
	_, _ = conn.Read(b[:])
}
