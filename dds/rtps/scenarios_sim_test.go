package rtps_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/filter"
	order "github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
)

// simulated performs a scenario with the states of some members, which apply the same records. Time
// passes in wait only.
type simulated struct {
	t       *testing.T
	members map[int]*order.Space
	nodes   []int // of the members, the oldest first
	view    uint64
	now     int64
	ids     map[string]order.ID
	caches  map[string]*order.Cache
	at      map[string]int // members of readers
	number  uint32
	sets    uint64
}

func newSimulated(t *testing.T) performer {
	return &simulated{
		t: t, members: map[int]*order.Space{1: {}, 2: {}}, nodes: []int{1, 2}, view: 1, now: int64(time.Hour),
		ids: map[string]order.ID{}, caches: map[string]*order.Cache{}, at: map[string]int{},
	}
}

func process(node int) order.Process {
	return order.Process{Node: uint64(node), Incarnation: 100 + uint64(node)}
}

// apply has all members apply a record.
func (s *simulated) apply(node uint64, record []byte, err error) {
	s.t.Helper()
	for _, n := range s.nodes {
		if err == nil {
			err = s.members[n].Apply(order.Record{View: s.view, Sender: node, Data: bytes.Clone(record)})
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// roster has the members apply the record that lists the processes of a new view.
func (s *simulated) roster() {
	s.t.Helper()
	s.view++
	var all []order.Process
	for _, n := range s.nodes {
		all = append(all, process(n))
	}
	record, err := order.AppendRoster(nil, s.now, s.view, all)
	s.apply(uint64(s.nodes[0]), record, err)
}

func (s *simulated) topic(set dds.QoS) {
	s.t.Helper()
	record, err := order.AppendTopic(nil, s.now, order.TopicInfo{Name: "t", Type: "T", Keyed: true, QoS: set})
	s.apply(1, record, err)
}

func (s *simulated) join(node int) {
	s.t.Helper()
	var b bytes.Buffer
	err := s.members[s.nodes[0]].Snapshot()(&b)
	joiner := &order.Space{}
	if err == nil {
		var state *order.Space
		if state, err = order.ReadState(&b); err == nil {
			joiner.Replace(state)
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.members[node], s.nodes = joiner, append(s.nodes, node)
	s.roster()
}

func (s *simulated) end(node int) {
	s.t.Helper()
	delete(s.members, node)
	kept := s.nodes[:0]
	for _, n := range s.nodes {
		if n != node {
			kept = append(kept, n)
		}
	}
	s.nodes = kept
	s.roster()
}

func (s *simulated) open(node int, info order.EndpointInfo) {
	s.t.Helper()
	info.Topic = "t"
	record, err := order.AppendOpen(nil, s.now, info)
	s.apply(uint64(node), record, err)
}

func (s *simulated) id(name string, node int) order.ID {
	s.number++
	s.ids[name] = order.ID{Process: process(node), Number: s.number}
	return s.ids[name]
}

func (s *simulated) writer(name string, node int, set dds.QoS) {
	s.t.Helper()
	s.open(node, order.EndpointInfo{ID: s.id(name, node), QoS: set})
}

func (s *simulated) reader(name string, node int, set dds.QoS, where string) {
	s.t.Helper()
	id := s.id(name, node)
	c := s.members[node].Expect(id)
	if where != "" {
		e, err := filter.Parse(where)
		if err != nil {
			s.t.Fatal(err)
		}
		f, err := filter.Bind[keyedSeq](e)
		if err != nil {
			s.t.Fatal(err)
		}
		c.Filter = func(data []byte) bool {
			v := simValue(data)
			return f(&v)
		}
	}
	s.caches[name], s.at[name] = c, node
	s.open(node, order.EndpointInfo{ID: id, Reader: true, QoS: set})
	for s.members[node].Fill(c, 1) {
	}
}

func (s *simulated) close(name string) {
	s.t.Helper()
	record, err := order.AppendClose(nil, s.now, s.ids[name])
	s.apply(s.ids[name].Node, record, err)
}

func simValue(data []byte) keyedSeq {
	return keyedSeq{Keyval: binary.LittleEndian.Uint32(data), Seq: binary.LittleEndian.Uint32(data[4:])}
}

func (s *simulated) change(name string, o operation, samples ...keyedSeq) {
	s.t.Helper()
	id := s.ids[name]
	set := uint64(0)
	if o == opSet || o == opDrop || o == opBegin {
		s.sets++
		set = s.sets
	}
	what := map[operation]order.Operation{opDispose: order.Dispose, opUnregister: order.Unregister}[o]
	for _, v := range samples {
		key := binary.LittleEndian.AppendUint32(nil, v.Keyval)
		record := order.AppendSample(nil, s.now, &order.Sample{Writer: id, Operation: what, Set: set, Source: s.now, Key: key})
		if what == order.Write {
			record = binary.LittleEndian.AppendUint32(append(record, key...), v.Seq)
		}
		s.apply(id.Node, record, nil)
	}
	if o == opSet || o == opDrop {
		record, err := order.AppendEnd(nil, s.now, id.Process, set, o == opDrop)
		s.apply(id.Node, record, err)
	}
}

// wait lets time pass, in steps after each of which the first member orders what was missed.
func (s *simulated) wait(d time.Duration) {
	s.t.Helper()
	const tick = time.Millisecond
	for end := s.now + int64(d); s.now < end; {
		s.now = min(s.now+int64(tick), end)
		first := s.members[s.nodes[0]]
		for _, l := range first.Lapses(s.now) {
			record, err := order.AppendLapse(nil, s.now, l)
			s.apply(uint64(s.nodes[0]), record, err)
		}
		for _, l := range first.Silences(s.now) {
			record, err := order.AppendSilence(nil, s.now, l)
			s.apply(uint64(s.nodes[0]), record, err)
		}
	}
}

func (s *simulated) matched(name string, n int) {
	s.t.Helper()
	for _, m := range s.nodes {
		if got, ok := s.members[m].Matches(s.ids[name]); got != n || !ok {
			s.t.Fatalf("%s matches %d", name, got)
		}
	}
}

func (s *simulated) refused(writer, reader string) []qos.Verdict {
	s.t.Helper()
	w, _, ok := s.members[s.nodes[0]].Endpoint(s.ids[writer])
	r, _, found := s.members[s.nodes[0]].Endpoint(s.ids[reader])
	if !ok || !found {
		s.t.Fatal(errors.New("an endpoint is not there"))
	}
	return qos.Explain(w.QoS, r.QoS)
}

func (s *simulated) take(name string, _ int) (got []string) {
	for _, h := range s.caches[name].Select(order.Query{Take: true, Now: s.now}) {
		v := keyedSeq{Keyval: binary.LittleEndian.Uint32([]byte(h.Key))}
		if h.Valid {
			v = simValue(h.Data)
		}
		got = append(got, sampleText(v.Keyval, v.Seq, h.Valid, dds.InstanceState(h.Instance)))
	}
	return got
}
