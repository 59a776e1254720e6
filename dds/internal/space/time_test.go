package space

import (
	"fmt"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
)

const ms = int64(time.Millisecond)

func TestTheSeparationOfAFilterFollowsTheTimeOfTheOrder(t *testing.T) {
	for name, source := range map[string]func(now int64, i int) int64{
		"set back by an hour":       func(now int64, i int) int64 { return now + int64(time.Hour)*int64(max(0, 1-i)) },
		"set back at each sample":   func(now int64, i int) int64 { return now - int64(time.Minute)*int64(i) },
		"that stands":               func(int64, int) int64 { return int64(time.Hour) },
		"that is an hour too early": func(now int64, i int) int64 { return now - int64(time.Hour) + 1 },
	} {
		w := newWorld(t, 2)
		w.topic("t", qos.Set{})
		c := w.reader(1, 1, "t", qos.Set{History: qos.KeepAll(), Separation: 25 * time.Millisecond})
		a := w.writer(2, 1, "t", qos.Set{})
		for i := range 12 {
			w.must(w.sample(Sample{Writer: a, Key: []byte("k"), Data: []byte(fmt.Sprint(i)), Source: source(w.now, i)}))
			w.now += 10 * ms
		}
		w.agree(c...)
		if got := short(c[0].Select(Query{})); got != "k=0 k=3 k=6 k=9" {
			t.Errorf("a clock %s: a reader with a separation of 25 ms has %s of samples every 10 ms", name, got)
		}
	}
}

func TestAFilterOfAClientDoesNotStarve(t *testing.T) {
	w := newWorld(t, 1)
	s := w.members[0]
	w.topic("t", qos.Set{})
	c := w.reader(1, 1, "t", qos.Set{History: qos.KeepAll(), Separation: 25 * time.Millisecond})[0]
	for i, source := range []int64{0, 10 * ms, 30 * ms, int64(time.Hour), 40 * ms, 50 * ms, 65 * ms} { // all in one batch
		s.Feed(w.now, id(1, 1), &Fed{Position: uint64(10 + i), Writer: id(2, 1), Source: int64(time.Hour) + source, Expires: 1 << 62, Key: "k", Data: []byte(fmt.Sprint(i))})
	}
	if got := short(c.Select(Query{})); got != "k=0 k=2 k=3 k=4 k=6" {
		t.Errorf("the reader has %s", got)
	}
}

func TestATimeInTheFutureChangesNothingForOtherWriters(t *testing.T) {
	w := newWorld(t, 3)
	set := qos.Set{Order: qos.BySource, Durability: qos.Transient}
	w.topic("t", qos.Set{Order: qos.BySource, Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}})
	stranger := w.writer(2, 1, "t", set)
	short50 := set
	short50.Lifespan = 50 * time.Millisecond
	a := w.writer(3, 1, "t", short50)
	began := w.now
	w.must(w.sample(Sample{Writer: stranger, Key: []byte("wrong"), Data: []byte("x"), Source: 1<<63 - 1}))
	for i := range 10 {
		w.must(w.sample(Sample{Writer: a, Key: []byte("k"), Data: []byte(fmt.Sprint(i)), Source: w.now}))
		w.now += 20 * ms
	}
	c := w.reader(1, 1, "t", qos.Set{Order: qos.BySource, Durability: qos.Transient, History: qos.KeepAll()})
	w.agree(c...)
	last := int64(0)
	got := c[0].Select(Query{})
	for _, h := range got {
		if h.Source > began+int64(SourceAhead) || h.Source < last {
			t.Errorf("a sample has the source time %v after the beginning", time.Duration(h.Source-began))
		}
		last = h.Source
	}
	if short(got) != "wrong=x k=8 k=9" {
		t.Errorf("the history has %s", short(got))
	}
}
