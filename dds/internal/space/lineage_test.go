package space

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/squall-go/squall/dds/qos"
)

// journal is what a member has applied, for spaces that begin with the same records.
type journal struct {
	t       *testing.T
	records []Record
	now     int64
	view    uint64
}

func (j *journal) add(node uint64, data []byte, err error) {
	j.t.Helper()
	if err != nil {
		j.t.Fatal(err)
	}
	j.now++
	j.records = append(j.records, Record{View: j.view, Sender: node, Data: data})
}

func (j *journal) open(number uint32, topic string, reader bool, set qos.Set) ID {
	i := id(1, number)
	data, err := AppendOpen(nil, j.now, EndpointInfo{ID: i, Topic: topic, Reader: reader, QoS: set})
	j.add(1, data, err)
	return i
}

func (j *journal) write(by ID, key string, n int) {
	j.add(1, fmt.Append(AppendSample(nil, j.now, &Sample{Writer: by, Key: []byte(key)}), n), nil)
}

// space is a space that has applied the first n records.
func (j *journal) space(n int, tail int) *Space {
	s := &Space{}
	s.KeepTail(tail)
	for _, r := range j.records[:n] {
		r.Data = bytes.Clone(r.Data)
		if err := s.Apply(r); err != nil {
			j.t.Fatal(err)
		}
	}
	return s
}

// All processes of a group end, and the disks have lost the last records. A client that was told of
// these comes back, when the space has come as far again as the client was, or further: it is told
// that something was lost, and of every sample that took the places of lost ones. Of a space that
// has lost nothing it is told the rest.
func TestAClientThatWasToldOfLostRecordsMissesNoOther(t *testing.T) {
	durable := qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}}
	for _, tail := range []int{1 << 20, 1} { // or only the history has the samples
		for _, again := range []int{0, 1, 3, 10} { // records after the restart
			for _, captured := range []bool{false, true} { // the member has got its state from another one
				t.Run(fmt.Sprintf("tail=%d/again=%d/captured=%v", tail, again, captured), func(t *testing.T) {
					j := &journal{t: t, now: 1e9, view: 4}
					data, err := AppendTopic(nil, j.now, TopicInfo{Name: "t", Type: "T", Keyed: true, QoS: durable})
					j.add(1, data, err)
					w := j.open(1, "t", false, qos.Set{Durability: qos.Transient})
					for n := range 5 {
						j.write(w, "k", n)
					}
					j.view = 5
					for n := range 5 {
						j.write(w, "k", 5+n)
					}
					kept := len(j.records) - 3
					before := j.space(len(j.records), 1<<20)
					at := Resume{Born: before.Born(), Lineage: before.Lineage(), Reached: Reached{Position: before.Position(), Count: 10}}

					lost := *j
					lost.records, lost.view = slices.Clone(j.records[:kept]), 6
					for n := range again {
						lost.write(w, "k", 100+n)
					}
					check := func(j *journal, from Resume, first FedKind, want ...string) {
						t.Helper()
						s := j.space(len(j.records), tail)
						if captured {
							state, err := capture(s)()
							if err == nil {
								err = restore(s, state)
							}
							if err != nil {
								t.Fatal(err)
							}
						}
						f := s.Follow()
						f.Expect(id(1, 9), &Followed{Number: 1}, &from)
						data, err := AppendOpen(nil, j.now, EndpointInfo{ID: id(1, 9), Topic: "t", Reader: true, QoS: qos.Set{Durability: qos.Transient, History: qos.KeepAll()}})
						if err == nil {
							err = s.Apply(Record{View: j.view, Sender: 1, Data: data})
						}
						if err != nil {
							t.Fatal(err)
						}
						var all []Fed
						for more := true; more; {
							all, more = f.Collect(all, 100)
						}
						var got []string
						for _, fed := range all {
							if fed.Kind == FedSample {
								got = append(got, string(fed.Data))
							}
						}
						if (len(all) > 0 && all[0].Kind == FedLost) != (first == FedLost) || !slices.Equal(got, want) {
							t.Errorf("told %q of %+v", got, all)
						}
					}
					var want []string
					for n := range again {
						want = append(want, fmt.Sprint(100+n))
					}
					check(&lost, at, FedLost, want...)
					at.Position, at.Count = uint64(kept), 7 // it was told of no lost record
					check(&lost, at, FedSample, want...)
					more := *j
					more.view = 7
					more.write(w, "k", 10)
					at.Position, at.Count = before.Position(), 10
					check(&more, at, FedSample, "10") // nothing was lost
				})
			}
		}
	}
}
