package space

import (
	"errors"
	"testing"

	"github.com/squall-go/squall/dds/qos"
)

func (w *world) stand(node uint64, number uint32, o Origin) ID {
	w.t.Helper()
	i := id(node, number)
	data, err := AppendOpen(nil, w.now, EndpointInfo{ID: i, Topic: "t", Origin: &o})
	w.must(w.apply(node, data, err))
	return i
}

// Two gateways carry the samples of one origin, the second one after the first has ended: each
// sample takes effect once: at members that were in the space from the beginning, and at a joiner
// that got its state from one of them.
func TestASampleOfAnOriginTakesEffectOnce(t *testing.T) {
	w := newWorld(t, 2)
	w.topic("t", qos.Set{})
	caches := w.reader(3, 1, "t", qos.Set{History: qos.KeepAll()})
	o := Origin{Side: "dds", GUID: [16]byte{1}}
	carry := func(by ID, n uint64) error {
		return w.sample(Sample{Writer: by, Sequence: n, Key: []byte("k"), Data: []byte{byte('0' + n)}})
	}
	first := w.stand(1, 1, o)
	for n := uint64(1); n <= 3; n++ {
		w.must(carry(first, n))
	}
	w.roster(2, 3) // node 1 has ended
	second := w.stand(2, 1, o)
	if got := w.members[0].Last(o); got != 3 {
		t.Fatalf("the last sample is %d", got)
	}
	state, err := capture(w.members[1])()
	w.must(err)
	joined := &Space{}
	w.must(restore(joined, state))
	w.members[1] = joined
	for n := uint64(2); n <= 5; n++ {
		if err := carry(second, n); (n <= 3) != errors.Is(err, ErrDuplicate) {
			t.Fatalf("sample %d: %v", n, err)
		}
	}
	w.agree(caches[:1]...)
	var got string
	for _, h := range caches[0].Select(Query{}) {
		got += string(h.Data)
	}
	if got != "12345" {
		t.Fatalf("the reader has %q", got)
	}
	// An origin without writers is forgotten by the time of the order, and not before.
	w.close(second)
	w.now += int64(OriginMemory) - 1
	w.write(w.writer(2, 9, "t", qos.Set{}), "k", "x")
	if w.members[0].Last(o) != 5 {
		t.Fatal("the origin was forgotten too early")
	}
	w.now++
	w.write(id(2, 9), "k", "y")
	if w.members[0].Last(o) != 0 {
		t.Fatal("the origin was not forgotten")
	}
	w.agree()
}

// An origin that ends has its numbers forgotten, and not before a writer says so. The position of
// the end is known at all members, also at a joiner.
func TestAnOriginThatHasEndedNumbersItsSamplesAnew(t *testing.T) {
	w := newWorld(t, 2)
	w.topic("t", qos.Set{})
	cache := w.reader(3, 1, "t", qos.Set{History: qos.KeepAll()})[0]
	o := Origin{Side: "dds", GUID: [16]byte{1}}
	carry := func(by ID, n uint64, data string) error {
		return w.sample(Sample{Writer: by, Sequence: n, Key: []byte("k"), Data: []byte(data)})
	}
	first := w.stand(1, 1, o)
	w.must(carry(first, 1, "1"))
	w.must(carry(first, 2, "2"))
	plain := w.writer(1, 2, "t", qos.Set{})
	data, err := AppendOriginEnd(nil, w.now, plain)
	if err := w.apply(1, data, err); !errors.Is(err, ErrMalformed) {
		t.Errorf("the end of the origin of a writer that has none: %v", err)
	}
	data, err = AppendOriginEnd(nil, w.now, first)
	if err := w.apply(2, data, err); !errors.Is(err, ErrUnknown) {
		t.Errorf("another member ends the origin: %v", err)
	}
	w.must(w.apply(1, data, err))
	at := w.members[0].Position()
	state, err := capture(w.members[1])()
	w.must(err)
	joined := &Space{}
	w.must(restore(joined, state))
	w.members[1] = joined
	for i, m := range w.members {
		if last, ended := m.Ordered(o); last != 0 || ended != at {
			t.Errorf("member %d: the origin has the number %d, and ended at %d, not at %d", i, last, ended, at)
		}
	}
	again := w.stand(1, 3, o)
	w.must(carry(again, 1, "3"))
	if err := carry(again, 1, "4"); !errors.Is(err, ErrDuplicate) {
		t.Errorf("a sample takes effect twice: %v", err)
	}
	w.agree(cache)
	got := ""
	for _, h := range cache.Select(Query{}) {
		got += string(h.Data)
	}
	if got != "123" {
		t.Fatalf("the reader has %q", got)
	}
}

func TestOnlySamplesOfAnOriginHaveNumbers(t *testing.T) {
	w := newWorld(t, 1)
	w.topic("t", qos.Set{})
	plain, stands := w.writer(1, 1, "t", qos.Set{}), w.stand(1, 2, Origin{Side: "dds"})
	for _, s := range []Sample{{Writer: plain, Sequence: 1}, {Writer: stands}} {
		if err := w.sample(s); !errors.Is(err, ErrMalformed) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	data, err := AppendOpen(nil, w.now, EndpointInfo{ID: id(1, 3), Topic: "t", Reader: true, Origin: &Origin{}})
	if err := w.apply(1, data, err); !errors.Is(err, ErrMalformed) {
		t.Errorf("a reader with an origin: %v", err)
	}
}
