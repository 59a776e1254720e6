package space

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
)

func (w *world) assert(i ID) {
	w.t.Helper()
	data, err := AppendAssert(nil, w.now, i)
	w.must(w.apply(i.Node, data, err))
}

// pass has time go by, and the leases end that end by then, as the first member says.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	w.now += int64(d)
	for _, l := range w.members[0].Silences(w.now) {
		data, err := AppendSilence(nil, w.now, l)
		w.must(w.apply(1, data, err))
	}
}

// liveliness returns what was told of liveliness since the last call.
func (w *world) liveliness() (all []string) {
	for _, e := range w.events {
		switch e.Kind {
		case LivelinessLost:
			all = append(all, fmt.Sprintf("lost %v", e.Endpoint))
		case LivelinessChanged:
			all = append(all, fmt.Sprintf("changed %v by %v silent=%v alive=%d", e.Endpoint, e.Peer, e.Gone, e.Current))
		}
	}
	w.events = nil
	return all
}

func manual(kind qos.LivelinessKind, strength int32) qos.Set {
	return qos.Set{Ownership: qos.Exclusive, Strength: strength, Liveliness: qos.Liveliness{Kind: kind, Lease: time.Second}}
}

// A writer that is not asserted loses its instances at one position, and a weaker one owns them.
// With its next sample it has them again.
func TestASilentWriterLosesItsInstances(t *testing.T) {
	w := newWorld(t, 2)
	w.topic("t", qos.Set{Ownership: qos.Exclusive})
	caches := w.reader(3, 1, "t", qos.Set{Ownership: qos.Exclusive, History: qos.KeepAll(), Liveliness: qos.Liveliness{Kind: qos.ManualByTopic, Lease: 2 * time.Second}})
	strong := w.writer(1, 1, "t", manual(qos.ManualByTopic, 9))
	weak := w.writer(2, 1, "t", manual(qos.ManualByTopic, 1))
	w.write(strong, "k", "1")
	w.write(weak, "k", "lost")
	w.pass(900 * time.Millisecond)
	w.assert(strong)
	w.write(weak, "k", "lost")
	w.pass(900 * time.Millisecond) // 1.8 s after the sample, 0.9 s after the assertion
	w.write(weak, "k", "lost")
	if got := w.liveliness(); got != nil {
		t.Fatalf("told: %q", got)
	}
	w.pass(200 * time.Millisecond)
	want := []string{"lost 1.65.1", "changed 3.67.1 by 1.65.1 silent=true alive=1"}
	if got := w.liveliness(); !slices.Equal(got, want) {
		t.Fatalf("told: %q", got)
	}
	w.write(weak, "k", "2")
	// The state that a joiner restores says which writers have lost their liveliness.
	state, err := capture(w.members[1])()
	w.must(err)
	joined := &Space{}
	w.must(restore(joined, state))
	w.members[1] = joined
	w.write(strong, "k", "3")
	if got, want := w.liveliness(), []string{"changed 3.67.1 by 1.65.1 silent=false alive=2"}; !slices.Equal(got, want) {
		t.Fatalf("told: %q", got)
	}
	w.write(weak, "k", "lost")
	w.pass(1100 * time.Millisecond) // both
	if got := w.liveliness(); len(got) != 4 {
		t.Fatalf("told: %q", got)
	}
	w.agree(caches[:1]...)
	text := ""
	for _, h := range caches[0].Select(Query{}) {
		text += string(h.Data)
		if !h.Valid {
			text += fmt.Sprintf(" instance %d", h.Instance)
		}
	}
	if want := fmt.Sprintf("123 instance %d", NoWriters); text != want {
		t.Errorf("the reader has %q", text)
	}
}

// Writers that are MANUAL_BY_PARTICIPANT are alive while any writer of their process is asserted,
// or the process is.
func TestAnAssertedProcessKeepsItsWriters(t *testing.T) {
	w := newWorld(t, 2)
	w.topic("t", qos.Set{})
	w.reader(3, 1, "t", qos.Set{})
	set := manual(qos.ManualByParticipant, 0)
	set.Ownership, set.Strength = qos.Shared, 0
	first, second := w.writer(1, 1, "t", set), w.writer(1, 2, "t", set)
	plain := w.writer(1, 3, "t", qos.Set{})
	w.writer(2, 1, "t", set) // of another process, which is silent
	for i := range 4 {
		w.pass(700 * time.Millisecond)
		switch i {
		case 0:
			w.write(first, "k", "x")
		case 1:
			w.write(plain, "k", "x")
		default:
			w.assert(ID{first.Process, 0})
		}
	}
	if got, want := w.liveliness(), []string{"lost 2.66.1", "changed 3.67.1 by 2.66.1 silent=true alive=3"}; !slices.Equal(got, want) {
		t.Fatalf("told: %q", got)
	}
	w.pass(1100 * time.Millisecond)
	if got := w.liveliness(); len(got) != 4 { // first and second, not plain
		t.Fatalf("told: %q", got)
	}
	w.assert(second)
	want := []string{"changed 3.67.1 by 1.65.1 silent=false alive=2", "changed 3.67.1 by 1.65.2 silent=false alive=3"}
	if got := w.liveliness(); !slices.Equal(got, want) {
		t.Fatalf("told: %q", got)
	}
	w.agree()
}

// The end of a lease that was ordered too late, or twice, has no effect.
func TestAnAssertionBeatsTheEndOfALease(t *testing.T) {
	w := newWorld(t, 2)
	w.topic("t", qos.Set{})
	set := qos.Set{Liveliness: qos.Liveliness{Kind: qos.ManualByTopic, Lease: time.Second}}
	by := w.writer(1, 1, "t", set)
	w.now += int64(1500 * time.Millisecond)
	found := w.members[0].Silences(w.now)
	if len(found) != 1 || w.members[0].LeastPatience() != time.Second {
		t.Fatalf("silent: %+v", found)
	}
	w.assert(by) // it comes first
	for range 2 {
		data, err := AppendSilence(nil, w.now, found[0])
		w.must(w.apply(1, data, err))
	}
	if got := w.liveliness(); got != nil {
		t.Fatalf("told: %q", got)
	}
	w.now += int64(1500 * time.Millisecond) // the lease of the assertion has ended, too, but the record is of the lease before
	data, err := AppendSilence(nil, w.now, found[0])
	if w.must(w.apply(1, data, err)); w.liveliness() != nil {
		t.Fatal("a record of an earlier lease ends the lease of the last assertion")
	}
	w.close(by)
	w.pass(time.Hour)
	if got := w.liveliness(); got != nil || w.members[0].LeastPatience() != 0 {
		t.Fatalf("told of a closed writer: %q", got)
	}
}

// Writers of one client are asserted together, at whichever relays they are, and those of another
// client at the same relay are not. That a client goes on at another relay asserts nothing.
func TestAnAssertedClientKeepsItsWriters(t *testing.T) {
	w := newWorld(t, 2)
	w.topic("t", qos.Set{})
	w.reader(3, 1, "t", qos.Set{})
	set := manual(qos.ManualByParticipant, 0)
	set.Ownership, set.Strength = qos.Shared, 0
	open := func(node uint64, number uint32, client string, writer byte) ID {
		t.Helper()
		info := EndpointInfo{ID: id(node, number), Topic: "t", QoS: set, Origin: &Origin{Side: "client", GUID: [16]byte{writer}}, Client: []byte(client)}
		data, err := AppendOpen(nil, w.now, info)
		w.must(w.apply(node, data, err))
		return info.ID
	}
	assert := func(node uint64, client string) {
		t.Helper()
		data, err := AppendClient(nil, w.now, []byte(client))
		w.must(w.apply(node, data, err))
	}
	first := open(1, 1, "a", 1)
	open(1, 2, "a", 2)
	open(1, 3, "b", 3) // it is silent
	w.pass(700 * time.Millisecond)
	assert(1, "a")
	w.pass(700 * time.Millisecond)
	if got, want := w.liveliness(), []string{"lost 1.65.3", "changed 3.67.1 by 1.65.3 silent=true alive=2"}; !slices.Equal(got, want) {
		t.Fatalf("told: %q", got)
	}
	open(2, 1, "a", 1) // at another relay
	w.joins()
	w.pass(200 * time.Millisecond)
	if got := w.liveliness(); got != nil {
		t.Fatalf("told: %q", got)
	}
	w.pass(200 * time.Millisecond) // 1.1 s after the assertion. The first relay still has the first writer, too, which stands for nothing any more
	want := []string{"lost 1.65.2", "changed 3.67.1 by 1.65.2 silent=true alive=2", "lost 2.66.1", "changed 3.67.1 by 2.66.1 silent=true alive=1"}
	if got := w.liveliness(); !slices.Equal(got, want) {
		t.Fatalf("told: %q", got)
	}
	data, err := AppendGone(nil, w.now, first)
	w.must(w.apply(1, data, err))
	open(1, 9, "a", 1) // back at the first relay: it is still silent
	w.pass(time.Millisecond)
	if got := w.liveliness(); got != nil {
		t.Fatalf("told: %q", got)
	}
	assert(2, "a")
	if got := w.liveliness(); len(got) != 3 || !slices.Contains(got, "changed 3.67.1 by 1.65.9 silent=false alive=3") {
		t.Fatalf("told: %q", got)
	}
	data, err = AppendClient(nil, w.now, []byte("c"))
	if err := w.apply(1, data, err); !errors.Is(err, ErrUnknown) {
		t.Errorf("a client without writers is asserted: %v", err)
	}
	w.agree()
}
