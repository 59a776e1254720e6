// Rpcpeers measures calls of gRPC on a unix socket, active messages of UCX and messages of ZeroMQ,
// between two processes of this machine, in the way of "squall bench ripc", and prints a line of
// JSON. It is a program of a module of its own, so that users of Squall do not get gRPC. UCX and
// ZeroMQ are not linked: it runs ucx_perftest, and a program in C that it compiles.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
)

// raw carries bytes as they are, so that no other codec is measured.
type raw struct{}

func (raw) Name() string                  { return "raw" }
func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), b...)
	return nil
}

const method = "/bench.Echo/Echo"

// echo answers with the bytes of the request.
func echo(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var body []byte
	err := decode(&body)
	return &body, err
}

// serve answers until the standard input ends.
func serve(socket string) error {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bench.Echo", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}},
	}, struct{}{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		s.Stop()
	}()
	fmt.Println("ready")
	return s.Serve(l)
}

// result is the line of JSON.
type result struct {
	Rate float64 `json:"msgs_per_s"`
	P50  float64 `json:"p50_us"` // the mean: calls are not timed one by one
	OK   bool    `json:"ok"`
	Note string  `json:"note,omitempty"`
}

// measure starts the other process and calls it.
func measure(size, callers int, d time.Duration) (r result, err error) {
	dir, err := os.MkdirTemp("", "rpcpeers")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "socket")
	end, err := startServer(socket)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, end()) }()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.CallContentSubtype("raw")))
	if err != nil {
		return r, err
	}
	defer conn.Close()
	if _, err := calls(conn, size, callers, d/5); err != nil {
		return r, err
	}
	began := time.Now()
	n, err := calls(conn, size, callers, d)
	took := time.Since(began)
	r = result{Rate: float64(n) / took.Seconds(), P50: float64(took.Microseconds()) / float64(n) * float64(callers), OK: err == nil}
	return r, err
}

// startServer starts the process that answers, and returns when it listens.
func startServer(socket string) (end func() error, err error) {
	server := exec.Command(os.Args[0], "-serve", socket)
	in, err := server.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return nil, err
	}
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		return nil, err
	}
	end = func() error { return errors.Join(in.Close(), server.Wait()) }
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		return nil, errors.Join(err, end())
	}
	return end, nil
}

// calls has the callers call for a while, and returns how often they did.
func calls(conn *grpc.ClientConn, size, callers int, d time.Duration) (total int, err error) {
	var mu sync.Mutex
	var group sync.WaitGroup
	until := time.Now().Add(d)
	for range callers {
		group.Go(func() {
			body, n := make([]byte, size), 0
			var failed error
			for failed == nil && time.Now().Before(until) {
				var reply []byte
				failed = conn.Invoke(context.Background(), method, &body, &reply)
				n++
			}
			mu.Lock()
			defer mu.Unlock()
			total, err = total+n, errors.Join(err, failed)
		})
	}
	group.Wait()
	return total, err
}

func main() {
	encoding.RegisterCodec(raw{})
	socket := flag.String("serve", "", "answer on this socket")
	system := flag.String("system", "grpc", "grpc, ucx or zeromq")
	fabric := flag.String("fabric", "shm", "of UCX: shm or tcp")
	load := flag.String("load", trips, "of UCX and ZeroMQ: "+trips+" or "+oneWay+"; of UCX over shm: "+intoWindow)
	size := flag.Int("size", 64, "bytes of a request")
	callers := flag.Int("callers", 1, "calls at a time")
	secs := flag.Float64("secs", 1, "seconds")
	flag.Bool("json", true, "print JSON, as always")
	flag.Parse()
	if *socket != "" {
		if err := serve(*socket); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var r result
	var err error
	switch d := time.Duration(*secs * float64(time.Second)); *system {
	case "grpc":
		r, err = measure(*size, *callers, d)
	case "ucx":
		r, err = measureUCX(*fabric, *load, *size, d)
	case "zeromq":
		r, err = measureZeroMQ(*load, *size, d)
	default:
		err = fmt.Errorf("no such system: %s", *system)
	}
	if err != nil {
		r.OK, r.Note = false, err.Error()
	}
	_ = json.NewEncoder(os.Stdout).Encode(r)
}
