package dds_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/testutil"
)

// numbered writes samples that have their numbers, from one on.
func numbered(t *testing.T, w *dds.Writer[[]byte], from, to, bytes int) {
	t.Helper()
	for n := from; n < to; n++ {
		b := make([]byte, bytes)
		binary.LittleEndian.PutUint64(b, uint64(n))
		if err := w.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
}

// lateTopic declares a topic of bytes with a long history, and opens a writer.
func lateTopic(t *testing.T, p dds.Space) (*dds.Topic[[]byte], *dds.Writer[[]byte]) {
	t.Helper()
	tp, err := dds.NewTopic(t.Context(), p, "samples", dds.Raw(), longHistory)
	if err != nil {
		t.Fatal(err)
	}
	w, err := tp.Writer(t.Context(), dds.QoS{Durability: qos.Transient})
	if err != nil {
		t.Fatal(err)
	}
	return tp, w
}

// A listener that is opened with a history does not hold up the order: while it is busy with the
// first sample, another reader of its process gets samples that are written meanwhile. The listener
// hears these behind the history, each once.
func TestAListenerThatIsBusyWithAHistoryHoldsNothingUp(t *testing.T) {
	const history, more = 2000, 1000
	all := open(t, 2, nil)
	_, w := lateTopic(t, all[0])
	here, _ := lateTopic(t, all[1])
	numbered(t, w, 0, history, 100)
	if err := w.Flush(testutil.Within(t)); err != nil {
		t.Fatal(err)
	}
	other, err := here.Reader(t.Context(), dds.QoS{History: qos.KeepAll()})
	if err != nil {
		t.Fatal(err)
	}
	busy, free, heard := make(chan struct{}), make(chan struct{}), make(chan int, history+2*more)
	next := 0
	opened := make(chan error, 1)
	go func() {
		_, err := here.Reader(t.Context(), dds.QoS{Durability: qos.Transient}, dds.Listen(func(s *dds.Sample[[]byte], err error) {
			if next == 0 {
				close(busy)
				<-free
			}
			if n := int(binary.LittleEndian.Uint64(s.Value)); n != next || err != nil {
				t.Errorf("sample %d comes instead of %d: %v", n, next, err)
			}
			next++
			heard <- next
		}))
		opened <- err
	}()
	<-busy
	numbered(t, w, history, history+more, 100)
	ctx := testutil.Within(t)
	for n := range more {
		s, err := other.Next(ctx)
		if err != nil {
			t.Fatalf("the other reader, after %d samples: %v", n, err)
		}
		if got := int(binary.LittleEndian.Uint64(s.Value)); got != history+n {
			t.Fatalf("sample %d comes instead of %d", got, history+n)
		}
	}
	close(free)
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	numbered(t, w, history+more, history+2*more, 100)
	for n := 0; n < history+2*more; {
		select {
		case n = <-heard:
		case <-ctx.Done():
			t.Fatalf("heard %d samples", n)
		}
	}
}

// A listener that writes while it receives a history gets an error where it would have to wait for
// buffer space, which may be free only after the history.
func TestAListenerOfAHistoryWritesAndDoesNotWait(t *testing.T) {
	all := open(t, 1, nil)
	tp, w := lateTopic(t, all[0])
	numbered(t, w, 0, 10, 100)
	large := make([]byte, 8<<10)
	heard := 0
	_, err := tp.Reader(testutil.Within(t), dds.QoS{Durability: qos.Transient}, dds.Listen(func(s *dds.Sample[[]byte], _ error) {
		if heard++; heard > 1 {
			return
		}
		write := func() error { return w.Write(t.Context(), large) }
		claim := func() error {
			c, err := w.Claim(t.Context(), len(large))
			if err == nil {
				err = c.Commit()
			}
			return err
		}
		for _, put := range []func() error{write, claim} { // there is room until so much is postponed for this listener that the order is held up
			var err error
			for err == nil {
				err = put()
			}
			if !errors.Is(err, dds.ErrInCallback) {
				t.Error(err)
			}
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(testutil.Within(t)); err != nil { // the order goes on
		t.Fatal(err)
	}
}

// A listener of a client that has no relay writes until the client's outbox is full, and does not
// wait for buffer space that only its own goroutine could make.
func TestAListenerOfAClientDoesNotWait(t *testing.T) {
	all := open(t, 1, nil)
	relay := serve(t, all[0], member.RelayConfig{})
	c, err := dds.Dial(t.Context(), dds.ClientConfig{Space: "fleet", Cluster: "test", Addresses: []string{relay.Addr()}, OutboxBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	tp, w := lateTopic(t, c)
	told := make(chan error, 1)
	_, err = tp.Reader(t.Context(), dds.QoS{}, dds.Listen(func(*dds.Sample[[]byte], error) {
		for {
			if err := w.Write(t.Context(), make([]byte, 16<<10)); err != nil {
				select {
				case told <- err:
				default:
				}
				return
			}
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	numbered(t, w, 0, 1, 100)
	select {
	case err := <-told:
		if !errors.Is(err, dds.ErrInCallback) {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the listener waits")
	}
	if err := w.Close(testutil.Within(t)); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := c.Close(testutil.Within(t)); err != nil {
		t.Error(err)
	}
}

// A reader whose opening is given up while it reads a history is closed: the space has none
// afterwards.
func TestAReaderThatIsGivenUpIsClosed(t *testing.T) {
	ended := make(chan struct{}, 1)
	all := open(t, 1, func(_ int, p *member.Config, _ *squall.Config) {
		p.Events = func(e dds.Event) {
			if u, ok := e.(dds.Unmatched); ok && u.Current == 0 {
				select {
				case ended <- struct{}{}:
				default:
				}
			}
		}
	})
	tp, w := lateTopic(t, all[0])
	numbered(t, w, 0, 1000, 100)
	if err := w.Flush(testutil.Within(t)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := tp.Reader(ctx, dds.QoS{Durability: qos.Transient}, dds.Listen(func(*dds.Sample[[]byte], error) { cancel() }))
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-testutil.Within(t).Done():
		t.Fatal("the reader is open")
	}
	if slices.ContainsFunc(all[0].Endpoints(), func(e dds.Endpoint) bool { return e.Reader }) {
		t.Error("the reader is there, and its writer has none")
	}
}
