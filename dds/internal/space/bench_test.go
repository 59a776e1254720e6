package space

import (
	"fmt"
	"testing"

	"github.com/squall-go/squall/dds/qos"
)

// What a joiner costs by the length of the history: capturing holds up the loop of every member, encoding and restoring do not.
func BenchmarkStateOfALongHistory(b *testing.B) {
	const samples = 1_000_000
	s := &Space{}
	now := int64(1)
	must := func(data []byte, err error) {
		if err == nil {
			err = s.Apply(Record{View: 1, Sender: 1, Data: data})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	must(AppendTopic(nil, now, TopicInfo{Name: "t", Type: "T", QoS: qos.Set{Durability: qos.Transient, Service: qos.Service{History: qos.KeepAll()}}}))
	by := id(1, 1)
	must(AppendOpen(nil, now, EndpointInfo{ID: by, Topic: "t", QoS: qos.Set{Durability: qos.Transient}}))
	record := append(AppendSample(nil, now, &Sample{Writer: by, Source: now}), make([]byte, 100)...)
	for range samples {
		must(record, nil)
	}
	var encode func() ([]byte, error)
	b.Run("capture", func(b *testing.B) {
		for b.Loop() {
			encode = s.Snapshot()
		}
	})
	var state []byte
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			var err error
			if state, err = encode(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(state))/samples, "B/sample")
	})
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			if err := new(Space).Restore(state); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("open", func(b *testing.B) {
		for n := uint32(2); b.Loop(); n++ {
			reader := id(1, n)
			c := s.Expect(reader)
			must(AppendOpen(nil, now, EndpointInfo{ID: reader, Topic: "t", Reader: true, QoS: qos.Set{Durability: qos.Transient, History: qos.KeepAll()}}))
			if c.Held() != samples {
				b.Fatal(fmt.Errorf("%d samples", c.Held()))
			}
			must(AppendClose(nil, now, reader))
		}
	})
}
