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
	for lap := range testutil.Seeds(6, 20) {
		seed := testutil.Seed(t) + uint64(lap)
		t.Run(fmt.Sprintf("lap=%d", lap), func(t *testing.T) {
			t.Logf("seed %#x", seed)
			agreeOn(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func randomSet(rng *rand.Rand, topic qos.Set, reader bool) qos.Set {
	set := qos.Set{Ownership: topic.Ownership, Order: topic.Order, Presentation: qos.Presentation{Access: qos.GroupScope, Coherent: !reader}}
	set.Durability = qos.Durability(rng.IntN(int(topic.Durability) + 1))
	if rng.IntN(4) == 0 {
		set.Partitions = pick(rng, []string{"a"}, []string{"a", "b"}, []string{"*"})
	}
	if reader {
		set.History = pick(rng, qos.KeepAll(), qos.KeepLast(1), qos.KeepLast(3))
		set.Separation = pick(rng, 0, 0, time.Second)
		set.Reliability.Kind = pick(rng, qos.Reliable, qos.BestEffort)
		set.Limits.Samples = pick(rng, 0, 10)
		return set
	}
	set.Strength = rng.Int32N(3)
	set.Deadline, set.Lifespan = pick(rng, 0, time.Second), pick(rng, 0, 5*time.Second)
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
	for _, name := range []string{"t", "u", "v"} {
		set := qos.Set{
			Durability: qos.Durability(rng.IntN(3)), Ownership: qos.Ownership(rng.IntN(2)), Order: qos.DestinationOrder(rng.IntN(2)),
			Service: qos.Service{History: pick(rng, qos.KeepLast(2), qos.KeepAll()), Limits: qos.Limits{Samples: pick(rng, 0, 7)}, CleanupDelay: pick(rng, 0, time.Second)},
		}
		w.topic(name, set)
		topics[name] = set
	}
	var caches, untouched [][]*Cache
	var open []ID
	nodes := []uint64{1, 2, 3, 4}
	var readers []*modelEnd // those with untouched caches
	number := uint32(0)
	took := 0
	for range 400 {
		w.now += rng.Int64N(int64(300 * time.Millisecond))
		name := pick(rng, "t", "u", "v")
		switch rng.IntN(20) {
		case 0, 1:
			number++
			open = append(open, w.writer(pick(rng, nodes...), number, name, randomSet(rng, topics[name], false)))
		case 2:
			number++
			if len(untouched) < 12 && rng.IntN(2) == 0 {
				set := randomSet(rng, topics[name], true)
				set.History, set.Separation, set.Limits, set.Reliability.Kind = qos.KeepAll(), 0, qos.Limits{}, qos.Reliable
				untouched = append(untouched, w.reader(pick(rng, nodes...), number, name, set))
				readers = append(readers, w.model.open[len(w.model.open)-1])
				continue
			}
			caches = append(caches, w.reader(pick(rng, nodes...), number, name, randomSet(rng, topics[name], true)))
		case 3:
			if len(open) > 0 {
				w.roster(slices.DeleteFunc(slices.Clone(nodes), func(n uint64) bool { return n > 1 && rng.IntN(6) == 0 })...)
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
			if len(open) == 0 {
				continue
			}
			i := pick(rng, open...)
			err := randomSample(w, rng, i)
			if err != nil && !errors.Is(err, ErrUnknown) {
				t.Fatal(err)
			}
		}
		if rng.IntN(4) == 0 {
			w.agree()
		}
		for _, c := range caches {
			if w.filled(rng.IntN(6), c...) {
				w.equal(c...)
			}
		}
		for i, c := range untouched {
			if !w.filled(rng.IntN(6), c...) || readers[i].closed {
				continue
			}
			if is, want := c[0].received(), readers[i].received(); is != want {
				t.Fatalf("at position %d reader %v has\n%s\nand in the model\n%s", w.model.position, readers[i].ID, is, want)
			}
			w.equal(c...)
		}
		if len(caches) > 0 && rng.IntN(8) == 0 {
			q := Query{Max: rng.IntN(4), Take: rng.IntN(2) == 0, Now: w.now, Samples: pick(rng, 0, 0, Read, NotRead), States: pick(rng, 0, 0, Alive, Disposed|NoWriters)}
			results := ""
			chosen := pick(rng, caches...)
			w.filled(math.MaxInt, chosen...)
			for i, c := range chosen {
				if i > 0 {
					c.spread() // samples are taken alike whether a call has looked at them or not
				}
				r := fmt.Sprint(c.Select(q))
				if took++; i > 0 && r != results {
					t.Fatalf("members read %s and %s", results, r)
				}
				results = r
			}
		}
	}
	if took == 0 || w.members[0].Position() < 100 {
		t.Errorf("%d records and %d reads", w.members[0].Position(), took)
	}
}

func randomSample(w *world, rng *rand.Rand, i ID) error {
	s := Sample{Writer: i, Key: []byte(pick(rng, "k", "l", "m")), Data: fmt.Append(nil, rng.IntN(100)), Source: w.now - rng.Int64N(int64(time.Second))}
	switch rng.IntN(10) {
	case 0:
		s.Operation = Dispose
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
		info, _, ok := w.members[0].Endpoint(i)
		if !ok {
			return nil
		}
		info.QoS.Strength, info.QoS.Partitions = rng.Int32N(3), pick(rng, nil, []string{"a"}, []string{"b"})
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
