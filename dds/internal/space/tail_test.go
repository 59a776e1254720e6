package space

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/testutil"
)

// outside is a client with one reader. It is followed by one member, and by another one after that.
type outside struct {
	w        *world
	s        *Space
	cache    *Cache
	id       ID // of the reader here
	set      qos.Set
	at       int // the member
	follower *Follower
	there    ID
	reader   *Followed
	number   uint32
	reached  Resume
	lost     uint64
}

func newOutside(w *world, at int, topic qos.Set, set qos.Set) *outside {
	o := &outside{w: w, s: &Space{}, id: ID{Process{0, 9}, 1}, set: set, number: 1000}
	o.s.Told = func(e Event) {
		if e.Kind == SampleLost {
			o.lost += e.Count
		}
	}
	apply := func(node uint64, data []byte, err error) {
		w.must(err)
		w.must(o.s.Apply(Record{Sender: node, Data: data}))
	}
	data, err := AppendTopic(nil, w.now, TopicInfo{Name: "t", Type: "T", Keyed: true, QoS: topic})
	apply(0, data, err)
	o.cache = o.s.Expect(o.id)
	data, err = AppendOpen(nil, w.now, EndpointInfo{ID: o.id, Topic: "t", Reader: true, QoS: set})
	apply(0, data, err)
	o.open(at, nil)
	o.reached.Born = w.members[at].Born()
	o.reached.Reached = o.reader.At()
	return o
}

// open has a member follow the reader. Node n+1 is member n.
func (o *outside) open(at int, from *Resume) {
	w := o.w
	o.at = at
	o.number++
	o.there = id(uint64(at+1), o.number)
	o.follower = w.members[at].Follow()
	o.reader = &Followed{Number: 7}
	o.follower.Expect(o.there, o.reader, from)
	data, err := AppendOpen(nil, w.now, EndpointInfo{ID: o.there, Topic: "t", Reader: true, QoS: o.set})
	w.must(w.apply(uint64(at+1), data, err))
}

// goOn moves the client to another member. The endpoint that it had is closed by the one that has
// lost it.
func (o *outside) goOn(at int) {
	old, oldAt := o.there, uint64(o.at+1)
	o.s.Interrupt(o.id)
	from := o.reached
	o.open(at, &from)
	data, err := AppendGone(nil, o.w.now, old)
	o.w.must(o.w.apply(oldAt, data, err))
}

// take feeds a batch to the client, unless it is lost on its way.
func (o *outside) take(bytes int, arrives bool) (more bool) {
	all, more := o.follower.Collect(nil, bytes)
	if !arrives {
		return more
	}
	for i := range all {
		o.s.Feed(o.w.now, o.id, &all[i])
	}
	o.reached.Reached = o.reader.At()
	return more
}

// show is what a reader has, as text.
func show(c *Cache, opened uint64) (all []string) {
	for _, h := range c.Select(Query{}) {
		if h.Position == opened+1 { // where the client's reader was opened
			h.Position--
		}
		all = append(all, fmt.Sprintf("%d %v %s=%s valid=%v %d/%d/%d generations %d %d source %d", h.Position, h.Writer, h.Key, h.Data, h.Valid, h.State, h.View, h.Instance,
			h.DisposedGeneration, h.NoWritersGeneration, h.Source))
	}
	return all
}

// A client's reader and a reader of a member, with the same policies, have the same samples and
// states: wherever the client goes, and whatever is lost on its way to it, as long as the members'
// tails reach back. If they do not, nothing comes twice, and what is missing is counted.
func TestAClientsReaderHasWhatAMembersHas(t *testing.T) {
	losses := uint64(0)
	for lap := range testutil.Seeds(30, 60) {
		seed, small := testutil.Seed(t)+uint64(lap), lap%2 == 1
		if lap < len(found) {
			seed, small = found[lap], true
		}
		t.Run(fmt.Sprintf("lap=%d", lap), func(t *testing.T) {
			t.Logf("seed %#x", seed)
			losses += followAlong(t, rand.New(rand.NewPCG(seed, 0)), small)
		})
	}
	if losses == 0 {
		t.Error("no small tail lost anything: the laps show nothing")
	}
}

// found are the seeds of laps that failed once: a client that was interrupted before it had
// anything was not told how many samples were lost, and one that was interrupted within the list of
// instances was not told the end of the list.
var found = []uint64{0x10a983c62f1e98d4, 0xb92769e4039c51f8}

func followAlong(t *testing.T, rng *rand.Rand, small bool) (lost uint64) {
	w := newWorld(t, 2)
	tail := 1 << 20
	if small {
		tail = 2000
	}
	for _, s := range w.members {
		s.KeepTail(tail)
	}
	topic := qos.Set{Durability: qos.Durability(rng.IntN(3)), Ownership: qos.Ownership(rng.IntN(2)), Service: qos.DurabilityService{History: pick(rng, qos.KeepLast(2), qos.KeepAll())}}
	w.topic("t", topic)
	set := qos.Set{Durability: pick(rng, qos.Volatile, topic.Durability), Ownership: topic.Ownership, History: qos.KeepAll(), Purge: qos.ReaderLifetime{Disposed: time.Hour, NoWriters: time.Hour}}
	if !small {
		set.Partitions = pick(rng, nil, []string{"a"}, []string{"*"})
	}
	// If a client is interrupted within a history, it may be told of lost samples that the tail of
	// another member still has.
	whole := small && rng.IntN(2) == 0
	most := func() int {
		if whole {
			return 1 << 20
		}
		if n := rng.IntN(1000); n >= 300 {
			return n
		}
		return 0 // other readers of the client have had all that a call takes
	}
	var open []ID
	number := uint32(0)
	n := 0
	var caches []*Cache
	var client *outside
	opened := uint64(0)
	for i := range 500 {
		w.now += rng.Int64N(int64(300 * time.Millisecond))
		if i == 50 {
			caches = w.reader(3, 1, "t", set)
			opened = w.members[0].Position()
			client = newOutside(w, 0, topic, set)
			for (whole || !small) && client.take(500, true) { // a client that is interrupted within the history gets steps again that the history has no more
			}
		}
		switch op := rng.IntN(24); {
		case op < 2 || len(open) == 0:
			number++
			ws := qos.Set{Ownership: topic.Ownership, Durability: qos.Durability(rng.IntN(int(topic.Durability) + 1)), KeepUnregistered: rng.IntN(2) == 0, Strength: rng.Int32N(2), Presentation: qos.Presentation{Coherent: true}}
			if !small {
				ws.Partitions = pick(rng, nil, []string{"a"}, []string{"b"})
			} else { // all match
				ws.Durability = topic.Durability
			}
			open = append(open, w.writer(pick(rng, uint64(1), 4), number, "t", ws))
		case op == 2:
			i := rng.IntN(len(open))
			w.close(open[i])
			open = slices.Delete(open, i, i+1)
		case op == 3 && rng.IntN(3) == 0:
			w.roster(1, 2, 3)
			open = slices.DeleteFunc(open, func(o ID) bool { return o.Node == 4 })
		case op == 4 && !small:
			by := pick(rng, open...)
			info, _, _ := w.members[0].Endpoint(by)
			info.QoS.Partitions = pick(rng, nil, []string{"a"}, []string{"b"})
			data, err := AppendChange(nil, w.now, by, info.QoS)
			w.must(w.apply(by.Node, data, err))
		case op == 5:
			w.dispose(pick(rng, open...), pick(rng, "a", "b", "c"))
		case op == 6:
			w.unregister(pick(rng, open...), pick(rng, "a", "b", "c"))
		case op == 7:
			by := pick(rng, open...)
			for range 3 {
				n++
				w.must(w.sample(Sample{Writer: by, Set: 5, Key: []byte(pick(rng, "a", "b", "c")), Data: fmt.Append(nil, n)}))
			}
			data, err := AppendEnd(nil, w.now, by.Process, 5, rng.IntN(3) == 0)
			_ = w.apply(by.Node, data, err) // the set may be broken
		case op == 8 && client != nil && i < 480:
			client.goOn(rng.IntN(2))
		case op < 12 && client != nil:
			arrives := rng.IntN(4) > 0
			if client.take(most(), arrives); !arrives { // it is lost with its connection
				client.goOn(rng.IntN(2))
			}
		default:
			n++
			w.write(pick(rng, open...), pick(rng, "a", "b", "c"), fmt.Sprint(n))
		}
	}
	for client.take(500, true) {
	}
	want, got := show(caches[0], opened), show(client.cache, opened)
	if !small {
		if !slices.Equal(got, want) {
			t.Fatalf("a client's reader has\n%q\nand a member's has\n%q", got, want)
		}
		return 0
	}
	samples := func(c *Cache) (n uint64) {
		last := uint64(0)
		for _, h := range c.Select(Query{}) {
			if !h.Valid {
				continue
			}
			if h.Position < last {
				t.Fatalf("position %d comes after %d", h.Position, last)
			}
			if last = h.Position; h.Position > opened {
				n++
			}
		}
		return n
	}
	if a, b := samples(client.cache), samples(caches[0]); a+client.lost != b && (whole || a+client.lost < b) {
		t.Fatalf("a client has %d samples, and was told of %d lost ones; a member has %d", a, client.lost, b)
	}
	states := map[string]InstanceState{}
	for _, in := range caches[0].Instances() {
		states[in.Key] = in.State
	}
	for _, in := range client.cache.Instances() {
		if in.State == Alive && states[in.Key] != Alive {
			t.Errorf("instance %s is alive at the client, and %d at a member", in.Key, states[in.Key])
		}
	}
	return client.lost
}

// A filter keeps samples from the wire, and does not count them as lost.
func TestAFilterIsEvaluatedAtTheMember(t *testing.T) {
	w := newWorld(t, 1)
	w.members[0].KeepTail(1 << 20)
	w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}})
	by := w.writer(1, 1, "t", qos.Set{Durability: qos.Transient})
	w.write(by, "a", "no")
	w.write(by, "a", "yes")
	f := w.members[0].Follow()
	r := &Followed{Filter: func(data []byte) bool { return string(data) == "yes" }}
	f.Expect(id(1, 2), r, nil)
	data, err := AppendOpen(nil, w.now, EndpointInfo{ID: id(1, 2), Topic: "t", Reader: true, QoS: qos.Set{Durability: qos.Transient}})
	w.must(w.apply(1, data, err))
	w.write(by, "b", "yes")
	w.write(by, "b", "no")
	all, more := f.Collect(nil, 1<<20)
	all = Pass(all)
	if len(all) != 2 || more || all[0].Key != "a" || all[1].Key != "b" {
		t.Errorf("the wire has %+v", all)
	}
	if at := r.At(); at.Position != w.members[0].Position() || at.Count != 4 {
		t.Errorf("the reader has reached %+v", at)
	}
}

// The writer that was opened last for an origin has the instances of the one before, also with
// samples that the first one still had on their way.
func TestTheLastWriterOfAnOriginHasItsInstances(t *testing.T) {
	w := newWorld(t, 2)
	w.topic("t", qos.Set{Ownership: qos.Exclusive})
	exclusive := qos.Set{Ownership: qos.Exclusive, History: qos.KeepAll()}
	caches := w.reader(3, 1, "t", exclusive)
	o := Origin{Side: "client", GUID: [16]byte{1}}
	open := func(node uint64, number uint32) ID {
		i := id(node, number)
		data, err := AppendOpen(nil, w.now, EndpointInfo{ID: i, Topic: "t", Origin: &o, QoS: qos.Set{Ownership: qos.Exclusive}})
		w.must(w.apply(node, data, err))
		return i
	}
	first := open(1, 1)
	w.must(w.sample(Sample{Writer: first, Sequence: 1, Key: []byte("k"), Data: []byte("1")}))
	second := open(2, 1) // the first one stays open, and has the smaller id
	w.must(w.sample(Sample{Writer: first, Sequence: 2, Key: []byte("k"), Data: []byte("2")}))
	w.must(w.sample(Sample{Writer: second, Sequence: 3, Key: []byte("k"), Data: []byte("3")}))
	state, err := capture(w.members[1])()
	w.must(err)
	joined := &Space{}
	w.must(restore(joined, state))
	w.members[1] = joined
	w.must(w.sample(Sample{Writer: first, Sequence: 4, Key: []byte("k"), Data: []byte("4")}))
	w.roster(2, 3) // node 1 is gone, and the instance keeps its writer
	w.must(w.sample(Sample{Writer: second, Sequence: 5, Key: []byte("k"), Data: []byte("5")}))
	w.agree(caches[:1]...)
	got := ""
	for _, h := range caches[0].Select(Query{}) {
		got += string(h.Data)
		if !h.Valid || h.NoWritersGeneration != 0 {
			t.Errorf("the instance was without writers: %+v", h)
		}
	}
	if got != "12345" {
		t.Errorf("the reader has %q", got)
	}
}

// A reader gets all samples while the tail has dropped none that it lacks. Otherwise it knows how
// many it has lost.
func TestAReaderWithinTheTailLosesNothing(t *testing.T) {
	whole, parts := 0, 0
	for n := range 30 {
		w := newWorld(t, 1)
		s := w.members[0]
		s.KeepTail(2000)
		w.topic("t", qos.Set{})
		a := w.writer(2, 1, "t", qos.Set{})
		f, r := s.Follow(), &Followed{}
		f.Expect(id(1, 2), r, nil)
		data, err := AppendOpen(nil, w.now, EndpointInfo{ID: id(1, 2), Topic: "t", Reader: true})
		w.must(w.apply(1, data, err))
		w.write(a, "k", "before")
		f.Collect(nil, 1<<20)
		for i := range n {
			w.write(a, "k", fmt.Sprint(i))
		}
		got, lost := 0, 0
		all, _ := f.Collect(nil, 1<<20)
		for _, fed := range all {
			switch fed.Kind {
			case FedSample:
				got++
			case FedLost:
				lost += int(fed.Count)
			}
		}
		if got+lost != n || n <= len(s.tail.all) && lost > 0 {
			t.Errorf("of %d samples %d came and %d were lost; the tail has %d", n, got, lost, len(s.tail.all))
		}
		if lost == 0 {
			whole++
		} else {
			parts++
		}
	}
	if whole == 0 || parts == 0 {
		t.Errorf("%d times all came, and %d times a part", whole, parts)
	}
}

// Readers with coherent access at different positions are apart, until they are at the same one.
func TestReadersAtDifferentPositionsAreApart(t *testing.T) {
	w := newWorld(t, 1)
	s := w.members[0]
	s.KeepTail(1 << 20)
	w.topic("t", qos.Set{})
	f := s.Follow()
	var readers []*Followed
	for k := range uint32(2) {
		r := &Followed{Number: k}
		f.Expect(id(1, 2+k), r, nil)
		data, err := AppendOpen(nil, w.now, EndpointInfo{ID: id(1, 2+k), Topic: "t", Reader: true, QoS: qos.Set{Presentation: qos.Presentation{Coherent: true}}})
		w.must(w.apply(1, data, err))
		readers = append(readers, r)
	}
	f.Collect(nil, 1<<20)
	f.Apart()
	for _, c := range []struct {
		ahead uint64
		want  bool
	}{{0, false}, {1, true}, {0, false}} {
		readers[1].position = readers[0].position + c.ahead
		if got := f.Apart(); got != c.want || !readers[0].joined || !readers[1].joined {
			t.Errorf("%d positions ahead: apart %v", c.ahead, got)
		}
	}
}
