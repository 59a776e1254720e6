package ripc

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/rpc"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/ripc"
)

// services carry messages by package ripc.
type services struct {
	spec     spec
	endpoint *ripc.Endpoint
	service  *ripc.Service
	to       *ripc.Remote
	body     []byte
	ctx      context.Context
	cancel   context.CancelFunc
	others   []*services // other clients in this process: busy ones first, then idle ones
	long     *longs
}

func (s *services) open(id ripc.ID) (err error) {
	cfg := ripc.Config{Resolver: ripc.OneHost(s.spec.Domain), Transport: ripc.TransportSHM}
	if s.spec.Fabric == "tcp" {
		cfg.Transport, cfg.Listen = ripc.TransportTCP, "127.0.0.1:0"
	}
	if s.spec.Asleep {
		cfg.MaxSpin = -1
	}
	if s.spec.Load == gets {
		cfg.RingBytes = httpRing
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.spec.isLong() || s.spec.Beside {
		s.long = newLongs(s.spec)
	}
	s.body = make([]byte, s.spec.Size)
	if s.endpoint, err = ripc.Open(s.ctx, cfg); err != nil {
		return err
	}
	s.service, err = s.endpoint.Register(s.ctx, id)
	return err
}

func (s *services) listen() (string, error) {
	if err := s.open("server"); err != nil || s.long == nil {
		return "", err
	}
	return "", s.long.listen(s.ctx, s.endpoint)
}

func (s *services) connect(ctx context.Context, _ string) error {
	if err := s.open(""); err != nil {
		return err
	}
	s.to = s.service.To("server")
	if err := s.to.Connect(ctx); err != nil || s.long == nil {
		return err
	}
	if err := s.long.connect(ctx, s.endpoint, s.service); err != nil {
		return err
	}
	if s.spec.Beside {
		s.long.start()
	}
	return nil
}

// serve sends messages back, or counts them; requests are answered with their bytes, or with the
// count.
func (s *services) serve() {
	if s.long != nil {
		taking := make(chan struct{})
		go func() { defer close(taking); s.long.serve(s.ctx) }()
		defer func() { <-taking }()
	}
	var back *ripc.Remote
	count := uint64(0)
	_ = s.service.Serve(s.ctx, func(ctx context.Context, m *ripc.Message) { // it ends with the context
		switch {
		case m.IsRequest() && s.spec.Load == oneWay:
			_ = m.Reply(binary.LittleEndian.AppendUint64(nil, count))
		case m.IsRequest():
			_ = m.Reply(m.Data)
		case s.spec.Load == oneWay:
			count++
		default:
			if back == nil {
				back = m.Sender()
			}
			_ = s.service.Send(ctx, back, m.Data)
		}
	})
}

func (s *services) once(ctx context.Context, caller int) error {
	if s.spec.isLong() {
		return s.long.once(ctx)
	}
	switch s.spec.Load {
	case oneWay:
		return s.service.Send(ctx, s.to, s.body)
	case calls:
		if s.spec.Busy > 0 {
			s = s.others[caller]
		}
		m, err := s.service.Call(ctx, s.to, s.body)
		if err != nil {
			return err
		}
		m.Release()
		return nil
	}
	if err := s.service.Send(ctx, s.to, s.body); err != nil {
		return err
	}
	m, err := s.service.Receive(ctx)
	if err != nil {
		return err
	}
	m.Release()
	return nil
}

// rest ends what the process does next to what was measured.
func (s *services) rest() {
	if s.long != nil {
		s.long.end()
	}
}

func (s *services) received(ctx context.Context) (int, error) {
	m, err := s.service.Call(ctx, s.to)
	if err != nil {
		return 0, err
	}
	defer m.Release()
	return int(binary.LittleEndian.Uint64(m.Data)), nil
}

func (s *services) close() error {
	for _, client := range s.others {
		_ = client.close() // what is measured is the server
	}
	s.cancel()
	if s.long != nil {
		s.long.close()
	}
	if s.endpoint == nil {
		return nil
	}
	return s.endpoint.Close()
}

// sockets carry messages over one connection.
type sockets struct {
	plain
	spec     spec
	listener net.Listener
	conn     net.Conn
	body     []byte
}

func (s *sockets) network() (network, addr string) {
	if s.spec.Fabric == "tcp" {
		return "tcp", "127.0.0.1:0"
	}
	return "unix", "" // the kernel chooses a name that is no file
}

func (s *sockets) listen() (addr string, err error) {
	if s.listener, err = net.Listen(s.network()); err != nil {
		return "", err
	}
	return s.listener.Addr().String(), nil
}

func (s *sockets) connect(ctx context.Context, addr string) (err error) {
	network, _ := s.network()
	s.body = touched(s.spec.Size)
	s.conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
	return err
}

func (s *sockets) serve() {
	conn, err := s.listener.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	body := touched(s.spec.Size)
	for {
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		if s.spec.isLong() {
			body = body[:1] // it says that all came
		}
		_, err := conn.Write(body)
		if body = body[:s.spec.Size]; err != nil {
			return
		}
	}
}

func (s *sockets) once(context.Context, int) error {
	if _, err := s.conn.Write(s.body); err != nil {
		return err
	}
	if s.spec.isLong() {
		_, err := io.ReadFull(s.conn, s.body[:1])
		return err
	}
	_, err := io.ReadFull(s.conn, s.body)
	return err
}

func (s *sockets) close() (err error) {
	if s.conn != nil {
		err = s.conn.Close()
	}
	if s.listener != nil {
		s.listener.Close()
	}
	return err
}

// netRPC calls with package net/rpc.
type netRPC struct {
	sockets
	client *rpc.Client
}

// Echo is what net/rpc calls.
type Echo struct{}

// Echo returns its argument.
func (Echo) Echo(body []byte, reply *[]byte) error {
	*reply = body
	return nil
}

func (n *netRPC) connect(ctx context.Context, addr string) error {
	if err := n.sockets.connect(ctx, addr); err != nil {
		return err
	}
	n.client = rpc.NewClient(n.conn)
	return nil
}

func (n *netRPC) serve() {
	server := rpc.NewServer()
	if err := server.Register(Echo{}); err != nil {
		return
	}
	if conn, err := n.listener.Accept(); err == nil {
		server.ServeConn(conn)
	}
}

func (n *netRPC) once(context.Context, int) error {
	var reply []byte
	return n.client.Call("Echo.Echo", n.body, &reply)
}

func (n *netRPC) close() error {
	if n.client != nil {
		n.client.Close() // and with it the connection
		return nil
	}
	return n.sockets.close()
}

// words are two words in memory that both processes map, on lines of their own. Each process stores
// one and looks at the other until it changes: no message can be faster there and back.
type words struct {
	plain
	remove func() error // the memory; nil in the process that did not make it
	mem    []byte
	count  uint64
	closed atomic.Bool
}

const wordsBytes = 4096

func (w *words) word(line int) *uint64 { return (*uint64)(unsafe.Pointer(&w.mem[128*line])) }

func (w *words) listen() (addr string, err error) {
	if addr, w.remove, err = bench.NewSegment(wordsBytes); err != nil {
		return "", err
	}
	return addr, w.connect(context.Background(), addr)
}

func (w *words) connect(_ context.Context, addr string) (err error) {
	w.mem, err = bench.MapSegment(addr)
	return err
}

func (w *words) serve() {
	for k := uint64(1); !w.closed.Load(); {
		if atomic.LoadUint64(w.word(0)) == k {
			atomic.StoreUint64(w.word(1), k)
			k++
		}
	}
}

func (w *words) once(ctx context.Context, _ int) error {
	w.count++
	atomic.StoreUint64(w.word(0), w.count)
	for k := 1; atomic.LoadUint64(w.word(1)) != w.count; k++ {
		if k%10000 == 0 {
			if runtime.Gosched(); ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// close leaves the mapping to the end of the process, which is near: the other goroutine may look
// at it.
func (w *words) close() error {
	w.closed.Store(true)
	if w.remove == nil {
		return nil
	}
	return w.remove()
}

// connectAll connects the other clients, each an endpoint of its own, with a call each.
func (s *services) connectAll(ctx context.Context) error {
	for range s.spec.Busy + s.spec.Clients {
		client := &services{spec: s.spec}
		s.others = append(s.others, client)
		if err := client.connect(ctx, ""); err != nil {
			return err
		}
		m, err := client.service.Call(ctx, client.to, client.body)
		if err != nil {
			return err
		}
		m.Release()
	}
	return nil
}

// usage is what this process takes while nothing is sent.
func (m *member) usage(ctx context.Context) (u usage, err error) {
	runtime.GC()
	before, began := proc.CPUTime(), time.Now()
	if err := wait.Sleep(ctx, m.spec.Duration); err != nil {
		return u, err
	}
	u.CPUPercent = 100 * float64(proc.CPUTime()-before) / float64(time.Since(began))
	u.ClientBytes = float64(bench.MemoryStatus("VmRSS")-m.memory) / float64(m.spec.Clients)
	if m.spec.Fabric == "shm" { // the own row is allocated as a whole; of what is resident it may be a part
		u.ClientBytes += float64(ripc.DefaultRingBytes + os.Getpagesize())
	}
	return u, nil
}
