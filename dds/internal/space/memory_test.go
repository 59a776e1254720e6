package space

import (
	"strconv"
	"strings"
	"testing"

	"github.com/squall-go/squall/dds/qos"
)

// What a history has dropped is memory for later samples, but for data that a reader has, or a state that is encoded later.
func TestMemoryOfAHistoryIsUsedAgainWhereNothingElseHasIt(t *testing.T) {
	w := newWorld(t, 1)
	w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.Service{History: qos.KeepLast(2)}})
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

// Of samples that come at once, a history copies the ones that it still has when they have all come, and it uses memory that was dropped meanwhile.
func TestAHistoryCopiesWhatItHasAtTheEndOfABatch(t *testing.T) {
	w := newWorld(t, 2)
	w.batch = 1000
	w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.Service{History: qos.KeepLast(20)}})
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

// A history within the limits copies nothing of data that stay: not the data of samples that later samples replace, and those of the others when they are repaid, or a view is taken.
func TestAHistoryWithinItsLimitsRefersToDataThatStay(t *testing.T) {
	w := newWorld(t, 2)
	w.batch, w.stay = 1, 100
	w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.Service{History: qos.KeepLast(20)}})
	by := w.writer(1, 1, "t", qos.Set{Durability: qos.Transient})
	s, top := w.members[1], w.members[1].byName["t"]
	s.Lent = Limits{Samples: 21, Bytes: 21 * 500}
	write := func(n, size int) {
		for i := range n {
			w.write(by, "k", strings.Repeat(string(rune('a'+i%20)), size))
		}
	}
	borrowed := func(want int) {
		t.Helper()
		in := top.instances["k"]
		n := 0
		for k := range in.history.each {
			if k.borrowed {
				n++
			}
		}
		if n != want || top.loose != want {
			t.Errorf("%d samples are borrowed, and %d are counted; %d are due", n, top.loose, want)
		}
	}
	write(60, 500)
	borrowed(20)
	if len(top.spare) > 0 {
		t.Errorf("%d samples were copied and dropped", len(top.spare))
	}
	w.repay(len(w.records) - 5) // all but the last five
	borrowed(5)
	if !s.Owes(s.Position()) || s.Owes(s.Position()-5) {
		t.Error("it does not owe the last five")
	}
	write(5, 500)
	borrowed(10)
	write(20, 501) // beyond the limit, with the sample that goes
	borrowed(0)
	write(20, 500)
	borrowed(20)
	w.agree() // takes views
	borrowed(0)
	write(3, 500)
	dispose := AppendSample(nil, w.now, &Sample{Writer: by, Operation: Dispose, Key: []byte("k")})
	w.must(w.apply(1, dispose, nil))
	write(3, 500)
	borrowed(6)
	w.repay(3)
	w.agree()
	write(7, 500)
	w.repay(len(w.records))
	borrowed(0)
	w.agree()
}
