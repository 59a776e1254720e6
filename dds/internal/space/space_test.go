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
	w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepLast(2)}})
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
