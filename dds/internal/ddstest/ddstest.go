// Package ddstest is a random test of what readers of a space see, for the tests of packages dds
// and dds/member: members and clients write and read topics of random policies, one call after the
// other. All readers with the same policies see the same at the same position, whichever process
// they are of, and it is what a model says.
package ddstest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/cdr"
	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
)

// sample is what is written.
type sample struct {
	Key int32 `dds:"key"`
	N   int32
	Pad string
}

// world is the processes of a space, and the topic of a lap.
type world struct {
	testing.TB
	ctx     context.Context
	rng     *rand.Rand
	seed    uint64
	members []*member.Member
	spaces  []dds.Space // of all processes, those of members first
	marks   []*dds.Reader[sample]
	marker  *dds.Writer[sample]
	marked  int32

	set     dds.QoS
	codec   dds.Codec[sample]
	topics  []*dds.Topic[sample]
	writers []*writer
	groups  []*group
	n       int32
	keys    map[int32]*instance
	times   map[int32]span // when the samples were written
}

// sizing is a codec that knows how many bytes it appends.
type sizing struct{ dds.Codec[sample] }

// Size implements dds.Sizer.
func (c sizing) Size(v *sample) int {
	b, _ := c.Append(nil, v) // it does not fail
	return len(b)
}

// span is the time of a call.
type span struct{ from, to int64 }

// Agree runs laps of the test, each with another topic.
func Agree(t *testing.T, laps int) {
	w := &world{TB: t, ctx: testutil.Within(t), seed: testutil.Seed(t)}
	addr := testutil.FreeAddress(t)
	opened := make(chan error, 2)
	w.members = make([]*member.Member, 2, 3)
	for i := range w.members {
		go func() {
			var err error
			w.members[i], err = w.member(i, addr, 2)
			opened <- err
		}()
	}
	w.check(errors.Join(<-opened, <-opened))
	for _, m := range w.members {
		w.enter(m)
	}
	for _, m := range slices.Backward(w.members) {
		relay, err := member.Serve(t.Context(), member.RelayConfig{Member: m, Endpoint: ripc.Config{Listen: "127.0.0.1:0"}})
		w.check(err)
		t.Cleanup(func() { _ = relay.Close() })
		c, err := dds.Dial(w.ctx, dds.ClientConfig{Space: "fleet", Cluster: "test", Addresses: []string{relay.Addr()}})
		w.check(err)
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		w.enter(c)
	}
	w.unordered()
	for lap := range laps {
		w.rng = rand.New(rand.NewPCG(w.seed+uint64(lap), 0))
		w.lap(lap, lap == laps/2)
	}
}

func (w *world) member(i int, addr string, members int) (*member.Member, error) {
	listen := "127.0.0.1:0"
	if i == 0 {
		listen = addr
	}
	m, err := member.Open(w.ctx, member.Config{
		Group: squall.Config{
			Cluster: "test", ID: squall.NodeID(i + 1), Listen: listen, Join: []string{addr}, InitialMembers: members,
			Logger: slog.New(slog.DiscardHandler),
		},
		Subgroup:  squall.SubgroupConfig{Name: "fleet"},
		Unordered: squall.SubgroupConfig{Name: "fast", Mode: squall.Unordered},
	})
	if err == nil {
		w.Cleanup(func() { _ = m.Close(context.Background()) })
	}
	return m, err
}

func (w *world) check(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("seed %d: %v", w.seed, err)
	}
}

// enter adds a process, with a reader of the marks that tell how far it is.
func (w *world) enter(p dds.Space) {
	tp, err := dds.NewTopic(w.ctx, p, "marks", dds.CBOR[sample](), dds.QoS{})
	w.check(err)
	r, err := tp.Reader(w.ctx, dds.QoS{History: qos.KeepAll()})
	w.check(err)
	w.spaces, w.marks = append(w.spaces, p), append(w.marks, r)
	if w.marker == nil {
		w.marker, err = tp.Writer(w.ctx, dds.QoS{})
		w.check(err)
	}
	_, err = w.marker.Matched(w.ctx, len(w.marks))
	w.check(err)
}

// unordered writes samples that go without an order. Their instances end in the order, with their
// writer or before.
func (w *world) unordered() {
	set := dds.QoS{Reliability: qos.Reliability{Kind: qos.BestEffort}, History: qos.KeepAll()}
	var out *dds.Writer[sample]
	var readers []*dds.Reader[sample]
	for i, p := range w.spaces {
		tp, err := dds.NewTopic(w.ctx, p, "unordered", dds.CBOR[sample](), dds.QoS{})
		w.check(err)
		r, err := tp.Reader(w.ctx, set)
		w.check(err)
		if readers = append(readers, r); i == 0 {
			out, err = tp.Writer(w.ctx, dds.QoS{Reliability: set.Reliability, KeepUnregistered: true})
			w.check(err)
		}
	}
	_, err := out.Matched(w.ctx, len(readers))
	w.check(err)
	w.times = map[int32]span{}
	write := func(n int32) {
		from := core.Now()
		w.check(out.Write(w.ctx, w.value(value{n % 2, n})))
		w.times[n] = span{from, core.Now()}
		for _, r := range readers {
			if s, err := r.Next(w.ctx); err != nil || s.Value != w.value(value{n % 2, n}) || s.Info.Position != 0 {
				w.Fatalf("without an order: %+v, %v", s, err)
			} else {
				w.timed(s)
			}
		}
	}
	for n := range int32(5) {
		write(n)
	}
	ended := func(key int32, state dds.InstanceState) {
		for _, r := range readers {
			if s, err := r.Next(w.ctx); err != nil || s.Value.Key != key || s.Info.Valid || s.Info.Instance != state {
				w.Fatalf("the end of instance %d without an order: %+v, %v", key, s, err)
			}
		}
	}
	w.check(out.Dispose(w.ctx, sample{Key: 0}))
	ended(0, dds.InstanceDisposed)
	w.check(out.Unregister(w.ctx, sample{Key: 1}))
	ended(1, dds.InstanceNoWriters)
	write(5) // the writer has a part in the instance again
	w.check(out.Close(w.ctx))
	ended(1, dds.InstanceNoWriters)
	for _, r := range readers {
		w.check(r.Close(w.ctx))
	}
}

// settle waits until all processes have everything that was written.
func (w *world) settle() {
	w.marked++
	w.check(w.marker.Write(w.ctx, sample{N: w.marked}))
	for _, r := range w.marks {
		s, err := r.Next(w.ctx)
		w.check(err)
		if s.Value.N != w.marked {
			w.Fatalf("mark %d is %+v", w.marked, s)
		}
	}
}

// writer is a writer of any process.
type writer struct {
	*dds.Writer[sample]
	at  int // its process
	set dds.QoS
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func (w *world) lap(lap int, joins bool) {
	w.draw()
	w.topics, w.writers, w.groups, w.keys, w.times = nil, nil, nil, map[int32]*instance{}, map[int32]span{}
	w.declare(lap, w.spaces...)
	for range 2 {
		w.openWriter()
	}
	for range 3 {
		w.openReaders()
	}
	for range 60 {
		w.step()
	}
	if joins {
		m, err := w.member(len(w.members), w.members[0].Group().Addr(), 2)
		w.check(err)
		w.members = append(w.members, m)
		w.enter(m)
		w.declare(lap, m)
		w.openReaders()
		w.write()
	}
	w.settle()
	for _, g := range w.groups {
		w.query(g)
		w.take(g)
		for _, r := range g.readers {
			w.check(r.Close(w.ctx))
		}
	}
	w.groups = nil
	w.settle()
	w.matches()
	for len(w.writers) > 0 {
		w.closeWriter()
	}
}

// draw draws the policies and the codec of a lap.
func (w *world) draw() {
	w.set = dds.QoS{
		Durability: pick(w.rng, qos.Volatile, qos.Transient, qos.Transient),
		Ownership:  pick(w.rng, qos.Shared, qos.Exclusive),
	}
	if w.set.Durability > qos.Volatile {
		w.set.Service.History = pick(w.rng, qos.KeepAll(), qos.KeepLast(1), qos.KeepLast(2))
	}
	if w.codec = dds.CBOR[sample](); w.rng.IntN(2) == 0 {
		var err error
		w.codec, err = dds.XCDR[sample](pick(w.rng, cdr.XCDR1, cdr.XCDR2))
		w.check(err)
		if w.rng.IntN(2) == 0 {
			w.codec = sizing{w.codec}
		}
	}
}

// step does one of the things that happen in a lap.
func (w *world) step() {
	switch k := w.rng.IntN(24); {
	case k == 0:
		w.openReaders()
	case k == 1 && len(w.writers) < 4:
		w.openWriter()
	case k == 2 && len(w.writers) > 1:
		w.closeWriter()
	case k < 5:
		w.settle()
		w.matches()
		for _, g := range w.groups {
			w.query(g)
		}
	case k < 8:
		w.coherent()
	case k == 8:
		w.change()
	default:
		w.write()
	}
}

func (w *world) declare(lap int, spaces ...dds.Space) {
	for _, p := range spaces {
		tp, err := dds.NewTopic(w.ctx, p, fmt.Sprint("topic ", lap), w.codec, w.set)
		w.check(err)
		w.topics = append(w.topics, tp)
	}
}

func (w *world) openWriter() {
	at := w.rng.IntN(len(w.topics))
	set := dds.QoS{
		Durability: w.set.Durability, Ownership: w.set.Ownership, KeepUnregistered: w.rng.IntN(2) == 0,
		Presentation: qos.Presentation{Access: qos.GroupScope, Coherent: true},
	}
	if set.Ownership == qos.Exclusive {
		set.Strength = w.strength()
	}
	out, err := w.topics[at].Writer(w.ctx, set)
	w.check(err)
	w.writers = append(w.writers, &writer{Writer: out, at: at, set: set})
	w.matched()
}

// matched waits until all writers match all readers.
func (w *world) matched() {
	n := 0
	for _, g := range w.groups {
		n += len(g.readers)
	}
	for _, o := range w.writers {
		if n > 0 {
			_, err := o.Matched(w.ctx, n)
			w.check(err)
		}
	}
}

// matches checks how many endpoints match each one, once all processes have been told.
func (w *world) matches() {
	n := 0
	for _, g := range w.groups {
		n += len(g.readers)
		for _, r := range g.readers {
			if got, err := r.Matched(w.ctx, 0); err != nil || got != len(w.writers) {
				w.Fatalf("seed %d: a reader matches %d of %d writers, %v", w.seed, got, len(w.writers), err)
			}
		}
	}
	for _, o := range w.writers {
		if got, err := o.Matched(w.ctx, 0); err != nil || got != n {
			w.Fatalf("seed %d: a writer matches %d of %d readers, %v", w.seed, got, n, err)
		}
	}
}

// strength is one that no writer has.
func (w *world) strength() int32 {
	for {
		s := w.rng.Int32N(100)
		if !slices.ContainsFunc(w.writers, func(o *writer) bool { return o.set.Strength == s }) {
			return s
		}
	}
}

// openReaders opens a reader of each process. All of them begin at the same samples.
func (w *world) openReaders() {
	if len(w.groups) >= 5 {
		return
	}
	g := &group{known: true, states: map[int32]dds.InstanceState{}, came: map[int32]generations{}}
	g.set = dds.QoS{
		Durability: qos.Durability(w.rng.IntN(int(w.set.Durability) + 1)), Ownership: w.set.Ownership,
		History: pick(w.rng, qos.KeepAll(), qos.KeepAll(), qos.KeepLast(1), qos.KeepLast(2)),
	}
	switch w.rng.IntN(6) {
	case 0:
		g.set.Presentation = qos.Presentation{Access: qos.GroupScope, Coherent: true}
	case 1:
		g.set.Separation, g.known = time.Hour, false
	case 2:
		g.set.Reliability.Kind = qos.BestEffort
	}
	var options []dds.Option[sample]
	if w.rng.IntN(3) == 0 {
		g.least = w.n + w.rng.Int32N(20)
		where, err := dds.WhereText[sample]("n >= %0", fmt.Sprint(g.least))
		w.check(err)
		options = append(options, where)
	}
	if g.set.Durability > qos.Volatile {
		g.late = len(w.keys) > 0
		w.replay(g)
	}
	for _, tp := range w.topics {
		r, err := tp.Reader(w.ctx, g.set, options...)
		w.check(err)
		g.readers = append(g.readers, r)
	}
	w.groups = append(w.groups, g)
	w.matched()
}

func (w *world) next() (v value) {
	w.n++
	return value{1 + w.rng.Int32N(3), w.n}
}

func (w *world) value(v value) sample { return sample{v.key, v.n, fmt.Sprintf("%*d", v.n%50, v.n)} }

func (w *world) write() {
	o, v := pick(w.rng, w.writers...), w.next()
	n := w.rng.IntN(12)
	if n == 3 && w.set.Ownership == qos.Shared {
		n++
	}
	switch n {
	case 0:
		w.check(o.Dispose(w.ctx, sample{Key: v.key}))
		w.apply(o, value{key: v.key})
	case 1:
		w.check(o.Unregister(w.ctx, sample{Key: v.key}))
		w.end(o, v.key)
	case 2:
		var f dds.Future
		w.spanned(v, func() (err error) {
			f, err = o.WriteFuture(w.ctx, w.value(v))
			return err
		})
		_, err := f.Wait(w.ctx)
		w.check(err)
		w.apply(o, v)
	case 3:
		w.check(o.Register(w.ctx, sample{Key: v.key}))
		if in := w.instance(v.key); !slices.Contains(in.writers, o) {
			in.writers = append(in.writers, o)
		}
	default:
		w.spanned(v, func() error { return o.Write(w.ctx, w.value(v)) })
		w.apply(o, v)
	}
	w.check(o.Flush(w.ctx))
}

// spanned notes when a sample is written.
func (w *world) spanned(v value, write func() error) {
	from := core.Now()
	w.check(write())
	w.times[v.n] = span{from, core.Now()}
}

// timed checks the source time of a sample.
func (w *world) timed(s dds.Sample[sample]) {
	if at, ok := w.times[s.Value.N]; s.Info.Valid && (!ok || s.Info.Source < at.from || s.Info.Source > at.to) {
		w.Fatalf("seed %d: %+v was written from %d to %d", w.seed, s, at.from, at.to)
	}
}

// coherent writes a set, which takes effect as a whole or not at all.
func (w *world) coherent() {
	at := pick(w.rng, w.writers...).at
	var own []*writer
	for _, o := range w.writers {
		if o.at == at {
			own = append(own, o)
		}
	}
	if _, client := w.spaces[at].(*dds.Participant); client {
		own = own[:1] // a client sends the samples of a set writer by writer
	}
	type part struct {
		o *writer
		v value
	}
	var parts []part
	var why error
	if w.rng.IntN(3) == 0 {
		why = errors.New("not this one")
	}
	from := core.Now()
	err := participant(w.spaces[at]).Coherent(w.ctx, func(s *dds.CoherentSet) error {
		for range 1 + w.rng.IntN(4) {
			p := part{pick(w.rng, own...), w.next()}
			if err := p.o.WriteIn(w.ctx, s, w.value(p.v)); err != nil {
				return err
			}
			parts, w.times[p.v.n] = append(parts, p), span{from, core.Now()}
		}
		return why
	})
	if !errors.Is(err, why) {
		w.Fatalf("seed %d: a coherent set: %v", w.seed, err)
	}
	for _, p := range parts {
		if why == nil {
			w.apply(p.o, p.v)
		}
	}
}

func participant(s dds.Space) *dds.Participant {
	if m, ok := s.(*member.Member); ok {
		return m.Participant
	}
	return s.(*dds.Participant)
}

// change gives a writer another strength, after a sample that is perhaps not in the order yet.
func (w *world) change() {
	o, v := pick(w.rng, w.writers...), w.next()
	w.spanned(v, func() error { return o.Write(w.ctx, w.value(v)) }) // it is of the strength before
	w.apply(o, v)
	if w.set.Ownership == qos.Exclusive {
		o.set.Strength = w.strength()
	}
	w.check(o.Change(w.ctx, o.set))
}

func (w *world) closeWriter() {
	i := w.rng.IntN(len(w.writers))
	o := w.writers[i]
	w.writers = slices.Delete(w.writers, i, i+1)
	w.check(o.Close(w.ctx))
	for key := range w.keys {
		w.end(o, key)
	}
}

// query reads or takes samples of any states from all readers of a group.
func (w *world) query(g *group) {
	q := dds.Query{
		Max:       pick(w.rng, 0, 0, 1, 2),
		Samples:   pick(w.rng, 0, 0, dds.SampleRead, dds.SampleNotRead),
		Views:     pick(w.rng, 0, 0, 0, dds.ViewNew, dds.ViewNotNew),
		Instances: pick(w.rng, 0, 0, 0, dds.InstanceAlive, dds.InstanceDisposed, dds.InstanceNoWriters|dds.InstanceAlive),
	}
	take := w.rng.IntN(2) == 0
	got := w.same(g, fmt.Sprintf("%+v, take %v", q, take), func(r *dds.Reader[sample]) ([]dds.Sample[sample], error) {
		if take {
			return r.Take(q)
		}
		return r.Read(q)
	})
	var left []held
	for _, h := range g.has {
		i := slices.IndexFunc(got, func(s dds.Sample[sample]) bool { return s.Info.Valid && s.Value.N == h.n })
		wanted := q.Max == 0 && q.Views == 0 && q.Instances == 0 && (q.Samples == 0 || (q.Samples == dds.SampleRead) == h.read)
		if g.known && i < 0 && wanted {
			w.Fatalf("seed %d, %+v from %d: %+v has not got %+v", w.seed, g.set, g.least, got, h)
		}
		if i >= 0 && got[i].Info.Sample == dds.SampleRead != h.read {
			w.Fatalf("seed %d: %+v was read: %v", w.seed, got[i], h.read)
		}
		if i < 0 || !take {
			h.read = h.read || i >= 0
			left = append(left, h)
		}
	}
	for _, s := range got {
		if g.known && s.Info.Valid && !slices.ContainsFunc(g.has, func(h held) bool { return w.value(h.value) == s.Value }) {
			w.Fatalf("seed %d, %+v from %d: %+v, and there are %+v", w.seed, g.set, g.least, s, g.has)
		}
		if g.known && !g.late && g.least == 0 && s.Info.Valid {
			if at, c := g.states[s.Value.Key], g.came[s.Value.Key]; s.Info.Instance != at || s.Info.DisposedGeneration > c.disposed || s.Info.NoWritersGeneration > c.noWriters {
				w.Fatalf("seed %d, %+v: %+v, and the state is %d after %+v", w.seed, g.set, s, at, c)
			}
		}
	}
	g.has = left
}

// take takes what is left, one after the other.
func (w *world) take(g *group) {
	all := w.same(g, "Read", func(r *dds.Reader[sample]) ([]dds.Sample[sample], error) { return r.Read(dds.Query{}) })
	var want []dds.Sample[sample]
	w.same(g, "Next", func(r *dds.Reader[sample]) (got []dds.Sample[sample], err error) {
		for range all {
			s, err := r.Next(w.ctx)
			if err != nil {
				return nil, err
			}
			got = append(got, s)
		}
		want = got
		more, err := r.Read(dds.Query{})
		return append(got, more...), err
	})
	var values []value
	for _, s := range want {
		if s.Info.Valid {
			values = append(values, value{s.Value.Key, s.Value.N})
		}
	}
	var model []value
	for _, h := range g.has {
		model = append(model, h.value)
	}
	if g.late { // samples of a set have one position, and are in the history by their instances
		for _, all := range [][]value{values, model} {
			slices.SortStableFunc(all, func(a, b value) int { return int(a.key - b.key) })
		}
	}
	if g.known && !slices.Equal(values, model) {
		w.Fatalf("seed %d, %+v from %d: %v, and not %v", w.seed, g.set, g.least, values, model)
	}
}

// same calls f with each reader of a group, whose results are the same.
func (w *world) same(g *group, what string, f func(*dds.Reader[sample]) ([]dds.Sample[sample], error)) (first []dds.Sample[sample]) {
	w.Helper()
	for i, r := range g.readers {
		if _, client := w.spaces[i].(*dds.Participant); client && g.set.Separation > 0 {
			continue // a client filters by source times, because it does not know those of the order
		}
		got, err := f(r)
		w.check(err)
		for _, s := range got {
			w.timed(s)
		}
		if i == 0 {
			first = got
			continue
		}
		for k := range max(len(got), len(first)) {
			var a, b dds.Sample[sample]
			if k < len(got) {
				a = got[k]
			}
			if k < len(first) {
				b = first[k]
			}
			for _, s := range []*dds.Sample[sample]{&a, &b} {
				if !s.Info.Valid { // known by a reader that was opened later
					s.Info.Position, s.Info.Source = 0, 0
				}
				if w.set.Ownership == qos.Exclusive { // a client does not know of writers that only registered
					s.Info.DisposedGeneration, s.Info.NoWritersGeneration = 0, 0
				}
			}
			if !reflect.DeepEqual(a, b) {
				w.Fatalf("seed %d, %+v from %d: %s: result %d of %d of reader %d is\n%+v and of %d of the first one\n%+v", w.seed, g.set, g.least, what, k, len(got), i, a, len(first), b)
			}
		}
	}
	return first
}
