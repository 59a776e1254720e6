package space

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/squall-go/squall/dds/qos"
)

// What a joiner costs by the length of the history: capturing, and opening a reader, hold up the loop of every member; writing, reading and filling do not.
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
	var write func(io.Writer) error
	b.Run("capture", func(b *testing.B) {
		for b.Loop() {
			write = s.Snapshot()
		}
	})
	var state bytes.Buffer
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			state.Reset()
			if err := write(&state); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(state.Len())/samples, "B/sample")
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if _, err := ReadState(bytes.NewReader(state.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
	})
	number := uint32(1)
	open := func() *Cache {
		number++
		c := s.Expect(id(1, number))
		must(AppendOpen(nil, now, EndpointInfo{ID: id(1, number), Topic: "t", Reader: true, QoS: qos.Set{Durability: qos.Transient, History: qos.KeepAll()}}))
		return c
	}
	shut := func() {
		s.Detach(id(1, number))
		must(AppendClose(nil, now, id(1, number)))
	}
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			open()
			shut()
		}
	})
	b.Run("fill", func(b *testing.B) {
		for b.Loop() {
			c := open()
			for s.Fill(c, fillPiece) {
			}
			if c.Held() != samples {
				b.Fatal(fmt.Errorf("%d samples", c.Held()))
			}
			shut()
		}
	})
}
