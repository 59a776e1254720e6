package restart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testDisk keeps values in memory, and fails when it is told to.
type testDisk struct {
	mu     sync.Mutex
	values map[string][]byte
	broken error
	puts   int
}

func (d *testDisk) Get(key string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.values[key], nil
}

func (d *testDisk) Put(values map[string][]byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		return d.broken
	}
	if d.values == nil {
		d.values = map[string][]byte{}
	}
	d.puts++
	maps.Copy(d.values, values)
	return nil
}

// process is a node that was a member, its disk and its log.
type process struct {
	Config
	t    *testing.T
	disk *testDisk

	mu     sync.Mutex
	end    order.Version
	events []Event
	told   chan struct{}
}

// testPatience bounds every wait of these tests; none of them comes near it unless something is
// broken.
const testPatience = 20 * time.Second

// members makes processes that were the members of view 1, with logs of 1, 2, 3 … records, and are
// down since.
func members(t *testing.T, n int) []*process { return membersOf(t, n, "colours") }

// membersOf are members of a view of a group, or of one of an earlier format, which has no group.
func membersOf(t *testing.T, n int, group string) (all []*process) {
	t.Helper()
	var list []views.Member
	for id := 1; id <= n; id++ {
		p, err := port.Open(t.Context(), port.Config{Addr: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		one := &process{t: t, disk: &testDisk{}, end: order.Version{View: 1, Seq: order.Seq(id)}, told: make(chan struct{}, 1)}
		one.Config = Config{
			Cluster: "blue", Self: views.Member{ID: order.NodeID(id), Incarnation: 10, Addr: p.Addr()}, Port: p,
			Logs:       func() []LogEnd { return []LogEnd{{ID: LogID{Name: "orders"}, Last: one.at()}} },
			Place:      placing,
			Persistent: func(name string) bool { return name == "orders" },
			Reconcile:  one.reconcile, OnEvent: one.note,
			Times: Times{Beat: 10 * time.Millisecond, Silence: 500 * time.Millisecond, Settle: 50 * time.Millisecond},
		}
		all, list = append(all, one), append(list, one.Self)
	}
	first, err := placing(nil, list)
	if err != nil {
		t.Fatal(err)
	}
	first.SetKey("first")
	if group != "" {
		first.Bootstrap(group, views.NewSecret("of "+group))
	}
	for _, p := range all {
		p.load()
		if err := errors.Join(p.Memory.Begin(p.Self), p.Memory.Enter(first, nil)); err != nil {
			t.Fatal(err)
		}
		p.again()
	}
	return all
}

func placing(previous *views.View, members []views.Member) (*views.View, error) {
	p := views.Placement{ID: 1, Cluster: "blue", Members: members, Declarations: []views.Declaration{{Name: "orders", RingBytes: 1 << 16, Window: 64}}, Previous: previous}
	if previous != nil {
		p.ID = previous.ID + 1
	}
	v, _, err := views.Place(p)
	return v, err
}

func (p *process) load() {
	var err error
	if p.Memory, err = Load(p.disk); err != nil {
		p.t.Fatal(err)
	}
}

// awaitAll has processes that are a quorum without some of the others wait for all of them, for
// longer than a busy machine takes to start them.
func awaitAll(all ...*process) {
	for _, p := range all {
		p.Settle, p.Silence = testPatience/2, testPatience/2
	}
}

// again makes it the next process with this disk.
func (p *process) again() {
	p.load()
	p.Self.Incarnation++
	p.Port.Handle(port.KindRestart, nil)
}

func (p *process) at() order.Version {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end
}

func (p *process) reconcile(_ context.Context, plan []Agreed) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range plan {
		p.end = a.End
	}
	return nil
}

func (p *process) note(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
	select {
	case p.told <- struct{}{}:
	default:
	}
}

// awaits waits for an event whose text has all of some words.
func (p *process) awaits(words ...string) {
	p.t.Helper()
	deadline := time.After(testPatience)
	for {
		p.mu.Lock()
		found := slices.ContainsFunc(p.events, func(e Event) bool {
			return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(e.String(), word) })
		})
		events := fmt.Sprint(p.events)
		p.mu.Unlock()
		if found {
			return
		}
		select {
		case <-p.told:
		case <-deadline:
			p.t.Fatalf("node %d told nothing of %v: %s", p.Self.ID, words, events)
		}
	}
}

type ended struct {
	p       *process
	outcome Outcome
	err     error
}

// runs starts processes, and returns the channel of their outcomes.
func runs(ctx context.Context, all ...*process) chan ended {
	done := make(chan ended, len(all))
	for _, p := range all {
		go func() {
			o, err := Run(ctx, p.Config)
			if err == nil && o.View != nil {
				s := NewServer("blue", p.Self, func() *views.View { return o.View }) // as the group does that runs from now on
				p.t.Cleanup(s.Close)
				p.Port.Handle(port.KindRestart, s.Serve)
			}
			done <- ended{p, o, err}
		}()
	}
	return done
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	t.Cleanup(cancel)
	return ctx
}

// outcomes waits for processes that become members of one view, with one log.
func outcomes(t *testing.T, done chan ended, n int, end order.Version) (v *views.View) {
	t.Helper()
	for range n {
		e := <-done
		if e.err != nil || e.outcome.View == nil || v != nil && v.Key() != e.outcome.View.Key() {
			t.Fatalf("node %d: %+v, %v; another one is in %v", e.p.Self.ID, e.outcome, e.err, v)
		}
		if v = e.outcome.View; e.p.at() != end {
			t.Fatalf("node %d's log ends at %v, agreed upon was %v", e.p.Self.ID, e.p.at(), end)
		}
		e.p.load()
		if s := e.p.Memory.State(); s.View.Key() != v.Key() || !s.Restarted || len(s.Incomplete) > 0 {
			t.Fatalf("node %d remembers %+v", e.p.Self.ID, s)
		}
		if err := e.p.Memory.Enter(v, nil); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

func TestThreeThatStartAgainGoOnTogetherWithTheLongestLog(t *testing.T) {
	all := members(t, 3)
	awaitAll(all...)
	v := outcomes(t, runs(within(t), all...), 3, order.Version{View: 1, Seq: 3})
	if v.ID != 2 || len(v.Members) != 3 || v.Members[0] != all[0].Self || v.Key() == "" || v.Key() == "first" {
		t.Fatalf("%+v", v)
	}
}

func TestTwoOfThreeGoOnAndTheThirdFindsThem(t *testing.T) {
	all := members(t, 3)
	all[2].Settle = time.Millisecond
	v := outcomes(t, runs(within(t), all[1:]...), 2, order.Version{View: 1, Seq: 3})
	if v.ID != 2 || len(v.Members) != 2 {
		t.Fatalf("%+v", v)
	}
	e := <-runs(within(t), all[0])
	if e.err != nil || e.outcome.View != nil || !slices.Contains(e.outcome.Running, all[1].Self.Addr) {
		t.Fatalf("%+v, %v", e.outcome, e.err)
	}
}

func TestOneOfThreeWaitsAndNamesTheOthers(t *testing.T) {
	all := members(t, 3)
	ctx, cancel := context.WithCancel(within(t))
	done := runs(ctx, all[1])
	all[1].awaits("waiting for node 1, node 3", "1 of 3 members of view 1 are here")
	others := runs(within(t), all[2])
	outcomes(t, others, 1, order.Version{View: 1, Seq: 3})
	outcomes(t, done, 1, order.Version{View: 1, Seq: 3})
	cancel()
}

func TestAContextThatEndsEndsTheWaiting(t *testing.T) {
	all := members(t, 3)
	ctx, cancel := context.WithCancelCause(within(t))
	done := runs(ctx, all[0])
	all[0].awaits("waiting")
	why := errors.New("enough")
	cancel(why)
	if e := <-done; !errors.Is(e.err, why) || !strings.Contains(e.err.Error(), "waiting for node 2, node 3") {
		t.Fatal(e.err)
	}
}

// The processes have other ports than before, and know one address only.
func TestTheyFindEachOtherThroughOneOfThem(t *testing.T) {
	all := members(t, 3)
	for _, p := range all {
		moved, err := port.Open(t.Context(), port.Config{Addr: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { moved.Close() })
		p.Port, p.Self.Addr = moved, moved.Addr()
		p.Join = []string{all[0].Self.Addr}
	}
	awaitAll(all...)
	all[1].Join[0], all[2].Join[0] = all[0].Self.Addr, all[0].Self.Addr
	v := outcomes(t, runs(within(t), all...), 3, order.Version{View: 1, Seq: 3})
	if v.Members[2].Addr != all[2].Self.Addr {
		t.Fatalf("%+v", v)
	}
}

func TestARestartCanFollowARestart(t *testing.T) {
	all := members(t, 3)
	settle := all[0].Settle
	awaitAll(all...)
	outcomes(t, runs(within(t), all...), 3, order.Version{View: 1, Seq: 3})
	for _, p := range all {
		p.again()
		p.Settle = settle
	}
	if v := outcomes(t, runs(within(t), all[:2]...), 2, order.Version{View: 1, Seq: 3}); v.ID != 3 {
		t.Fatalf("%+v", v)
	}
}

func TestADiskThatFailsEndsTheRun(t *testing.T) {
	all := members(t, 1)
	all[0].disk.broken = errors.New("no space left")
	if e := <-runs(within(t), all[0]); !errors.Is(e.err, all[0].disk.broken) {
		t.Fatal(e.err)
	}
}

// Y3: nothing is said before it is on disk.
func TestNothingIsSaidBeforeItIsOnDisk(t *testing.T) {
	one := members(t, 1)[0]
	r := newRunner(t.Context(), one.Config)
	defer r.close()
	one.disk.broken = errors.New("no space")
	s := one.Memory.State()
	s.Promised = Ballot{7, 1}
	outcome, err := r.apply(Effects{State: &s, Sends: []Send{{"127.0.0.1:1", Message{Verb: Promise}}}, Outcome: &Outcome{}})
	if !errors.Is(err, one.disk.broken) || outcome != nil || len(r.sessions) > 0 {
		t.Errorf("%v, with %v; messages went %d ways", err, outcome, len(r.sessions))
	}
}

func TestAConfigurationThatLacksSomethingIsRefused(t *testing.T) {
	_, err := Run(within(t), Config{})
	for _, want := range []string{"a member", "a memory", "a port", "Reconcile"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	p := members(t, 1)[0]
	p.Cluster = "red"
	if _, err := Run(within(t), p.Config); !errors.Is(err, ErrOtherHistory) {
		t.Error(err)
	}
	p.Cluster, p.Self.ID = "blue", 7
	if _, err := Run(within(t), p.Config); !errors.Is(err, ErrOtherNode) {
		t.Error(err)
	}
}

func TestWhoSpeaksGarbageOrForAnotherClusterChangesNothing(t *testing.T) {
	all := members(t, 2)
	awaitAll(all...)
	done := runs(within(t), all[1])
	all[1].awaits("waiting for node 1")
	conn, err := port.Dial(within(t), all[1].Self.Addr, port.KindRestart, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stranger := Message{Verb: Hello, Cluster: "red", From: views.Member{ID: 9, Incarnation: 1, Addr: all[0].Self.Addr}}
	if err := wire.WriteMessage(conn, stranger); err != nil {
		t.Fatal(err)
	}
	all[1].awaits("node 9", "is ignored", `cluster "red"`)
	for _, m := range []Message{
		{Verb: Decided, Cluster: "blue", From: views.Member{ID: 8, Addr: "x"}},
		{Verb: Accept, Cluster: "blue", From: all[0].Self, ViewID: 1, Key: "first", Ballot: Ballot{1, 1}},
		{Verb: "?", Cluster: "blue", From: all[0].Self},
	} {
		if err := wire.WriteMessage(conn, m); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Write([]byte("HTTP/1.1 ")); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience * all[1].Silence / 2))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) { // pulses, until it ends
		t.Fatal("the connection goes on")
	}
	outcomes(t, runs(within(t), all[0]), 1, order.Version{View: 1, Seq: 2})
	outcomes(t, done, 1, order.Version{View: 1, Seq: 2})
}
