package member_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/ripc"
)

var rounds = flag.Int("rounds", testutil.Seeds(1, 3), "rounds of killing, stopping and cutting off on each transport")

// loadTLS reads what Authority.Files wrote.
func loadTLS(files []string) (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(files[0], files[1])
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(files[2])
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s has no certificate", files[2])
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: pool, ClientCAs: pool}, nil
}

// line is the way of clients, or of the other members, to one member. It can be cut, so that
// connections end, or be silent, so that they stay and nothing passes.
type line struct {
	listener net.Listener
	to       string

	mu     sync.Mutex
	cut    bool
	silent chan struct{} // closed when something passes again; nil: something does
	conns  map[net.Conn]bool
}

// newLine begins a line to an address.
func newLine(t testing.TB, to string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{listener: listener, to: to, conns: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { l.carry(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		l.set(true)
		l.hush(false)
		all.Wait()
	})
	return l
}

// carry carries a connection in both directions until it ends or is cut.
func (l *line) carry(c net.Conn) {
	defer c.Close()
	d, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer d.Close()
	l.mu.Lock()
	cut := l.cut
	l.conns[c], l.conns[d] = true, true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, c)
		delete(l.conns, d)
	}()
	if cut {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{c, d}, {d, c}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], heard{way[1], l})
			_ = way[0].Close()
			_ = way[1].Close()
		})
	}
	both.Wait()
}

// heard is a connection of a line as its other end hears it.
type heard struct {
	net.Conn
	l *line
}

func (h heard) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	h.l.mu.Lock()
	silent := h.l.silent
	h.l.mu.Unlock()
	if silent != nil {
		<-silent
	}
	return n, err
}

// hush makes the line silent, or ends that.
func (l *line) hush(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if on == (l.silent != nil) {
		return
	}
	if on {
		l.silent = make(chan struct{})
	} else {
		close(l.silent)
		l.silent = nil
	}
}

// set cuts the line, or mends it.
func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for c := range l.conns {
		if cut {
			_ = c.Close()
		}
	}
}

// TestHistoriesAreLinearizableInEveryRound has clients use a bank on disks, over each transport,
// while its members are killed, alone or all at once, stopped for less and for more than FailAfter,
// and cut off from their clients and, over TCP and TLS, from each other. The history of each round
// is checked. The seed draws what happens first. In the last case the bank is in the memory of
// members that share it, so that reads ask no member; not all of these members end.
func TestHistoriesAreLinearizableInEveryRound(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"shm", "tcp", "tls"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			playRounds(t, transport, true)
		})
	}
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		playRounds(t, "shm", false)
	})
}

// what happens in a round.
const (
	killOne = iota
	killAll
	stopShort
	cutOff
	stopLong
	cutMembers  // connections of the others to a member end, and no other ones begin
	hushMembers // connections of the others to a member carry nothing, and end nowhere
)

func playRounds(t *testing.T, transport string, onDisk bool) {
	f := &fleet{t: t, all: make([]*proc.Child, 3)}
	addrs := []string{testutil.FreeAddress(t), testutil.FreeAddress(t), testutil.FreeAddress(t)}
	var client replicated.ClientConfig
	var files []string
	if transport == "tls" {
		authority := testutil.NewAuthority(t)
		cert, key, ca := authority.Files()
		files, client.Endpoint.TLS = []string{cert, key, ca}, authority.Named("client")
	}
	if transport != "shm" {
		client.Endpoint.Transport = ripc.TransportTCP
	}
	var lines, between []*line
	for i := range f.all {
		spec := memberSpec{
			ID: squall.NodeID(i + 1), Listen: addrs[i], Clients: testutil.FreeAddress(t), Join: addrs, TCP: transport != "shm", TLS: files, FailAfter: 2 * time.Second,
		}
		if onDisk {
			spec.Dir = t.TempDir()
		}
		if transport != "shm" {
			between = append(between, newLine(t, spec.Listen))
			spec.Advertise = between[i].listener.Addr().String()
		}
		f.specs = append(f.specs, spec)
		lines = append(lines, newLine(t, spec.Clients))
		if client.Addresses = append(client.Addresses, lines[i].listener.Addr().String()); transport == "shm" {
			client.Addresses[i] = spec.Clients
		}
		f.start(i)
	}
	t.Cleanup(func() {
		for _, c := range f.all {
			c.Kill()
			_ = c.Wait()
		}
	})
	for i := range f.all {
		f.ready(i)
	}
	seed := testutil.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var banks []*replicated.RemoteObject
	for i := range 6 {
		c := client
		c.Addresses = slices.Concat(client.Addresses[i%3:], client.Addresses[:i%3])
		banks = append(banks, dial(t, c).Object("accounts"))
	}
	happenings := []int{killOne, stopShort, cutOff, stopLong}
	if onDisk {
		happenings = append(happenings, killAll)
	}
	if between != nil {
		happenings = append(happenings, cutMembers, hushMembers)
	}
	total, first := 0, rnd.IntN(len(happenings))
	for round := range *rounds {
		r := newRecording(t, round)
		for i, bank := range banks {
			r.begin(i, bank, rand.New(rand.NewPCG(seed, uint64(1+round*len(banks)+i))))
		}
		awaitCalls(t, &r.mu, &r.calls, 50)
		f.happens(happenings[(first+round)%len(happenings)], rnd.IntN(3), lines, between)
		awaitCalls(t, &r.mu, &r.calls, 50)
		total += r.end()
		f.mend()
	}
	t.Logf("%d rounds, %d operations", *rounds, total)
}

// happens does something to a member, or to all.
func (f *fleet) happens(what, victim int, lines, between []*line) {
	f.t.Helper()
	f.t.Logf("%s (member %d)", [...]string{
		"a member is killed", "all are killed", "a member is stopped", "a member is cut off from clients", "a member is stopped for long", "a member is cut off from the others",
		"a member does not hear the others",
	}[what], victim+1)
	switch what {
	case killOne:
		f.all[victim].Kill()
		_ = f.all[victim].Wait()
	case killAll:
		for _, c := range f.all {
			c.Kill()
		}
		for i, c := range f.all {
			_ = c.Wait()
			f.start(i)
		}
		for i := range f.all {
			f.ready(i)
		}
	case stopShort, stopLong:
		long := 200 * time.Millisecond
		if what == stopLong {
			long = 3 * time.Second // more than FailAfter: the others go on without it
		}
		if err := f.all[victim].Stop(); err != nil {
			f.t.Fatal(err)
		}
		time.Sleep(long) // that is what happens to it
		if err := f.all[victim].Continue(); err != nil {
			f.t.Fatal(err)
		}
		if what == stopLong { // it learns that it was removed, unless the others were as slow
			select {
			case <-f.all[victim].Done():
			case <-time.After(10 * time.Second):
			}
		}
	case cutOff:
		lines[victim].set(true)
		time.AfterFunc(time.Second, func() { lines[victim].set(false) })
	case cutMembers, hushMembers:
		// Connections to the victim break, connections from the victim do not: the victim still reaches
		// members that cannot reach it.
		set := between[victim].set
		if what == hushMembers {
			set = between[victim].hush
		}
		set(true)
		time.Sleep(3 * time.Second) // more than FailAfter; that is what happens to it
		set(false)
	}
}

// mend starts members again that have ended.
func (f *fleet) mend() {
	f.t.Helper()
	for i, c := range f.all {
		select {
		case <-c.Done():
			_ = c.Wait()
			f.start(i)
			f.ready(i)
		default:
		}
	}
}

// recording is the history of a round, in accounts of its own.
type recording struct {
	t     *testing.T
	round int
	began time.Time
	ctx   context.Context
	stop  func()
	done  sync.WaitGroup

	mu    sync.Mutex
	all   []porcupine.Operation
	calls int
}

func newRecording(t *testing.T, round int) *recording {
	r := &recording{t: t, round: round, began: time.Now()}
	r.ctx, r.stop = context.WithCancel(t.Context())
	return r
}

// begin has a client deposit and look until the recording ends.
func (r *recording) begin(client int, bank *replicated.RemoteObject, rnd *rand.Rand) {
	r.done.Go(func() {
		for r.ctx.Err() == nil {
			s := step{account: fmt.Sprintf("%d of round %d", rnd.IntN(3), r.round), amount: int64(rnd.IntN(3))}
			calling, cancel := context.WithTimeout(context.Background(), time.Minute)
			op := porcupine.Operation{ClientId: client, Input: s, Call: time.Since(r.began).Nanoseconds()}
			var n int64
			var err error
			if s.amount == 0 {
				n, err = total.Call(calling, bank, s.account)
			} else {
				n, err = deposit.Call(calling, bank, depositArgs{s.account, s.amount})
			}
			op.Output, op.Return = n, time.Since(r.began).Nanoseconds()
			cancel()
			if err != nil {
				r.t.Errorf("round %d: %v", r.round, err)
				return
			}
			r.mu.Lock()
			r.all = append(r.all, op)
			r.calls++
			r.mu.Unlock()
		}
	})
}

// end waits for the clients, checks what they saw, and returns how much that was.
func (r *recording) end() int {
	r.stop()
	r.done.Wait()
	if verdict := porcupine.CheckOperationsTimeout(history, r.all, time.Minute); verdict != porcupine.Ok {
		r.t.Fatalf("round %d: a history of %d operations: %v", r.round, len(r.all), verdict)
	}
	return len(r.all)
}
