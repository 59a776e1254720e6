package dds_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/qos"
)

// One member writes raw samples, and readers at two members take them.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{100, 10 << 10} {
		b.Run(fmt.Sprintf("size=%d/take", size), func(b *testing.B) { stream(b, size, false) })
		b.Run(fmt.Sprintf("size=%d/listen", size), func(b *testing.B) { stream(b, size, true) })
	}
}

func stream(b *testing.B, size int, listen bool) {
	all := open(b, 2, nil)
	var readers sync.WaitGroup
	var w *dds.Writer[[]byte]
	for i, p := range all {
		tp, err := dds.NewTopic(b.Context(), p, "raw", dds.Raw(), dds.QoS{})
		if err != nil {
			b.Fatal(err)
		}
		if i == 0 {
			if w, err = tp.Writer(b.Context(), dds.QoS{}); err != nil {
				b.Fatal(err)
			}
		}
		set := dds.QoS{History: qos.KeepAll(), Limits: qos.Limits{Samples: 10_000}}
		if listen {
			readers.Add(1)
			heard := 0
			_, err = tp.Reader(b.Context(), set, dds.Listen(func(_ *dds.Sample[[]byte], err error) {
				if err != nil {
					b.Error(err)
				}
				if heard++; heard == b.N {
					readers.Done()
				}
			}))
			if err != nil {
				b.Fatal(err)
			}
			continue
		}
		r, err := tp.Reader(b.Context(), set)
		if err != nil {
			b.Fatal(err)
		}
		readers.Go(func() {
			var samples []dds.Sample[[]byte]
			for n := 0; n < b.N; n += len(samples) {
				s, err := r.Next(b.Context())
				if err == nil {
					samples, err = r.AppendTake(append(samples[:0], s), dds.Query{})
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	sample := make([]byte, size)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if err := w.Write(b.Context(), sample); err != nil {
			b.Fatal(err)
		}
	}
	readers.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "samples/s")
}
