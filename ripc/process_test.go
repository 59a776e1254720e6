package ripc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
)

// configOf is the configuration of both processes of a test.
func configOf(transport, domain string) Config {
	cfg := Config{Resolver: OneHost(domain), Transport: TransportSHM, MoveTimeout: -1}
	if transport != "shm" {
		cfg.Transport, cfg.Listen = TransportTCP, "127.0.0.1:0"
	}
	if transport == "tls" {
		cfg.TLS = tlsOfEnv()
	}
	return cfg
}

// certificatesEnv names the files with a certificate, its key and the authority, for both processes
// of a test over TLS.
const certificatesEnv = "RIPC_TEST_CERTIFICATES"

// useCertificates makes certificates for a test over TLS.
func useCertificates(t *testing.T) {
	cert, key, ca := testutil.NewAuthority(t).Files()
	t.Setenv(certificatesEnv, strings.Join([]string{cert, key, ca}, "\n"))
}

// tlsOfEnv is the configuration that certificatesEnv names.
func tlsOfEnv() *tls.Config {
	files := strings.Split(os.Getenv(certificatesEnv), "\n")
	if len(files) != 3 {
		panic("no certificates: " + certificatesEnv)
	}
	own, err := tls.LoadX509KeyPair(files[0], files[1])
	if err != nil {
		panic(err)
	}
	ca, err := os.ReadFile(files[2])
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &tls.Config{Certificates: []tls.Certificate{own}, RootCAs: pool, ClientCAs: pool}
}

// kills is how many processes of each transport are killed.
var kills = flag.Int("kills", testutil.Seeds(10, 20), "processes that a test of killed processes kills, over each transport")

// runChild is the main function of a child: this test again, as the process with the service of a
// test. It says that it is ready on its standard output, and ends with its standard input. Its
// arguments are its part, its transport, the domain of its services, and what its part needs.
func runChild(args []string) error {
	part, transport, domain := args[0], args[1], args[2]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e, err := Open(ctx, configOf(transport, domain))
	if err != nil {
		return err
	}
	s, err := e.Register(ctx, "server")
	if err != nil {
		return err
	}
	if part == "long" {
		if err := s.TakeLong(inLib); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	go func() {
		var b [1]byte
		os.Stdin.Read(b[:])
		cancel()
	}()
	switch part {
	case "echo":
		err = echo(ctx, s)
	case "long":
		err = s.Serve(ctx, func(ctx context.Context, m *Message) { m.ReplyLong(ctx, NewBody(m.Body())) })
	case "count": // tells what it received, after each message, in a file that outlives it
		file, cerr := os.OpenFile(args[3], os.O_WRONLY, 0)
		if cerr != nil {
			return cerr
		}
		err = countTo(ctx, s, file)
	case "flood": // sends to the sender of each message
		m, rerr := s.Receive(ctx)
		if rerr != nil {
			return rerr
		}
		for to, k := m.Sender(), uint64(0); err == nil; k++ {
			err = s.Send(ctx, to, binary.LittleEndian.AppendUint64(nil, k))
		}
	}
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, e.Close())
}

// countTo receives messages and notes how many.
func countTo(ctx context.Context, s *Service, file *os.File) error {
	for k := uint64(1); ; k++ {
		m, err := s.Receive(ctx)
		if err != nil {
			return err
		}
		if got := binary.LittleEndian.Uint64(m.Data); got != k-1 {
			return fmt.Errorf("received %d, %d was next", got, k-1)
		}
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], k)
		if _, err := file.WriteAt(b[:], 0); err != nil {
			return err
		}
		m.Release()
	}
}

// startChild starts a child and waits until it is ready.
func startChild(t *testing.T, part, transport, domain string, more ...string) *testutil.Program {
	t.Helper()
	p := testutil.StartProgram(t, append([]string{part, transport, domain}, more...)...)
	p.Await("ready")
	return p
}

// When the process of a service is killed, its senders learn how many messages it has not received:
// exactly those, in shared memory.
func TestTheSenderLearnsWhatAKilledProcessDidNotReceive(t *testing.T) {
	rounds := *kills
	if testing.Short() {
		rounds = min(rounds, 3)
	}
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			useCertificates(t)
			for round := range rounds {
				killReceiver(t, transport, fmt.Sprint(t.Name(), round, os.Getpid()), time.Duration(round%40)*time.Millisecond)
			}
		})
	}
}

func killReceiver(t *testing.T, transport, domain string, after time.Duration) {
	ctx := testutil.Within(t)
	file, err := os.CreateTemp(t.TempDir(), "count")
	must(t, err)
	defer file.Close()
	_, err = file.WriteAt(make([]byte, 8), 0)
	must(t, err)
	server := startChild(t, "count", transport, domain, file.Name())
	client := register(t, open(t, configOf(transport, domain)), "")
	to := client.To("server")
	must(t, to.Connect(ctx))
	var killing sync.WaitGroup
	killing.Go(func() {
		time.Sleep(after) // any moment will do
		server.Kill()
	})
	defer killing.Wait()
	sent := 0
	for {
		err := client.Send(ctx, to, binary.LittleEndian.AppendUint64(nil, uint64(sent)))
		if err == nil {
			sent++
			continue
		}
		received := make([]byte, 8)
		_, rerr := file.ReadAt(received, 0)
		must(t, rerr)
		n := int(binary.LittleEndian.Uint64(received))
		gone, ok := errors.AsType[*GoneError](err)
		if !ok { // it had received all: the next message looks for the service, which is nowhere
			if !errors.Is(err, ErrNoService) && !errors.Is(err, ErrUnreachable) || n < sent-1 {
				t.Errorf("%d of %d messages were received, and the error is %v", n, sent, err)
			}
			return
		}
		if !errors.Is(err, ErrPeerGone) || gone.Service != "server" || gone.Exact != (transport == "shm") {
			t.Errorf("%#v", gone)
		}
		// The process may have been killed between the message and the note of it.
		if unreceived := sent - n; gone.Exact && gone.Unreceived != unreceived && gone.Unreceived != unreceived-1 || gone.Unreceived < unreceived-1 {
			t.Errorf("%d of %d messages were received, and the error says that %d were not", n, sent, gone.Unreceived)
		}
		return
	}
}

// What a process sent before it was killed is received, and calls to it end.
func TestWhatAKilledProcessSentIsReceived(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			useCertificates(t)
			ctx := testutil.Within(t)
			domain := fmt.Sprint(t.Name(), os.Getpid())
			server := startChild(t, "flood", transport, domain)
			client := register(t, open(t, configOf(transport, domain)), "")
			must(t, client.Send(ctx, client.To("server"), nil))
			receive := func() bool {
				short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
				defer cancel()
				m, err := client.Receive(short)
				m.Release()
				return err == nil
			}
			for range 1000 {
				if !receive() {
					t.Fatal("the flood ended by itself")
				}
			}
			server.Kill()
			for receive() { // what was under way
			}
			if _, err := client.Call(ctx, client.To("server")); err == nil {
				t.Error("a process that was killed answered")
			}
		})
	}
}

// A call to a process that is killed ends, and a later one finds the process that took its place.
func TestCallsGoOnWithTheNextProcess(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			useCertificates(t)
			ctx := testutil.Within(t)
			domain := fmt.Sprint(t.Name(), os.Getpid())
			client := register(t, open(t, configOf(transport, domain)), "")
			to := client.To("server")
			for round := range 5 {
				server := startChild(t, "echo", transport, domain)
				var calling sync.WaitGroup
				for range 4 {
					calling.Go(func() {
						for {
							m, err := client.Call(ctx, to, []byte("well?"))
							if err != nil {
								if !errors.Is(err, ErrPeerGone) && !errors.Is(err, ErrNoService) && !errors.Is(err, ErrUnreachable) {
									t.Errorf("round %d: %v", round, err)
								}
								return
							}
							if string(m.Data) != "well?" {
								t.Errorf("%q", m.Data)
							}
							m.Release()
						}
					})
				}
				time.Sleep(20 * time.Millisecond) // any moment will do
				server.Kill()
				calling.Wait()
			}
		})
	}
}
