package ripc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// bytesOf is what is counted for an account, and for all of them.
func bytesOf(e *Endpoint, name string) (of, all int64) {
	e.lock()
	defer e.unlock()
	if a := e.accounts.Find(name); a != nil {
		of = a.Bytes()
	}
	return of, e.accounts.Bytes()
}

// flood is a caller that sends messages over several connections to services that do not receive,
// from several services.
type flood struct {
	from []*Service
	sent map[ID]int
}

// send sends until no service finds room any more, and done says that the server takes no more.
func (f *flood) send(t *testing.T, to ID, size int, done func() bool) {
	t.Helper()
	b := make([]byte, size)
	for full := 0; full < len(f.from) || !done(); {
		for _, s := range f.from {
			binary.LittleEndian.PutUint64(b, uint64(f.sent[s.ID()]))
			switch err := s.TrySend(s.To(to), b); {
			case err == nil:
				f.sent[s.ID()]++
				full = 0
			case errors.Is(err, ErrFull):
				full++
			default:
				t.Fatal(err)
			}
		}
	}
}

// A caller that floods a service over several connections, from many services, has the memory of
// one caller. Other callers notice nothing, and when the service receives, all messages are there,
// in the order of each sender (RP17).
func TestTheMessagesOfOneCallerAreBounded(t *testing.T) {
	for _, size := range []int{8, 3000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			ctx := testutil.Within(t)
			authority := testutil.NewAuthority(t)
			const most = 1 << 20
			there := overTLS(t, authority, "server", Config{MaxBytesPerClient: most})
			server, other := register(t, there, "server"), register(t, there, "other")
			hostile := flood{sent: map[ID]int{}}
			for range 3 {
				e := overTLS(t, authority, "flood", Config{RingBytes: 128 << 10})
				for k := range 20 {
					s := register(t, e, ID(fmt.Sprintf("%v %d", e, k)))
					must(t, s.To("server").Connect(ctx))
					hostile.from = append(hostile.from, s)
				}
			}
			hostile.send(t, "server", size, func() bool { // until a pair found no memory
				must(t, ctx.Err())
				pause()
				there.lock()
				defer there.unlock()
				return there.accounts.Find("identity CN=flood").Starved() > 0
			})
			of, all := bytesOf(there, "identity CN=flood")
			if of > most || of < most*3/4 || all < of {
				t.Errorf("%d of %d bytes are counted, %d of all", of, most, all)
			}
			client := register(t, overTLS(t, authority, "client", Config{}), "")
			done := make(chan struct{})
			go func() {
				defer close(done)
				m, err := other.Receive(ctx)
				if err == nil {
					err = m.Reply(m.Data)
					m.Release()
				}
				if err != nil {
					t.Error(err)
				}
			}()
			m, err := client.Call(ctx, client.To("other"), make([]byte, 1000))
			must(t, err)
			m.Release()
			<-done

			next, sum := map[ID]int{}, 0
			for _, n := range hostile.sent {
				sum += n
			}
			for range sum {
				m, err := server.Receive(ctx)
				must(t, err)
				if got := int(binary.LittleEndian.Uint64(m.Data)); got != next[m.From()] {
					t.Fatalf("message %d of %s where %d is next", got, m.From(), next[m.From()])
				}
				next[m.From()]++
				m.Release()
			}
			if now, _ := bytesOf(there, "identity CN=flood"); now > of {
				t.Errorf("%d bytes are counted, %d were with messages", now, of)
			}
			for _, s := range hostile.from {
				must(t, s.e.Close())
			}
			must(t, client.e.Close())
			for all > 0 {
				pause()
				must(t, ctx.Err())
				_, all = bytesOf(there, "")
			}
			there.lock()
			defer there.unlock()
			if there.accounts.Len() != 0 {
				t.Errorf("%+v", there.accounts)
			}
		})
	}
}

// Heads of long messages that wait for a window are in the memory of their caller, and stay in its
// rings when there is none. No message is lost, and another caller's are received before.
func TestTheHeadsOfLongMessagesOfOneCallerAreBounded(t *testing.T) {
	ctx := testutil.Within(t)
	authority := testutil.NewAuthority(t)
	const (
		most     = 1 << 20
		services = 8
		each     = 12
	)
	there := overTLS(t, authority, "server", Config{MaxBytesPerClient: most})
	server, other := register(t, there, "server"), register(t, there, "other")
	must(t, server.Post()) // it takes long messages, which wait for a window
	head := func(from, k int) []byte {
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(make([]byte, 0, 20000), uint32(from)), uint32(k))[:20000]
	}
	var sending sync.WaitGroup
	var floods [2]*Endpoint // both connect before one of them takes all bytes of their account
	for i := range floods {
		floods[i] = overTLS(t, authority, "flood", Config{RingBytes: 128 << 10})
		s := register(t, floods[i], "")
		must(t, s.To("server").Connect(ctx))
	}
	for _, e := range floods {
		for n := range services {
			s := register(t, e, "")
			for k := range each { // all at a time
				sending.Go(func() {
					if err := s.SendLong(ctx, s.To("server"), NewBody([]byte{byte(k)}), head(n, k)); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
	for starved := false; !starved; pause() {
		must(t, ctx.Err())
		there.lock()
		a := there.accounts.Find("identity CN=flood")
		starved = a != nil && a.Starved() > 0
		there.unlock()
	}
	if of, _ := bytesOf(there, "identity CN=flood"); of > most {
		t.Errorf("%d bytes are counted, the limit is %d", of, most)
	}
	client := register(t, overTLS(t, authority, "client", Config{}), "")
	must(t, other.TakeLong(inLib))
	sending.Go(func() {
		if err := client.SendLong(ctx, client.To("other"), NewBody([]byte("body"))); err != nil {
			t.Error(err)
		}
	})
	m, err := other.Receive(ctx)
	must(t, err)
	m.Release()
	for k := range 2 * services * each {
		must(t, server.Post(NewWindow(make([]byte, 1))))
		m, err := server.Receive(ctx)
		must(t, err)
		from, number := int(binary.LittleEndian.Uint32(m.Data)), int(binary.LittleEndian.Uint32(m.Data[4:]))
		if len(m.Data) != 20000 || from >= services || len(m.Body()) != 1 || int(m.Body()[0]) != number {
			t.Fatalf("message %d: head of %d bytes, %d of %d, body %v", k, len(m.Data), number, from, m.Body())
		}
		m.Release()
	}
	sending.Wait()
}

// A goroutine that sleeps for another service takes what waits in the ring as soon as the
// application gives memory back.
func TestMemoryThatIsGivenBackWakesWhoSleeps(t *testing.T) {
	ctx := testutil.Within(t)
	authority := testutil.NewAuthority(t)
	there := overTLS(t, authority, "server", Config{MaxBytesPerClient: 1 << 20})
	server, other := register(t, there, "server"), register(t, there, "other")
	e := overTLS(t, authority, "flood", Config{RingBytes: 128 << 10})
	hostile := flood{sent: map[ID]int{}}
	for range 30 {
		s := register(t, e, "")
		must(t, s.To("server").Connect(ctx))
		hostile.from = append(hostile.from, s)
	}
	hostile.send(t, "server", 3000, func() bool {
		must(t, ctx.Err())
		pause()
		there.lock()
		defer there.unlock()
		return there.accounts.Find("identity CN=flood").Starved() > 0
	})
	waiting, stop := context.WithCancel(ctx)
	var sleeper sync.WaitGroup
	sleeper.Go(func() {
		if _, err := other.Receive(waiting); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	defer sleeper.Wait()
	defer stop()
	there.lock()
	var held []Message
	for server.queue.len() > 0 {
		var m Message
		server.next(&m)
		held = append(held, m)
	}
	there.unlock()
	var steps, same uint64
	inTime(t, "the goroutine to sleep for good", func() bool {
		there.lock()
		defer there.unlock()
		if same++; there.hot.Steps() != steps || !there.role.IsAsleep() || there.role.Has(&there.caretaker.seat) {
			steps, same = there.hot.Steps(), 0
		}
		return same == 100
	})
	for i := range 4 { // so little that the peer is not told: what is written to its socket wakes the goroutine, too
		held[i].Release()
	}
	inTime(t, "messages that were in the ring", func() bool {
		there.lock()
		defer there.unlock()
		return server.queue.len() > 0
	})
}

// The rings of all connections of one caller count: it chooses their size, and over a socket this
// process has a copy of each.
func TestTheRingsOfOneCallerAreBounded(t *testing.T) {
	ctx := testutil.Within(t)
	authority := testutil.NewAuthority(t)
	there := overTLS(t, authority, "server", Config{MaxBytesPerClient: 3 << 20, MaxBytes: 5 << 20})
	register(t, there, "server")
	connect := func(name string, ring int) (*Endpoint, error) {
		e := overTLS(t, authority, name, Config{RingBytes: ring})
		return e, register(t, e, "").To("server").Connect(ctx)
	}
	var ends []*Endpoint
	for k := range 3 {
		e, err := connect("flood", 1<<20)
		if refused := k == 2; errors.Is(err, ErrRefused) != refused || err != nil && !refused {
			t.Errorf("connection %d: %v", k, err)
		}
		ends = append(ends, e)
	}
	if _, err := connect("client", DefaultRingBytes); err != nil {
		t.Error(err)
	}
	must(t, ends[0].Close())
	for there.Peers() > 2 {
		must(t, ctx.Err())
		pause()
	}
	for {
		if of, _ := bytesOf(there, "identity CN=flood"); of < 2<<20 {
			break
		}
		must(t, ctx.Err())
		pause()
	}
	if _, err := connect("flood", 1<<20); err != nil {
		t.Error(err)
	}
}

// A caller has as many streams over all of its connections and services as its memory allows, and
// no more.
func TestTheStreamsOfOneCallerAreBounded(t *testing.T) {
	ctx := testutil.Within(t)
	authority := testutil.NewAuthority(t)
	const streams = 10
	base := pairBytes(pair.Shape(DefaultRingBytes).RowBytes, pair.Shape(DefaultRingBytes).RowBytes, false)
	there := overTLS(t, authority, "server", Config{MaxBytesPerClient: 2*base + streams*DefaultStreamBytes})
	l := ListenConfig{MaxStreams: streams / 2}.Listen(register(t, there, "server"))
	var flood []*Service
	for range 2 {
		e := overTLS(t, authority, "flood", Config{})
		flood = append(flood, register(t, e, ""), register(t, e, ""))
		must(t, flood[len(flood)-1].To("server").Connect(ctx))
	}
	var open []*Stream
	for k := range 4 * streams { // refused streams leave no state behind
		c, err := flood[k%len(flood)].Dial(ctx, "server")
		if refused := k >= streams; errors.Is(err, ErrRefused) != refused || err != nil && !refused {
			t.Fatalf("stream %d: %v", k, err)
		}
		if err == nil {
			open = append(open, c)
		}
	}
	client := register(t, overTLS(t, authority, "client", Config{}), "")
	c, err := client.Dial(ctx, "server")
	must(t, err)
	must(t, c.Close())
	for range open {
		accepted, err := l.Accept()
		must(t, err)
		must(t, accepted.Close())
	}
	for _, c := range open {
		must(t, c.Close())
	}
	for again := range flood {
		c, err := flood[again].Dial(ctx, "server")
		must(t, err)
		must(t, c.Close())
	}
}

// StreamBytes is how much of a stream may wait to be read, and counts for each stream at both ends,
// also at the end that opened it: Dial fails when there is no memory for one more.
func TestTheBytesOfAStreamCountForItsPeer(t *testing.T) {
	ctx := testutil.Within(t)
	authority := testutil.NewAuthority(t)
	const most, streams = 256 << 10, 3
	base := pairBytes(pair.Shape(DefaultRingBytes).RowBytes, pair.Shape(DefaultRingBytes).RowBytes, false)
	there := overTLS(t, authority, "server", Config{StreamBytes: most})
	here := overTLS(t, authority, "client", Config{StreamBytes: 2 * most, MaxBytesPerClient: base + streams*2*most})
	l, client := Listen(register(t, there, "server")), register(t, here, "")
	var open []*Stream
	for range streams {
		c, err := client.Dial(ctx, "server")
		must(t, err)
		open = append(open, c)
	}
	if _, err := client.Dial(ctx, "server"); !errors.Is(err, ErrLimit) {
		t.Fatalf("a stream for which there is no memory: %v", err)
	}
	accepted, err := l.Accept()
	must(t, err)
	for from, c := range map[*Stream]int{open[0]: most, accepted.(*Stream): 2 * most} { // nobody reads
		_, err := from.Write(make([]byte, c))
		must(t, err)
		from.e.lock()
		if n := from.core.Sendable(1); n != 0 {
			t.Errorf("%d bytes are sent, and more may be", c)
		}
		from.e.unlock()
	}
	if of, _ := bytesOf(here, "identity CN=server"); of != base+streams*2*most {
		t.Errorf("%d bytes are counted for the server", of)
	}
	must(t, open[1].Close())
	again, err := client.Dial(ctx, "server")
	must(t, err)
	for _, c := range []*Stream{open[0], open[2], again} {
		must(t, c.Close())
	}
	if of, _ := bytesOf(here, "identity CN=server"); of != base {
		t.Errorf("%d bytes are counted for the server without streams", of)
	}
	for _, n := range []int{MinStreamBytes - 1, MaxStreamBytes + 1, -1} {
		if _, err := Open(ctx, Config{StreamBytes: n}); err == nil {
			t.Errorf("StreamBytes %d is no fault", n)
		}
	}
}

// One process cannot be many callers by the choice of the address from which it calls.
func TestAnAddressThatACallerChoosesIsNoOtherAccount(t *testing.T) {
	for _, same := range [][]string{
		{"127.0.0.1:1", "127.0.0.1:2", "127.9.8.7:1", "[::1]:1", "[::ffff:127.0.0.1]:1"},
		{"192.0.2.1:1", "192.0.2.1:2", "[::ffff:192.0.2.1]:3"},
		{"[2001:db8::1]:1", "[2001:db8::ffff:1]:1"},
		{"[fe80::1%eth0]:1", "[fe80::2%eth0]:1"},
	} {
		for _, addr := range same {
			if got, want := (Peer{Addr: addr}).account(), (Peer{Addr: same[0]}).account(); got != want {
				t.Errorf("%s is %q, %s is %q", addr, got, same[0], want)
			}
		}
	}
	all := map[string]bool{}
	different := []Peer{{Addr: "127.0.0.1:1"}, {Addr: "192.0.2.1:1"}, {Addr: "192.0.2.2:1"}, {Addr: "[2001:db8::1]:1"}, {Addr: "[2001:db8:0:1::1]:1"},
		{Addr: "[fe80::1%eth0]:1"}, {Addr: "[fe80::1%eth1]:1"}, {Identity: "CN=a"}, {Process: 1}, {Process: 2}}
	for _, p := range different {
		all[p.account()] = true
	}
	if len(all) != len(different) {
		t.Error(all)
	}
}

// A receiver that found no memory for a frame goes on when the application gives one of its frames
// back, also if no byte becomes free and nothing more comes from the peer.
func TestAReceiverWithoutMemoryGoesOnWithItsOwnFrames(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		const count = 400
		there := open(Config{})
		server, client := register(t, there, "server"), register(t, open(Config{}), "")
		to := client.To("server")
		must(t, to.Connect(ctx))
		there.lock()
		p := there.peers[0]
		there.accounts.Limits.BytesPerAccount = p.member.Charged() + 1<<10
		there.unlock()
		for k := range count {
			must(t, client.Send(ctx, to, binary.LittleEndian.AppendUint32(nil, uint32(k))))
		}
		for rests := false; !rests; pause() { // it has found no memory, and is looked at no more
			must(t, ctx.Err())
			there.lock()
			rests = p.member.IsStarved() && (!p.spot.IsHot() || p.spot.Always)
			there.unlock()
		}
		for k := range count {
			m, err := server.Receive(ctx)
			must(t, err)
			if got := binary.LittleEndian.Uint32(m.Data); got != uint32(k) {
				t.Fatalf("message %d where %d is next", got, k)
			}
			m.Release()
		}
	})
}

// The head of a long reply that found no memory lies in the ring. It stays there while the caller
// has it, also when there is memory again.
func TestTheHeadOfAReplyStaysWhereItsCallerHasIt(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		const ring, head = 128 << 10, 20000
		here := open(Config{RingBytes: ring})
		server, client := register(t, open(Config{RingBytes: ring}), "server"), register(t, here, "")
		must(t, server.TakeLong(inLib))
		go server.Serve(ctx, func(ctx context.Context, m *Message) {
			if m.Body() == nil {
				_ = m.Reply(make([]byte, head))
			} else if err := m.ReplyLong(ctx, NewBody(m.Body()), make([]byte, head)); err != nil {
				t.Error(err)
			}
		})
		to := client.To("server")
		must(t, to.Connect(ctx))
		here.lock()
		p := here.peers[0]
		here.accounts.Limits.BytesPerAccount = p.member.Account.Bytes()
		here.unlock()
		replies := make([]Message, 4)
		var err error
		replies[0], err = client.CallLong(ctx, to, make([]byte, 1), NewBody([]byte{1}))
		must(t, err)
		here.lock()
		here.accounts.Limits.BytesPerAccount += ring
		here.unlock()
		for k := range replies[1:] { // with the head of the first one, more than half of the ring
			replies[k+1], err = client.Call(ctx, to, nil)
			must(t, err)
		}
		here.lock()
		moved := &replies[0].frame.Data[0] != &replies[0].Data[0]
		here.unlock()
		if moved {
			t.Error("the head was moved, and the peer may write over what its caller has")
		}
		for k := range replies {
			replies[k].Release()
		}
	})
}
