package dds_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/testutil"
)

var inSets = dds.QoS{Presentation: qos.Presentation{Access: qos.GroupScope, Coherent: true}, KeepUnregistered: true}

// two declares two topics, for sets that span them.
func two(t *testing.T, p dds.Space) (both [2]*dds.Topic[position]) {
	t.Helper()
	for i := range both {
		tp, err := dds.NewTopic(t.Context(), p, fmt.Sprint("topic ", i), dds.CBOR[position](), dds.QoS{})
		if err != nil {
			t.Fatal(err)
		}
		both[i] = tp
	}
	return both
}

// blocking encodes a sample when it is let.
type blocking struct {
	dds.Codec[position]
	once       *sync.Once
	begun, let chan struct{}
}

func (b blocking) Append(dst []byte, v *position) ([]byte, error) {
	b.once.Do(func() { close(b.begun) })
	<-b.let
	return b.Codec.Append(dst, v)
}

// Nothing is left of a set of which the function panics, and a sample that is being written when
// the function returns is one of the set: at a client and at a member.
func TestACoherentSetEndsWhateverTheFunctionDoes(t *testing.T) {
	all := open(t, 1, nil)
	c := dial(t, nil, serve(t, all[0], member.RelayConfig{}).Addr())
	for name, p := range map[string]interface {
		dds.Space
		Coherent(context.Context, func(*dds.CoherentSet) error) error
	}{"client": c, "member": all[0]} {
		codec := blocking{dds.CBOR[position](), &sync.Once{}, make(chan struct{}), make(chan struct{})}
		slow, err := dds.NewTopic(t.Context(), p, name, codec, dds.QoS{})
		if err != nil {
			t.Fatal(err)
		}
		late, plain := writer(t, slow, inSets), writer(t, two(t, p)[0], inSets)
		set := inSets
		set.KeepUnregistered, set.History = false, qos.KeepAll()
		r := reader(t, slow, set)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the panic is lost", name)
				}
			}()
			_ = p.Coherent(t.Context(), func(s *dds.CoherentSet) error {
				if err := plain.WriteIn(t.Context(), s, position{}); err != nil {
					t.Error(err)
				}
				panic("the application")
			})
		}()
		written := make(chan error, 1)
		err = p.Coherent(testutil.Within(t), func(s *dds.CoherentSet) error {
			go func() { written <- late.WriteIn(t.Context(), s, position{N: 7}) }()
			<-codec.begun
			go func() { // once the function has returned
				for !dds.Ending(s) && t.Context().Err() == nil {
					time.Sleep(time.Millisecond)
				}
				close(codec.let)
			}()
			return nil
		})
		if err := errors.Join(err, <-written); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := r.Next(testutil.Within(t)); err != nil || got.Value.N != 7 {
			t.Errorf("%s: the reader has %+v, %v", name, got, err)
		}
	}
	for end := time.Now().Add(30 * time.Second); dds.OpenSets(c) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d sets of the client are open", dds.OpenSets(c))
		}
	}
}

// A sample that is being written does not hold up the end of a set whose context has ended. The
// set is dropped: what it had is not seen, and what comes later is.
func TestACoherentSetWhoseContextEndsIsDropped(t *testing.T) {
	t.Parallel()
	all := open(t, 1, nil)
	codec := blocking{dds.CBOR[position](), &sync.Once{}, make(chan struct{}), make(chan struct{})}
	slow, err := dds.NewTopic(t.Context(), all[0], "slow", codec, dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, slow, inSets)
	set := inSets
	set.KeepUnregistered, set.History = false, qos.KeepAll()
	r := reader(t, slow, set)
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan error, 1)
	err = all[0].Coherent(ctx, func(s *dds.CoherentSet) error {
		go func() { written <- w.WriteIn(t.Context(), s, position{N: 1}) }()
		<-codec.begun
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the set ended with %v", err)
	}
	close(codec.let)
	if err := <-written; err != nil {
		t.Error(err)
	}
	err = all[0].Coherent(t.Context(), func(s *dds.CoherentSet) error { return w.WriteIn(t.Context(), s, position{N: 2}) })
	if err != nil {
		t.Error(err)
	}
	if got, err := r.Next(testutil.Within(t)); err != nil || got.Value.N != 2 {
		t.Errorf("the reader has %+v, %v", got, err)
	}
}

// A client's set takes effect at one position, over two topics, at a reader of a member and at one
// of a client; or not at all.
func TestACoherentSetOfAClientIsThereAsAWhole(t *testing.T) {
	all := open(t, 2, nil)
	relay := serve(t, all[0], member.RelayConfig{})
	c := dial(t, nil, relay.Addr())
	var readers []*dds.Reader[position]
	set := inSets
	set.KeepUnregistered, set.History = false, qos.KeepAll()
	for _, p := range []dds.Space{all[1], dial(t, nil, relay.Addr())} {
		for _, tp := range two(t, p) {
			readers = append(readers, reader(t, tp, set))
		}
	}
	var writers [2]*dds.Writer[position]
	var plain *dds.Writer[position]
	for i, tp := range two(t, c) {
		writers[i], plain = writer(t, tp, inSets), writer(t, tp, dds.QoS{})
	}
	failed := errors.New("the application gives up")
	var kept *dds.CoherentSet
	if err := c.Coherent(t.Context(), func(s *dds.CoherentSet) error {
		kept = s
		return errors.Join(failed, writers[0].WriteIn(t.Context(), s, position{N: 1}))
	}); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	if err := writers[0].WriteIn(t.Context(), kept, position{}); !errors.Is(err, dds.ErrUnknown) {
		t.Errorf("a set that has ended: %v", err)
	}
	if err := c.Coherent(t.Context(), func(*dds.CoherentSet) error { return nil }); err != nil {
		t.Errorf("a set of nothing: %v", err)
	}
	err := c.Coherent(testutil.Within(t), func(s *dds.CoherentSet) error {
		for i := range int32(10) {
			if err := writers[i%2].WriteIn(t.Context(), s, position{Vehicle: i, N: 2}); err != nil {
				return err
			}
		}
		write(t, writers[0], position{Vehicle: 10, N: 1}) // it is no part of the set, and comes before it
		if err := plain.WriteIn(t.Context(), s, position{}); !errors.Is(err, qos.ErrInconsistent) {
			t.Errorf("a writer that offers no coherent access: %v", err)
		}
		if err := writers[0].WriteIn(t.Context(), &dds.CoherentSet{}, position{}); !errors.Is(err, dds.ErrUnknown) {
			t.Errorf("a set of no participant: %v", err)
		}
		large := position{From: strings.Repeat("x", 4<<10)}
		return c.Coherent(testutil.Within(t), func(s *dds.CoherentSet) error { // sets may be written at the same time
			for range 2000 {
				if err := writers[0].WriteIn(t.Context(), s, large); errors.Is(err, dds.ErrTooLarge) {
					return nil
				} else if err != nil {
					return err
				}
			}
			return errors.New("a set of 8 MB is taken")
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	var positions []uint64
	for i, r := range readers {
		for {
			s := next(t, r, 1)[0]
			if s.Value.N == 2 {
				positions = append(positions, s.Info.Position)
				if len(positions)%5 == 0 {
					break
				}
			} else if s.Value.N == 1 && len(positions)%5 > 0 {
				t.Errorf("reader %d has %+v in the set", i, s)
			}
		}
	}
	for _, p := range positions {
		if p != positions[0] {
			t.Fatalf("the set is at the positions %v", positions)
		}
	}
	if err := writers[0].Close(testutil.Within(t)); err != nil {
		t.Fatal(err)
	}
	if err := c.Coherent(testutil.Within(t), func(s *dds.CoherentSet) error { return writers[0].WriteIn(t.Context(), s, position{}) }); !errors.Is(err, dds.ErrUnknown) {
		t.Errorf("a writer that was closed: %v", err)
	}
}

// A client that ends in the middle of what it sends of a set has written nothing of it, and leaves
// nothing behind.
func TestASetOfAClientThatEndsWithinItIsDropped(t *testing.T) {
	all := open(t, 1, nil)
	relay := serve(t, all[0], member.RelayConfig{ClientGrace: time.Millisecond})
	r := reader(t, topic(t, all[0], dds.QoS{}), dds.QoS{History: qos.KeepAll()})
	conn := dialRaw(t, relay.Addr())
	ask(t, conn, remote.KindHello, remote.Hello{Version: remote.Version, Cluster: "test", Space: "fleet"}, remote.KindWelcome)
	open := remote.Request{Call: 1, Op: remote.OpOpen, Number: 1, Topic: &space.TopicInfo{Name: "positions"}, QoS: &inSets}
	var a remote.Answer
	if err := remote.ParseValue(ask(t, conn, remote.KindRequest, open, remote.KindAnswer), &a); err != nil || a.Err() != nil {
		t.Fatal(err, a.Err())
	}
	if n, err := r.Matched(testutil.Within(t), 1); err != nil {
		t.Fatal(n, err)
	}
	key := []byte{0, 0, 0, 1}
	frames := remote.AppendSample(nil, 1, &remote.Entry{Sequence: 1, Key: key, Data: []byte{0xa0}})
	for n := uint64(2); n < 5; n++ {
		frames = remote.AppendSample(frames, 1, &remote.Entry{Sequence: n, Set: 1, Key: key, Data: []byte{0xa0}})
	}
	if _, err := conn.Write(frames); err != nil {
		t.Fatal(err)
	}
	first := next(t, r, 1)[0]
	if !first.Info.Valid {
		t.Fatalf("got %+v", first)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	// Between them are the samples of the set, and its end, without which all members would keep it.
	if got := next(t, r, 1)[0]; got.Info.Instance != dds.InstanceNoWriters || got.Info.Position < first.Info.Position+5 {
		t.Errorf("got %+v after %+v", got, first)
	}
}

// cutter is a network in front of a relay: each connection is cut after some bytes of the client,
// until cutting is switched off.
type cutter struct {
	to   string
	most int64
	done *atomic.Bool
	cuts *atomic.Int64
}

func (c *cutter) listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go c.carry(in)
		}
	}()
	return l.Addr().String()
}

func (c *cutter) carry(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer out.Close()
	go func() {
		_, _ = io.Copy(in, out)
		_ = in.Close()
	}()
	if c.done.Load() {
		_, _ = io.Copy(out, in)
		return
	}
	_, _ = io.CopyN(out, in, 2048+rand.Int64N(c.most))
	c.cuts.Add(1)
}

// writeSets writes sets over two topics, with single samples between them, until end returns true.
// It returns the number of sets.
func writeSets(ctx context.Context, c *dds.Participant, writers [2]*dds.Writer[position], samples int, end func(n int32) bool) (int32, error) {
	n := int32(0)
	for ; !end(n); n++ {
		for _, w := range writers {
			if err := w.Write(ctx, position{Vehicle: -1, N: n}); err != nil {
				return n, err
			}
		}
		err := c.Coherent(ctx, func(s *dds.CoherentSet) error {
			for i := range samples {
				if err := writers[i%2].WriteIn(ctx, s, position{Vehicle: int32(i), N: n}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// readSets checks that sets of writeSets are at two readers, each once, in order and at one
// position.
func readSets(ctx context.Context, t *testing.T, readers [2]*dds.Reader[position], samples int, from, to int32) {
	t.Helper()
	take := func(r *dds.Reader[position]) dds.Sample[position] {
		t.Helper()
		for {
			s, err := r.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if s.Info.Valid {
				return s
			}
		}
	}
	for n := from; n < to; n++ {
		for i, r := range readers {
			if s := take(r); s.Value.Vehicle != -1 || s.Value.N != n {
				t.Fatalf("topic %d: %+v comes in place of sample %d before a set", i, s.Value, n)
			}
		}
		at := uint64(0)
		for i := range samples {
			s := take(readers[i%2])
			if s.Value.Vehicle != int32(i) || s.Value.N != n || at != 0 && s.Info.Position != at {
				t.Fatalf("topic %d: %+v comes in place of sample %d of set %d, at position %d", i%2, s, i, n, at)
			}
			at = s.Info.Position
		}
	}
}

// The connections of a client break anywhere, also within its sets, and it goes on with the same
// relay or another one, which may still have samples of it on their way. Each set takes effect
// once, as a whole, in the order of its writers.
func TestSetsOfAClientSurviveBrokenConnections(t *testing.T) {
	const sets, samples = 40, 60
	all := open(t, 2, nil)
	var addresses []string
	var done atomic.Bool
	var cuts atomic.Int64
	for _, p := range all {
		relay := serve(t, p, member.RelayConfig{ClientGrace: 50 * time.Millisecond})
		addresses = append(addresses, (&cutter{to: relay.Addr(), most: 16 << 10, done: &done, cuts: &cuts}).listen(t))
	}
	c := dial(t, nil, addresses...)
	var readers [2]*dds.Reader[position]
	for i, tp := range two(t, all[1]) {
		readers[i] = reader(t, tp, dds.QoS{History: qos.KeepAll()})
	}
	var writers [2]*dds.Writer[position]
	for i, tp := range two(t, c) {
		writers[i] = writer(t, tp, inSets)
	}
	n, err := writeSets(testutil.Within(t), c, writers, samples, func(n int32) bool { return n == sets })
	if err != nil {
		t.Fatal(err)
	}
	done.Store(true)
	readSets(testutil.Within(t), t, readers, samples, 0, n)
	t.Logf("%d connections were cut", cuts.Load())
}

// The processes of relays are killed while a client writes sets. Each set takes effect once, as a
// whole.
func TestSetsOfAClientSurviveKilledRelays(t *testing.T) {
	t.Parallel()
	const samples = 100
	members := 2 * *relayKills
	addr, all := startRelays(t, members, members+1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	inside, err := member.Open(ctx, member.Config{
		Group:    squall.Config{Cluster: "test", ID: squall.NodeID(members + 1), Listen: "127.0.0.1:0", Join: []string{addr}, InitialMembers: members + 1, Logger: quiet},
		Subgroup: squall.SubgroupConfig{Name: "fleet"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, inside) })
	children, addresses := relaysAt(t, ctx, all)
	found := make(chan string, 100)
	client := dial(t, func(e dds.Event) {
		if e, ok := e.(dds.RelayChanged); ok && e.Err == nil {
			found <- e.Relay
		}
	}, addresses...)
	var readers [2]*dds.Reader[position]
	for i, tp := range two(t, inside) {
		readers[i] = reader(t, tp, dds.QoS{History: qos.KeepAll()})
	}
	var writers [2]*dds.Writer[position]
	for i, tp := range two(t, client) {
		writers[i] = writer(t, tp, inSets)
	}
	var stop atomic.Bool
	type result struct {
		n   int32
		err error
	}
	wrote := make(chan result, 1)
	go func() {
		n, err := writeSets(ctx, client, writers, samples, func(int32) bool { return stop.Load() })
		wrote <- result{n, err}
	}()
	read := int32(0)
	for range *relayKills {
		at := <-found
		for len(found) > 0 { // the client has gone on
			at = <-found
		}
		readSets(ctx, t, readers, samples, read, read+20)
		children[at].Kill()
		readSets(ctx, t, readers, samples, read+20, read+40) // the last of them are ordered after the kill, because the client waits for each set
		read += 40
	}
	<-found
	stop.Store(true)
	w := <-wrote
	if w.err != nil {
		t.Fatal(w.err)
	}
	readSets(ctx, t, readers, samples, read, w.n)
	t.Logf("%d sets", w.n)
}

// A writer that is closed before a set of it is known to be in the order leaves the others of the
// set without a way to go on: they say so, and write nothing.
func TestAWriterDoesNotGoOnWithoutTheOthersOfItsSet(t *testing.T) {
	all := open(t, 1, nil)
	relay := serve(t, all[0], member.RelayConfig{})
	used := make(chan dds.RelayChanged, 10)
	c := dial(t, func(e dds.Event) {
		if e, ok := e.(dds.RelayChanged); ok {
			used <- e
		}
	}, relay.Addr())
	<-used
	r := reader(t, two(t, all[0])[1], dds.QoS{History: qos.KeepAll()})
	var writers [2]*dds.Writer[position]
	for i, tp := range two(t, c) {
		writers[i] = writer(t, tp, inSets)
	}
	if err := relay.Close(); err != nil {
		t.Fatal(err)
	}
	<-used // it is lost
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := c.Coherent(soon, func(s *dds.CoherentSet) error {
		return errors.Join(writers[0].WriteIn(soon, s, position{}), writers[1].WriteIn(soon, s, position{}))
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a set without a relay: %v", err)
	}
	if err := writers[0].Close(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("closing a writer without a relay: %v", err)
	}
	if err := writers[1].Write(t.Context(), position{}); err == nil || !strings.Contains(err.Error(), "another writer was closed") {
		t.Errorf("the other writer of the set: %v", err)
	}
	serveAt(t, all[0], relay.Addr())
	<-used
	next := writer(t, two(t, c)[1], inSets)
	if err := c.Coherent(testutil.Within(t), func(s *dds.CoherentSet) error { return next.WriteIn(t.Context(), s, position{N: 7}) }); err != nil {
		t.Fatal(err)
	}
	for {
		s, err := r.Next(testutil.Within(t))
		if err != nil {
			t.Fatal(err)
		}
		if s.Info.Valid {
			if s.Value.N != 7 {
				t.Errorf("got %+v", s)
			}
			return
		}
	}
}

// Two readers of a client that want coherent access have the same sets, whenever the client looks:
// also while it goes from one relay to another, and where the tail of the relay does not reach
// back, so that the readers catch up with long histories.
func TestReadersOfAClientHaveTheSameSets(t *testing.T) {
	t.Parallel()
	const rounds, samples = 6, 40
	all := open(t, 2, nil)
	durable := dds.QoS{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}}
	relayed := member.RelayConfig{TailBytes: 16 << 10}
	relays := []*member.Relay{serve(t, all[0], relayed), serve(t, all[1], relayed)}
	addresses := []string{relays[0].Addr(), relays[1].Addr()}
	found := make(chan string, 100)
	c := dial(t, func(e dds.Event) {
		switch e := e.(type) {
		case dds.RelayChanged:
			if e.Err == nil {
				found <- e.Relay
			}
		case dds.SampleLost:
			t.Errorf("lost: %+v", e)
		}
	}, addresses...)
	declare := func(p dds.Space, i int) *dds.Topic[position] {
		tp, err := dds.NewTopic(t.Context(), p, fmt.Sprint("topic ", i), dds.CBOR[position](), durable)
		if err != nil {
			t.Fatal(err)
		}
		return tp
	}
	var writers [2]*dds.Writer[position]
	var readers [2]*dds.Reader[position]
	set := inSets
	set.Durability = qos.Transient
	for i := range writers {
		writers[i] = writer(t, declare(all[1], i), set)
	}
	set.KeepUnregistered, set.History = false, qos.KeepAll()
	for i := range readers {
		set.Limits.Samples = []int{0, 50}[i] // one of them may be full, also while it catches up
		readers[i] = reader(t, declare(c, i), set)
	}
	var written atomic.Int32 // sets
	write := func(sets int) {
		t.Helper()
		for range sets {
			n := written.Add(1)
			err := all[1].Coherent(t.Context(), func(s *dds.CoherentSet) error {
				for i := range samples {
					if err := writers[i%2].WriteIn(t.Context(), s, position{Vehicle: int32(i), N: n, From: strings.Repeat("x", 100)}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	var last [2]int32
	ctx := testutil.Within(t)
	look := func(i int) (last int32) {
		t.Helper()
		got, err := readers[i].Take(dds.Query{})
		if err != nil {
			t.Fatal(err)
		}
		if len(got)%(samples/2) != 0 {
			t.Fatalf("reader %d has %d samples: a part of a set", i, len(got))
		}
		if len(got) > 0 {
			last = got[len(got)-1].Value.N
		}
		return last
	}
	read := func() { // until the client has all sets
		t.Helper()
		for last[0] < written.Load() || last[1] < written.Load() {
			if ctx.Err() != nil {
				t.Fatalf("%d and %d of %d sets", last[0], last[1], written.Load())
			}
			for i := range readers { // what one has, the other one has that is looked at later
				if last[i] = max(last[i], look(i)); last[i] < last[1-i] {
					t.Fatalf("a reader has set %d, and the other one %d", last[1-i], last[i])
				}
			}
		}
	}
	write(5)
	read()
	for range rounds {
		at := <-found
		n := 0
		if at == addresses[1] {
			n = 1
		}
		if err := relays[n].Close(); err != nil {
			t.Fatal(err)
		}
		write(10)
		cfg := relayed
		cfg.Endpoint.Listen = at
		relays[n] = serveWith(t, all[n], cfg)
		write(40)
		read()
	}
}
