package space

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
)

// world is some members that apply the same records.
type world struct {
	t       testing.TB
	members []*Space
	events  []Event // of the first member
	now     int64
	view    uint64
	batch   int      // records after which the second member settles; 0: it applies each of them by itself
	stay    int      // records of which the data stay after that, unless they are due; the ones before are repaid
	records []Record // that it has applied, and whose memory is not used again yet
	fresh   int      // of these, the last ones: since it settled
	model   *model   // what the first member is compared with, unless nil
}

func newWorld(t testing.TB, n int) *world {
	w := &world{t: t, now: int64(time.Hour), view: 1}
	for i := range n {
		s := &Space{}
		if i == 0 {
			s.Told = func(e Event) { w.events = append(w.events, e) }
		}
		w.members = append(w.members, s)
	}
	return w
}

// apply has all members apply a record of a node. They agree on the error.
func (w *world) apply(node uint64, data []byte, err error) error {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	var first error
	for i, s := range w.members {
		r := Record{View: w.view, Sender: node, Data: slices.Clone(data)}
		var applied bool
		var err error
		if i == 1 && w.batch > 0 {
			r.Stays = w.stay > 0
			var sample Sample
			waits := w.model != nil && IsSample(data) && parseSample(&r, &sample) == nil && w.model.waits(&sample)
			applied, err = s.TryApply(&r)
			if w.model != nil && applied == waits && !s.fills(sample.Writer) {
				w.t.Fatalf("at position %d a sample waits for a reader: %v", s.position, !applied)
			}
			w.records = append(w.records, r)
			w.fresh++
		}
		if !applied {
			err = s.Apply(r)
		}
		if w.model != nil {
			if id, what := s.broken(); id != "" {
				w.t.Fatalf("member %d breaks %s at position %d: %s", i+1, id, s.position, what)
			}
		}
		if i == 0 {
			first = err
		} else if fmt.Sprint(err) != fmt.Sprint(first) {
			w.t.Fatalf("members say %v and %v", first, err)
		}
	}
	if w.model != nil {
		if ok := w.model.apply(Record{View: w.view, Sender: node, Data: data}); ok != (first == nil) {
			w.t.Fatalf("the record at position %d has an effect in the model: %v; members say %v", w.model.position, ok, first)
		}
		if is, want := w.members[0].histories(), w.model.histories(); is != want {
			w.t.Fatalf("at position %d the space has\n%s\nand the model\n%s", w.model.position, is, want)
		}
	}
	if w.fresh >= w.batch {
		w.settle()
	}
	return first
}

// fills reports whether a cache that a writer writes to is being filled, which may have samples
// wait.
func (s *Space) fills(writer ID) bool {
	w := s.byID[writer]
	return w != nil && slices.ContainsFunc(w.local, func(c *Cache) bool { return c.filling != nil })
}

// settle ends a batch of the second member: the memory of the records is used again.
func (w *world) settle() {
	if w.batch == 0 {
		return
	}
	s := w.members[1]
	s.Settle()
	w.fresh = 0
	over := len(w.records) - w.stay
	if due := s.Due(); due > 0 {
		over = max(over, len(w.records)-int(s.Position()-due))
	}
	if over > 0 {
		w.repay(over)
	}
}

// repay has the memory of the first records of the second member used again.
func (w *world) repay(n int) {
	w.t.Helper()
	s := w.members[1]
	to := s.Position() - uint64(len(w.records)-n)
	if has, owes := s.hasBorrowed(to), s.Owes(to); owes != has {
		w.t.Fatalf("a history has data of a record up to position %d: %v, and owes them: %v", to, has, owes)
	}
	if s.Repay(to); s.Owes(to) {
		w.t.Fatalf("a history has data of a record up to position %d, and they are repaid", to)
	}
	for _, r := range w.records[:n] {
		for i := range r.Data {
			r.Data[i] = 0xee
		}
	}
	w.records = slices.Delete(w.records, 0, n)
}

// hasBorrowed reports whether a history has data of a record up to a position.
func (s *Space) hasBorrowed(to uint64) bool {
	for _, t := range s.topics {
		for _, in := range t.order {
			for k := range in.history.each {
				if k.borrowed && k.position <= to {
					return true
				}
			}
		}
	}
	return false
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) topic(name string, set qos.Set) {
	w.t.Helper()
	data, err := AppendTopic(nil, w.now, TopicInfo{Name: name, Type: "T", Keyed: name != "unkeyed", QoS: set})
	w.must(w.apply(1, data, err))
}

func id(node uint64, number uint32) ID { return ID{Process{node, 100 + node}, number} }

func (w *world) writer(node uint64, number uint32, topic string, set qos.Set) ID {
	w.t.Helper()
	i := id(node, number)
	data, err := AppendOpen(nil, w.now, EndpointInfo{ID: i, Topic: topic, QoS: set})
	w.must(w.apply(node, data, err))
	return i
}

// reader opens a reader at every member: one reader whose cache each of them has, so that caches
// can be compared.
func (w *world) reader(node uint64, number uint32, topic string, set qos.Set, prepare ...func(*Cache)) []*Cache {
	w.t.Helper()
	i := id(node, number)
	var caches []*Cache
	for _, s := range w.members {
		c := s.Expect(i)
		for _, p := range prepare {
			p(c)
		}
		caches = append(caches, c)
	}
	data, err := AppendOpen(nil, w.now, EndpointInfo{ID: i, Topic: topic, Reader: true, QoS: set})
	w.must(w.apply(node, data, err))
	return caches
}

func (w *world) sample(s Sample) error {
	w.t.Helper()
	if s.Source == 0 {
		s.Source = w.now
	}
	return w.apply(s.Writer.Node, append(AppendSample(nil, w.now, &s), s.Data...), nil)
}

func (w *world) write(by ID, key, data string) {
	w.t.Helper()
	w.must(w.sample(Sample{Writer: by, Key: []byte(key), Data: []byte(data)}))
}

func (w *world) dispose(by ID, key string) {
	w.t.Helper()
	w.must(w.sample(Sample{Writer: by, Operation: Dispose, Key: []byte(key)}))
}

func (w *world) unregister(by ID, key string) {
	w.t.Helper()
	w.must(w.sample(Sample{Writer: by, Operation: Unregister, Key: []byte(key)}))
}

func (w *world) close(i ID) {
	w.t.Helper()
	data, err := AppendClose(nil, w.now, i)
	w.must(w.apply(i.Node, data, err))
}

// roster says that only some nodes are there, in a new view.
func (w *world) roster(nodes ...uint64) {
	w.t.Helper()
	w.view++
	var all []Process
	for _, n := range nodes {
		all = append(all, Process{n, 100 + n})
	}
	data, err := AppendRoster(nil, w.now, w.view, all)
	w.must(w.apply(nodes[0], data, err))
}

// capture captures a state, to be encoded later.
func capture(s *Space) func() ([]byte, error) {
	write := s.Snapshot()
	return func() ([]byte, error) {
		var b bytes.Buffer
		err := write(&b)
		return b.Bytes(), err
	}
}

func restore(s *Space, b []byte) error {
	by, err := ReadState(bytes.NewReader(b))
	if err == nil {
		s.Replace(by)
	}
	return err
}

// agree checks that all members have the same state, and the caches the same samples.
func (w *world) agree(caches ...*Cache) {
	w.t.Helper()
	w.settle()
	first, err := capture(w.members[0])()
	w.must(err)
	for i, s := range w.members[1:] {
		if other, err := capture(s)(); err != nil || !bytes.Equal(first, other) {
			w.t.Fatalf("member %d is in another state (%v)", i+2, err)
		}
	}
	w.equal(caches...)
}

// filled goes on filling caches of one reader, and reports whether they are filled.
func (w *world) filled(steps int, caches ...*Cache) bool {
	more := false
	for i, c := range caches {
		more = w.members[i].Fill(c, steps) || more
	}
	return !more
}

// equal checks that caches of one reader have the same samples.
func (w *world) equal(caches ...*Cache) {
	w.t.Helper()
	for _, c := range caches {
		if a, b := c.text(), caches[0].text(); a != b {
			w.t.Fatalf("the cache of one member is\n%s\nand of another\n%s", a, b)
		}
	}
}

// short is the result of a query as text: key=data, with ! for an instance that was disposed of and
// ? for one without writers.
func short(all []Held) string {
	var parts []string
	for _, h := range all {
		switch {
		case h.Valid:
			parts = append(parts, h.Key+"="+string(h.Data))
		case h.Instance == Disposed:
			parts = append(parts, h.Key+"!")
		default:
			parts = append(parts, h.Key+"?")
		}
	}
	return strings.Join(parts, " ")
}

func (w *world) takes(c *Cache, q Query, want string) []Held {
	w.t.Helper()
	q.Take, q.Now = true, w.now
	got := c.Select(q)
	if short(got) != want {
		w.t.Errorf("took %q, want %q", short(got), want)
	}
	return got
}

var all = qos.Set{History: qos.KeepAll()}
