package ripchttp

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall/ripc"
)

// DefaultMaxRequests is how many calls are handled at a time.
const DefaultMaxRequests = 4096

// Server answers HTTP requests to a service. Its fields are not changed once it serves.
type Server struct {
	// Handler handles the requests; nil is http.DefaultServeMux.
	Handler http.Handler
	// MaxHeaderBytes bounds the header of a request, which is answered with status 431 beyond it; 0 is
	// http.DefaultMaxHeaderBytes. The header of a call has less than 64 KiB and 1000 fields at most: a
	// Transport sends a larger one over a stream.
	MaxHeaderBytes int
	// MaxRequests bounds the calls that are handled at a time, besides the requests on streams; 0 is
	// DefaultMaxRequests. Further ones wait.
	MaxRequests int
	// MaxRequestsPerClient limits how many of MaxRequests a single client may use: under TLS the
	// processes with one identity, within a host one process, and else all that call from one address.
	// 0 is half of MaxRequests. Further requests wait, and delay the messages of their process.
	MaxRequestsPerClient int
	// ErrorLog is for panics of handlers; nil is the standard logger of package log.
	ErrorLog *log.Logger
	// ListenConfig bounds the streams.
	ListenConfig ripc.ListenConfig

	service *ripc.Service
	handler http.Handler
	streams *http.Server
	base    context.Context
	workers workers

	mu       sync.Mutex
	closing  bool
	over     chan struct{} // closed when lifelines hold up the end
	calls    map[callID]*exchange
	early    map[callID]struct{} // calls that were given up before they were seen
	tickets  map[uint64]*exchange
	sessions map[uint64]int     // lifelines
	clients  map[string]*client // by account
}

// peerKey is the key of the Peer in a request's context.
type peerKey struct{}

// PeerOf returns the peer that made a request which a Server handles: with TLS its certificate's
// identity, on one host its process. It reports false for a request of another server. The
// RemoteAddr of a request is the client's service, which the client chose and nothing proves.
func PeerOf(r *http.Request) (peer ripc.Peer, ok bool) {
	peer, ok = r.Context().Value(peerKey{}).(ripc.Peer)
	return peer, ok
}

// callID is a call of a client.
type callID struct{ session, number uint64 }

// maxEarly bounds the calls that were given up and have not been seen.
const maxEarly = 1024

// Serve answers requests to a service until Shutdown or Close is called, or the service is closed;
// it returns http.ErrServerClosed then. A server serves once.
func (s *Server) Serve(service *ripc.Service) error {
	listener, err := s.begin(service)
	if err != nil {
		return err
	}
	var streaming sync.WaitGroup
	streaming.Go(func() { s.streams.Serve(listener) }) // it ends with the listener
	s.workers.ready.Store(1)
	s.work()
	s.workers.all.Wait()
	close(s.workers.ended)
	streaming.Wait()
	return http.ErrServerClosed
}

func (s *Server) begin(service *ripc.Service) (*ripc.Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, http.ErrServerClosed
	}
	if s.service != nil {
		return nil, errors.New("ripchttp: the server serves already")
	}
	if s.MaxRequests <= 0 {
		s.MaxRequests = DefaultMaxRequests
	}
	if s.MaxRequestsPerClient <= 0 {
		s.MaxRequestsPerClient = (s.MaxRequests + 1) / 2
	}
	if s.handler = s.Handler; s.handler == nil {
		s.handler = http.DefaultServeMux
	}
	s.service, s.over, s.workers.ended = service, make(chan struct{}), make(chan struct{})
	s.calls, s.early, s.tickets, s.sessions = map[callID]*exchange{}, map[callID]struct{}{}, map[uint64]*exchange{}, map[uint64]int{}
	s.clients = map[string]*client{}
	s.streams = &http.Server{Handler: http.HandlerFunc(s.handleStream), MaxHeaderBytes: s.MaxHeaderBytes, ErrorLog: s.ErrorLog}
	s.streams.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, peerKey{}, c.(*ripc.Stream).Peer())
	}
	s.base = context.WithValue(context.Background(), http.ServerContextKey, s.streams)
	s.base = context.WithValue(s.base, http.LocalAddrContextKey, ripc.Addr(service.ID()))
	return s.ListenConfig.Listen(service), nil
}

// workers are the goroutines that receive calls and handle them. While fewer than MaxRequests
// handle one, at least one receives.
type workers struct {
	ready atomic.Int32 // that receive
	busy  atomic.Int32 // that handle a call
	all   sync.WaitGroup
	ended chan struct{} // closed when all that was received is handled, and nothing is received any more
}

// maxReady is how many goroutines wait for calls.
var maxReady = int32(runtime.GOMAXPROCS(0)) + 1

// work receives calls and handles them. A handler may take its time, so that another goroutine
// receives meanwhile.
func (s *Server) work() {
	for {
		m, err := s.service.Receive(context.Background())
		if err != nil {
			return
		}
		busy := s.workers.busy.Add(1)
		if s.workers.ready.Add(-1) == 0 && int(busy) < s.MaxRequests {
			s.workers.ready.Add(1)
			s.workers.all.Go(s.work)
		}
		s.handleInTurn(&m)
		s.workers.busy.Add(-1)
		if s.workers.ready.Add(1) > maxReady {
			if s.workers.ready.Add(-1) > 0 {
				return
			}
			s.workers.ready.Add(1)
		}
	}
}

// client is what the server counts for one account.
type client struct {
	handled int            // calls
	waiting []ripc.Message // calls beyond the limit, the oldest first
}

// maxIdleClients is how many clients are kept that have no call.
const maxIdleClients = 64

// handleInTurn answers a call and then the calls that waited for it, or leaves the call to a
// goroutine that answers another call of the same client.
func (s *Server) handleInTurn(m *ripc.Message) {
	s.mu.Lock()
	c := s.clients[m.Account()]
	if c == nil {
		if len(s.clients) >= maxIdleClients {
			s.forgetIdle()
		}
		c = &client{}
		s.clients[m.Account()] = c
	}
	if c.handled >= s.MaxRequestsPerClient {
		c.waiting = append(c.waiting, *m)
		s.mu.Unlock()
		return
	}
	c.handled++
	s.mu.Unlock()
	for again := true; again; {
		s.handle(m)
		again = s.nextOf(c, m)
	}
}

// nextOf takes the next call of a client that waits, or gives the place of the last one back.
func (s *Server) nextOf(c *client, m *ripc.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(c.waiting) == 0 {
		c.handled--
		return false
	}
	*m, c.waiting[0] = c.waiting[0], ripc.Message{}
	if c.waiting = c.waiting[1:]; len(c.waiting) == 0 {
		c.waiting = nil
	}
	return true
}

// forgetIdle forgets the clients that have no call.
func (s *Server) forgetIdle() {
	for account, c := range s.clients {
		if c.handled == 0 {
			delete(s.clients, account)
		}
	}
}

// handle answers one call.
func (s *Server) handle(m *ripc.Message) {
	if !m.IsRequest() {
		m.Release()
		return
	}
	x := newExchange(s)
	if err := x.decode(m); err != nil {
		x.refuse(m, err)
		return
	}
	if !s.enter(x) {
		reply := x.begin(responseMoved)
		seal(reply)
		m.Reply(reply)
		m.Release()
		x.free()
		return
	}
	x.call = *m
	x.call.Free()
	x.serve()
	s.leave(x)
	x.free()
}

// enter notes that a call is handled.
func (s *Server) enter(x *exchange) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.calls[x.id] = x
	if _, early := s.early[x.id]; early {
		delete(s.early, x.id)
		x.ctx.cancel()
	}
	return true
}

func (s *Server) leave(x *exchange) {
	s.mu.Lock()
	if s.calls[x.id] == x {
		delete(s.calls, x.id)
	}
	s.mu.Unlock()
	x.ctx.cancel()
}

func (s *Server) logf(format string, args ...any) {
	if s.ErrorLog != nil {
		s.ErrorLog.Printf(format, args...)
	} else {
		log.Printf(format, args...)
	}
}

// Requests on streams that are no requests of the application.
const (
	methodRedeem   = "RIPC-REDEEM"   // asks for the response of a call
	methodLifeline = "RIPC-LIFELINE" // lives as long as the client
	headerNumber   = "Ripc-Number"
)

// handleStream handles a request that came on a stream.
func (s *Server) handleStream(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case methodRedeem:
		s.redeem(w, r)
	case methodLifeline:
		s.watch(w, r)
	default:
		s.handler.ServeHTTP(w, r)
	}
}

// redeem gives the response to a call the writer of a stream.
func (s *Server) redeem(w http.ResponseWriter, r *http.Request) {
	var ticket uint64
	if _, err := fmt.Sscanf(r.Header.Get(headerNumber), "%x", &ticket); err != nil {
		http.Error(w, "no ticket", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	x := s.tickets[ticket]
	delete(s.tickets, ticket)
	s.mu.Unlock()
	if x == nil {
		http.Error(w, "the ticket is used or too old", http.StatusGone)
		return
	}
	stop := context.AfterFunc(r.Context(), x.ctx.cancel)
	defer stop()
	x.writers <- w // has room
	if <-x.finished {
		panic(http.ErrAbortHandler)
	}
}

// Shutdown ends the server without breaking anything: the name of the service is given back, so
// that another process can take it, clients look for it there, and what was received is answered.
// It returns when that is done, or ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	service := s.service
	s.mu.Unlock()
	if service == nil {
		return nil
	}
	err := service.Withdraw()
	select {
	case <-s.workers.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	select {
	case <-s.over:
	default:
		close(s.over)
	}
	s.mu.Unlock()
	return errors.Join(err, s.streams.Shutdown(ctx))
}

// Close ends the server at once, and closes the service.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closing = true
	service := s.service
	for _, x := range s.calls {
		x.ctx.cancel()
	}
	s.mu.Unlock()
	if service == nil {
		return nil
	}
	return errors.Join(service.Close(), s.streams.Close())
}
