package messages

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// roundTrip is one of two processes: node 1 sends a message and waits until node 2 has sent it
// back.
type roundTrip struct {
	job
	bench.Failing
	listener net.Listener
	stream   stream
	count    uint64
}

func (r *roundTrip) Listen(context.Context) (addr string, err error) {
	addr = "127.0.0.1:0"
	if r.Spec.Network == "unix" {
		addr = "" // the kernel chooses a name that is no file
	}
	if r.Node == 1 {
		return "", nil
	}
	if r.listener, err = net.Listen(r.Spec.Network, addr); err != nil {
		return "", err
	}
	return r.listener.Addr().String(), nil
}

func (r *roundTrip) Connect(ctx context.Context, addrs []string) error {
	if r.Node == 1 {
		conn, err := (&net.Dialer{}).DialContext(ctx, r.Spec.Network, addrs[1])
		if err != nil {
			return err
		}
		r.stream, err = newStream(conn, r.Spec.Spin)
		return err
	}
	defer r.listener.Close()
	conn, err := r.listener.Accept()
	if err != nil {
		return err
	}
	r.stream, err = newStream(conn, r.Spec.Spin)
	return err
}

func (r *roundTrip) run(ctx context.Context, from, to time.Time) (Sample, error) {
	if r.Node == 2 {
		go r.echo()
		return observe(ctx, r, from, to)
	}
	return r.measure(ctx, from, to)
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

func (r *roundTrip) measure(ctx context.Context, from, to time.Time) (s Sample, err error) {
	observed := make(chan error, 1)
	go func() {
		var err error
		s, err = observe(ctx, r, from, to)
		observed <- err
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h := bench.NewHistogram()
	buf := make([]byte, max(1, r.Spec.SizeBytes))
	for h.TotalCount() == 0 || time.Now().Before(to) {
		start := time.Now()
		if err := r.once(buf); err != nil {
			return s, err
		}
		if !start.Before(from) {
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

// snapshot implements counters.
func (r *roundTrip) snapshot() Sample      { return Sample{Delivered: make([]uint64, r.Spec.Nodes)} }
func (r *roundTrip) state() (State, error) { return State{}, nil }
func (r *roundTrip) end() bench.Latency    { return bench.Latency{} }
func (r *roundTrip) Close() error          { return nil }

// stream is a connection out of the hands of Go's poller: a read is a system call that sleeps, or
// is tried again at once.
type stream struct {
	file *os.File // keeps it open
	fd   int
}

func newStream(conn net.Conn, spin bool) (stream, error) {
	defer conn.Close()
	f, err := conn.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		return stream{}, err
	}
	s := stream{f, int(f.Fd())}
	return s, unix.SetNonblock(s.fd, spin)
}

func (s stream) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(s.fd, b)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
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
		if err != nil && err != unix.EAGAIN && err != unix.EINTR {
			return done, os.NewSyscallError("write", err)
		}
		done += max(n, 0)
	}
	return done, nil
}
