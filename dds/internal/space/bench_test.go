package space

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/squall-go/squall/dds/qos"
)

// What a joiner costs by the length of the history: capturing, and opening a reader, hold up the
// loop of every member; writing, reading and filling do not.
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
	must(AppendTopic(nil, now, TopicInfo{Name: "t", Type: "T", QoS: qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}}}))
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

// What a member spends on a sample of a volatile topic: a listener hears it, or no reader of this
// process is there.
func BenchmarkTryApply(b *testing.B) {
	for _, heard := range []bool{false, true} {
		b.Run(fmt.Sprintf("heard=%t", heard), func(b *testing.B) {
			s := &Space{}
			must := func(data []byte, err error) {
				if err == nil {
					err = s.Apply(Record{View: 1, Sender: 1, Data: data})
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			must(AppendTopic(nil, 1, TopicInfo{Name: "t", Type: "T"}))
			must(AppendOpen(nil, 1, EndpointInfo{ID: id(1, 1), Topic: "t"}))
			n := 0
			if heard {
				s.Expect(id(1, 2)).Listener = func(*Held) { n++ }
				must(AppendOpen(nil, 1, EndpointInfo{ID: id(1, 2), Topic: "t", Reader: true}))
			}
			data := append(AppendSample(nil, 1, &Sample{Writer: id(1, 1), Source: 1}), make([]byte, 100)...)
			var r Record
			for b.Loop() {
				r.View, r.Sender, r.Data = 1, 1, data
				if applied, err := s.TryApply(&r); !applied || err != nil {
					b.Fatal(applied, err)
				}
			}
			if heard && n == 0 {
				b.Fatal("nothing was heard")
			}
		})
	}
}
