package space

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
)

// What a history has dropped is memory for later samples, but for data that a reader has, or a
// state that is encoded later.
func TestMemoryOfAHistoryIsUsedAgainWhereNothingElseHasIt(t *testing.T) {
	w := newWorld(t, 1)
	w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepLast(2)}})
	by := w.writer(1, 1, "t", qos.Set{Durability: qos.Transient})
	s, late := w.members[0], qos.Set{Durability: qos.Transient, History: qos.KeepAll()}
	write := func(all ...string) {
		for _, data := range all {
			w.write(by, "k", data)
		}
	}
	write("a1", "a2")
	later := capture(s)
	write("b1", "b2", "b3", "b4")
	b, err := later()
	w.must(err)
	other := &Space{}
	w.must(restore(other, b))
	past := other.Expect(id(1, 3))
	open, err := AppendOpen(nil, w.now, EndpointInfo{ID: id(1, 3), Topic: "t", Reader: true, QoS: late})
	w.must(err)
	w.must(other.Apply(Record{View: 1, Sender: 1, Data: open}))
	if got := short(past.Select(Query{})); got != "k=a1 k=a2" {
		t.Errorf("the state has %s", got)
	}
	c := w.reader(1, 2, "t", late)[0]
	old := c.Select(Query{Take: true})
	s.Detach(id(1, 2))
	write("c1", "c2", "c3", "c4")
	if got := short(old); got != "k=b3 k=b4" {
		t.Errorf("what was taken became %s", got)
	}
	if len(s.byName["t"].spare) == 0 {
		t.Error("nothing is used again")
	}
}

// Of samples that come at once, a history copies the ones that it still has when they have all
// come, and it uses memory that was dropped meanwhile.
func TestAHistoryCopiesWhatItHasAtTheEndOfABatch(t *testing.T) {
	w := newWorld(t, 2)
	w.batch = 1000
	w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepLast(20)}})
	by := w.writer(1, 1, "t", qos.Set{Durability: qos.Transient})
	s := w.members[1]
	heard := ""
	c := s.Expect(id(1, 2))
	c.Listener = func(h *Held) { heard = string(h.Data) }
	open, err := AppendOpen(nil, w.now, EndpointInfo{ID: id(1, 2), Topic: "t", Reader: true})
	w.must(w.apply(1, open, err))
	write := func(n int) {
		for i := range n {
			w.write(by, "k", strings.Repeat("x", 500)+strconv.Itoa(i))
		}
		if !strings.HasSuffix(heard, strconv.Itoa(n-1)) {
			t.Errorf("the listener has heard %s", heard)
		}
	}
	write(20)
	w.settle()
	write(100) // drops all twenty, and eighty of its own
	top := s.byName["t"]
	if in := top.instances["k"]; top.loose != 20 || in.loose != 20 || len(top.spare) < 20 {
		t.Errorf("%d samples are borrowed, %d of the instance; memory of %d was dropped", top.loose, in.loose, len(top.spare))
	}
	w.agree()
	if in := top.instances["k"]; top.loose != 0 || in.loose != 0 || len(s.unsettled) != 0 {
		t.Errorf("%d samples are borrowed, %d of the instance", top.loose, in.loose)
	}
	write(3)
	dispose := AppendSample(nil, w.now, &Sample{Writer: by, Operation: Dispose, Key: []byte("k")})
	w.must(w.apply(1, dispose, nil))
	write(2)
	w.agree()
}

// A history whose samples are replaced within the limits copies nothing of data that stay: not the
// data of samples that later samples replace, and those of the others when they are repaid, or a
// view is taken.
func TestAHistoryWithinItsLimitsRefersToDataThatStay(t *testing.T) {
	w := newWorld(t, 2)
	w.batch, w.stay = 1, 100
	w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepLast(20)}})
	by := w.writer(1, 1, "t", qos.Set{Durability: qos.Transient})
	s, top := w.members[1], w.members[1].byName["t"]
	s.Lend(1000, 20_000)
	write := func(n, size int) {
		for i := range n {
			w.write(by, "k", strings.Repeat(string(rune('a'+i%20)), size))
		}
	}
	write(60, 500)
	top.borrowed(t, 20)
	if len(top.spare) > 1 {
		t.Errorf("%d samples were copied and dropped, besides the first one", len(top.spare)-1)
	}
	w.repay(len(w.records) - 5) // all but the last five
	top.borrowed(t, 5)
	if !s.Owes(s.Position()) || s.Owes(s.Position()-5) {
		t.Error("it does not owe the last five")
	}
	write(5, 500)
	top.borrowed(t, 10)
	write(20, 2000) // they are not replaced within the limit
	write(1, 500)
	top.borrowed(t, 0)
	write(50, 500)
	top.borrowed(t, 20)
	w.agree() // takes views
	top.borrowed(t, 0)
	write(3, 500)
	w.dispose(by, "k")
	write(3, 500)
	top.borrowed(t, 6)
	w.repay(3)
	w.agree()
	write(7, 500)
	w.repay(len(w.records))
	top.borrowed(t, 0)
	w.agree()
}

// The limits are of all topics together: where their samples are not replaced before the room is
// needed, they are copied at once, and hold no room. The ones of a topic with more samples than the
// others are replaced sooner, and lent.
func TestTopicsShareWhatIsLent(t *testing.T) {
	w := newWorld(t, 2)
	w.batch, w.stay = 1, 1000
	s := w.members[1]
	s.Lend(1000, 100_000)
	var writers []ID
	for i := range 40 {
		name := fmt.Sprint("t", i)
		w.topic(name, qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepLast(10)}}) // some 6 kB each
		writers = append(writers, w.writer(1, uint32(i), name, qos.Set{Durability: qos.Transient}))
	}
	data := strings.Repeat("x", 500)
	for range 20 {
		for _, by := range writers {
			w.write(by, "k", data)
		}
	}
	if s.Owes(s.Position()) {
		t.Error("samples are lent that have to be repaid before they are replaced")
	}
	for range 30 {
		for range 20 {
			w.write(writers[0], "k", data)
		}
		w.write(writers[1], "k", data)
	}
	s.byName["t0"].borrowed(t, 10)
	s.byName["t1"].borrowed(t, 0)
	w.agree()
}

// Of each sender as much may be lent: the samples of a topic with several writers lie in several
// rings.
func TestEachSenderLends(t *testing.T) {
	w := newWorld(t, 2)
	w.batch, w.stay = 1, 1000
	s := w.members[1]
	s.Lend(1000, 20_000)
	w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepLast(60)}})
	var writers []ID
	for i := range uint64(3) {
		writers = append(writers, w.writer(i+1, 1, "t", qos.Set{Durability: qos.Transient}))
	}
	for range 100 {
		for _, by := range writers {
			w.write(by, "k", strings.Repeat("x", 500))
		}
	}
	s.byName["t"].borrowed(t, 60)
	for range 100 {
		w.write(writers[0], "k", strings.Repeat("x", 500))
	}
	s.byName["t"].borrowed(t, 0)
	w.agree()
}

// A sender that sends nothing more is found by what lies in its ring, also while others go on.
func TestASenderThatMayWaitForRoomIsFound(t *testing.T) {
	w := newWorld(t, 2)
	w.batch, w.stay = 1, 1000
	s := w.members[1]
	s.Lend(1000, 32_000)
	w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepLast(50)}})
	many, few := w.writer(1, 1, "t", qos.Set{Durability: qos.Transient}), w.writer(2, 1, "t", qos.Set{Durability: qos.Transient})
	from := s.Position() + 1
	for range 20 {
		w.write(many, "k", strings.Repeat("x", 500))
	}
	last := s.Position()
	w.write(few, "k", "x")
	if to := s.Stalled(from, last-1); to != 0 {
		t.Errorf("a sender is taken to wait from %d on, and sends", to)
	}
	if to := s.Stalled(from, last); to != last {
		t.Errorf("the first sender has to have its room up to %d: %d", last, to)
	}
	if to := s.Stalled(last, last+1); to != 0 {
		t.Errorf("room up to %d is to be let go, and none that is worth it is kept", to)
	}
	w.agree()
}

// borrowed checks how many samples of a topic are borrowed, and that the instances find all of
// them.
func (t *topic) borrowed(test *testing.T, want int) {
	test.Helper()
	all := 0
	for _, in := range t.order {
		i, loose := 0, in.history.len()-in.loose
		for k := range in.history.each {
			if k.borrowed {
				all++
			}
			if k.borrowed && (i < loose || i < in.captured) {
				test.Errorf("sample %d of %q is borrowed: of %d, the last %d may be, and the first %d are in a view", i, in.key, in.history.len(), in.loose, in.captured)
			}
			i++
		}
	}
	if all != want || t.loose != want {
		test.Errorf("%d samples are borrowed, and %d are counted; %d are due", all, t.loose, want)
	}
}

// Samples that expire, or end with their writer, have no other samples copied: neither of the topic
// nor of other topics.
func TestSamplesThatExpireHaveNoOthersCopied(t *testing.T) {
	w := newWorld(t, 2)
	w.batch, w.stay = 1, 100
	set := qos.Set{Durability: qos.TransientLocal, Service: qos.DurabilityService{History: qos.KeepLast(20)}}
	w.topic("t", set)
	w.topic("other", set)
	s := w.members[1]
	s.Lend(100, 100_000)
	top, other := s.byName["t"], s.byName["other"]
	lasting, short := w.writer(1, 1, "t", qos.Set{Durability: qos.TransientLocal}), w.writer(1, 2, "t", qos.Set{Durability: qos.TransientLocal, Lifespan: time.Second})
	by := w.writer(1, 3, "other", qos.Set{Durability: qos.TransientLocal})
	for i := range 4 {
		w.write(short, "k", fmt.Sprint("first ", i))
	}
	w.settle()
	capture(s) // a view of what is there
	for i := range 5 {
		w.write(lasting, "k", fmt.Sprint("lasting ", i))
		w.write(short, "k", fmt.Sprint("short ", i))
		w.write(by, "k", fmt.Sprint("other ", i))
	}
	before, all := other.loose, top.loose
	if before == 0 || all == 0 {
		t.Fatalf("%d and %d samples are borrowed", before, all)
	}
	w.now += int64(time.Minute)
	w.write(by, "k", "later")
	other.borrowed(t, before+1)
	top.borrowed(t, 5)
	if n := top.instances["k"].history.len(); n != 5 {
		t.Errorf("%d samples are left", n)
	}
	w.write(lasting, "k", "later")
	w.close(short)
	top.borrowed(t, 6)
	w.repay(len(w.records) - 2)
	w.agree()
}

// A history frees the memory of samples that it has dropped, unless it has as many samples to copy,
// perhaps, and all of it once it is empty.
func TestAHistoryFreesMemoryThatItNeedsNoMore(t *testing.T) {
	w := newWorld(t, 2)
	w.batch = 1
	w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepLast(100)}})
	by := w.writer(1, 1, "t", qos.Set{Durability: qos.Transient})
	s := w.members[1]
	top := s.byName["t"]
	write := func(n int) {
		for range n {
			w.write(by, "k", strings.Repeat("x", 100))
		}
		if len(top.spare) > maxSpare+top.loose {
			t.Errorf("there is memory for %d samples, and %d are borrowed", len(top.spare), top.loose)
		}
	}
	write(100) // copied
	w.stay = 1000
	s.Lend(200, 100_000)
	write(100)
	top.borrowed(t, 100)
	if len(top.spare) < 100 {
		t.Errorf("there is memory for %d of 100 samples", len(top.spare))
	}
	write(1)
	w.dispose(by, "k")
	w.unregister(by, "k")
	w.agree()
	if n := top.kept; n != 0 || len(top.spare) > 0 {
		t.Errorf("%d samples are kept, and there is memory for %d", n, len(top.spare))
	}
}
