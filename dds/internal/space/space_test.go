package space

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
)

// world is some members that apply the same records.
type world struct {
	t       *testing.T
	members []*Space
	events  []Event // of the first member
	now     int64
	view    uint64
}

func newWorld(t *testing.T, n int) *world {
	w := &world{t: t, now: int64(time.Hour), view: 1}
	for i := range n {
		s := &Space{}
		if i == 0 {
			s.Told = func(e Event) { w.events = append(w.events, e) }
		}
		w.members = append(w.members, s)
	}
	return w
}

// apply has all members apply a record of a node. They agree on the error.
func (w *world) apply(node uint64, data []byte, err error) error {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	var first error
	for i, s := range w.members {
		err := s.Apply(Record{View: w.view, Sender: node, Data: slices.Clone(data)})
		if i == 0 {
			first = err
		} else if fmt.Sprint(err) != fmt.Sprint(first) {
			w.t.Fatalf("members say %v and %v", first, err)
		}
	}
	return first
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) topic(name string, set qos.Set) {
	w.t.Helper()
	data, err := AppendTopic(nil, w.now, TopicInfo{Name: name, Type: "T", Keyed: true, QoS: set})
	w.must(w.apply(1, data, err))
}

func id(node uint64, number uint32) ID { return ID{Process{node, 100 + node}, number} }

func (w *world) writer(node uint64, number uint32, topic string, set qos.Set) ID {
	w.t.Helper()
	i := id(node, number)
	data, err := AppendOpen(nil, w.now, EndpointInfo{ID: i, Topic: topic, QoS: set})
	w.must(w.apply(node, data, err))
	return i
}

// reader opens a reader at every member: one reader whose cache each of them has, so that caches can be compared.
func (w *world) reader(node uint64, number uint32, topic string, set qos.Set) []*Cache {
	w.t.Helper()
	i := id(node, number)
	var caches []*Cache
	for _, s := range w.members {
		caches = append(caches, s.Expect(i))
	}
	data, err := AppendOpen(nil, w.now, EndpointInfo{ID: i, Topic: topic, Reader: true, QoS: set})
	w.must(w.apply(node, data, err))
	return caches
}

func (w *world) sample(s Sample) error {
	w.t.Helper()
	if s.Source == 0 {
		s.Source = w.now
	}
	return w.apply(s.Writer.Node, append(AppendSample(nil, w.now, &s), s.Data...), nil)
}

func (w *world) write(by ID, key, data string) {
	w.t.Helper()
	w.must(w.sample(Sample{Writer: by, Key: []byte(key), Data: []byte(data)}))
}

func (w *world) dispose(by ID, key string) {
	w.t.Helper()
	w.must(w.sample(Sample{Writer: by, Operation: Dispose, Key: []byte(key)}))
}

func (w *world) unregister(by ID, key string) {
	w.t.Helper()
	w.must(w.sample(Sample{Writer: by, Operation: Unregister, Key: []byte(key)}))
}

func (w *world) close(i ID) {
	w.t.Helper()
	data, err := AppendClose(nil, w.now, i)
	w.must(w.apply(i.Node, data, err))
}

// roster says that only some nodes are there, in a new view.
func (w *world) roster(nodes ...uint64) {
	w.t.Helper()
	w.view++
	var all []Process
	for _, n := range nodes {
		all = append(all, Process{n, 100 + n})
	}
	data, err := AppendRoster(nil, w.now, w.view, all)
	w.must(w.apply(nodes[0], data, err))
}

// capture captures a state, to be encoded later.
func capture(s *Space) func() ([]byte, error) {
	write := s.Snapshot()
	return func() ([]byte, error) {
		var b bytes.Buffer
		err := write(&b)
		return b.Bytes(), err
	}
}

func restore(s *Space, b []byte) error {
	by, err := ReadState(bytes.NewReader(b))
	if err == nil {
		s.Replace(by)
	}
	return err
}

// agree checks that all members have the same state, and the caches the same samples.
func (w *world) agree(caches ...*Cache) {
	w.t.Helper()
	first, err := capture(w.members[0])()
	w.must(err)
	for i, s := range w.members[1:] {
		if other, err := capture(s)(); err != nil || !bytes.Equal(first, other) {
			w.t.Fatalf("member %d is in another state (%v)", i+2, err)
		}
	}
	w.equal(caches...)
}

// filled goes on filling caches of one reader, and reports whether they are filled.
func (w *world) filled(steps int, caches ...*Cache) bool {
	more := false
	for i, c := range caches {
		more = w.members[i].Fill(c, steps) || more
	}
	return !more
}

// equal checks that caches of one reader have the same samples.
func (w *world) equal(caches ...*Cache) {
	w.t.Helper()
	for _, c := range caches {
		if a, b := c.text(), caches[0].text(); a != b {
			w.t.Fatalf("the cache of one member is\n%s\nand of another\n%s", a, b)
		}
	}
}

// text shows a cache without marking anything.
func (c *Cache) text() string {
	var b strings.Builder
	for h := c.first; h != nil; h = h.next {
		fmt.Fprintf(&b, "%d %v %s=%s %v %d %d\n", h.Position, h.Writer, h.Key, h.Data, h.Valid, h.DisposedGeneration, h.NoWritersGeneration)
	}
	for f := range c.fresh.each {
		fmt.Fprintf(&b, "%d %v %s=%s %v %d %d\n", f.position, f.writer.ID, f.of.key, f.data, true, f.disposed, f.noWriters)
	}
	for _, v := range c.order {
		fmt.Fprintf(&b, "%s %d\n", v.key, v.state)
	}
	return b.String()
}

// short is the result of a query as text: key=data, with ! for an instance that was disposed of and ? for one without writers.
func short(all []Held) string {
	var parts []string
	for _, h := range all {
		switch {
		case h.Valid:
			parts = append(parts, h.Key+"="+string(h.Data))
		case h.Instance == Disposed:
			parts = append(parts, h.Key+"!")
		default:
			parts = append(parts, h.Key+"?")
		}
	}
	return strings.Join(parts, " ")
}

func (w *world) takes(c *Cache, q Query, want string) []Held {
	w.t.Helper()
	q.Take, q.Now = true, w.now
	got := c.Select(q)
	if short(got) != want {
		w.t.Errorf("took %q, want %q", short(got), want)
	}
	return got
}

var all = qos.Set{History: qos.KeepAll()}

func TestOfExclusiveWritersOneOwnsAnInstanceAtAllReaders(t *testing.T) {
	w := newWorld(t, 3)
	set := qos.Set{Ownership: qos.Exclusive}
	w.topic("t", set)
	strong, weak := set, set
	strong.Strength, weak.Strength = 4, 3
	read := set
	read.History = qos.KeepAll()
	c := w.reader(1, 1, "t", read)
	a, b := w.writer(2, 1, "t", weak), w.writer(3, 1, "t", strong)
	w.write(a, "k", "1")
	w.write(b, "k", "2")
	w.write(a, "k", "lost")
	w.write(a, "other", "3") // no stronger writer writes it
	w.agree(c...)
	w.takes(c[0], Query{}, "k=1 k=2 other=3")

	w.roster(1, 2) // the stronger writer's process is killed
	w.write(a, "k", "4")
	w.agree(c[1:]...)
	w.takes(c[0], Query{}, "k=4")
	if _, ok := w.members[0].Owner("t", "k"); !ok {
		t.Error("no writer owns the instance")
	}
}

func TestAnEquallyStrongWriterWithTheLeastIDOwns(t *testing.T) {
	w := newWorld(t, 2)
	set := qos.Set{Ownership: qos.Exclusive}
	w.topic("t", set)
	read := set
	read.History = qos.KeepAll()
	c := w.reader(1, 1, "t", read)
	late, early := w.writer(3, 1, "t", set), w.writer(2, 7, "t", set)
	w.write(late, "k", "1")
	w.write(early, "k", "2")
	w.write(late, "k", "lost")
	w.agree(c...)
	w.takes(c[0], Query{}, "k=1 k=2")
}

func TestAStrengthChangesAtOnePosition(t *testing.T) {
	w := newWorld(t, 2)
	set := qos.Set{Ownership: qos.Exclusive, Strength: 1}
	w.topic("t", qos.Set{Ownership: qos.Exclusive})
	c := w.reader(1, 1, "t", qos.Set{Ownership: qos.Exclusive, History: qos.KeepAll()})
	a, b := w.writer(2, 1, "t", set), w.writer(3, 1, "t", set)
	w.write(a, "k", "1")
	w.write(b, "k", "lost")
	set.Strength = 2
	data, err := AppendChange(nil, w.now, b, set)
	w.must(w.apply(3, data, err))
	w.write(a, "k", "lost too") // b is registered with the instance
	w.write(b, "k", "2")
	w.agree(c...)
	w.takes(c[0], Query{}, "k=1 k=2")
	set.Reliability.Kind = qos.BestEffort
	data, err = AppendChange(nil, w.now, b, set)
	if err := w.apply(3, data, err); !errors.Is(err, ErrImmutable) {
		t.Errorf("the reliability changes: %v", err)
	}
}

func TestAWriterThatMissesItsDeadlineLosesTheInstance(t *testing.T) {
	w := newWorld(t, 2)
	set := qos.Set{Ownership: qos.Exclusive}
	w.topic("t", set)
	strong := set
	strong.Strength, strong.Deadline = 9, time.Second
	c := w.reader(1, 1, "t", qos.Set{Ownership: qos.Exclusive, History: qos.KeepAll()})
	a, b := w.writer(2, 1, "t", strong), w.writer(3, 1, "t", set)
	w.write(a, "k", "1")
	w.write(b, "k", "lost")
	if missed := w.members[0].Lapses(w.now + int64(time.Second)); missed != nil {
		t.Errorf("missed too early: %v", missed)
	}
	missed := w.members[0].Lapses(w.now + int64(time.Second) + 1)
	if len(missed) != 1 || missed[0].Writer != a || missed[0].Writes != 1 {
		t.Fatalf("missed: %v", missed)
	}
	stale := missed[0]
	stale.Writes = 0 // told before the writer wrote
	data, err := AppendLapse(nil, w.now, stale)
	w.must(w.apply(1, data, err))
	w.write(b, "k", "lost too")
	w.now += int64(2 * time.Second)
	data, err = AppendLapse(nil, w.now, missed[0])
	w.must(w.apply(1, data, err))
	w.must(w.apply(1, data, err)) // it is told once
	w.write(b, "k", "2")
	w.write(a, "k", "3") // it is back
	w.write(b, "k", "lost again")
	w.agree(c...)
	w.takes(c[0], Query{}, "k=1 k=2 k=3")
	told := 0
	for _, e := range w.events {
		if e.Kind == DeadlineMissed {
			told++
		}
	}
	if told != 2 { // to the writer and to the reader
		t.Errorf("the deadline is told %d times", told)
	}
}

func TestAReaderOfADurableTopicBeginsWithTheHistoryAndMissesNothing(t *testing.T) {
	w := newWorld(t, 3)
	durable := qos.Set{Durability: qos.Transient}
	w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.Service{History: qos.KeepLast(2)}})
	a, gone, fleeting := w.writer(2, 1, "t", durable), w.writer(3, 1, "t", durable), w.writer(4, 1, "t", qos.Set{Durability: qos.TransientLocal})
	w.write(a, "k", "1")
	w.write(gone, "k", "2")
	w.write(gone, "l", "3")
	w.write(fleeting, "m", "local")
	w.write(a, "k", "4")
	w.roster(1, 2)
	durable.History = qos.KeepAll()
	late := w.reader(1, 1, "t", durable)
	w.write(a, "k", "5")
	w.agree(late...)
	w.takes(late[0], Query{}, "k=2 l=3 k=4 l? k=5")
	volatile := w.reader(1, 2, "t", all)
	w.takes(volatile[0], Query{}, "")
}

func TestSetsTakeEffectAtTheirEndOrNever(t *testing.T) {
	for crash := range 6 {
		w := newWorld(t, 2)
		group := qos.Presentation{Access: qos.GroupScope, Coherent: true, Ordered: true}
		set := qos.Set{Presentation: group, History: qos.KeepAll()}
		w.topic("t", qos.Set{})
		w.topic("u", qos.Set{})
		ct, cu := w.reader(1, 1, "t", set), w.reader(1, 2, "u", set)
		a, b := w.writer(2, 1, "t", set), w.writer(2, 2, "u", set)
		steps := []func(){
			func() { w.must(w.sample(Sample{Writer: a, Set: 7, Key: []byte("k"), Data: []byte("1")})) },
			func() { w.must(w.sample(Sample{Writer: b, Set: 7, Key: []byte("k"), Data: []byte("2")})) },
			func() { w.write(a, "other", "alone") },
			func() { w.must(w.sample(Sample{Writer: a, Set: 7, Key: []byte("l"), Data: []byte("3")})) },
			func() {
				data, err := AppendEnd(nil, w.now, a.Process, 7, false)
				w.must(w.apply(2, data, err))
			},
		}
		for i := range crash {
			steps[i]()
			w.agree(slices.Concat(ct)...)
		}
		w.roster(1)
		w.agree(ct...)
		w.agree(cu...)
		whole := crash == len(steps)
		sees := short(ct[0].Select(Query{Take: true}))
		if strings.Contains(sees, "k=1") != whole || strings.Contains(sees, "l=3") != whole {
			t.Errorf("after %d steps the reader has %q", crash, sees)
		}
		if sees := short(cu[0].Select(Query{Take: true})); strings.Contains(sees, "k=2") != whole {
			t.Errorf("after %d steps the other topic's reader has %q", crash, sees)
		}
		if len(w.members[0].sets) != 0 {
			t.Error("a set is left")
		}
	}
}

func TestASetWithoutOneOfItsWritersIsDropped(t *testing.T) {
	w := newWorld(t, 2)
	set := qos.Set{Presentation: qos.Presentation{Access: qos.GroupScope, Coherent: true}}
	w.topic("t", qos.Set{})
	c := w.reader(1, 1, "t", set)
	a, b := w.writer(2, 1, "t", set), w.writer(2, 2, "t", set)
	w.must(w.sample(Sample{Writer: a, Set: 1, Key: []byte("k"), Data: []byte("1")}))
	w.must(w.sample(Sample{Writer: b, Set: 1, Key: []byte("l"), Data: []byte("2")}))
	w.close(b)
	data, err := AppendEnd(nil, w.now, a.Process, 1, false)
	if err := w.apply(2, data, err); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	w.takes(c[0], Query{}, "")
}

func TestStatesAndGenerationsOfAnInstance(t *testing.T) {
	w := newWorld(t, 2)
	w.topic("t", qos.Set{})
	c := w.reader(1, 1, "t", all)[0]
	keep := all
	keep.KeepUnregistered = true
	a := w.writer(2, 1, "t", keep)
	w.write(a, "k", "1")
	got := w.takes(c, Query{Max: 1}, "k=1")
	if h := got[0]; h.View != New || h.Instance != Alive || h.State != NotRead {
		t.Errorf("%+v", h)
	}
	w.write(a, "k", "2")
	if h := c.Select(Query{})[0]; h.View != NotNew || h.State != NotRead {
		t.Errorf("%+v", h)
	}
	w.takes(c, Query{Samples: NotRead}, "")
	w.dispose(a, "k")
	w.write(a, "k", "3")
	w.unregister(a, "k")
	w.write(a, "k", "4")
	got = w.takes(c, Query{}, "k=2 k=3 k? k=4")
	for i, want := range []struct{ disposed, noWriters, sample, generation, absolute int }{
		{0, 0, 3, 2, 2}, {1, 0, 2, 1, 1}, {1, 0, 1, 1, 1}, {1, 1, 0, 0, 0},
	} {
		h := got[i]
		if h.DisposedGeneration != want.disposed || h.NoWritersGeneration != want.noWriters || h.SampleRank != want.sample ||
			h.GenerationRank != want.generation || h.AbsoluteGenerationRank != want.absolute || h.View != New {
			t.Errorf("sample %d: %+v, want %+v", i, h, want)
		}
	}
	w.dispose(a, "k")
	w.unregister(a, "k") // what was disposed of stays so
	got = w.takes(c, Query{}, "k!")
	if got[0].Valid || got[0].Instance != Disposed {
		t.Errorf("%+v", got[0])
	}
	if n := len(c.Instances()); n != 0 {
		t.Errorf("%d instances are remembered", n)
	}
}

func TestTheEndOfAWriterSettlesItsInstances(t *testing.T) {
	for _, c := range []struct {
		name string
		keep bool
		end  func(w *world, i ID)
		want string
	}{
		{"closed", false, func(w *world, i ID) { w.close(i) }, "k=1 k!"},
		{"closed, instances kept", true, func(w *world, i ID) { w.close(i) }, "k=1 k?"},
		{"killed", false, func(w *world, i ID) { w.roster(1) }, "k=1 k?"},
		{"unregistered", false, func(w *world, i ID) { w.unregister(i, "k") }, "k=1 k!"},
		{"unregistered, instances kept", true, func(w *world, i ID) { w.unregister(i, "k") }, "k=1 k?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 3)
			w.topic("t", qos.Set{})
			caches := w.reader(1, 1, "t", all)
			a := w.writer(2, 1, "t", qos.Set{KeepUnregistered: c.keep})
			w.write(a, "k", "1")
			c.end(w, a)
			w.agree(caches...)
			w.takes(caches[0], Query{}, c.want)
		})
	}
}

func TestHistoriesAndLimitsOfAReader(t *testing.T) {
	w := newWorld(t, 1)
	w.topic("t", qos.Set{})
	last := w.reader(1, 1, "t", qos.Set{History: qos.KeepLast(2)})[0]
	lossy := w.reader(1, 2, "t", qos.Set{Reliability: qos.Reliability{Kind: qos.BestEffort}, History: qos.KeepAll(), Limits: qos.Limits{Samples: 2}})[0]
	bounded := w.reader(1, 3, "t", qos.Set{History: qos.KeepAll(), Limits: qos.Limits{SamplesPerInstance: 3}})[0]
	few := w.reader(1, 4, "t", qos.Set{Reliability: qos.Reliability{Kind: qos.BestEffort}, Limits: qos.Limits{Instances: 1}})[0]
	a := w.writer(2, 1, "t", qos.Set{})
	isFull := func(key string) bool {
		s := Sample{Writer: a, Key: []byte(key)}
		return full(w.members[0], Record{Sender: 2, Data: AppendSample(nil, w.now, &s)})
	}
	for i := range 3 {
		if isFull("k") {
			t.Errorf("full after %d samples", i)
		}
		w.write(a, "k", fmt.Sprint(i))
	}
	if !isFull("k") || isFull("l") {
		t.Error("a full reader is not told, or the wrong instance is")
	}
	w.write(a, "l", "x")
	w.takes(last, Query{}, "k=1 k=2 l=x")
	w.takes(lossy, Query{}, "k=0 k=1")
	if lossy.Lost() != 2 || few.Lost() != 1 {
		t.Errorf("%d and %d samples were lost", lossy.Lost(), few.Lost())
	}
	w.takes(bounded, Query{Max: 1}, "k=0")
	if isFull("k") {
		t.Error("full after a sample was taken")
	}
}

func TestFilters(t *testing.T) {
	w := newWorld(t, 2)
	w.topic("t", qos.Set{})
	slow := w.reader(1, 1, "t", qos.Set{History: qos.KeepAll(), Separation: time.Second})
	chosen := w.reader(1, 2, "t", all)
	for _, c := range chosen {
		c.Filter = func(data []byte) bool { return data[0] != '3' }
	}
	a := w.writer(2, 1, "t", qos.Set{})
	for i := range 12 {
		w.write(a, "k", fmt.Sprint(i))
		w.write(a, "l", fmt.Sprint(i))
		w.now += int64(100 * time.Millisecond)
	}
	w.agree(slow...)
	w.takes(slow[0], Query{}, "k=0 l=0 k=10 l=10")
	if got := chosen[0].Select(Query{Key: new("k"), Matching: func(data []byte) bool { return len(data) == 1 }}); short(got) != "k=0 k=1 k=2 k=4 k=5 k=6 k=7 k=8 k=9" {
		t.Errorf("%s", short(got))
	}
}

func TestSamplesExpireByTheTimeOfTheOrder(t *testing.T) {
	w := newWorld(t, 3)
	set := qos.Set{Durability: qos.Transient, Lifespan: 250 * time.Millisecond}
	w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.Service{History: qos.KeepAll()}})
	c := w.reader(1, 1, "t", all)
	a := w.writer(2, 1, "t", set)
	for i := range 5 {
		w.write(a, "k", fmt.Sprint(i))
		w.now += int64(100 * time.Millisecond)
	}
	w.takes(c[0], Query{}, "k=3 k=4")
	late := w.reader(1, 2, "t", qos.Set{Durability: qos.Transient, History: qos.KeepAll()})
	w.agree(late...)
	w.takes(late[0], Query{}, "k=3 k=4")
	w.now += int64(time.Second)
	w.write(a, "l", "x")
	if n := w.members[1].topics[0].kept; n != 1 {
		t.Errorf("%d samples are kept", n)
	}
	old := Sample{Writer: a, Key: []byte("k"), Data: []byte("old"), Source: w.now - int64(time.Second)}
	w.must(w.sample(old))
	w.agree(late[1:]...)
	w.takes(late[0], Query{}, "l=x")
}

func TestSourceTimesDoNotGoBackInATopicBySource(t *testing.T) {
	w := newWorld(t, 2)
	set := qos.Set{Order: qos.BySource}
	w.topic("t", set)
	set.History = qos.KeepAll()
	c := w.reader(1, 1, "t", set)
	a, b := w.writer(2, 1, "t", qos.Set{Order: qos.BySource}), w.writer(3, 1, "t", qos.Set{Order: qos.BySource})
	for i, source := range []int64{1000, 400, 1200, 3} { // the clock of b is set back
		w.must(w.sample(Sample{Writer: []ID{a, b}[i%2], Key: []byte("k"), Data: fmt.Append(nil, i), Source: source}))
	}
	w.agree(c...)
	got := w.takes(c[0], Query{}, "k=0 k=1 k=2 k=3")
	for i, want := range []int64{1000, 1000, 1200, 1200} {
		if got[i].Source != want {
			t.Errorf("sample %d has the source time %d", i, got[i].Source)
		}
	}
}

func TestMatchesAreToldToBothSides(t *testing.T) {
	w := newWorld(t, 1)
	w.topic("t", qos.Set{Durability: qos.Transient})
	a := w.writer(2, 1, "t", qos.Set{Partitions: []string{"p"}})
	w.reader(1, 1, "t", qos.Set{})
	w.reader(1, 2, "t", qos.Set{Durability: qos.Transient, Partitions: []string{"p"}})
	c := w.reader(1, 3, "t", qos.Set{Partitions: []string{"p*"}, History: qos.KeepAll()})[0]
	w.write(a, "k", "1")
	data, err := AppendChange(nil, w.now, a, qos.Set{})
	w.must(w.apply(2, data, err))
	w.write(a, "k", "2")
	w.takes(c, Query{}, "k=1 k?") // its reader has lost the writer
	w.close(id(1, 1))
	var told []string
	for _, e := range w.events {
		if e.Endpoint.Node != 2 {
			continue
		}
		told = append(told, fmt.Sprint(e.Kind, e.Peer.Number, e.Current, e.Policies))
	}
	want := []string{"0 0 0 []", "4 2 0 [DURABILITY]", "2 3 1 []", "2 1 2 []", "4 2 0 [DURABILITY]", "3 3 1 []", "3 1 0 []"}
	slices.Sort(told)
	slices.Sort(want)
	if !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
}

func TestTopicsComeAndGo(t *testing.T) {
	w := newWorld(t, 2)
	w.topic("t", qos.Set{})
	w.topic("t", qos.Set{})
	data, err := AppendTopic(nil, w.now, TopicInfo{Name: "t", Type: "U", Keyed: true})
	if err := w.apply(1, data, err); !errors.Is(err, ErrInconsistentTopic) {
		t.Errorf("two types: %v", err)
	}
	a := w.writer(2, 1, "t", qos.Set{})
	forget := func() error {
		data, err := AppendForget(nil, w.now, "t")
		return w.apply(1, data, err)
	}
	if err := forget(); !errors.Is(err, ErrInUse) {
		t.Error(err)
	}
	w.close(a)
	w.must(forget())
	if err := forget(); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	w.agree()
}

// joins adds a member with the state of the first one, and opens a reader everywhere.
func (w *world) joins() {
	w.t.Helper()
	b, err := capture(w.members[0])()
	w.must(err)
	joiner := &Space{}
	w.must(restore(joiner, b))
	w.members = append(w.members, joiner)
}

func TestAJoinerKnowsWhichWriterMissedItsDeadline(t *testing.T) {
	w := newWorld(t, 1)
	set := qos.Set{Ownership: qos.Exclusive}
	w.topic("t", set)
	strong := set
	strong.Strength, strong.Deadline = 9, time.Second
	a, b := w.writer(2, 1, "t", strong), w.writer(3, 1, "t", set)
	w.write(a, "k", "1")
	w.now += int64(2 * time.Second)
	data, err := AppendLapse(nil, w.now, Lapse{a, []byte("k"), 1})
	w.must(w.apply(1, data, err))
	w.joins()
	read := set
	read.History = qos.KeepAll()
	c := w.reader(1, 1, "t", read)
	w.write(b, "k", "2")
	w.agree(c...)
	w.takes(c[1], Query{}, "k=2")
}

func TestALimitOfTheHistoryLeavesNoEmptyInstances(t *testing.T) {
	w := newWorld(t, 1)
	durable := qos.Set{Durability: qos.Transient, KeepUnregistered: true}
	w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.Service{Limits: qos.Limits{Samples: 2}}})
	a := w.writer(2, 1, "t", durable)
	for _, key := range []string{"a", "b", "c", "d"} {
		w.write(a, key, "x")
		w.unregister(a, key)
	}
	w.joins()
	w.write(a, "e", "x")
	w.agree()
	if keys := w.members[0].Keys("t"); !slices.Equal(keys, []string{"d", "e"}) {
		t.Errorf("%q", keys)
	}
}

func TestWritersCompeteWithinTheirPartitions(t *testing.T) {
	w := newWorld(t, 2)
	set := qos.Set{Ownership: qos.Exclusive, Partitions: []string{"p"}, Strength: 1}
	w.topic("t", qos.Set{Ownership: qos.Exclusive})
	elsewhere := set
	elsewhere.Partitions, elsewhere.Strength = []string{"q"}, 5
	c := w.reader(1, 1, "t", qos.Set{Ownership: qos.Exclusive, Partitions: []string{"p"}, History: qos.KeepAll()})
	a, b := w.writer(2, 1, "t", set), w.writer(3, 1, "t", elsewhere)
	w.write(b, "k", "elsewhere")
	w.write(a, "k", "1")
	w.agree(c...)
	w.takes(c[0], Query{}, "k=1")
}

// A roster may take its position in a later view than it was sent in, behind what a new member did there.
func TestARosterEndsNothingOfLaterViews(t *testing.T) {
	w := newWorld(t, 2)
	w.topic("t", qos.Set{})
	w.view = 3
	newcomer := w.writer(5, 1, "t", qos.Set{})
	w.view = 1
	w.roster(1, 2) // of view 2
	if _, _, ok := w.members[0].Endpoint(newcomer); !ok {
		t.Error("the writer of a new member has ended")
	}
	w.view = 3
	w.roster(1, 2) // of view 4
	if _, _, ok := w.members[0].Endpoint(newcomer); ok {
		t.Error("the writer of a member that is gone has not ended")
	}
}
