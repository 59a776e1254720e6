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
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			all := open(b, 2, nil)
			var readers sync.WaitGroup
			var w *dds.Writer[[]byte]
			for i, p := range all {
				tp, err := dds.NewTopic(b.Context(), p, "raw", dds.Raw(), dds.QoS{})
				if err != nil {
					b.Fatal(err)
				}
				r, err := tp.Reader(b.Context(), dds.QoS{History: qos.KeepAll(), Limits: qos.Limits{Samples: 10_000}})
				if err != nil {
					b.Fatal(err)
				}
				if i == 0 {
					if w, err = tp.Writer(b.Context(), dds.QoS{}); err != nil {
						b.Fatal(err)
					}
				}
				readers.Go(func() {
					for n := 0; n < b.N; {
						if _, err := r.Next(b.Context()); err != nil {
							b.Error(err)
							return
						}
						n++
						more, err := r.Take(dds.Query{})
						if err != nil {
							b.Error(err)
							return
						}
						n += len(more)
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
		})
	}
}
