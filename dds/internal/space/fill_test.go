package space

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/testutil"
)

// While the cache of a late reader is filled, the order goes on: samples are written, instances
// come and go, writers change, the history drops what is old. The reader has the history of the
// position at which it was opened, and everything that followed, in order, each once: as if it had
// been filled there.
func TestALateReaderHasTheHistoryOfItsPositionAndThenTheTail(t *testing.T) {
	w := newWorld(t, 2)
	w.members[1].piece = 1
	kept := qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepLast(3)}}
	w.topic("t", kept)
	set := qos.Set{Durability: qos.Transient}
	by, other := w.writer(1, 1, "t", set), w.writer(2, 1, "t", set)
	for i := range 4 {
		w.write(by, "a", fmt.Sprint("a", i))
		w.write(other, "b", fmt.Sprint("b", i))
	}
	w.dispose(other, "b")
	caches := w.reader(3, 1, "t", qos.Set{Durability: qos.Transient, History: qos.KeepAll()})
	if w.members[1].Fill(caches[1], 0) != true || caches[1].Held() > 1 {
		t.Fatal("the cache is filled already")
	}
	want := "a=a1 a=a2 b=b2 a=a3 b=b3"
	for i := range 5 { // the history has none of the first ones in the end
		w.now += int64(time.Second)
		w.write(by, "a", fmt.Sprint("later", i))
		want += fmt.Sprint(" a=later", i)
		if i == 2 {
			w.members[1].Fill(caches[1], 3)
		}
	}
	w.write(other, "b", "again")
	w.close(other)
	data, err := AppendChange(nil, w.now, by, qos.Set{Durability: qos.Transient, Partitions: []string{"elsewhere"}})
	w.must(w.apply(1, data, err))
	w.write(by, "a", "unseen")
	if !w.filled(1000, caches...) {
		t.Fatal("it is not filled yet")
	}
	w.agree(caches...)
	w.write(w.writer(4, 1, "t", set), "c", "live")
	w.agree(caches...)
	for _, c := range caches {
		w.takes(c, Query{}, want+" b=again b! a? c=live") // the last end of an instance stands for all of them
	}
}

// full reports whether the sample in a record would be held up.
func full(s *Space, r Record) bool {
	var sample Sample
	if err := parseSample(&r, &sample); err != nil {
		return false
	}
	w := s.writer(sample.Writer)
	return w != nil && w.bounded && w.full(&sample)
}

// What comes while a cache is filled is bounded: the records behind it wait until the cache is
// filled.
func TestRecordsWaitForACacheThatIsFarBehind(t *testing.T) {
	w := newWorld(t, 1)
	s := w.members[0]
	s.piece = 1
	w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}})
	by := w.writer(1, 1, "t", qos.Set{Durability: qos.Transient})
	w.write(by, "k", "one")
	w.write(by, "k", "two")
	c := w.reader(1, 2, "t", qos.Set{Durability: qos.Transient, History: qos.KeepAll()})[0]
	large := strings.Repeat("x", 1<<20)
	record := append(AppendSample(nil, w.now, &Sample{Writer: by, Key: []byte("k")}), large...)
	n := 0
	for ; !full(s, Record{View: 1, Sender: 1, Data: record}); n++ {
		if n > 2*maxLateBytes>>20 {
			t.Fatal("nothing is full")
		}
		w.write(by, "k", large)
	}
	if n < maxLateBytes>>21 {
		t.Errorf("it is full after %d samples of 1 MiB", n)
	}
	disposal := AppendSample(nil, w.now, &Sample{Writer: by, Operation: Dispose, Key: []byte("k")})
	for s.Fill(c, 1) {
		if !full(s, Record{View: 1, Sender: 1, Data: record}) || !full(s, Record{View: 1, Sender: 1, Data: disposal}) {
			t.Fatal("records go on, and the cache is not filled")
		}
	}
	if full(s, Record{View: 1, Sender: 1, Data: record}) || full(s, Record{View: 1, Sender: 1, Data: disposal}) || c.Held() != n+2 {
		t.Errorf("%d samples, want %d", c.Held(), n+2)
	}
	// A reader that may be full gets nothing beyond what it was opened with.
	c = w.reader(1, 3, "t", qos.Set{Durability: qos.Transient, History: qos.KeepAll(), Limits: qos.Limits{Samples: 100}})[0]
	if !full(s, Record{View: 1, Sender: 1, Data: record}) {
		t.Error("a bounded reader that is being filled takes more")
	}
	s.Detach(id(1, 3))
	if s.Fill(c, 1) || full(s, Record{View: 1, Sender: 1, Data: record}) {
		t.Error("a reader that is closed is filled")
	}
}

// A listener that is opened with a history hears it at any pace, while records are applied, and
// then what follows: the same at all members. What it hears stays as it is until the listener
// returns.
func TestAListenerHearsAHistoryAtAnyPace(t *testing.T) {
	for lap := range testutil.Seeds(10, 30) {
		seed := testutil.Seed(t) + uint64(lap)
		t.Run(fmt.Sprintf("lap=%d", lap), func(t *testing.T) {
			t.Logf("seed %#x", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			w := newWorld(t, 2)
			w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: pick(rng, qos.KeepLast(1), qos.KeepLast(3), qos.KeepAll())}})
			writers := []ID{w.writer(1, 1, "t", qos.Set{Durability: qos.Transient}), w.writer(2, 1, "t", qos.Set{Durability: qos.Transient})}
			n := 0
			step := func() {
				w.now += rng.Int64N(int64(time.Second))
				by, key := pick(rng, writers...), pick(rng, "a", "b", "c")
				switch rng.IntN(8) {
				case 0:
					w.dispose(by, key)
				case 1:
					w.unregister(by, key)
				default:
					n++
					w.write(by, key, fmt.Sprintf("%04d", n))
				}
			}
			for range rng.IntN(60) {
				step()
			}
			heard := make([][]string, 2)
			var caches []*Cache
			for i, s := range w.members {
				c := s.Expect(id(3, 1))
				c.Listener = func(h *Held) {
					heard[i] = append(heard[i], fmt.Sprintf("%d %s=%s %v %d %d", h.Position, h.Key, h.Data, h.Valid, h.View, h.Instance))
				}
				caches = append(caches, c)
			}
			data, err := AppendOpen(nil, w.now, EndpointInfo{ID: id(3, 1), Topic: "t", Reader: true, QoS: qos.Set{Durability: qos.Transient}})
			w.must(w.apply(3, data, err))
			fill := func(i, steps, records int) bool {
				more := w.members[i].Fill(caches[i], steps)
				all := caches[i].Heard(nil)
				for range records {
					step()
				}
				for j := range all {
					caches[i].Listener(&all[j])
				}
				return more
			}
			for fill(0, 1<<20, 0) {
			}
			for fill(1, rng.IntN(5), rng.IntN(3)) {
			}
			for range 10 {
				step()
			}
			if !slices.Equal(heard[0], heard[1]) || len(heard[0]) == 0 {
				t.Fatalf("one member's listener hears\n%q\nand another one's\n%q", heard[0], heard[1])
			}
		})
	}
}
