package dds_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/cdr"
	"github.com/squall-go/squall/dds/filter"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/testutil"
	_ "github.com/squall-go/squall/persist/bolt"
)

// position is the sample of the tests.
type position struct {
	Vehicle int32 `dds:"key"`
	N       int32
	From    string
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// open returns the participants of a new group.
func open(t testing.TB, n int, change func(i int, p *member.Config, c *squall.Config)) []*member.Member {
	t.Helper()
	all := make([]*member.Member, n)
	errs := make([]error, n)
	addr := testutil.FreeAddress(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for i := range all {
		cfg := member.Config{Subgroup: squall.SubgroupConfig{Name: "fleet"}}
		c := &cfg.Group
		*c = squall.Config{Cluster: "test", ID: squall.NodeID(i + 1), Listen: "127.0.0.1:0", Join: []string{addr}, InitialMembers: n, Logger: quiet}
		if i == 0 {
			c.Listen = addr
		}
		if change != nil {
			change(i, &cfg, c)
		}
		wg.Go(func() { all[i], errs[i] = member.Open(ctx, cfg) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, all...) })
	return all
}

func closeAll(t testing.TB, all ...*member.Member) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(func() {
			if err := p.Close(ctx); err != nil && p.Group().Err() == nil && !errors.Is(err, squall.ErrClosed) {
				t.Errorf("closing: %v", err)
			}
		})
	}
	wg.Wait()
}

// join adds a participant to the group of another one.
func join(t *testing.T, to *member.Member, node squall.NodeID, members int) *member.Member {
	t.Helper()
	p, err := member.Open(t.Context(), member.Config{
		Group:    squall.Config{Cluster: "test", ID: node, Listen: "127.0.0.1:0", Join: []string{to.Group().Addr()}, InitialMembers: members, Logger: quiet},
		Subgroup: squall.SubgroupConfig{Name: "fleet"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, p) })
	return p
}

func topic(t *testing.T, p dds.Space, set dds.QoS) *dds.Topic[position] {
	t.Helper()
	tp, err := dds.NewTopic(t.Context(), p, "positions", dds.CBOR[position](), set)
	if err != nil {
		t.Fatal(err)
	}
	return tp
}

func writer(t *testing.T, tp *dds.Topic[position], set dds.QoS) *dds.Writer[position] {
	t.Helper()
	w, err := tp.Writer(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func reader(t *testing.T, tp *dds.Topic[position], set dds.QoS, options ...dds.Option[position]) *dds.Reader[position] {
	t.Helper()
	r, err := tp.Reader(t.Context(), set, options...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func write(t *testing.T, w *dds.Writer[position], v position) {
	t.Helper()
	if err := w.Write(t.Context(), v); err != nil {
		t.Fatal(err)
	}
}

// next takes n samples.
func next(t *testing.T, r *dds.Reader[position], n int) (all []dds.Sample[position]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range n {
		s, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("after %d samples: %v", len(all), err)
		}
		all = append(all, s)
	}
	return all
}

// text is what samples have in common at all readers.
func text(all []dds.Sample[position]) (lines []string) {
	for _, s := range all {
		lines = append(lines, fmt.Sprint(s.Info.Position, s.Value, s.Info.Valid, s.Info.Writer))
	}
	return lines
}

var keepAll = dds.QoS{History: qos.KeepAll()}

func TestAllReadersHaveTheSameSamplesAtTheSamePositions(t *testing.T) {
	t.Parallel()
	all := open(t, 3, nil)
	const each = 300
	var readers []*dds.Reader[position]
	var writers []*dds.Writer[position]
	for _, p := range all {
		tp := topic(t, p, dds.QoS{})
		readers = append(readers, reader(t, tp, keepAll))
		writers = append(writers, writer(t, tp, dds.QoS{}))
	}
	for _, w := range writers {
		if n, err := w.Matched(t.Context(), 3); n != 3 || err != nil {
			t.Fatalf("%d readers match: %v", n, err)
		}
	}
	var wg sync.WaitGroup
	for i, w := range writers {
		wg.Go(func() {
			for n := range each {
				if err := w.Write(t.Context(), position{int32(n % 5), int32(n), fmt.Sprint(i)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var first []string
	for i, r := range readers {
		got := text(next(t, r, 3*each))
		if i == 0 {
			first = got
		}
		if !slices.Equal(got, first) {
			t.Errorf("reader %d has other samples than the first", i+1)
		}
	}
	wg.Wait()
}

func TestALateReaderMissesNothingAndGetsNothingTwice(t *testing.T) {
	t.Parallel()
	all := open(t, 2, nil)
	durable := dds.QoS{Durability: qos.Transient}
	set := dds.QoS{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}}
	w := writer(t, topic(t, all[0], set), durable)
	const n = 400
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range n {
			if err := w.Write(t.Context(), position{N: int32(i)}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	read := dds.QoS{Durability: qos.Transient, History: qos.KeepAll()}
	late := reader(t, topic(t, all[1], set), read)
	joiner := join(t, all[0], 9, 2)
	joined := reader(t, topic(t, joiner, set), read)
	for _, r := range []*dds.Reader[position]{late, joined} {
		for i, s := range next(t, r, n) {
			if s.Value.N != int32(i) {
				t.Fatalf("sample %d is %+v", i, s)
			}
		}
	}
	wg.Wait()
}

func TestOwnershipGoesOverWhenAProcessEndsAtOnePosition(t *testing.T) {
	t.Parallel()
	all := open(t, 3, func(_ int, _ *member.Config, c *squall.Config) {
		c.Heartbeat, c.FailAfter = 100*time.Millisecond, time.Second
	})
	exclusive := dds.QoS{Ownership: qos.Exclusive}
	read := dds.QoS{Ownership: qos.Exclusive, History: qos.KeepAll()}
	var readers []*dds.Reader[position]
	for _, p := range all[:2] {
		readers = append(readers, reader(t, topic(t, p, exclusive), read))
	}
	strong := exclusive
	strong.Strength = 9
	weak, owner := writer(t, topic(t, all[1], exclusive), exclusive), writer(t, topic(t, all[2], exclusive), strong)
	write(t, owner, position{From: "owner"})
	for _, r := range readers {
		if s := next(t, r, 1)[0]; s.Value.From != "owner" {
			t.Fatalf("%+v", s)
		}
	}
	all[2].Group().Halt(errors.New("the test kills it"))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := int32(0); ctx.Err() == nil; i++ {
			if err := weak.Write(ctx, position{N: i, From: "weak"}); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			if i%100 == 0 { // the writer is much faster than the failure is detected
				select {
				case <-time.After(time.Millisecond):
				case <-ctx.Done():
				}
			}
		}
	})
	one, other := text(next(t, readers[0], 50)), text(next(t, readers[1], 50))
	cancel()
	wg.Wait()
	if !slices.Equal(one, other) {
		t.Errorf("readers have\n%v and\n%v", one, other)
	}
}

func TestACoherentSetIsThereAsAWhole(t *testing.T) {
	t.Parallel()
	all := open(t, 2, nil)
	coherent := dds.QoS{Presentation: qos.Presentation{Access: qos.TopicScope, Coherent: true}}
	w := writer(t, topic(t, all[0], dds.QoS{}), coherent)
	plain := writer(t, topic(t, all[0], dds.QoS{}), dds.QoS{})
	coherent.History = qos.KeepAll()
	r := reader(t, topic(t, all[1], dds.QoS{}), coherent)
	failed := errors.New("the application gives up")
	err := all[0].Coherent(t.Context(), func(s *dds.CoherentSet) error {
		if err := w.WriteIn(t.Context(), s, position{N: 1}); err != nil {
			t.Error(err)
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	err = all[0].Coherent(t.Context(), func(s *dds.CoherentSet) error {
		for i := range int32(10) {
			if err := w.WriteIn(t.Context(), s, position{Vehicle: i, N: 2}); err != nil {
				return err
			}
		}
		if err := plain.WriteIn(t.Context(), s, position{}); !errors.Is(err, qos.ErrInconsistent) {
			t.Errorf("a writer that offers no coherent access: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got := next(t, r, 10)
	for i, s := range got {
		if s.Value.N != 2 || s.Value.Vehicle != int32(i) || s.Info.Position != got[0].Info.Position {
			t.Errorf("sample %d: %+v", i, s)
		}
	}
}

// recorder keeps events.
type recorder struct {
	mu     sync.Mutex
	events []dds.Event
}

func (r *recorder) add(e dds.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// until waits until an event was told for which f returns true.
func (r *recorder) until(t *testing.T, what string, f func(dds.Event) bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		r.mu.Lock()
		found := slices.ContainsFunc(r.events, f)
		r.mu.Unlock()
		if found {
			return
		}
	}
	t.Fatalf("%s was not told: %+v", what, r.events)
}

func TestEventsSayWhy(t *testing.T) {
	t.Parallel()
	var told recorder
	all := open(t, 2, func(i int, p *member.Config, _ *squall.Config) {
		if i == 0 {
			p.Events = told.add
		}
	})
	w := writer(t, topic(t, all[0], dds.QoS{}), dds.QoS{Deadline: 20 * time.Millisecond})
	there := topic(t, all[1], dds.QoS{})
	r, durable := reader(t, there, keepAll), reader(t, there, dds.QoS{Durability: qos.Transient})
	told.until(t, "a match", func(e dds.Event) bool {
		m, ok := e.(dds.Matched)
		return ok && m.Endpoint == w.ID() && m.Peer == r.ID() && m.Current == 1 && m.Position > 0
	})
	told.until(t, "an incompatible policy", func(e dds.Event) bool {
		m, ok := e.(dds.IncompatibleQoS)
		return ok && m.Peer == durable.ID() && slices.Equal(m.Policies, []qos.Policy{qos.DurabilityPolicy})
	})
	verdicts, err := all[0].Explain(w.ID(), durable.ID())
	if err != nil || verdicts[0].Policy != qos.DurabilityPolicy || verdicts[0].Compatible {
		t.Errorf("%v, %v", verdicts, err)
	}
	write(t, w, position{Vehicle: 3})
	told.until(t, "a missed deadline", func(e dds.Event) bool {
		m, ok := e.(dds.DeadlineMissed)
		return ok && m.Endpoint == w.ID()
	})
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	told.until(t, "the end of a match", func(e dds.Event) bool {
		m, ok := e.(dds.Unmatched)
		return ok && m.Peer == r.ID() && m.Current == 0
	})
	if _, err := r.Next(t.Context()); !errors.Is(err, dds.ErrUnknown) {
		t.Errorf("a closed reader: %v", err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), position{}); !errors.Is(err, dds.ErrUnknown) {
		t.Errorf("a closed writer writes: %v", err)
	}
}

func TestAFullReaderHoldsUpTheWriters(t *testing.T) {
	t.Parallel()
	all := open(t, 2, func(_ int, p *member.Config, _ *squall.Config) {
		p.Subgroup.RingBytes, p.Subgroup.Window = 1<<12, 16
	})
	w := writer(t, topic(t, all[0], dds.QoS{}), dds.QoS{Reliability: qos.Reliability{MaxBlocking: 300 * time.Millisecond}})
	there := topic(t, all[1], dds.QoS{})
	r := reader(t, there, dds.QoS{History: qos.KeepAll(), Limits: qos.Limits{Samples: 5}})
	var written int32
	var err error
	for ; err == nil && written < 10_000; written++ {
		err = w.Write(t.Context(), position{N: written})
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%d samples were written to a reader with room for 5: %v", written, err)
	}
	for i, s := range next(t, r, int(written)-1) {
		if s.Value.N != int32(i) {
			t.Fatalf("sample %d: %+v", i, s)
		}
	}
	for i := range int32(200) { // and again: the reader is closed while it is full
		if err = w.Write(t.Context(), position{N: i}); err != nil {
			break
		}
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, w, position{})
}

func TestPersistentTopicsSurviveTheEndOfAllProcesses(t *testing.T) {
	t.Parallel()
	dirs := []string{t.TempDir(), t.TempDir()}
	addrs := []string{testutil.FreeAddress(t), testutil.FreeAddress(t)}
	persistent := dds.QoS{Durability: qos.Persistent}
	set := dds.QoS{Durability: qos.Persistent, Service: qos.DurabilityService{History: qos.KeepAll()}}
	var n int32
	for lap := range 3 {
		all := open(t, 2, func(i int, p *member.Config, c *squall.Config) {
			p.Subgroup.Mode = squall.Persistent
			c.Dir, c.Listen, c.Join = dirs[i], addrs[i], addrs
		})
		r := reader(t, topic(t, all[1], set), dds.QoS{Durability: qos.Persistent, History: qos.KeepAll()})
		w := writer(t, topic(t, all[0], set), persistent)
		if lap == 1 { // the next lap begins with the snapshots and what follows them
			for _, m := range all {
				if _, err := m.Subgroup().TakeSnapshot(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 5 {
			f, err := w.WriteFuture(t.Context(), position{Vehicle: n, N: n})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Persisted(t.Context(), dds.OnEveryDisk); err != nil {
				t.Fatal(err)
			}
			n++
		}
		var got []int32
		for len(got) < int(n) {
			if s := next(t, r, 1)[0]; s.Info.Valid {
				got = append(got, s.Value.N)
			}
		}
		for i, v := range got {
			if v != int32(i) {
				t.Fatalf("lap %d: samples %v", lap, got)
			}
		}
		closeAll(t, all...)
	}
}

func TestReadAndTakeSelect(t *testing.T) {
	t.Parallel()
	all := open(t, 1, nil)
	tp := topic(t, all[0], dds.QoS{})
	r := reader(t, tp, keepAll, dds.Where(func(v *position) bool { return v.N%2 == 0 }))
	where, err := dds.WhereText[position]("vehicle = %0 AND n > 2", "1")
	if err != nil {
		t.Fatal(err)
	}
	byText := reader(t, tp, keepAll, where)
	w := writer(t, tp, dds.QoS{})
	for i := range int32(6) {
		write(t, w, position{Vehicle: i % 3, N: i})
	}
	if s := next(t, byText, 1)[0]; s.Value.N != 4 {
		t.Errorf("filtered by a text: %+v", s)
	}
	if _, err := dds.WhereText[position]("weight > 2"); !errors.Is(err, filter.ErrType) {
		t.Errorf("a filter of a member that is not there: %v", err)
	}
	if _, err := dds.WhereText[position]("n >"); !errors.Is(err, filter.ErrSyntax) {
		t.Errorf("half a filter: %v", err)
	}
	var got []dds.Sample[position]
	for len(got) < 3 {
		var err error
		if got, err = r.Read(dds.Query{}); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := r.Read(dds.Query{Samples: dds.SampleNotRead}); len(again) != 0 || err != nil {
		t.Errorf("%v, %v", again, err)
	}
	some, err := r.Take(dds.Query{Max: 2, Views: dds.ViewNotNew, Instances: dds.InstanceAlive})
	if err != nil || len(some) != 2 || some[0].Value.N != 0 || some[1].Value.N != 2 || some[0].Info.Sample != dds.SampleRead {
		t.Errorf("%+v, %v", some, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for s, err := range r.All(ctx) {
		if err != nil || s.Value.N != 4 {
			t.Errorf("%+v, %v", s, err)
		}
		cancel()
	}
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	all := open(t, 1, nil)
	ctx := t.Context()
	tp := topic(t, all[0], dds.QoS{})
	if _, err := dds.NewTopic(ctx, all[0], "positions", dds.Raw(), dds.QoS{}); !errors.Is(err, dds.ErrInconsistentTopic) {
		t.Errorf("another type: %v", err)
	}
	if _, err := dds.NewTopic(ctx, all[0], "p", dds.CBOR[position](), dds.QoS{Durability: qos.Persistent}); !errors.Is(err, qos.ErrRefused) {
		t.Errorf("persistent without a log: %v", err)
	}
	instances := dds.QoS{Durability: qos.Transient, Service: qos.DurabilityService{Limits: qos.Limits{Instances: 1}}}
	if _, err := dds.NewTopic(ctx, all[0], "p", dds.CBOR[position](), instances); !errors.Is(err, qos.ErrRefused) {
		t.Errorf("a limit without an effect: %v", err)
	}
	if _, err := tp.Writer(ctx, dds.QoS{TransportPriority: 1}); !errors.Is(err, qos.ErrRefused) {
		t.Errorf("a policy that is refused: %v", err)
	}
	if _, err := tp.Writer(ctx, dds.QoS{Durability: qos.Transient}); !errors.Is(err, dds.ErrInconsistentTopic) {
		t.Errorf("a writer beyond its topic: %v", err)
	}
	raw, err := dds.NewTopic(ctx, all[0], "raw", dds.Raw(), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := raw.Writer(ctx, dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Dispose(ctx, nil); err == nil {
		t.Error("a topic without keys has an instance to dispose of")
	}
	if err := raw.Forget(ctx); !errors.Is(err, dds.ErrInUse) {
		t.Errorf("%v", err)
	}
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := raw.Forget(ctx); err != nil {
		t.Error(err)
	}
	for what, sg := range map[string]squall.SubgroupConfig{
		"no order":   {Name: "s", Mode: squall.Unordered},
		"a function": {Name: "s", Deliver: func(squall.Message) {}},
		"shards":     {Name: "s", Shards: 2},
		"members":    {Name: "s", Members: []squall.NodeID{1}},
	} {
		if _, err := member.Open(ctx, member.Config{Subgroup: sg}); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	for what, cfg := range map[string]dds.ClientConfig{
		"no space":    {Addresses: []string{"127.0.0.1:1"}},
		"no relay":    {Space: "s"},
		"no patience": {Space: "s", Addresses: []string{"127.0.0.1:1"}, RelayTimeout: time.Millisecond},
	} {
		if _, err := dds.Dial(ctx, cfg); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s is accepted: %v", what, err)
		}
	}
}

func TestSamplesHaveTheSameValueInEachCodec(t *testing.T) {
	t.Parallel()
	all := open(t, 1, nil)
	x, err := dds.XCDR[position](cdr.XCDR2)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []dds.Codec[position]{x, dds.CBOR[position]()} {
		tp, err := dds.NewTopic(t.Context(), all[0], c.Name(), c, dds.QoS{})
		if err != nil {
			t.Fatal(err)
		}
		r, w := reader(t, tp, keepAll), writer(t, tp, dds.QoS{})
		want := position{7, 8, "here"}
		write(t, w, want)
		if s := next(t, r, 1)[0]; s.Value != want {
			t.Errorf("%s: %+v", c.Name(), s)
		}
	}
	raw, err := dds.NewTopic(t.Context(), all[0], "raw", dds.Raw(), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := raw.Reader(t.Context(), keepAll)
	if err != nil {
		t.Fatal(err)
	}
	w, err := raw.Writer(t.Context(), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), []byte("bytes")); err != nil {
		t.Fatal(err)
	}
	if s, err := r.Next(t.Context()); err != nil || string(s.Value) != "bytes" {
		t.Errorf("%q, %v", s.Value, err)
	}
}

func TestTheTableOfPoliciesIsTrue(t *testing.T) {
	text, err := os.ReadFile("../docs/dds.md")
	if err != nil {
		t.Fatal(err)
	}
	words := func(row string) []string {
		return strings.FieldsFunc(row, func(r rune) bool { return strings.ContainsRune("|,: ", r) })
	}
	rows := map[string][]string{} // by the first word
	for row := range strings.Lines(string(text)) {
		if w := words(row); row[0] == '|' && len(w) > 0 {
			rows[w[0]] = w
		}
	}
	for _, p := range qos.Policies() {
		if support, _ := p.Support(); !slices.Contains(rows[support.String()], p.String()) {
			t.Errorf("docs/dds.md does not say that %v is %v", p, support)
		}
	}
}
