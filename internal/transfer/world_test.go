package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests; none of them comes near it unless something is broken.
const patience = 20 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// quick are times for tests in which a process is silent.
var quick = wire.Times{
	Silence: 300 * time.Millisecond, Pulse: 20 * time.Millisecond, Pause: time.Millisecond, Longest: 20 * time.Millisecond,
}

// slow are times for the side of a conversation that a test plays.
var slow = wire.Times{Dial: patience, Silence: patience, Stall: patience}

// place is a process with a port and a source.
type place struct {
	*Source
	id         *trust.Identity
	port       *port.Port
	rejections chan port.Rejection
	given      chan Given
}

// world is some old members with ids 1 …, and a fresh one with the id behind them, in view 5. The
// subgroup is number 1.
type world struct {
	t      *testing.T
	view   *views.View
	fresh  order.NodeID
	ids    map[order.NodeID]*trust.Identity
	old    []*place
	state  []byte
	tried  []order.NodeID // by the fetch's goroutine
	failed map[order.NodeID][]error
}

func newWorld(t *testing.T, old int, stateBytes int) *world {
	t.Helper()
	w := &world{t: t, fresh: order.NodeID(old + 1), state: make([]byte, stateBytes), failed: map[order.NodeID][]error{}, ids: map[order.NodeID]*trust.Identity{}}
	rand.NewChaCha8([32]byte{1}).Read(w.state)
	w.view = (&views.View{ID: 5, Cluster: "blue", Subgroups: []views.Subgroup{{Name: "other"}, {Name: "map"}}}).WithKey("secret")
	sg := &w.view.Subgroups[1]
	for i := range old + 1 {
		id := order.NodeID(i + 1)
		w.ids[id] = trust.NewIdentity()
		w.view.Members = append(w.view.Members, views.Member{ID: id, PublicKey: w.ids[id].PublicKey()})
		sg.Members = append(sg.Members, order.Rank(i))
		if i < old {
			w.old = append(w.old, w.place(order.NodeID(i+1)))
			w.view.Members[i].Addr = w.old[i].port.Addr()
		}
	}
	sg.Fresh = []order.Rank{order.Rank(old)}
	for _, p := range w.old {
		p.Installed(w.view)
	}
	return w
}

// joins adds a fresh member to the view.
func (w *world) joins() {
	sg, r := &w.view.Subgroups[1], order.Rank(len(w.view.Members))
	id := order.NodeID(r + 1)
	w.ids[id] = trust.NewIdentity()
	sg.Members, sg.Fresh = append(sg.Members, r), append(sg.Fresh, r)
	w.view.Members = append(w.view.Members, views.Member{ID: id, PublicKey: w.ids[id].PublicKey()})
	for _, p := range w.old {
		p.offers.clear()
		p.Installed(w.view)
	}
}

func (w *world) place(id order.NodeID) *place {
	p := &place{id: w.ids[id], rejections: make(chan port.Rejection, 16), given: make(chan Given, 16)}
	var err error
	if p.port, err = port.Open(w.t.Context(), port.Config{Addr: "127.0.0.1:0"}); err != nil {
		w.t.Fatal(err)
	}
	p.Source = NewSource(SourceConfig{
		Self: id, ID: w.ids[id], Keeps: func(name string) bool { return name == "map" }, Taken: func() {}, Times: quick,
		Reject: func(r port.Rejection) { p.rejections <- r }, Given: func(g Given) { p.given <- g },
	})
	p.port.Handle(port.KindState, p.Serve)
	w.t.Cleanup(func() {
		p.Close()
		p.port.Close()
	})
	return p
}

// take has a member's snapshot taken: the state, written in pieces of many sizes.
func (w *world) take(p *place) {
	p.Put(w.view.ID, 1, func(out io.Writer) error {
		for rest, n := w.state, 1; len(rest) > 0; n = 1 + n*7%100_000 {
			piece := rest[:min(n, len(rest))]
			if _, err := out.Write(piece); err != nil {
				return err
			}
			rest = rest[len(piece):]
		}
		return nil
	})
}

func (w *world) takeAll() {
	for _, p := range w.old {
		w.take(p)
	}
}

// imposter has a member's connections served by something else.
func (w *world) imposter(i int, serve func(caller)) {
	w.old[i].port.Handle(port.KindState, func(c net.Conn) {
		defer c.Close()
		talk := wire.New(c, slow, maxGreetingBytes)
		var q request
		if talk.Say(challenge{trust.NewNonce()}) != nil || talk.Hear(&q) != nil {
			return
		}
		if k, err := key(w.ids[order.NodeID(i+1)], w.view, order.NodeID(i+1), q.Node); err == nil {
			serve(caller{talk, q, &k})
		}
	})
}

// grant says an answer as the member that an imposter is.
func grant(c caller, a answer) error {
	a.sign(*c.key, c.request)
	return c.Say(a)
}

func (w *world) fetch(restore func(io.Reader) error) *Fetch {
	return NewFetch(FetchConfig{
		Self: w.fresh, ID: w.ids[w.fresh], View: w.view, Subgroup: 1, Restore: restore, Times: quick,
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			return port.Dial(ctx, addr, port.KindState, nil)
		},
		Trying: func(source order.NodeID) { w.tried = append(w.tried, source) },
	})
}

// run asks source after source, as package shard says, until one gives the state, or none is left.
func (w *world) run(ctx context.Context, f *Fetch) (Fetched, error) {
	sources := shard.Sources{Pauses: wait.Backoff{First: quick.Pause, Longest: quick.Longest}}
	for {
		source, pause, left := sources.Next(shard.StateSources(w.view, 1, w.fresh))
		if !left {
			return Fetched{}, shard.ErrStateLost
		}
		if pause > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return Fetched{}, context.Cause(ctx)
			}
			continue
		}
		got, err := f.From(ctx, source)
		var own *RestoreError
		switch {
		case err == nil || errors.As(err, &own) || ctx.Err() != nil:
			return got, err
		case errors.Is(err, ErrLater):
			continue
		case errors.Is(err, ErrRefused):
			sources.Refused(source.ID)
		}
		w.failed[source.ID] = append(w.failed[source.ID], err)
	}
}

// keep is a Restore that keeps what it read.
func keep(into *[]byte) func(io.Reader) error {
	return func(in io.Reader) (err error) {
		*into, err = io.ReadAll(in)
		return err
	}
}

// arrives fetches the state, which must come whole.
func (w *world) arrives() (*Fetch, Fetched) {
	w.t.Helper()
	var state []byte
	f := w.fetch(keep(&state))
	got, err := w.run(within(w.t), f)
	if err != nil || !bytes.Equal(state, w.state) || got.Bytes != uint64(len(w.state)) {
		w.t.Fatalf("%d of %d bytes: %v; failed: %v", len(state), len(w.state), err, w.failed)
	}
	return f, got
}

// without is the next view, without some nodes.
func (w *world) without(ids ...order.NodeID) *views.View {
	v := (&views.View{ID: w.view.ID + 1, Cluster: "blue", Subgroups: []views.Subgroup{{Name: "other"}, {Name: "map"}}}).WithKey("another")
	for _, m := range w.view.Members {
		if !slices.Contains(ids, m.ID) {
			v.Subgroups[1].Members = append(v.Subgroups[1].Members, order.Rank(len(v.Members)))
			v.Members = append(v.Members, m)
		}
	}
	return v
}

func (w *world) rejected(i int, want error) {
	w.t.Helper()
	select {
	case r := <-w.old[i].rejections:
		if !errors.Is(r.Err, want) || r.Kind != port.KindState {
			w.t.Errorf("rejected: %v", r)
		}
	case <-time.After(patience):
		w.t.Error("nothing was rejected")
	}
}

func TestAStateArrivesWhole(t *testing.T) {
	for _, size := range []int{0, 1, frameBytes - 1, frameBytes, frameBytes + 1, 5_000_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			w := newWorld(t, 1, size)
			w.takeAll()
			_, got := w.arrives()
			if given := <-w.old[0].given; given.Err != nil || given.Bytes != got.Bytes || given.To != w.fresh || given.Subgroup != "map" {
				t.Errorf("%+v", given)
			}
			if len(w.failed) > 0 {
				t.Error(w.failed)
			}
		})
	}
}

func TestASnapshotThatIsNotTakenYetIsWaitedFor(t *testing.T) {
	w := newWorld(t, 1, 1000)
	if !w.old[0].Wanted(5, 1) || w.old[0].Wanted(5, 0) || w.old[0].Wanted(4, 1) {
		t.Error("wanted is subgroup 1 of view 5, and nothing else")
	}
	time.AfterFunc(50*time.Millisecond, func() { w.take(w.old[0]) })
	w.arrives()
	if len(w.failed) > 0 {
		t.Errorf("to be early is no failure: %v", w.failed)
	}
}

func TestASourceThatInstalledTheViewLaterIsWaitedFor(t *testing.T) {
	w := newWorld(t, 1, 1000)
	w.old[0].offers.clear()
	time.AfterFunc(50*time.Millisecond, func() {
		w.old[0].Installed(w.view)
		w.take(w.old[0])
	})
	w.arrives()
}

// dies has each source but the last misbehave; the state must come from the last one, and the
// application read it from the start.
func TestAnotherSourceTakesOver(t *testing.T) {
	half := func(c caller, w *world) *wire.Writer {
		_ = grant(c, answer{})
		s := c.NewWriter(frameBytes)
		_, _ = s.Write(w.state[:len(w.state)/2])
		_, _ = s.Finish()
		return s
	}
	ends := func(c caller, w *world, change func(*wire.Ending)) {
		e, _ := half(c, w).Finish()
		change(&e)
		_ = c.SayAs(wire.End, e)
	}
	raw := func(c caller, bytes ...byte) {
		_ = grant(c, answer{})
		_, _ = c.Write(bytes)
	}
	for name, c := range map[string]struct {
		serve func(caller, *world)
		want  error
	}{
		"dies before it answers":   {func(caller, *world) {}, io.EOF},
		"dies half-way":            {func(c caller, w *world) { half(c, w) }, io.ErrUnexpectedEOF},
		"is silent half-way":       {func(c caller, w *world) { half(c, w); _, _ = c.Read(make([]byte, 1)) }, nil},
		"is silent from the start": {func(c caller, w *world) { _, _ = c.Read(make([]byte, 1)) }, nil},
		"corrupts a frame": {func(c caller, w *world) {
			raw(c, 7, 0, 0, 0, 1, 2, 3, 4, byte(wire.Bytes), 'g', 'a', 'r', 'b', 'a', 'g', 'e')
		}, wire.ErrChecksum},
		"announces a huge frame": {func(c caller, w *world) { raw(c, 255, 255, 255, 0, 0, 0, 0, 0, byte(wire.Bytes)) }, wire.ErrTooLarge},
		"sends something else":   {func(c caller, w *world) { _ = grant(c, answer{}); _ = c.Say("hello") }, wire.ErrCorrupt},
		"loses bytes":            {func(c caller, w *world) { ends(c, w, func(e *wire.Ending) { e.Count++ }) }, wire.ErrCorrupt},
		"changes the order":      {func(c caller, w *world) { ends(c, w, func(e *wire.Ending) { e.Sum++ }) }, wire.ErrCorrupt},
		"refuses":                {func(c caller, w *world) { _ = grant(c, answer{Refused: "no"}) }, ErrRefused},
		"answers with garbage":   {func(c caller, w *world) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request")) }, wire.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3, 1_000_000)
			w.takeAll()
			done := make(chan struct{})
			var serving sync.WaitGroup
			t.Cleanup(func() { close(done); serving.Wait() })
			for i := range 2 {
				w.imposter(i, func(at caller) {
					serving.Add(1)
					defer serving.Done()
					c.serve(at, w)
				})
			}
			short := quick
			short.Dial = 300 * time.Millisecond
			var state []byte
			f := w.fetch(keep(&state))
			f.cfg.Times = short
			got, err := w.run(within(t), f)
			if err != nil || got.Source != 3 || !bytes.Equal(state, w.state) {
				t.Fatalf("%+v, %v, %d bytes", got, err, len(state))
			}
			for _, source := range []order.NodeID{1, 2} {
				errs := w.failed[source] // more than one if node 3 took longer than short.Dial to answer, and another round began
				if len(errs) == 0 {
					t.Errorf("node %d was not asked", source)
				}
				for _, err := range errs {
					if c.want != nil && !errors.Is(err, c.want) {
						t.Errorf("node %d: %v; want %v", source, err, c.want)
					}
				}
			}
		})
	}
}

func TestGarbageInsteadOfARequestIsRejected(t *testing.T) {
	w := newWorld(t, 1, 100)
	for _, sent := range [][]byte{{255, 255, 255, 255, 1, 2, 3, 4, 5}, {2, 0, 0, 0, 0, 0, 0, 0, 1, '[', ']'}, append([]byte{0, 0, 1, 0}, make([]byte, 70_000)...)} {
		conn, err := port.Dial(within(t), w.old[0].port.Addr(), port.KindState, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(sent)
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
		w.rejected(0, w.lastError())
	}
}

// lastError matches any rejection.
func (w *world) lastError() error {
	r := <-w.old[0].rejections
	w.old[0].rejections <- r
	return r.Err
}

func TestX3AnApplicationThatStopsReadingGetsTheRestChecked(t *testing.T) {
	w := newWorld(t, 2, 1_000_000)
	w.takeAll()
	w.imposter(0, func(c caller) {
		_ = grant(c, answer{})
		s := c.NewWriter(frameBytes)
		_, _ = s.Write(w.state)
		e, _ := s.Finish()
		e.Sum++
		_ = c.SayAs(wire.End, e)
	})
	calls := 0
	f := w.fetch(func(in io.Reader) error { calls++; _, err := io.ReadFull(in, make([]byte, 10)); return err })
	if got, err := w.run(within(t), f); err != nil || got.Source != 2 || calls != 2 || got.Bytes != 1_000_000 {
		t.Errorf("%+v after %d calls: %v", got, calls, err)
	}
}

func TestAnErrorOfTheApplicationItselfIsTheEnd(t *testing.T) {
	w := newWorld(t, 2, 1_000_000)
	w.takeAll()
	for _, read := range []int64{0, 10, 1_000_000, 2_000_000} {
		own := errors.New("no such table")
		f := w.fetch(func(in io.Reader) error { _, _ = io.CopyN(io.Discard, in, read); return own })
		if _, err := w.run(within(t), f); !errors.Is(err, own) {
			t.Errorf("after %d bytes: %v", read, err)
		}
	}
}

// A reader that failed is the source's fault, whatever the application makes of it.
func TestAnErrorBehindAFailedReaderIsNotTheApplications(t *testing.T) {
	for _, own := range []error{nil, errors.New("syntax error")} {
		w := newWorld(t, 2, 1000)
		w.takeAll()
		w.imposter(0, func(c caller) { _ = grant(c, answer{}) })
		f := w.fetch(func(in io.Reader) error {
			if _, err := io.Copy(io.Discard, in); err != nil {
				return own
			}
			return nil
		})
		if got, err := w.run(within(t), f); err != nil || got.Source != 2 {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func TestMembersThatKeepNoSnapshotsHaveNoState(t *testing.T) {
	w := newWorld(t, 2, 1000)
	for _, p := range w.old {
		p.offers.clear()
		p.offers.kept.Keeps = func(string) bool { return false }
		p.Installed(w.view)
	}
	_, err := w.run(within(t), w.fetch(func(io.Reader) error { return nil }))
	if !errors.Is(err, shard.ErrStateLost) || !errors.Is(w.failed[1][0], ErrRefused) || !errors.Is(w.failed[2][0], ErrRefused) {
		t.Error(err, w.failed)
	}
}

func TestX1ASnapshotIsForgottenWhenItIsNotWantedAnyMore(t *testing.T) {
	out := newWorld(t, 2, 1000).without()
	out.Subgroups[1].Members = out.Subgroups[1].Members[:2]
	again := newWorld(t, 2, 1000).without()
	again.Subgroups[1].Fresh = []order.Rank{2}
	for name, v := range map[string]*views.View{"out of the subgroup": out, "fresh once more": again} {
		w := newWorld(t, 2, 1000)
		for _, p := range w.old {
			if p.Installed(v); len(p.offers.kept.Waits()) != map[bool]int{true: 1}[len(v.Subgroups[1].Fresh) > 0] {
				t.Errorf("%s: %d snapshots are kept or expected", name, len(p.offers.kept.Waits()))
			}
		}
	}
}

func TestAFetchEndsWithItsContext(t *testing.T) {
	w := newWorld(t, 1, 1000)
	inside := make(chan struct{})
	w.imposter(0, func(c caller) {
		_ = grant(c, answer{})
		close(inside)
		_, _ = c.Read(make([]byte, 1))
	})
	ctx, cancel := context.WithCancelCause(within(t))
	over := errors.New("over")
	go func() { <-inside; cancel(over) }()
	f := w.fetch(keep(new([]byte)))
	f.cfg.Times.Silence = patience
	if _, err := w.run(ctx, f); !errors.Is(err, over) {
		t.Error(err)
	}
}

func TestX1ASnapshotIsKeptUntilAllAreDoneOrGone(t *testing.T) {
	w := newWorld(t, 2, 1000)
	w.joins()
	w.takeAll()
	f, _ := w.arrives()
	f.Done(within(t), shard.StateSources(w.view, 1, w.fresh))
	for i, p := range w.old {
		if len(p.offers.kept.Waits()) != 1 {
			t.Fatalf("node %d keeps %d snapshots, and node 4 waits for one", i+1, len(p.offers.kept.Waits()))
		}
		k, err := key(w.ids[3], w.view, 3, order.NodeID(i+1))
		if err != nil {
			t.Fatal(err)
		}
		c, q := challenge{trust.NewNonce()}, request{View: 5, Subgroup: 1, Node: 3}
		q.sign(k, c)
		if _, _, _, err := p.offers.ask(nil, c, q); !errors.Is(err, ErrLater) {
			t.Errorf("node 3 is done, and still is given something: %v", err)
		}
	}
	w.old[0].Installed(w.without(4))
	w.fresh = 4
	f, _ = w.arrives()
	f.Done(within(t), shard.StateSources(w.view, 1, w.fresh))
	for i, p := range w.old {
		if len(p.offers.kept.Waits()) != 0 {
			t.Errorf("node %d keeps %d snapshots that no member waits for", i+1, len(p.offers.kept.Waits()))
		}
	}
}

// A member that goes while it is given a state frees its place at once.
func TestAStreamEndsWhenItsMemberIsGone(t *testing.T) {
	for _, said := range []error{nil, errors.New("an error of the application")} { // it may well not report it
		streamEnds(t, said)
	}
}

func streamEnds(t *testing.T, said error) {
	w := newWorld(t, 1, 0)
	started := make(chan struct{})
	w.old[0].Put(5, 1, func(out io.Writer) error {
		close(started)
		for {
			if _, err := out.Write(make([]byte, 1000)); err != nil {
				return said
			}
		}
	})
	w.asking(0, w.fresh, w.fresh, unchanged)
	<-started
	w.old[0].Installed(w.without(w.fresh))
	if given := <-w.old[0].given; given.Err == nil || said != nil && errors.Is(given.Err, said) {
		t.Errorf("%+v", given)
	}
}

// A snapshot that takes long to write is not taken for a dead source.
func TestPulsesBridgeASlowSnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1000)
	w.old[0].Put(5, 1, func(out io.Writer) error {
		<-time.After(3 * quick.Silence)
		_, err := out.Write(w.state)
		return err
	})
	w.arrives()
	if len(w.failed) > 0 {
		t.Error(w.failed)
	}
}

func TestASnapshotThatFailsIsAFailedSource(t *testing.T) {
	w := newWorld(t, 2, 1000)
	w.takeAll()
	broken := errors.New("disk full")
	w.old[0].Put(5, 1, func(out io.Writer) error { return broken })
	if _, got := w.arrives(); got.Source != 2 {
		t.Errorf("%+v", got)
	}
	if given := <-w.old[0].given; !errors.Is(given.Err, broken) {
		t.Errorf("%+v", given)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	w := newWorld(t, 1, 0)
	for range maxStreams {
		w.joins()
	}
	hold, begun := make(chan struct{}), make(chan struct{}, 10)
	w.old[0].Put(5, 1, func(io.Writer) error { begun <- struct{}{}; <-hold; return nil })
	for k := range maxStreams + 1 {
		talk := w.asking(0, order.NodeID(2+k), order.NodeID(2+k), unchanged)
		var a answer
		err := talk.Hear(&a)
		if err != nil || (a.Later != "") != (k == maxStreams) {
			t.Errorf("stream %d: %+v, %v", k, a, err)
		}
		if k < maxStreams {
			<-begun
		}
	}
	close(hold)
}
