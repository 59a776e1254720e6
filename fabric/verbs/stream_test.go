//go:build linux

package verbs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/verbs/internal/fake"
	"github.com/squall-go/squall/internal/testutil"
)

// flow is one direction of a stream in a test: byte i has the value of patternAt.
type flow struct {
	from, to   *slots
	sent, read uint64
	total      uint64
}

// step sends, or reads, some bytes.
func (f *flow) step(random *rand.Rand) error {
	if into := f.from.slot(); into != nil && f.sent < f.total && random.IntN(2) == 0 {
		n := min(1+random.IntN(len(into)), int(f.total-f.sent))
		for i := range n {
			into[i] = patternAt(0, f.sent+uint64(i))
		}
		f.sent += uint64(n)
		if err := f.from.send(n); err != nil {
			return err
		}
	}
	from := f.to.peek()
	if len(from) == 0 || random.IntN(3) > 0 {
		return nil
	}
	if random.IntN(2) == 0 {
		from = from[:1+random.IntN(len(from))]
	}
	for i, b := range from {
		if b != patternAt(0, f.read+uint64(i)) {
			return fmt.Errorf("byte %d of the stream is wrong", f.read+uint64(i))
		}
	}
	f.read += uint64(len(from))
	return f.to.consume(len(from))
}

// streams has two ends send to each other in random steps over the fake network, and returns what
// is wrong.
func streams(t testing.TB, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 3))
	network := fake.New(fake.Options{Seed: seed, SlowSends: random.IntN(3) == 0})
	var ends [2]*slots
	for i := range ends {
		var err error
		ends[i], err = newSlots(network.Device())
		must(t, err)
		ends[i].chunk = 1 + random.IntN(ends[i].chunk)
		if random.IntN(4) == 0 {
			ends[i].chunk = 1 + random.IntN(64)
		}
	}
	a, b := ends[0].setup(), ends[1].setup()
	ends[0].remote.Address, ends[0].remote.Key, ends[1].remote.Address, ends[1].remote.Key = b.Address, b.Key, a.Address, a.Key
	must(t, ends[0].pair.Connect(b.Pair))
	must(t, ends[1].pair.Connect(a.Pair))
	defer func() {
		for _, s := range ends {
			must(t, s.release())
		}
		if open := network.Open(); open > 0 {
			t.Errorf("%d pairs and queues are left", open)
		}
		network.Close()
	}()
	flows := [2]flow{{from: ends[0], to: ends[1]}, {from: ends[1], to: ends[0]}}
	for i := range flows {
		flows[i].total = uint64(random.IntN(40 * flows[i].from.chunk))
	}
	lazy := [2]int{1, 1} // an end that polls rarely has many notes at a time
	if random.IntN(2) == 0 {
		lazy[random.IntN(2)] = 100
	}
	for range 300_000 {
		i := random.IntN(2)
		if err := flows[i].step(random); err != nil {
			return err
		}
		if i = random.IntN(2); random.IntN(lazy[i]) > 0 {
			continue
		}
		if _, err := ends[i].poll(); err != nil {
			return err
		}
		all := flows[0].read == flows[0].total && flows[1].read == flows[1].total
		ends[0].ending, ends[1].ending = all, all
		if ends[0].last && ends[1].last && ends[0].quiet() && ends[1].quiet() {
			return nil
		}
	}
	return fmt.Errorf("nothing moves: %d of %d bytes and %d of %d came", flows[0].read, flows[0].total, flows[1].read, flows[1].total)
}

func TestStreamsBringWhatWasSent(t *testing.T) {
	Seeds(t, 40, 400, streams)
}

// hostileNotes are none that a peer may send.
func TestANoteThatCannotBeEndsTheStream(t *testing.T) {
	for what, note := range map[string][4]uint32{
		"more bytes than a slot has": {slotBytes + 1, 0, 0, 0},
		"slots that were not used":   {0, 1, 0, 0},
		"an unknown flag":            {0, 0, 2, 0},
		"a word that is not 0":       {0, 0, 0, 1},
	} {
		var b bytes.Buffer
		for _, word := range note {
			b.Write([]byte{byte(word), byte(word >> 8), byte(word >> 16), byte(word >> 24)})
		}
		if err := new(slots).noted(b.Bytes(), noteBytes); !errors.Is(err, fabric.ErrViolation) {
			t.Errorf("%s: %v", what, err)
		}
	}
	full := &slots{arrived: slotCount}
	if err := full.noted([]byte{noteBytes - 1: 0}, noteBytes-1); !errors.Is(err, fabric.ErrViolation) {
		t.Errorf("a short note: %v", err)
	}
	if err := full.noted([]byte{0: 1, noteBytes - 1: 0}, noteBytes); !errors.Is(err, fabric.ErrViolation) {
		t.Errorf("a slot too many: %v", err)
	}
	if err := (&slots{last: true}).noted(make([]byte, noteBytes), noteBytes); !errors.Is(err, fabric.ErrViolation) {
		t.Errorf("a note after the last one: %v", err)
	}
}

// call makes a TCP connection, and gives its other end to a function.
func call(t testing.TB, answer func(net.Conn)) net.Conn {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go func() {
		defer l.Close()
		conn, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		answer(conn)
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	return conn
}

// connected makes both ends of a stream over a network.
func connected(t testing.TB, network *fake.Network) (ends [2]fabric.Stream, conns [2]net.Conn) {
	ctx, accepted := testutil.Within(t), make(chan error, 1)
	conns[0] = call(t, func(conn net.Conn) {
		var err error
		conns[1] = conn
		ends[1], err = New(network.Device()).Stream(ctx, conn)
		accepted <- err
	})
	var err error
	ends[0], err = New(network.Device()).Stream(ctx, conns[0])
	must(t, err)
	must(t, <-accepted)
	return ends, conns
}

func TestAStreamThatIsClosedBringsAllAndEnds(t *testing.T) {
	network := fake.New(fake.Options{Seed: 5, Goroutine: true})
	defer network.Close()
	ends, _ := connected(t, network)
	want := make([]byte, 3_000_001)
	for i := range want {
		want[i] = patternAt(0, uint64(i))
	}
	failed := make(chan error, 1)
	go func() {
		_, err := ends[0].Write(want)
		failed <- errors.Join(err, ends[0].Close())
	}()
	got, err := io.ReadAll(ends[1])
	must(t, err)
	must(t, <-failed)
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes came, of %d, or others", len(got), len(want))
	}
	if _, err := ends[0].Write(want); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write after Close: %v", err)
	}
	must(t, ends[1].Close())
	if open := network.AwaitClosed(testutil.Within(t)); open > 0 {
		t.Errorf("%d pairs and queues are left", open)
	}
}

func TestAStreamEndsWithItsPeer(t *testing.T) {
	network := fake.New(fake.Options{Seed: 6, Goroutine: true})
	defer network.Close()
	ends, conns := connected(t, network)
	network.Hold(true) // the peer's process stands still, and then its connection ends
	must(t, conns[0].Close())
	if n, err := io.ReadFull(ends[1], make([]byte, 1)); !errors.Is(err, fabric.ErrPeerGone) {
		t.Errorf("%d bytes, %v", n, err)
	}
	network.Hold(false)
	for _, s := range ends {
		must(t, s.Close())
	}
}

func TestCloseEndsAReadAndAWriteThatWait(t *testing.T) {
	network := fake.New(fake.Options{Seed: 7, Goroutine: true})
	defer network.Close()
	ends, _ := connected(t, network)
	results := make(chan error, 2)
	go func() {
		_, err := ends[0].Read(make([]byte, 1))
		results <- err
	}()
	go func() {
		_, err := ends[0].Write(make([]byte, 2*slotCount*slotBytes)) // nobody reads it
		results <- err
	}()
	must(t, ends[0].Close())
	for range 2 {
		if err := <-results; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
	must(t, ends[1].Close())
}

// deadlines tries those of a read and a write that wait, for at most some time, and returns what is
// wrong.
func deadlines(t testing.TB, patience time.Duration) (err error) {
	network := fake.New(fake.Options{Seed: 9, Goroutine: true})
	defer network.Close()
	ends, _ := connected(t, network)
	defer func() { err = errors.Join(err, ends[0].Close(), ends[1].Close()) }()
	must(t, ends[0].SetReadDeadline(time.Unix(1, 0)))
	if _, err := ends[0].Write([]byte{1}); err != nil {
		return fmt.Errorf("a write after the deadline of reads: %w", err)
	}
	must(t, ends[0].SetReadDeadline(time.Time{}))

	const most = 2 * slotCount * slotBytes // more than there is space for: nobody reads it
	ended := make(chan error, 2)
	var n int
	go func() {
		_, err := ends[0].Read(make([]byte, 1))
		ended <- err
	}()
	go func() {
		var err error
		n, err = ends[0].Write(make([]byte, most))
		ended <- err
	}()
	soon := time.Now().Add(10 * time.Millisecond)
	must(t, errors.Join(ends[0].SetReadDeadline(soon), ends[0].SetWriteDeadline(soon)))
	late := time.After(patience)
	for range 2 {
		select {
		case err := <-ended:
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				return fmt.Errorf("a read or a write at its deadline: %w", err)
			}
		case <-late:
			return errors.New("a read or a write goes on after its deadline")
		}
	}
	if k, err := ends[0].Write([]byte{1}); k > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%d bytes after the deadline: %w", k, err)
	}

	must(t, errors.Join(ends[0].SetReadDeadline(time.Now().Add(time.Hour)), ends[0].SetWriteDeadline(time.Time{})))
	if _, err := ends[1].Write([]byte{7}); err != nil {
		return err
	}
	if _, err := ends[0].Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("a read before its next deadline: %w", err)
	}
	go func() {
		k, err := ends[0].Write(make([]byte, most-n))
		if err != nil {
			err = errors.Join(fmt.Errorf("%d bytes without a deadline: %w", k, err), ends[0].Close())
		}
		ended <- err
	}()
	_, err = io.ReadFull(ends[1], make([]byte, 1+most))
	return errors.Join(err, <-ended)
}

func TestADeadlineEndsAReadAndAWriteAndCanBeTakenBack(t *testing.T) {
	must(t, deadlines(t, time.Minute))
}

func TestAStreamIsRefusedAtBothEnds(t *testing.T) {
	network := fake.New(fake.Options{Seed: 8})
	refused := make(chan error, 1)
	here := call(t, func(there net.Conn) {
		defer there.Close()
		_, err := meet(context.Background(), there, nil, nil, errors.New("no memory"))
		refused <- err
	})
	defer here.Close()
	if _, err := New(network.Device()).Stream(t.Context(), here); !errors.Is(err, fabric.ErrRefused) {
		t.Error(err)
	}
	if err := <-refused; !errors.Is(err, fabric.ErrRefused) {
		t.Error(err)
	}
	if open := network.Open(); open > 0 {
		t.Errorf("%d pairs and queues are left", open)
	}
}
