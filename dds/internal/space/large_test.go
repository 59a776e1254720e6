package space

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// A process can join a space however many instances a topic has: a list in a state is as long as its bytes say. The order is not held up when all of them end: what that
// costs grows as their number does, and not as its square.
func TestATopicHasAMillionInstances(t *testing.T) {
	st := state{
		Endpoints: []endpointState{{Info: EndpointInfo{ID: id(1, 1), Topic: "t"}}},
		Topics:    []topicState{{Info: TopicInfo{Name: "t", Type: "T", Keyed: true}, Instances: make([]instanceState, 1<<20+1)}},
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
