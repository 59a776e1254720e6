package space

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/testutil"
)

// A process can join a space however many instances a topic has: a list in a state is as long as
// its bytes say. The order is not held up when all of them end: what that costs grows as their
// number does, and not as its square.
func TestATopicHasAMillionInstances(t *testing.T) {
	st := state{
		Endpoints: []endpointState{{Info: EndpointInfo{ID: id(1, 1), Topic: "t"}}},
		Topics:    []topicState{{Info: TopicInfo{Name: "t", Type: "T", Keyed: true}, Instances: make([]instanceState, testutil.Seeds(1<<18, 1<<20+1))}},
	}
	all := st.Topics[0].Instances
	keys := make([]byte, 4*len(all))
	for i := range all {
		binary.LittleEndian.PutUint32(keys[4*i:], uint32(i))
		all[i] = instanceState{Key: keys[4*i:][:4], Writers: []registrationState{{Writer: 0, Writes: 1}}}
	}
	var b bytes.Buffer
	if err := st.write(&b, nil, nil); err != nil {
		t.Fatal(err)
	}
	s, err := ReadState(&b)
	if err != nil {
		t.Fatal(err)
	}
	topic := s.byName["t"]
	if n := len(topic.order); n != len(all) || len(topic.instances) != n {
		t.Errorf("the joiner has %d instances of %d", n, len(all))
	}
	data, err := AppendClose(nil, 1, id(1, 1))
	if err == nil {
		err = s.Apply(Record{View: 1, Sender: 1, Data: data})
	}
	if err != nil || len(topic.order) > 0 || len(topic.instances) > 0 {
		t.Errorf("%d instances are left without a writer (%v)", len(topic.order), err)
	}
}

// What taking the ends of instances costs grows as their number does, too.
func TestAReaderTakesTheEndsOfManyInstances(t *testing.T) {
	w := newWorld(t, 1)
	w.topic("t", qos.Set{})
	s, by := w.members[0], w.writer(1, 1, "t", qos.Set{})
	c := w.reader(1, 2, "t", qos.Set{History: qos.KeepAll()})[0]
	instances := testutil.Seeds(1<<18, 1<<19)
	var key [4]byte
	for i := range uint32(instances) {
		binary.LittleEndian.PutUint32(key[:], i)
		c.admit(s, string(key[:]), &kept{position: s.position, writer: s.byID[by], expires: math.MaxInt64}, s.now, false)
	}
	for _, v := range slices.Clone(c.order) {
		c.withoutWriters(v, s.position, s.now)
	}
	taken := c.Select(Query{Take: true, Max: instances + instances/4}) // all samples, and then a quarter of the ends
	if len(taken) != instances+instances/4 || len(c.Instances()) != instances*3/4 {
		t.Errorf("%d samples were taken, and %d instances are left", len(taken), len(c.Instances()))
	}
	taken = c.Select(Query{Take: true})
	if len(taken) != instances*3/4 || len(c.Instances()) > 0 || len(c.order) > 0 {
		t.Errorf("%d samples were taken, and %d instances are left, with memory for %d", len(taken), len(c.Instances()), len(c.order))
	}
}

// A process can join a space in which many writers and many readers match, and all of the writers
// write one instance: what that costs grows with the matches, and not with their square.
func TestAProcessJoinsManyMatches(t *testing.T) {
	const n = 1000
	st := state{Topics: []topicState{{Info: TopicInfo{Name: "t", Type: "T"}, Instances: make([]instanceState, 1)}}}
	both := [2][]int{make([]int, n), make([]int, n)}
	for i := range 2 * n {
		reader := i / n
		both[reader][i%n] = i
		e := endpointState{Info: EndpointInfo{ID: id(1, uint32(i)), Topic: "t", Reader: reader == 1}}
		if reader == 0 {
			e.Info.Origin = &Origin{GUID: [16]byte{byte(i), byte(i >> 8)}}
			st.Origins = append(st.Origins, originState{Origin: *e.Info.Origin})
			st.Topics[0].Instances[0].Writers = append(st.Topics[0].Instances[0].Writers, registrationState{Writer: i, Writes: 1})
		}
		st.Endpoints = append(st.Endpoints, e)
	}
	for i := range st.Endpoints {
		st.Endpoints[i].Matched = both[1-i/n]
	}
	var b bytes.Buffer
	if err := st.write(&b, nil, nil); err != nil {
		t.Fatal(err)
	}
	s, err := ReadState(&b)
	if err != nil {
		t.Fatal(err)
	}
	if matches, _ := s.Matches(id(1, n)); matches != n || len(s.byName["t"].instances[""].writers) != n {
		t.Errorf("a reader matches %d of %d writers", matches, n)
	}
}
