package messages

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"golang.org/x/sys/unix"
)

// roundTrip is one of two processes: node 1 sends a message and waits until node 2 has sent it
// back.
type roundTrip struct {
	process
	bench.Failing
	listener net.Listener
	stream   stream
	count    uint64
}

func (r *roundTrip) Listen(context.Context) (addr string, err error) {
	if r.Node == 1 {
		return "", nil
	}
	if r.listener, err = net.Listen("tcp", r.Host+":0"); err != nil {
		return "", err
	}
	return r.listener.Addr().String(), nil
}

func (r *roundTrip) Connect(ctx context.Context, addrs []string) (err error) {
	var conn net.Conn
	if r.Node == 1 {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", addrs[1])
	} else {
		conn, err = r.listener.Accept()
		r.listener.Close()
	}
	if err != nil {
		return err
	}
	r.stream, err = newStream(conn.(*net.TCPConn))
	return err
}

func (r *roundTrip) run(ctx context.Context, of bench.Request) (Sample, error) {
	if r.Node == 2 {
		go r.echo()
		return observe(ctx, of, r.Spec.Nodes, r.counts)
	}
	return r.measure(ctx, of)
}

// echo sends everything back until the other side closes.
func (r *roundTrip) echo() {
	runtime.LockOSThread()
	buf := make([]byte, max(1, r.Spec.SizeBytes))
	for {
		if _, err := io.ReadFull(r.stream, buf); err != nil {
			return
		}
		if _, err := r.stream.Write(buf); err != nil {
			return
		}
	}
}

func (r *roundTrip) measure(ctx context.Context, of bench.Request) (s Sample, err error) {
	observed := make(chan error, 1)
	go func() {
		var err error
		s, err = observe(ctx, of, r.Spec.Nodes, r.counts)
		observed <- err
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h := bench.NewHistogram()
	buf := make([]byte, max(1, r.Spec.SizeBytes))
	for h.TotalCount() == 0 || time.Now().Before(of.To) {
		start := time.Now()
		if err := r.once(buf); err != nil {
			return s, err
		}
		if !start.Before(of.From) {
			h.RecordValue(int64(time.Since(start)))
		}
	}
	err = <-observed
	s.Latency = bench.LatencyOf(h)
	return s, err
}

func (r *roundTrip) once(buf []byte) error {
	fill(buf, r.count)
	r.count++
	if _, err := r.stream.Write(buf); err != nil {
		return fmt.Errorf("round trip: %w", err)
	}
	if _, err := io.ReadFull(r.stream, buf); err != nil {
		return fmt.Errorf("round trip: %w", err)
	}
	return nil
}

func (r *roundTrip) counts() []uint64      { return make([]uint64, r.Spec.Nodes) }
func (r *roundTrip) state() (State, error) { return State{}, nil }
func (r *roundTrip) end() bench.Latency    { return bench.Latency{} }
func (r *roundTrip) Close() error          { return nil }

// stream is a connection out of the hands of Go's poller: a read is a system call that sleeps.
type stream struct {
	file *os.File // keeps it open
	fd   int
}

func newStream(conn *net.TCPConn) (stream, error) {
	defer conn.Close()
	f, err := conn.File()
	if err != nil {
		return stream{}, err
	}
	s := stream{f, int(f.Fd())}
	return s, unix.SetNonblock(s.fd, false)
}

func (s stream) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(s.fd, b)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (s stream) Write(b []byte) (done int, err error) {
	for done < len(b) {
		n, err := unix.Write(s.fd, b[done:])
		if err != nil && err != unix.EINTR {
			return done, os.NewSyscallError("write", err)
		}
		done += max(n, 0)
	}
	return done, nil
}

// maxForeign is the largest number of foreign processes.
const maxForeign = 64

// startForeign starts the processes that keep a core each as busy as they can, next to whatever is
// measured, and returns the function that ends them. They end with this process, too.
func (o *options) startForeign(ctx context.Context) (end func() error, err error) {
	f, err := bench.Start(ctx, bench.FleetConfig{
		Workload: Workload.Name, Count: o.foreign,
		Spec: job{Spec: Spec{Kind: Foreign}}, Env: []string{"GOMAXPROCS=1"},
	})
	if err != nil {
		return nil, err
	}
	return f.Close, nil
}

// foreign is a process that has nothing to do with the others and keeps a core busy until its end.
type foreign struct{ bench.Unconnected }

func newForeign() foreign {
	go func() {
		for start := time.Now(); time.Since(start) >= 0; { // always
		}
	}()
	return foreign{}
}

func (foreign) Answer(_ context.Context, r bench.Request) (any, error) { return nil, r.Unknown() }
func (foreign) Close() error                                           { return nil }
