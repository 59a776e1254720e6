package protocol

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
	"github.com/squall-go/squall/internal/testutil"
)

// Several writers share the history of a topic. A late reader gets the last samples of each
// instance, whichever of the writers wrote them, also while the writers keep samples that were
// replaced for a reader that is slow. That one gets all.
func TestALateReaderGetsTheHistoryOfAllWriters(t *testing.T) {
	w := newWorld(t, testutil.Seed(t), 0.1)
	a, slow := w.host(1, nil), w.host(2, nil)
	set := qos.Set{Durability: qos.TransientLocal, Service: qos.DurabilityService{History: qos.KeepLast(2)}}
	h := NewHistory(&set.Service)
	var writers []*Writer
	for range 3 {
		out := a.p.OpenWriter(w.now, endpoint(set), true)
		out.Share(h)
		writers = append(writers, out)
	}
	slow.p.OpenReader(w.now, endpoint(set), true)
	w.until("all match", time.Minute, func() bool { return a.matched == len(writers) && slow.matched == len(writers) })
	slow.full = true
	const samples = 60
	for i := range samples {
		writers[i%len(writers)].Write(Change{Source: int64(i) * 1000, Payload: payload(i, 100), Key: fmt.Sprint(i / 2 % 2)})
	}
	late := w.host(3, nil)
	late.p.OpenReader(w.now, endpoint(set), true)
	acknowledged := func(h *host) func() bool {
		return func() bool {
			return h.matched == len(writers) && !slices.ContainsFunc(writers, func(out *Writer) bool {
				return !slices.ContainsFunc(out.proxies, func(r *remoteReader) bool { return r.of.Prefix == h.p.cfg.Prefix && r.acked == out.next() })
			})
		}
	}
	w.until("the late reader has all", time.Minute, acknowledged(late))
	got := map[int]bool{}
	for i, out := range writers {
		for _, s := range late.got[out.Endpoint.GUID] {
			got[int(s.Sequence-1)*len(writers)+i] = true
		}
	}
	want := map[int]bool{samples - 4: true, samples - 3: true, samples - 2: true, samples - 1: true}
	if !maps.Equal(got, want) {
		t.Fatalf("the late reader has the samples %v, and not %v", got, want)
	}
	slow.full = false
	w.until("the slow reader has all", time.Minute, acknowledged(slow))
	for _, out := range writers {
		if n := len(slow.got[out.Endpoint.GUID]); n != samples/len(writers) {
			t.Fatalf("the slow reader has %d samples of a writer", n)
		}
		if n := len(out.changes) - out.gone; n > 4 {
			t.Fatalf("RT3: a writer keeps %d samples", n)
		}
	}
}

// A history does what a list does that is searched for the oldest sample of an instance, and of
// all.
func TestAHistoryKeepsTheLastSamples(t *testing.T) {
	type change struct {
		w    *Writer
		key  string
		seq  int64
		ends bool
	}
	for _, s := range []qos.DurabilityService{
		{History: qos.KeepLast(1)}, {History: qos.KeepLast(3)}, {History: qos.KeepAll()}, {History: qos.KeepLast(2), Limits: qos.Limits{Samples: 5}},
		{History: qos.KeepAll(), Limits: qos.Limits{Samples: 7, SamplesPerInstance: 2}},
	} {
		seed := testutil.Seed(t)
		rng := rand.New(rand.NewPCG(seed, 0))
		world := newWorld(t, seed, 0)
		a := world.host(1, nil)
		set := qos.Set{Durability: qos.TransientLocal, Service: s}
		h := NewHistory(&set.Service)
		open := func() *Writer {
			out := a.p.OpenWriter(world.now, endpoint(set), true)
			out.Share(h)
			return out
		}
		writers := []*Writer{open(), open()}
		var model []change
		drop := func(i int) { model = slices.Delete(model, i, i+1) }
		first := func(is func(change) bool) int { return slices.IndexFunc(model, is) }
		count := func(is func(change) bool) (n int) {
			for _, c := range model {
				if !c.ends && is(c) {
					n++
				}
			}
			return n
		}
		for range 2000 {
			i := rng.IntN(len(writers))
			if rng.IntN(100) == 0 {
				a.p.CloseWriter(world.now, writers[i])
				model = slices.DeleteFunc(model, func(c change) bool { return c.w == writers[i] })
				writers[i] = open()
			}
			c := change{writers[i], fmt.Sprint(rng.IntN(4)), writers[i].next(), rng.IntN(3) == 0}
			out := Change{Key: c.key, Payload: payload(0, 8)}
			switch {
			case c.ends:
				out.Status = wire.Unregistered
			case rng.IntN(5) == 0:
				out.Status = wire.Disposed
			}
			c.w.Write(out)
			model = append(model, c)
			same := func(o change) bool { return o.key == c.key }
			if n := h.depth; n > 0 && count(same) > n {
				drop(first(func(o change) bool { return same(o) && !o.ends }))
			}
			if n := h.limit; n > 0 && count(func(change) bool { return true }) > n {
				drop(first(func(o change) bool { return !o.ends }))
			}
			seen := map[string]bool{}
			model = slices.DeleteFunc(model, func(o change) bool { // ends without samples before them
				seen[o.key] = seen[o.key] || !o.ends
				return !seen[o.key]
			})
			for _, w := range writers {
				var want, got []int64
				for _, o := range model {
					if o.w == w {
						want = append(want, o.seq)
					}
				}
				for _, o := range w.changes {
					if !o.gone {
						got = append(got, o.seq)
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d, %+v: a writer has the samples %v, and not %v", seed, s, got, want)
				}
			}
			if len(h.all) > 2*len(model)+1 || h.samples != count(func(change) bool { return true }) {
				t.Fatalf("seed %d: the history has %d elements, and %d samples, for %d", seed, len(h.all), h.samples, len(model))
			}
		}
	}
}

// A sample that expires moves no other one: a long history loses one with each sample that is
// written.
func TestASampleThatExpiresMovesNoOtherOne(t *testing.T) {
	world := newWorld(t, testutil.Seed(t), 0)
	set := qos.Set{Durability: qos.TransientLocal, Service: qos.DurabilityService{History: qos.KeepAll()}}
	w := world.host(1, nil).p.OpenWriter(world.now, endpoint(set), true)
	for range 8 {
		w.Write(Change{Key: "k", Payload: payload(0, 8)})
	}
	last := &w.changes[7]
	w.expire(1)
	if n := len(w.changes); n != 7 || &w.changes[6] != last {
		t.Errorf("there are %d samples, the last one at %p and not %p", n, &w.changes[n-1], last)
	}
}

// What a writer does for a sample does not depend on the length of its history: with readers and
// without, it looks at no sample twice. Samples that leave the history while a late reader lacks
// them go when it has them.
func TestAWriterLooksAtNoSampleOfItsHistoryTwice(t *testing.T) {
	w := newWorld(t, testutil.Seed(t), 0)
	a := w.host(1, nil)
	const n = 1000
	set := qos.Set{Durability: qos.TransientLocal, Service: qos.DurabilityService{History: qos.KeepAll(), Limits: qos.Limits{Samples: n}}}
	out := a.p.OpenWriter(w.now, endpoint(set), true)
	write := func(samples int) {
		t.Helper()
		for i := range samples {
			out.Write(Change{Key: "k", Payload: payload(i, 100)})
			if out.freed > out.next() {
				t.Fatalf("samples below %d are freed, of %d", out.freed, out.next())
			}
		}
	}
	write(n)
	if looked := out.release(); looked > 0 || out.freed != out.next() {
		t.Errorf("it looks at %d samples of a history of %d again", looked, n)
	}
	b := w.host(2, nil)
	b.p.OpenReader(w.now, endpoint(set), true)
	w.until("they match", time.Minute, func() bool { return b.matched == 1 && a.matched == 1 })
	write(n / 2) // half of the history leaves it
	w.until("all have come", time.Minute, out.Acknowledged)
	write(1)
	w.until("all have come", time.Minute, out.Acknowledged)
	if looked := out.release(); looked > 0 {
		t.Errorf("it looks at %d samples again", looked)
	}
	if all := len(out.changes) - out.gone; all != n || out.history.samples != n {
		t.Errorf("RT4: the writer keeps %d samples, and its history %d, of %d", all, out.history.samples, n)
	}
	if got := b.got[out.Endpoint.GUID]; got[len(got)-1].Sequence != n+n/2+1 {
		t.Errorf("the last sample is %d", got[len(got)-1].Sequence)
	}
}
