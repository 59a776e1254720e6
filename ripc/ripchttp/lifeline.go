package ripchttp

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/internal/wait"
)

// lifeline is a request on a stream that lives as long as a client talks to a server. Its body says
// which calls the client gave up; and when it ends, all are.
type lifeline struct {
	transport *Transport
	host      string
	running   atomic.Bool

	mu     sync.Mutex
	begun  time.Time
	calls  []uint64 // given up, to be said
	more   wait.Bell
	closed chan struct{}
	ended  bool
}

// restartAfter is how soon a lifeline that broke is tied again.
const restartAfter = 100 * time.Millisecond

func newLifeline(t *Transport, host string) *lifeline {
	return &lifeline{transport: t, host: host, more: wait.NewBell(), closed: make(chan struct{})}
}

// hold ties the lifeline, if it is not.
func (l *lifeline) hold() {
	if l.running.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.running.Load() || time.Since(l.begun) < restartAfter {
		return
	}
	l.begun = time.Now()
	l.calls = append(l.calls, 0) // no call: net/http sends the header when it has a part of the body
	l.running.Store(true)
	go l.run()
}

func (l *lifeline) run() {
	defer l.running.Store(false)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-l.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	r, err := http.NewRequestWithContext(ctx, methodLifeline, "http://"+l.host+"/", &notes{l: l, done: ctx.Done()})
	if err != nil {
		return
	}
	r.Header.Set(headerNumber, strconv.FormatUint(l.transport.session, 16))
	if response, err := l.transport.streams.RoundTrip(r); err == nil {
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
}

// cancel tells the server that a call is given up.
func (l *lifeline) cancel(number uint64) {
	l.mu.Lock()
	if len(l.calls) < maxEarly { // the server remembers no more
		l.calls = append(l.calls, number)
	}
	l.mu.Unlock()
	l.more.Ring()
}

// end cuts the lifeline.
func (l *lifeline) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		close(l.closed)
	}
}

// notes is the body of the request: 8 bytes for each call that is given up.
type notes struct {
	l    *lifeline
	done <-chan struct{}
}

func (n *notes) Read(p []byte) (int, error) {
	for {
		n.l.mu.Lock()
		k := min(len(p)/8, len(n.l.calls))
		for i, number := range n.l.calls[:k] {
			binary.LittleEndian.PutUint64(p[8*i:], number)
		}
		n.l.calls = n.l.calls[k:]
		n.l.mu.Unlock()
		if k > 0 {
			return 8 * k, nil
		}
		select {
		case <-n.l.more:
		case <-n.done:
			return 0, io.EOF
		}
	}
}

// watch holds the other end of a lifeline.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	var session uint64
	if _, err := fmt.Sscanf(r.Header.Get(headerNumber), "%x", &session); err != nil {
		http.Error(w, "no session", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	over := s.over
	s.sessions[session]++
	s.mu.Unlock()
	control := http.NewResponseController(w)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-over: // the server ends: so does the request, which would hold it up
			control.SetReadDeadline(time.Unix(1, 0))
		case <-stop:
		}
	}()
	var note [8]byte
	for {
		if _, err := io.ReadFull(r.Body, note[:]); err != nil {
			break
		}
		s.giveUp(callID{session, binary.LittleEndian.Uint64(note[:])})
	}
	select {
	case <-over:
		return
	default:
	}
	s.release(session)
}

// release ends the calls of a session with its last lifeline.
func (s *Server) release(session uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[session]--; s.sessions[session] > 0 {
		return
	}
	delete(s.sessions, session)
	for id, x := range s.calls {
		if id.session == session {
			x.ctx.cancel()
		}
	}
}

// giveUp cancels a call.
func (s *Server) giveUp(id callID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.calls[id]; x != nil {
		x.ctx.cancel()
	} else if len(s.early) < maxEarly {
		s.early[id] = struct{}{}
	}
}
