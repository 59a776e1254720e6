package space

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
)

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
	w.topic("u", qos.Set{})
	c := w.reader(1, 1, "t", set)
	a, b := w.writer(2, 1, "t", set), w.writer(2, 2, "u", set)
	w.must(w.sample(Sample{Writer: a, Set: 1, Key: []byte("k"), Data: []byte("1")}))
	w.must(w.sample(Sample{Writer: b, Set: 1, Key: []byte("l"), Data: []byte("2")}))
	w.close(b)
	forget, err := AppendForget(nil, w.now, "u")
	w.must(w.apply(1, forget, err))
	w.must(w.sample(Sample{Writer: a, Set: 1, Key: []byte("m"), Data: []byte("3")}))
	w.agree(c...)
	s, err := capture(w.members[0])() // a state that names the topic no more
	w.must(err)
	w.must(restore(w.members[0], s))
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

// A reader that keeps the last samples of an instance has space for one more of them, which
// replaces another one, also at its limits.
func TestAReaderThatKeepsTheLastSamplesIsFullForOtherInstances(t *testing.T) {
	w := newWorld(t, 1)
	w.topic("t", qos.Set{})
	c := w.reader(1, 1, "t", qos.Set{History: qos.KeepLast(2), Limits: qos.Limits{Samples: 2}})[0]
	a := w.writer(2, 1, "t", qos.Set{})
	for i := range 4 {
		for key, want := range map[string]bool{"k": false, "l": i >= 2} {
			s := Sample{Writer: a, Key: []byte(key)}
			if got := full(w.members[0], Record{Sender: 2, Data: AppendSample(nil, w.now, &s)}); got != want {
				t.Errorf("after %d samples of k it is full for %s: %v", i, key, got)
			}
		}
		w.write(a, "k", fmt.Sprint(i))
	}
	w.takes(c, Query{}, "k=2 k=3")
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

// A roster may take its position in a later view than it was sent in, behind what a new member did
// there.
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

// A reader at its limits drops samples that were read, and none that was not; and what was taken
// does not count.
func TestAReaderAtItsLimitsKeepsWhatWasNotRead(t *testing.T) {
	w := newWorld(t, 1)
	w.topic("t", qos.Set{})
	two := qos.Set{History: qos.KeepAll(), Limits: qos.Limits{Samples: 2}}
	lossy := two
	lossy.Reliability.Kind = qos.BestEffort
	drops, waits := w.reader(1, 1, "t", lossy)[0], w.reader(1, 2, "t", two)[0]
	a := w.writer(2, 1, "t", qos.Set{})
	for i := range 4 {
		s := Sample{Writer: a, Key: []byte("k")}
		if full(w.members[0], Record{Sender: 2, Data: AppendSample(nil, w.now, &s)}) {
			t.Errorf("full at sample %d", i)
		}
		if w.write(a, "k", fmt.Sprint(i)); i == 1 {
			drops.Select(Query{Max: 1})
		}
		if i%2 == 1 {
			w.takes(waits, Query{}, fmt.Sprintf("k=%d k=%d", i-1, i))
		}
	}
	w.takes(drops, Query{}, "k=1 k=2")
	if drops.Lost() != 1 || waits.Held() != 0 {
		t.Errorf("%d samples were lost, %d are held", drops.Lost(), waits.Held())
	}
}

// An instance that was disposed of is remembered for the time that the reader says, and no longer.
func TestAnInstanceIsRememberedForItsTime(t *testing.T) {
	w := newWorld(t, 1)
	w.topic("t", qos.Set{})
	c := w.reader(1, 1, "t", qos.Set{Purge: qos.ReaderLifetime{Disposed: time.Second}})[0]
	a := w.writer(2, 1, "t", qos.Set{KeepUnregistered: true})
	w.write(a, "k", "1")
	w.dispose(a, "k")
	w.unregister(a, "k")
	since := w.now
	for _, after := range []int64{0, int64(time.Second) - 1, int64(time.Second)} {
		c.Select(Query{Take: true, Now: since + after})
		if known := len(c.Instances()) > 0; known != (after < int64(time.Second)) {
			t.Errorf("%v after its end it is known: %v", time.Duration(after), known)
		}
	}
}
