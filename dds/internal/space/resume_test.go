package space

import (
	"fmt"
	"slices"
	"testing"

	"github.com/squall-go/squall/dds/qos"
)

// What a TRANSIENT_LOCAL writer of a client wrote through one relay stays when the client goes to
// another one, and ends with the writer.
func TestAHistoryStaysWithTheWriterOfAnOrigin(t *testing.T) {
	w := newWorld(t, 2)
	local := qos.Set{Durability: qos.TransientLocal, History: qos.KeepAll()}
	w.topic("t", qos.Set{Durability: qos.TransientLocal, Service: qos.DurabilityService{History: qos.KeepAll()}})
	o := Origin{Side: "client", GUID: [16]byte{1}}
	open := func(node uint64) ID {
		data, err := AppendOpen(nil, w.now, EndpointInfo{ID: id(node, 1), Topic: "t", Origin: &o, QoS: local})
		w.must(w.apply(node, data, err))
		return id(node, 1)
	}
	first := open(1)
	w.must(w.sample(Sample{Writer: first, Sequence: 1, Key: []byte("k"), Data: []byte("1")}))
	second := open(2)
	data, err := AppendGone(nil, w.now, first)
	w.must(w.apply(1, data, err))
	w.must(w.sample(Sample{Writer: second, Sequence: 2, Key: []byte("k"), Data: []byte("2")}))
	caches := w.reader(3, 1, "t", local)
	w.agree(caches...)
	w.takes(caches[0], Query{}, "k=1 k=2")
	w.close(second)
	late := w.reader(3, 2, "t", local)
	w.takes(late[0], Query{}, "")
}

// follow has a member follow a reader from a position, and returns what it is told then.
func (w *world) follow(number uint32, from *Resume, set qos.Set) (*Follower, []Fed) {
	w.t.Helper()
	f := w.members[0].Follow()
	f.Expect(id(1, number), &Followed{Number: number}, from)
	data, err := AppendOpen(nil, w.now, EndpointInfo{ID: id(1, number), Topic: "t", Reader: true, QoS: set})
	w.must(w.apply(1, data, err))
	all, more := f.Collect(nil, 1<<20)
	for more {
		all, more = f.Collect(all, 1<<20)
	}
	return f, all
}

// A reader that was told of more than the space has, which lost the end of its log, is told so and
// goes on with what comes.
func TestAReaderThatIsAheadOfItsSpaceGoesOn(t *testing.T) {
	w := newWorld(t, 1)
	w.members[0].KeepTail(1 << 20)
	w.topic("t", qos.Set{})
	by := w.writer(1, 1, "t", qos.Set{})
	w.write(by, "a", "1")
	s := w.members[0]
	f, all := w.follow(2, &Resume{Born: s.Born(), Reached: Reached{Position: s.Position() + 100, Count: 50}}, qos.Set{})
	if len(all) == 0 || all[0].Kind != FedLost {
		t.Errorf("told %+v", all)
	}
	w.write(by, "a", "2")
	all, _ = f.Collect(nil, 1<<20)
	if len(all) != 1 || string(all[0].Data) != "2" {
		t.Errorf("told %+v", all)
	}
}

// A reader of a topic that was removed and declared again meanwhile has none of its instances, and
// all of the new history.
func TestAReaderOfATopicThatWasDeclaredAgainBeginsAnew(t *testing.T) {
	set := qos.Set{Durability: qos.Transient}
	service := qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}}
	for _, joined := range []bool{false, true} {
		t.Run(fmt.Sprintf("joined=%v", joined), func(t *testing.T) {
			w := newWorld(t, 1)
			w.members[0].KeepTail(1 << 20)
			w.topic("t", service)
			by := w.writer(1, 1, "t", set)
			for range 5 {
				w.write(by, "old", "0")
			}
			s := w.members[0]
			at := &Resume{Born: s.Born(), Reached: Reached{Position: s.Position(), Count: 5}}
			w.close(by)
			data, err := AppendForget(nil, w.now, "t")
			w.must(w.apply(1, data, err))
			w.topic("t", service)
			by = w.writer(1, 2, "t", set)
			w.write(by, "new", "1")
			if joined {
				state, err := capture(s)()
				w.must(err)
				w.must(restore(s, state))
			}
			_, all := w.follow(3, at, set)
			var got []string
			for _, f := range all {
				got = append(got, fmt.Sprint(f.Kind, f.Key, string(f.Data)))
			}
			want := []string{"3", "0new1", "4new", "5"} // lost, the sample, the instance with a writer, no other one
			if !slices.Equal(got, want) {
				t.Errorf("told %q in place of %q", got, want)
			}
		})
	}
}
