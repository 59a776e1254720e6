package space

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/testutil"
)

// Random records of some processes, which come, go and are killed: members agree on the state and
// on the caches of a reader at every position, also a member that gets the state in between and one
// that reads half of the records twice from a snapshot.
func TestMembersAgreeAtEveryPosition(t *testing.T) {
	for lap := range testutil.Seeds(20, 60) {
		seed := testutil.Seed(t) + uint64(lap)
		t.Run(fmt.Sprintf("lap=%d", lap), func(t *testing.T) {
			t.Logf("seed %#x", seed)
			agreeOn(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

// tick is the unit of random times: something is often due exactly at the time of a record.
const tick = int64(100 * time.Millisecond)

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func randomSet(rng *rand.Rand, topic qos.Set, reader bool) qos.Set {
	set := qos.Set{Ownership: topic.Ownership, Order: topic.Order, Presentation: qos.Presentation{Access: qos.GroupScope, Coherent: !reader}}
	set.Durability = qos.Durability(rng.IntN(int(topic.Durability) + 1))
	if rng.IntN(3) == 0 {
		set.Partitions = pick(rng, []string{"a"}, []string{"a", "b"}, []string{"*"}, []string{"*"})
	}
	if reader {
		set.Durability = min(set.Durability, qos.Durability(rng.IntN(3)))
		set.History = pick(rng, qos.KeepAll(), qos.KeepAll(), qos.KeepLast(1), qos.KeepLast(3))
		set.Separation = pick(rng, 0, 0, time.Second)
		set.Reliability.Kind = pick(rng, qos.Reliable, qos.BestEffort)
		set.Limits = pick(rng, qos.Limits{}, qos.Limits{Samples: 1 + rng.IntN(3)}, qos.Limits{SamplesPerInstance: 1 + rng.IntN(3)}, qos.Limits{Instances: 2})
		if set.Limits.SamplesPerInstance > 0 {
			set.History = qos.KeepAll()
		}
		set.Purge = pick(rng, qos.ReaderLifetime{}, qos.ReaderLifetime{NoWriters: 200 * time.Millisecond, Disposed: 300 * time.Millisecond})
		return set
	}
	set.Strength = rng.Int32N(3)
	set.Deadline, set.Lifespan = pick(rng, 0, time.Second), pick(rng, 0, 300*time.Millisecond, time.Second)
	set.KeepUnregistered = rng.IntN(2) == 0
	set.Liveliness = pick(rng, qos.Liveliness{}, qos.Liveliness{Kind: qos.ManualByTopic, Lease: time.Second}, qos.Liveliness{Kind: qos.ManualByParticipant, Lease: 2 * time.Second})
	return set
}

func agreeOn(t testing.TB, rng *rand.Rand) {
	w := newWorld(t, 2)
	w.model = &model{lives: map[Process]int64{}}
	w.batch, w.stay = 1+rng.IntN(9), pick(rng, 0, 3, 50)
	if limits := pick(rng, [2]int{}, [2]int{8, 4000}, [2]int{100, 1000}, [2]int{1000, 50_000}); limits[0] > 0 {
		w.members[1].Lend(limits[0], limits[1])
	}
	w.members[0].piece, w.members[1].piece = math.MaxInt, 1 // one fills its caches where readers are opened, the other one step by step
	topics := map[string]qos.Set{}
	for _, name := range []string{"t", "u", "unkeyed"} {
		set := qos.Set{
			Durability: qos.Durability(rng.IntN(3)), Ownership: qos.Ownership(rng.IntN(2)), Order: qos.DestinationOrder(rng.IntN(2)),
			Service:  qos.DurabilityService{History: pick(rng, qos.KeepLast(2), qos.KeepAll(), qos.KeepAll()), Limits: pick(rng, qos.Limits{}, qos.Limits{Samples: 7}, qos.Limits{Samples: 7, SamplesPerInstance: 2}), CleanupDelay: pick(rng, 0, time.Second)},
			Lifespan: pick(rng, 0, 0, 500*time.Millisecond),
		}
		w.topic(name, set)
		topics[name] = set
	}
	var readers []*randomReader
	var open []ID
	nodes := []uint64{1, 2, 3, 4}
	number := uint32(0)
	took, reads := 0, pick(rng, 1, 3, 10) // a reader is read where one of so many records comes
	for range 200 {
		w.now += rng.Int64N(4) * tick
		name := pick(rng, "t", "u", "unkeyed")
		switch rng.IntN(20) {
		case 0, 1:
			number++
			open = append(open, w.writer(pick(rng, nodes...), number, name, randomSet(rng, topics[name], false)))
		case 2:
			number++
			readers = append(readers, openRandomReader(w, pick(rng, nodes...), number, name, randomSet(rng, topics[name], true)))
		case 3:
			if len(open) > 0 {
				w.roster(slices.DeleteFunc(slices.Clone(nodes), func(n uint64) bool { return n > 1 && rng.IntN(10) == 0 })...)
			}
		case 4:
			for _, l := range w.members[0].Silences(w.now) {
				data, err := AppendSilence(nil, w.now, l)
				w.must(w.apply(1, data, err))
			}
			for _, l := range w.members[0].Lapses(w.now) {
				data, err := AppendLapse(nil, w.now, l)
				w.must(w.apply(1, data, err))
			}
		case 5: // a new member, with the state of another one
			w.settle()
			b, err := capture(w.members[rng.IntN(len(w.members))])()
			w.must(err)
			joiner := &Space{}
			w.must(restore(joiner, b))
			if len(w.members) < 4 {
				w.members = append(w.members, joiner)
			}
		default:
			open = slices.DeleteFunc(open, func(i ID) bool { return w.model.find(i) == nil && rng.IntN(4) > 0 })
			if len(open) == 0 {
				continue
			}
			i := pick(rng, open...)
			for range pick(rng, 1, 1, 4) {
				err := randomSample(w, rng, i)
				if err != nil && !errors.Is(err, ErrUnknown) {
					t.Fatal(err)
				}
			}
		}
		if rng.IntN(4) == 0 {
			w.agree()
		}
		for _, r := range readers {
			if r.fill(rng.IntN(6)) && rng.IntN(3) == 0 {
				r.check()
			}
		}
		readers = slices.DeleteFunc(readers, func(r *randomReader) bool { return r.model.closed })
		if len(readers) > 0 && rng.IntN(reads) == 0 {
			took++
			r := pick(rng, readers...)
			idle := func(r *randomReader) bool { return len(r.model.held)+len(r.model.ends()) == 0 }
			if busy := slices.DeleteFunc(slices.Clone(readers), idle); len(busy) > 0 && rng.IntN(4) > 0 {
				r = pick(rng, busy...)
			}
			r.fill(math.MaxInt)
			r.query(r.randomQuery(rng))
			r.check()
		}
	}
	if took == 0 || w.members[0].Position() < 50 {
		t.Errorf("%d records and %d reads", w.members[0].Position(), took)
	}
}

// randomReader is a reader with a cache at each member, and the reader of the model that these are
// compared with.
type randomReader struct {
	w      *world
	caches []*Cache
	heard  [][]Held // by the listeners
	model  *modelEnd
}

func openRandomReader(w *world, node uint64, number uint32, topic string, set qos.Set) *randomReader {
	r := &randomReader{w: w, heard: make([][]Held, len(w.members))}
	i, n := id(node, number), 0
	r.caches = w.reader(node, number, topic, set, func(c *Cache) {
		if filters(i) {
			c.Filter = odd
		}
		if at := n; listens(i) {
			c.Listener = func(h *Held) { r.hear(at, *h) }
		}
		n++
	})
	r.model = w.model.open[len(w.model.open)-1]
	return r
}

func (r *randomReader) hear(at int, h Held) {
	h.Data = slices.Clone(h.Data)
	r.heard[at] = append(r.heard[at], h)
}

// fill goes on filling the caches, and reports whether they are filled.
func (r *randomReader) fill(steps int) bool {
	filled := true
	for i, c := range r.caches {
		for more := true; more; {
			more = r.w.members[i].Fill(c, steps)
			heard := c.Heard(nil)
			for _, h := range heard {
				r.hear(i, h)
			}
			if more && steps < math.MaxInt {
				filled = false
				break
			}
		}
	}
	return filled
}

// check compares the caches, which are filled, with the model.
func (r *randomReader) check() {
	r.w.t.Helper()
	if r.model.closed {
		return
	}
	for i, c := range r.caches {
		if is, want := c.text(), r.model.text(); is != want {
			r.w.t.Fatalf("at position %d reader %v with %+v has at member %d\n%s\nand in the model\n%s", r.w.model.position, r.model.ID, r.model.QoS, i+1, is, want)
		}
		if is, want := fmt.Sprintf("%+v", r.heard[i]), fmt.Sprintf("%+v", r.model.heard); is != want {
			r.w.t.Fatalf("the listener of reader %v at member %d is told\n%s\nand in the model\n%s", r.model.ID, i+1, is, want)
		}
	}
}

// query compares the results of a query with the model.
func (r *randomReader) query(q Query) {
	r.w.t.Helper()
	if r.model.closed {
		return
	}
	want := fmt.Sprintf("%+v", r.model.query(q))
	for i, c := range r.caches {
		if i > 0 {
			c.spread() // samples are taken alike whether a call has looked at them or not
		}
		if is := fmt.Sprintf("%+v", c.Select(q)); is != want {
			r.w.t.Fatalf("at position %d reader %v with %+v returns at member %d for %+v\n%s\nand in the model\n%s", r.w.model.position, r.model.ID, r.model.QoS, i+1, q, is, want)
		}
	}
}

// randomQuery queries a reader now or later, often exactly when a lifespan or a delay ends.
func (r *randomReader) randomQuery(rng *rand.Rand) Query {
	q := Query{Max: pick(rng, 0, 0, 1, 3), Take: rng.IntN(2) == 0, Now: r.w.now + rng.Int64N(4)*tick}
	if ends := r.model.ends(); len(ends) > 0 && rng.IntN(2) == 0 {
		q.Now = max(q.Now, pick(rng, ends...))
	}
	if rng.IntN(2) == 0 { // the short way, if all is taken
		return q
	}
	q.Samples, q.Views = pick(rng, 0, 0, Read, NotRead), pick(rng, 0, 0, New, NotNew)
	q.States = pick(rng, 0, 0, Alive, Disposed|NoWriters)
	if key := pick(rng, "k", "l", "m"); rng.IntN(4) == 0 {
		q.Key = &key
	}
	if rng.IntN(4) == 0 {
		q.Matching = odd
	}
	return q
}

func randomSample(w *world, rng *rand.Rand, i ID) error {
	info, _, known := w.members[0].Endpoint(i)
	s := Sample{Writer: i, Key: []byte(pick(rng, "k", "l", "m")), Data: fmt.Append(nil, rng.IntN(100)), Source: w.now + pick(rng, int64(-15), -2, -1, 0, 0, 1, 2, 15)*tick}
	if known && info.Topic == "unkeyed" {
		s.Key = nil
	}
	switch rng.IntN(10) {
	case 0:
		if s.Key != nil {
			s.Operation = Dispose
		}
	case 1:
		s.Operation = Unregister
	case 2:
		s.Operation = Register
	case 3, 4:
		s.Set = rng.Uint64N(3) + 1
	case 5:
		data, err := AppendEnd(nil, w.now, i.Process, rng.Uint64N(3)+1, rng.IntN(3) == 0)
		return w.apply(i.Node, data, err)
	case 6:
		if rng.IntN(4) == 0 {
			data, err := AppendClose(nil, w.now, i)
			return w.apply(i.Node, data, err)
		}
	case 7:
		if !known {
			return nil
		}
		info.QoS.Strength, info.QoS.Partitions = rng.Int32N(3), pick(rng, nil, nil, []string{"a"}, []string{"b"})
		data, err := AppendChange(nil, w.now, i, info.QoS)
		return w.apply(i.Node, data, err)
	}
	return w.sample(s)
}

// Records and states from a peer that sends what it likes change nothing that is not theirs to
// change, and are no panic.
func FuzzRecords(f *testing.F) {
	topic, err := AppendTopic(nil, 1, TopicInfo{Name: "t", Type: "T", Keyed: true, QoS: qos.Set{Durability: qos.Transient}})
	if err != nil {
		f.Fatal(err)
	}
	i := id(2, 1)
	open, err := AppendOpen(nil, 2, EndpointInfo{ID: i, Topic: "t", QoS: qos.Set{Durability: qos.Transient}})
	if err != nil {
		f.Fatal(err)
	}
	sample := append(AppendSample(nil, 3, &Sample{Writer: i, Key: []byte("k")}), "data"...)
	var s Space
	for _, data := range [][]byte{topic, open, sample} {
		if err := s.Apply(Record{View: 1, Sender: 2, Data: data}); err != nil {
			f.Fatal(err)
		}
		f.Add(uint64(2), data)
	}
	state, err := capture(&s)()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint64(3), state)
	for _, c := range [][]byte{must(AppendLapse(nil, 4, Lapse{i, []byte("k"), 1})), must(AppendRoster(nil, 5, 2, nil)), must(AppendEnd(nil, 6, i.Process, 1, false))} {
		f.Add(uint64(2), c)
	}
	f.Fuzz(func(t *testing.T, sender uint64, data []byte) {
		var s, other Space
		if restore(&s, data) == nil {
			if err := restore(&other, must(capture(&s)())); err != nil {
				t.Fatal(err)
			}
		}
		if err := restore(&s, state); err != nil {
			t.Fatal(err)
		}
		c := s.Expect(id(9, 9))
		if err := s.Apply(Record{View: 1, Sender: 9, Data: must(AppendOpen(nil, 3, EndpointInfo{ID: id(9, 9), Topic: "t", Reader: true, QoS: qos.Set{Durability: qos.Transient}}))}); err != nil {
			t.Fatal(err)
		}
		_, _ = s.TryApply(&Record{View: 1, Sender: sender, Data: data})
		_ = s.Lapses(s.Now())
		if sender != 2 {
			if _, _, ok := s.Endpoint(i); !ok && s.Roster() == 0 {
				t.Fatal("the endpoint of another member is closed")
			}
		}
		_ = c.Select(Query{Take: true})
		if _, err := capture(&s)(); err != nil {
			t.Fatal(err)
		}
	})
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
