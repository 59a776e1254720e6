// Package port is the one TCP port of a node. Rows, control and whatever comes later all arrive
// here; eight bytes at the start of a connection say what it carries, and its handler owns it from
// then on.
//
// Life of a connection: accepted → (TLS) → preamble read → preamble answered → forwarded. Until
// it is forwarded it is pending: it has no owner but the port, one deadline for everything, and
// one of MaxPending places.
//
//	dialer                                acceptor
//	"SQUALL" version kind      ───────▶   reads 8 bytes, looks for the handler of kind
//	reads 8 bytes              ◀───────   "SQUALL" version kind       (kind 0: nobody here handles it)
//	the kind's own traffic     ◀──────▶   the kind's own traffic
//
// Invariants:
//
//	FP1  the magic and the version byte stand where they stand in every version, so that any two
//	     versions can name each other
//	FP2  a handler sees a connection only after both preambles were exchanged, with no deadline set
//	     and no byte read ahead
//	FP3  at most MaxPending connections are pending, and none for longer than HandshakeTimeout
//	FP4  with TLS, no byte of a peer is looked at before its certificate was verified
//
// Shared words: pending, handlers and closing are guarded by Port.mu; the rest is written by Open
// only.
package port

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/squall-go/squall/internal/descriptors"
	"github.com/squall-go/squall/internal/wait"
)

// Defaults of Config.
const (
	DefaultHandshakeTimeout = 5 * time.Second
	DefaultMaxPending       = 256
)

// Config describes a port. Only Addr is needed.
type Config struct {
	// Addr is the host:port to listen on; the host may be an IPv4 or IPv6 address or a name, the
	// port may be 0.
	Addr string
	// Advertise is the host:port that peers dial; port 0 stands for the listener's. Default: the
	// host name in Addr, if it is one, else the listener's address, or, if that is unspecified
	// (0.0.0.0 or [::]), this host's own; loopback only if it has no other.
	Advertise string
	// TLS turns on mutual TLS 1.3. It needs a certificate, and ClientCAs or RootCAs to verify the
	// peers' certificates.
	TLS *tls.Config
	// HandshakeTimeout bounds TLS and preamble together.
	HandshakeTimeout time.Duration
	// MaxPending bounds the connections whose preamble has not arrived yet. One more takes the
	// place of the oldest, which is closed.
	MaxPending int
	// OnReject is called for every connection that the port did not pass to a handler, and for every
	// connection that a handler refused with Reject. It is called from several goroutines and must not
	// block.
	OnReject func(Rejection)
}

// Port listens until it is closed.
type Port struct {
	listener   net.Listener
	advertised string
	tls        *tls.Config // nil: plain
	timeout    time.Duration
	maxPending int
	onReject   func(Rejection)

	done chan struct{}  // closed by Close
	own  sync.WaitGroup // the accepting goroutine and one for each pending connection

	mu       sync.Mutex
	closing  bool
	pending  []*visitor // the oldest first
	handlers map[Kind]func(net.Conn)
}

// visitor is a connection that is pending.
type visitor struct {
	conn  net.Conn
	since time.Time
	told  bool // its rejection was reported; guarded by Port.mu
}

// Open listens at an address. Its errors name the address.
func Open(ctx context.Context, c Config) (*Port, error) {
	p := &Port{
		timeout: c.HandshakeTimeout, maxPending: c.MaxPending, onReject: c.OnReject,
		done: make(chan struct{}), handlers: map[Kind]func(net.Conn){},
	}
	if p.timeout <= 0 {
		p.timeout = DefaultHandshakeTimeout
	}
	if p.maxPending <= 0 {
		p.maxPending = DefaultMaxPending
	}
	var err error
	if p.tls, err = serverTLS(c.TLS); err != nil {
		return nil, fmt.Errorf("port: listen on %s: %w", c.Addr, err)
	}
	if p.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", c.Addr); err != nil {
		return nil, fmt.Errorf("port: listen on %s: %w%s", c.Addr, err, advice(err))
	}
	if p.advertised, err = advertised(c, p.listener.Addr().(*net.TCPAddr)); err != nil {
		return nil, fmt.Errorf("port: listen on %s: %w", c.Addr, errors.Join(err, p.listener.Close()))
	}
	p.own.Add(1)
	go p.accept()
	return p, nil
}

// advice says what to do about an address that cannot be listened on.
func advice(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return " (another process listens there: stop it, or choose another port; port 0 takes a free one)"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return " (it is not an address of this host: listen on one that is, and advertise the address that others dial)"
	}
	return ""
}

// Addr is the host:port that peers dial.
func (p *Port) Addr() string { return p.advertised }

// Handle makes serve the handler of a kind, in place of an earlier one; nil removes it. Serve owns
// the connection and runs on a goroutine of its own, which Close does not wait for. Connections of
// kinds without handler are rejected, so that a dialer that was faster than Handle comes again.
func (p *Port) Handle(kind Kind, serve func(net.Conn)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if serve == nil {
		delete(p.handlers, kind)
		return
	}
	p.handlers[kind] = serve
}

// Close stops listening, closes what is pending and waits for the port's own goroutines.
// Connections that were forwarded belong to their handlers and stay open.
func (p *Port) Close() error {
	p.mu.Lock()
	if p.closing {
		p.mu.Unlock()
		p.own.Wait()
		return nil
	}
	p.closing = true
	close(p.done)
	for _, v := range p.pending {
		v.conn.Close()
	}
	p.mu.Unlock()
	err := p.listener.Close()
	p.own.Wait()
	return err
}

// Pauses after a failed accept: the process is out of file descriptors or memory, and trying at
// once would only burn a core.
const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
	// showsItself is how long a member needs at most, in most cases, to send its preamble.
	showsItself = time.Second
)

func (p *Port) accept() {
	defer p.own.Done()
	pause := wait.Backoff{First: acceptPauseMin, Longest: acceptPauseMax}
	for {
		conn, err := p.listener.Accept()
		switch {
		case err == nil:
			pause.Reset()
			p.admit(conn)
		case errors.Is(err, net.ErrClosed):
			return
		case descriptors.IsLack(err) && (p.evictSilentFor(showsItself) || descriptors.Give() || p.evictSilentFor(0)):
		default:
			p.Reject(Rejection{Reason: AcceptFailed, Err: err})
			select {
			case <-time.After(pause.Next()):
			case <-p.done:
				return
			}
		}
	}
}

// admit gives a connection its place among the pending ones. If there is none left, the oldest
// goes: a member shows itself within moments, so the peer that has been silent longest is the least
// likely to be one. Turning the newcomer away instead would let as many silent strangers as there
// are places keep every member out.
func (p *Port) admit(conn net.Conn) {
	p.mu.Lock()
	if p.closing {
		p.mu.Unlock()
		conn.Close()
		return
	}
	var evicted *visitor
	if len(p.pending) >= p.maxPending {
		evicted = p.pending[0]
		p.pending = slices.Delete(p.pending, 0, 1)
	}
	v := &visitor{conn: conn, since: time.Now()}
	p.pending = append(p.pending, v)
	p.own.Add(1)
	go p.greet(v)
	p.mu.Unlock()
	if evicted != nil {
		evicted.conn.Close()
		p.rejectOnce(evicted, fmt.Errorf("%w: %d", ErrTooManyPending, p.maxPending))
	}
}

// evictSilentFor closes the oldest pending connection if it has been silent for so long. When
// descriptors are short, strangers go first, then the reserve, which is there for members, and only
// then a connection whose process had no time yet to say what it is: it may be a member.
func (p *Port) evictSilentFor(silent time.Duration) bool {
	p.mu.Lock()
	if len(p.pending) == 0 || time.Since(p.pending[0].since) < silent {
		p.mu.Unlock()
		return false
	}
	v := p.pending[0]
	p.pending = slices.Delete(p.pending, 0, 1)
	p.mu.Unlock()
	v.conn.Close()
	p.rejectOnce(v, fmt.Errorf("%w: no file descriptor is left", ErrTooManyPending))
	return true
}

// rejectOnce reports a visitor, unless that was done: it may fail while it is evicted.
func (p *Port) rejectOnce(v *visitor, err error) {
	p.mu.Lock()
	told := v.told
	v.told = true
	p.mu.Unlock()
	if !told {
		p.Reject(rejection(v.conn, err))
	}
}

// greet takes one connection from accepted to handed over. Its goroutine becomes the handler's, and
// from then on it is none of the port's own.
func (p *Port) greet(v *visitor) {
	conn, serve, err := p.handshake(v.conn)
	if err != nil && !errors.Is(err, errEarly) && !p.evicted(v) {
		p.rejectOnce(v, err)
		lingerForAlert(v.conn, err)
	}
	if left := p.leave(v); err != nil || !left {
		v.conn.Close()
		p.own.Done()
		return
	}
	p.own.Done()
	serve(conn)
}

// evicted reports whether a visitor lost its place.
func (p *Port) evicted(v *visitor) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !slices.Contains(p.pending, v)
}

// leave gives up a visitor's place, and reports whether it still had one that may become more.
func (p *Port) leave(v *visitor) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.pending, v)
	if i < 0 {
		return false
	}
	p.pending = slices.Delete(p.pending, i, i+1)
	return !p.closing
}

// handshake is everything before the hand-over, under one deadline: a peer that trickles bytes
// gains no time (FP3).
func (p *Port) handshake(raw net.Conn) (net.Conn, func(net.Conn), error) {
	if err := raw.SetDeadline(time.Now().Add(p.timeout)); err != nil {
		return nil, nil, err
	}
	conn := raw
	if p.tls != nil {
		secure := tls.Server(raw, p.tls)
		if err := finishTLS(secure); err != nil {
			return nil, nil, noCertificate(tlsHere(raw, err))
		}
		conn = secure
	}
	serve, err := p.answer(conn)
	if err != nil {
		return nil, nil, err
	}
	return conn, serve, conn.SetDeadline(time.Time{})
}

// errEarly says that a member came before this process had a handler for it. It will dial again, so
// it is not reported as rejected.
var errEarly = errors.New("too early")

// answer reads the dialer's preamble and sends ours. A peer that speaks another version, or asks
// for a kind without a handler, is answered before it is refused, so that it can say why; garbage
// gets no answer.
func (p *Port) answer(conn net.Conn) (func(net.Conn), error) {
	theirs, err := readPreamble(conn)
	if errors.Is(err, ErrTLSDiffers) {
		return nil, errors.Join(err, writePreamble(conn, kindPlainHere))
	}
	if errors.Is(err, ErrProtocolVersion) {
		return nil, errors.Join(err, writePreamble(conn, kindRefused))
	}
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	serve, forClients, forMembers := p.handlers[theirs.kind], p.handlers[KindServices] != nil, len(p.handlers) > 0
	p.mu.Unlock()
	switch {
	case serve != nil:
	case forClients && theirs.kind <= lastKind:
		return nil, errors.Join(fmt.Errorf("%w: this one is for clients, and a member called", ErrWrongPort), writePreamble(conn, kindClientsPort))
	case forMembers && theirs.kind == KindServices:
		return nil, errors.Join(fmt.Errorf("%w: this one is for members, and a client called", ErrWrongPort), writePreamble(conn, kindMembersPort))
	default:
		err := fmt.Errorf("%w: %v", ErrKindRefused, theirs.kind)
		if theirs.kind != kindRefused && theirs.kind <= lastKind {
			err = fmt.Errorf("%w: %w", errEarly, err)
		}
		return nil, errors.Join(err, writePreamble(conn, kindRefused))
	}
	return serve, writePreamble(conn, theirs.kind)
}

// tlsHere tells a dialer that does not use TLS that this port does.
func tlsHere(raw net.Conn, err error) error {
	var header tls.RecordHeaderError
	if errors.As(err, &header) && string(header.RecordHeader[:]) == magic[:len(header.RecordHeader)] {
		return &tlsError{errors.Join(fmt.Errorf("%w: this one does", ErrTLSDiffers), writePreamble(raw, kindTLSHere))}
	}
	return err
}

// lingerForAlert lets a TLS peer read the alert that says what is wrong with it: closing while its
// next bytes are still on the way would reset the connection and lose the alert. The handshake's
// deadline still runs.
func lingerForAlert(raw net.Conn, err error) {
	var failed *tlsError
	if tcp, ok := raw.(*net.TCPConn); ok && errors.As(err, &failed) && !errors.Is(err, os.ErrDeadlineExceeded) {
		_ = tcp.CloseWrite() // best effort: the connection is given up either way
		_, _ = io.CopyN(io.Discard, raw, lingerBytes)
	}
}

// lingerBytes bounds what is read from a peer that was already refused.
const lingerBytes = 16 << 10

// Reject reports a connection that was not forwarded, or that its handler refuses. Connections
// that Close itself cuts off are not reported.
func (p *Port) Reject(r Rejection) {
	p.mu.Lock()
	silent := p.closing || p.onReject == nil
	p.mu.Unlock()
	if !silent {
		p.onReject(r)
	}
}
