package space

import (
	"bytes"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
)

// A record about an endpoint or a set of another process changes nothing: the space is as it is
// after a record that says nothing.
func TestARecordAboutAnotherProcessHasNoEffect(t *testing.T) {
	const owner, other = 1, 2
	set := qos.Set{Presentation: qos.Presentation{Coherent: true}, Liveliness: qos.Liveliness{Kind: qos.ManualByTopic, Lease: time.Minute}}
	var plain, stands, reader ID
	build := func() *world {
		w := newWorld(t, 1)
		w.topic("t", qos.Set{})
		plain = w.writer(owner, 1, "t", set)
		stands = w.stand(owner, 2, Origin{Side: "dds", GUID: [16]byte{1}})
		reader = id(owner, 3)
		w.reader(owner, 3, "t", qos.Set{})
		w.write(plain, "k", "1")
		w.must(w.sample(Sample{Writer: stands, Sequence: 7, Key: []byte("k"), Data: []byte("2")}))
		w.must(w.sample(Sample{Writer: plain, Set: 5, Key: []byte("k"), Data: []byte("3")}))
		w.now += int64(time.Second)
		return w
	}
	w := build()
	after := func(w *world, data []byte) []byte {
		told := len(w.events)
		if err := w.apply(other, data, nil); err == nil {
			t.Error("there is no error")
		}
		if len(w.events) > told {
			t.Errorf("it told %+v", w.events[told:])
		}
		state, err := capture(w.members[0])()
		w.must(err)
		return state
	}
	nothing := after(w, head(nil, 99, w.now))
	forged := func(data []byte, err error) []byte {
		w.must(err)
		return data
	}
	changed := set
	changed.Strength = 7
	for what, record := range map[string][]byte{
		"an endpoint":                      forged(AppendOpen(nil, w.now, EndpointInfo{ID: id(owner, 9), Topic: "t"})),
		"other policies":                   forged(AppendChange(nil, w.now, plain, changed)),
		"the end of a writer":              forged(AppendClose(nil, w.now, plain)),
		"the end of a reader":              forged(AppendClose(nil, w.now, reader)),
		"the end of a process":             forged(AppendGone(nil, w.now, plain)),
		"the end of an origin":             forged(AppendOriginEnd(nil, w.now, stands)),
		"the end of what has no origin":    forged(AppendOriginEnd(nil, w.now, plain)),
		"an assertion":                     forged(AppendAssert(nil, w.now, plain)),
		"the end of a set":                 forged(AppendEnd(nil, w.now, plain.Process, 5, false)),
		"the end of a set that is dropped": forged(AppendEnd(nil, w.now, plain.Process, 5, true)),
	} {
		t.Run(what, func(t *testing.T) {
			if !bytes.Equal(after(build(), record), nothing) {
				t.Error("the state has changed")
			}
		})
	}
}
