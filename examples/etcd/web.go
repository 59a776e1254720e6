package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"

	"github.com/squall-go/squall/squallprom"
)

// Bounds of a connection before it is known what it speaks, and of a question about the member's
// health.
const (
	prefaceWithin = 10 * time.Second
	healthWithin  = 5 * time.Second
)

// ports serves gRPC and HTTP at one address. What a connection begins with tells which one it is:
// gRPC begins with the preface of HTTP/2, which no request of HTTP/1 begins with.
type ports struct {
	net.Listener
	rpc, web *queue
}

// newPorts splits the connections of a listener.
func newPorts(l net.Listener) *ports {
	return &ports{l, newQueue(l.Addr()), newQueue(l.Addr())}
}

// split accepts connections until the listener is closed.
func (p *ports) split() {
	defer p.rpc.Close()
	defer p.web.Close()
	for {
		c, err := p.Accept()
		var passing net.Error
		if errors.As(err, &passing) && passing.Timeout() {
			continue
		}
		if err != nil {
			return
		}
		go p.tell(c)
	}
}

// preface is how HTTP/2 begins.
const preface = "PRI"

// tell gives a connection to its server.
func (p *ports) tell(c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(prefaceWithin))
	b := bufio.NewReaderSize(c, 16)
	first, err := b.Peek(len(preface))
	if err != nil {
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	to := p.web
	if string(first) == preface {
		to = p.rpc
	}
	ahead, _ := b.Peek(b.Buffered())
	to.put(&begun{Conn: c, ahead: ahead})
}

// begun is a connection of which some bytes were read.
type begun struct {
	net.Conn
	ahead []byte
}

func (c *begun) Read(b []byte) (int, error) {
	if len(c.ahead) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.ahead)
	c.ahead = c.ahead[n:]
	return n, nil
}

// queue is a listener of connections that another one accepted.
type queue struct {
	addr   net.Addr
	conns  chan net.Conn
	ctx    context.Context
	closed context.CancelFunc
}

func newQueue(addr net.Addr) *queue {
	q := &queue{addr: addr, conns: make(chan net.Conn)}
	q.ctx, q.closed = context.WithCancel(context.Background())
	return q
}

func (q *queue) put(c net.Conn) {
	select {
	case q.conns <- c:
	case <-q.ctx.Done():
		_ = c.Close()
	}
}

func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (q *queue) Addr() net.Addr { return q.addr }

func (q *queue) Close() error {
	q.closed()
	return nil
}

// serve serves clients at a listener until stop is called.
func (s *server) serve(l net.Listener, r *grpc.Server) (stop func()) {
	p, web := newPorts(l), &http.Server{Handler: s.handler(), ReadHeaderTimeout: prefaceWithin}
	go p.split()
	go func() { _ = r.Serve(p.rpc) }() // these two end with stop
	go func() { _ = web.Serve(p.web) }()
	return func() {
		_ = l.Close()
		r.Stop()
		_ = web.Close()
	}
}

// handler answers what etcd answers at the clients' address over HTTP.
func (s *server) handler() http.Handler {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(squallprom.NewCollector(s.group))
	m := http.NewServeMux()
	m.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	m.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"etcdserver": apiVersion, "etcdcluster": apiVersion, "storage": apiVersion})
	})
	m.HandleFunc("GET /health", s.health)
	m.HandleFunc("GET /readyz", s.health)
	m.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { // a member without a quorum lives: to start it again helps nobody
		healthy(w, s.group.Err())
	})
	return m
}

// health tells whether this member can serve: whether it is in the group, and the group has a
// quorum.
func (s *server) health(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), healthWithin)
	defer cancel()
	err := s.group.Err()
	if err == nil && r.URL.Query().Get("serializable") != "true" {
		err = s.object.Sync(ctx)
	}
	healthy(w, err)
}

func healthy(w http.ResponseWriter, err error) {
	if err != nil {
		answer(w, http.StatusServiceUnavailable, map[string]string{"health": "false", "reason": err.Error()})
		return
	}
	answer(w, http.StatusOK, map[string]string{"health": "true", "reason": ""})
}

func answer(w http.ResponseWriter, code int, v map[string]string) {
	b, _ := json.Marshal(v) // of texts only
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, string(b)+"\n")
}
