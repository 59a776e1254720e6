package ripc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/ripc/internal/table"
	"github.com/squall-go/squall/trust"
)

// fill sends to a service until there is no room, and returns how often.
func fill(t *testing.T, s *Service, to *Remote, body []byte) (sent int) {
	t.Helper()
	for {
		err := s.TrySend(to, body)
		if errors.Is(err, ErrFull) {
			return sent
		}
		must(t, err)
		if sent++; sent > 1<<20 {
			t.Fatal("there is always room")
		}
	}
}

// A service that does not receive leaves other services their room, also between the same two
// processes (RP3, RP4).
func TestAFloodedServiceHarmsNoOther(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		there, here := open(Config{}), open(Config{})
		var deaf []*Service
		for k := range 5 {
			deaf = append(deaf, register(t, there, ID(fmt.Sprint("deaf", k))))
		}
		lively, client := register(t, there, "lively"), register(t, here, "")
		served, stop := context.WithCancel(ctx)
		var serving sync.WaitGroup
		serving.Go(func() { echo(served, lively) })
		defer serving.Wait()
		defer stop()
		sent := make([]int, len(deaf))
		for k := range deaf {
			to := client.To(deaf[k].ID())
			must(t, to.Connect(ctx))
			sent[k] = fill(t, client, to, bytes.Repeat([]byte{byte(k)}, 100))
			if sent[k] < 20 {
				t.Errorf("%s took %d messages", deaf[k].ID(), sent[k])
			}
			for n := range 200 {
				m, err := client.Call(ctx, client.To("lively"), fmt.Append(nil, n))
				must(t, err)
				m.Release()
			}
		}
		if here.Peers() != 1 {
			t.Errorf("%d connections", here.Peers())
		}
		for k, s := range deaf { // nothing was lost, nor changed where it was kept
			for range sent[k] {
				m, err := s.Receive(ctx)
				must(t, err)
				if !bytes.Equal(m.Data, bytes.Repeat([]byte{byte(k)}, 100)) {
					t.Fatalf("%s received %x", s.ID(), m.Data)
				}
				m.Release()
			}
		}
	})
}

func TestAMessageThatIsTooLargeIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{RingBytes: 8 << 10}), "server"), register(t, open(Config{RingBytes: 4 << 10}), "")
		to := client.To("server")
		must(t, to.Connect(ctx))
		if to.MaxMessageBytes() != pair.MaxMessage(4<<10) {
			t.Errorf("the pair takes %d", to.MaxMessageBytes())
		}
		large := make([]byte, to.MaxMessageBytes()+1)
		if err := client.Send(ctx, to, large[:5], large[5:]); !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
		if _, err := client.Call(ctx, to, large); !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
		must(t, client.Send(ctx, to, large[1:]))
		m, err := server.Receive(ctx)
		must(t, err)
		if len(m.Data) != len(large)-1 {
			t.Errorf("%d bytes", len(m.Data))
		}
		m.Release()
	})
}

// The service sees the latest notice of each key at least, and the sender waits for nothing.
func TestANoticeThatWasNotTakenIsReplaced(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{}), "client")
		const rounds, keys = 3000, 5
		last := make(chan uint64, keys)
		seen := map[uint64]uint64{}
		server.OnNotify(func(from ID, key uint64, data []byte) {
			value := binary.LittleEndian.Uint64(data)
			if from != "client" || value < seen[key] {
				t.Errorf("%s tells %d of key %d after %d", from, value, key, seen[key])
			}
			seen[key] = value
			if value == rounds {
				last <- key
			}
		})
		for value := range uint64(rounds) {
			for key := range uint64(keys) {
				must(t, client.Notify(ctx, client.To("server"), key, binary.LittleEndian.AppendUint64(nil, value+1)))
			}
		}
		for range keys {
			select {
			case <-last:
			case <-ctx.Done():
				t.Fatal("the latest notice of a key did not come")
			}
		}
	})
}

// Messages whose endpoint ended are received all the same, and can be kept and released afterwards.
func TestWhatWasSentIsReceivedAfterTheSenderClosed(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server := register(t, open(Config{}), "server")
		there := open(Config{})
		client := register(t, there, "")
		for k := range 50 {
			must(t, client.Send(ctx, client.To("server"), bytes.Repeat([]byte{byte(k)}, 50)))
		}
		must(t, there.Close())
		var kept []Message
		for range 50 {
			m, err := server.Receive(ctx)
			must(t, err)
			kept = append(kept, m)
		}
		for k := range kept {
			if !bytes.Equal(kept[k].Data, bytes.Repeat([]byte{byte(k)}, 50)) {
				t.Errorf("message %d is %x", k, kept[k].Data)
			}
			kept[k].Release()
		}
	})
}

func TestClosingEndsWhatWaits(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		there, here := open(Config{}), open(Config{})
		server, client := register(t, there, "server"), register(t, here, "")
		must(t, client.To("server").Connect(ctx))
		var waiting sync.WaitGroup
		for _, wait := range []func() error{
			func() error { _, err := client.Receive(ctx); return err },
			func() error { _, err := client.Call(ctx, client.To("server")); return err },
			func() error { return client.Serve(ctx, func(context.Context, *Message) {}) },
		} {
			waiting.Go(func() {
				if err := wait(); !errors.Is(err, ErrClosed) {
					t.Errorf("%v", err)
				}
			})
		}
		m, err := server.Receive(ctx) // the call is under way
		must(t, err)
		must(t, here.Close())
		waiting.Wait()
		must(t, m.Reply()) // no caller waits for it
		m.Release()
		if _, err := here.Register(ctx, "late"); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

func TestANameBelongsToTheProcessThatTookItFirst(t *testing.T) {
	ctx := testutil.Within(t)
	first, second := open(t, Config{Transport: TransportSHM}), open(t, Config{Transport: TransportSHM})
	s := register(t, first, "name")
	if _, err := second.Register(ctx, "name"); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	if _, err := first.Register(ctx, "name"); err == nil {
		t.Error("registered twice")
	}
	must(t, s.Close())
	register(t, second, "name")
}

func TestAServiceThatIsNowhere(t *testing.T) {
	ctx := testutil.Within(t)
	client := register(t, open(t, Config{Transport: TransportSHM}), "")
	if err := client.Send(ctx, client.To("nobody")); !errors.Is(err, ErrNoService) {
		t.Error(err)
	}
	listed := register(t, open(t, Config{Transport: TransportSHM, Resolver: Static{"there": {Host: "another", Addr: ""}}}), "")
	if err := listed.Send(ctx, listed.To("there")); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
	if err := listed.Send(ctx, listed.To("elsewhere")); !errors.Is(err, ErrNoService) {
		t.Error(err)
	}
}

// A process without the secret is turned away before it is believed anything.
func TestAProcessWithoutTheSecretIsTurnedAway(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		rejected := make(chan error, 8)
		there := open(Config{Secret: []byte("a"), OnReject: func(err error) { rejected <- err }})
		register(t, there, "server")
		stranger := register(t, open(Config{Secret: []byte("b")}), "")
		if err := stranger.Send(ctx, stranger.To("server")); !errors.Is(err, trust.ErrSecret) || ctx.Err() != nil {
			t.Errorf("a stranger gets: %v", err)
		}
		select {
		case err := <-rejected:
			if !strings.Contains(err.Error(), "secret") {
				t.Error(err)
			}
		case <-ctx.Done():
			t.Error("no sender was told")
		}
		if there.Peers() != 0 {
			t.Errorf("%d peers", there.Peers())
		}
		friend := register(t, open(Config{Secret: []byte("a")}), "")
		must(t, friend.Send(ctx, friend.To("server")))
	})
}

// No more processes are connected than is allowed, and a stranger on the port takes no place.
func TestThePeersAreLimited(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		there := open(Config{MaxPeers: 2, MaxPeersPerClient: 2})
		register(t, there, "server")
		if there.Addr() != "" {
			conn, err := net.Dial("tcp", there.Addr())
			must(t, err)
			defer conn.Close()
		}
		for k := range 3 {
			client := register(t, open(Config{}), "")
			if err := client.Send(ctx, client.To("server")); (err != nil) != (k == 2) {
				t.Errorf("client %d: %v", k, err)
			}
		}
	})
}

// A process that breaks the protocol loses its connection, and no other process is harmed (RP5,
// RP6).
func TestAPeerThatBreaksTheProtocolIsCutOff(t *testing.T) {
	ctx := testutil.Within(t)
	there := open(t, Config{Transport: TransportSHM})
	server := register(t, there, "server")
	served, stop := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() { echo(served, server) })
	defer serving.Wait()
	defer stop()
	good := register(t, open(t, Config{Transport: TransportSHM}), "")
	for k, harm := range []func(own []byte, tx *pair.Sender){
		func(own []byte, _ *pair.Sender) {
			for b := range own[pair.ControlBytes:] {
				own[pair.ControlBytes+b] = 0xff
			}
		},
		func(_ []byte, tx *pair.Sender) { tx.Put(pair.Message, 40, 0, nil) }, // on a channel that is not open
		func(_ []byte, tx *pair.Sender) { tx.Put(pair.Open, 5, 0, [][]byte{[]byte("{")}) },
		func(_ []byte, tx *pair.Sender) { tx.Put(pair.Opened, 9, 0, nil) },
	} {
		evil := open(t, Config{Transport: TransportSHM})
		client := register(t, evil, "")
		must(t, client.To("server").Connect(ctx))
		p := client.To("server").route.Load().peer
		p.send.mu.Lock()
		harm(p.line.own, p.send.tx)
		p.line.link.PushLine(pair.SentLine)
		p.line.link.Flush()
		p.send.mu.Unlock()
		for ended := false; !ended; pause() {
			if ctx.Err() != nil {
				t.Fatalf("harm %d: the connection stands", k)
			}
			evil.lock()
			ended = p.ended()
			evil.unlock()
		}
	}
	m, err := good.Call(ctx, good.To("server"), []byte("still there?"))
	must(t, err)
	if string(m.Data) != "still there?" {
		t.Errorf("%q", m.Data)
	}
	m.Release()
}

func TestAllFaultsOfAConfigurationAreToldAtOnce(t *testing.T) {
	_, err := Open(t.Context(), Config{RingBytes: 5000, MaxPeers: -1, Transport: TransportTCP + 1})
	for _, name := range []string{"RingBytes", "MaxPeers", "Transport"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("nothing about %s: %v", name, err)
		}
	}
}

// Messages that a handler did not reach, because it panicked, are received by the next receiver.
func TestAHandlerThatPanicsLosesOnlyItsMessage(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{}), "")
		to := client.To("server")
		for k := range 6 {
			must(t, client.Send(ctx, to, []byte{byte(k)}))
		}
		var kept Message
		for k := 0; k < 3; k++ {
			func() {
				defer func() {
					if r := recover(); r != "enough" {
						t.Error(r)
					}
				}()
				server.Serve(ctx, func(_ context.Context, m *Message) {
					if k++; int(m.Data[0]) != k-1 {
						t.Errorf("message %d where %d was next", m.Data[0], k-1)
					}
					if k == 2 {
						kept = *m
						m.Release() // twice is as good as once
					}
					if k == 3 {
						panic("enough")
					}
				})
			}()
		}
		for k := 3; k < 6; k++ {
			m, err := server.Receive(ctx)
			must(t, err)
			if int(m.Data[0]) != k {
				t.Errorf("message %d where %d was next", m.Data[0], k)
			}
			m.Release()
		}
		kept.Release() // long gone
		must(t, client.Send(ctx, to, []byte("on")))
		m, err := server.Receive(ctx)
		must(t, err)
		m.Release()
	})
}

// Clients that send nothing are not looked at, however many they are: a client that sends rings.
func TestIdleClientsAreNotLookedAt(t *testing.T) {
	ctx := testutil.Within(t)
	there := open(t, Config{Transport: TransportSHM})
	server := register(t, there, "server")
	served, stop := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() { echo(served, server) })
	defer serving.Wait()
	defer stop()
	var clients []*Service
	for range 40 {
		client := register(t, open(t, Config{Transport: TransportSHM}), "")
		m, err := client.Call(ctx, client.To("server"))
		must(t, err)
		m.Release()
		clients = append(clients, client)
	}
	hot := func() (n int) {
		there.lock()
		defer there.unlock()
		return len(there.hot.Polled())
	}
	for hot() > 0 {
		if pause(); ctx.Err() != nil {
			t.Fatalf("%d of %d idle clients are looked at", hot(), len(clients))
		}
	}
	for _, client := range clients {
		m, err := client.Call(ctx, client.To("server"))
		must(t, err)
		m.Release()
		if n := hot(); n > table.Few+1 {
			t.Errorf("%d clients are looked at", n)
		}
	}
}

// Neither a message nor a call allocates memory.
func TestMessagesAndCallsAllocateNothing(t *testing.T) {
	for _, transport := range []string{"shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			if raceEnabled || invariants.Enabled {
				t.Skip("the race detector allocates, and so does what checks the invariants")
			}
			ctx := testutil.Within(t)
			server, client := register(t, open(t, configOf(transport, t.Name())), "server"), register(t, open(t, configOf(transport, t.Name())), "")
			served, stop := context.WithCancel(ctx)
			var serving sync.WaitGroup
			serving.Go(func() { echo(served, server) })
			defer serving.Wait()
			defer stop()
			to, body := client.To("server"), make([]byte, 64)
			for what, do := range map[string]func() (Message, error){
				"a call": func() (Message, error) { return client.Call(ctx, to, body) },
				"a message and one back": func() (Message, error) {
					if err := client.Send(ctx, to, body[:10], body[10:]); err != nil {
						return Message{}, err
					}
					return client.Receive(ctx)
				},
			} {
				once := func() {
					m, err := do()
					must(t, err)
					m.Release()
				}
				for range 100 {
					once()
				}
				if n := testing.AllocsPerRun(1000, once); n > 0 {
					t.Errorf("%s: %v allocations", what, n)
				}
			}
		})
	}
}

// Strangers of one address that say nothing after the preamble take half of the places.
func TestGreetingsAreLimited(t *testing.T) {
	ctx := testutil.Within(t)
	rejected := make(chan error, 8)
	e := open(t, Config{Transport: TransportTCP, Listen: "127.0.0.1:0", OnReject: func(err error) {
		if errors.Is(err, ErrLimit) {
			rejected <- err
		}
	}})
	for range maxGreetingTCP/2 + 1 {
		conn, err := port.Dial(ctx, e.Addr(), port.KindServices, nil)
		must(t, err)
		defer conn.Close()
	}
	select {
	case err := <-rejected:
		if !strings.Contains(err.Error(), "address loopback") {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("no sender was turned away")
	}
}

// A peer that has ended is among the hot peers until the next step, and the goroutine that looks at
// the hot peers must not touch its memory.
func TestTheMemoryOfAPeerThatEndedIsNotLookedAt(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, here := register(t, open(Config{}), "server"), open(Config{MoveTimeout: -1})
		client := register(t, here, "")
		must(t, client.Send(ctx, client.To("server"), []byte("x")))
		m, err := server.Receive(ctx)
		must(t, err)
		m.Release()
		here.lock()
		p := here.peers[0]
		here.heat(p)
		hot := p.spot.IsHot()
		released, release := make(chan struct{}), p.line.release
		p.line.release = func() error {
			defer close(released)
			return release()
		}
		p.fail(ErrClosed)
		here.unlock()
		select {
		case <-released:
		case <-ctx.Done():
			t.Fatal("the memory of the peer is not given back")
		}
		here.lock()
		defer here.unlock()
		here.hot.Heat(&p.spot) // as it is before the next step
		role := here.role
		here.role = table.Role[*waiter]{}
		if here.glance(nil, client) {
			t.Error("a peer that ended has a message")
		}
		here.role = role
		here.peek()
		here.sharesCore()
		if !hot {
			t.Error("the peer was not hot")
		}
	})
}
