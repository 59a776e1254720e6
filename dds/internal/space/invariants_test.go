package space

import (
	"bufio"
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
)

// A state from another process in which something is not as the invariants say is refused.
func TestAStateThatContradictsItselfIsRefused(t *testing.T) {
	w := newWorld(t, 1)
	w.topic("t", qos.Set{})
	writer := w.writer(1, 1, "t", qos.Set{})
	w.reader(2, 2, "t", qos.Set{})
	w.write(writer, "k", "1")
	b, err := capture(w.members[0])()
	w.must(err)
	first, err := readPiece(bufio.NewReader(bytes.NewReader(b)))
	w.must(err)
	for name, spoil := range map[string]func(*state){
		"":                                 func(*state) {},
		"a topic is there twice":           func(s *state) { s.Topics = append(s.Topics, s.Topics[0]) },
		"a writer is there twice":          func(s *state) { s.Endpoints = append(s.Endpoints, s.Endpoints[0]) },
		"a writer matches itself":          func(s *state) { s.Endpoints[0].Matched = []int{0} },
		"a match of a writer alone":        func(s *state) { s.Endpoints[1].Matched = nil },
		"a match of a reader alone":        func(s *state) { s.Endpoints[0].Matched = nil },
		"a match is there twice":           func(s *state) { s.Endpoints[0].Matched, s.Endpoints[1].Matched = []int{1, 1}, []int{0, 0} },
		"an instance is there twice":       func(s *state) { s.Topics[0].Instances = append(s.Topics[0].Instances, s.Topics[0].Instances[0]) },
		"a reader is registered":           func(s *state) { s.Topics[0].Instances[0].Writers[0].Writer = 1 },
		"a writer is registered twice":     func(s *state) { r := &s.Topics[0].Instances[0].Writers; *r = append(*r, (*r)[0]) },
		"a set has a sample of a reader":   func(s *state) { s.Sets = []setState{{Pending: []pendingState{{Writer: 1}}}} },
		"two origins have one name":        func(s *state) { s.Origins = make([]originState, 2) },
		"a reader stands for an origin":    func(s *state) { s.Origins, s.Endpoints[1].Info.Origin = make([]originState, 1), &Origin{} },
		"an instance of another topic":     func(s *state) { s.Topics[0].Info.Keyed = false },
		"a registered writer was closed":   func(s *state) { s.Endpoints[0].Closed = true },
		"an endpoint's topic is not there": func(s *state) { s.Topics = nil },
	} {
		var st state
		w.must(decodingState.Unmarshal(first, &st))
		spoil(&st)
		var out bytes.Buffer
		w.must(st.write(&out, nil, nil))
		if _, err := ReadState(&out); errors.Is(err, ErrMalformed) != (name != "") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A writer whose lease ends within a coherent set of it is alive again when the set takes effect.
func TestASetThatTakesEffectAssertsItsWriters(t *testing.T) {
	w := newWorld(t, 2)
	w.topic("t", qos.Set{Ownership: qos.Exclusive})
	set := manual(qos.ManualByTopic, 1)
	set.Presentation = qos.Presentation{Access: qos.TopicScope, Coherent: true}
	writer := w.writer(1, 1, "t", set)
	w.must(w.sample(Sample{Writer: writer, Set: 1, Key: []byte("k"), Data: []byte("1")}))
	w.pass(2 * time.Second)
	if got := w.liveliness(); len(got) != 1 {
		t.Fatalf("told: %q", got)
	}
	data, err := AppendEnd(nil, w.now, writer.Process, 1, false)
	w.must(w.apply(1, data, err))
	if all := w.members[0].Silences(w.now + int64(1500*time.Millisecond)); len(all) != 1 {
		t.Errorf("a writer with an instance is not asked for: %v", all)
	}
	for _, s := range w.members {
		if id, what := s.broken(); id != "" {
			t.Errorf("%s: %s", id, what)
		}
	}
	w.agree()
}
