package rtps_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps"
)

// BenchmarkDdsperf measures how many samples a second reach a reader of a space, from a ddsperf
// that publishes through a gateway, and how many reach a second ddsperf without a gateway. It
// reports both rates and their ratio. The bar is a ratio of 0.3 without a lost sample. Run it with
// -benchtime=1x.
func BenchmarkDdsperf(b *testing.B) {
	const seconds = 4
	for _, size := range []int{100, 10 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			for range b.N {
				direct := ddsperfToDdsperf(b, size, seconds)
				through, lost := ddsperfToSpace(b, size, seconds)
				b.ReportMetric(direct, "direct/s")
				b.ReportMetric(through, "gateway/s")
				b.ReportMetric(through/direct, "ratio")
				b.ReportMetric(float64(lost), "lost")
			}
		})
	}
}

func ddsperfToDdsperf(b *testing.B, size, seconds int) float64 {
	domain := newDomain()
	sub := ddsperf(b, domain, "-D", strconv.Itoa(seconds+1), "sub")
	ddsperf(b, domain, "-D", strconv.Itoa(seconds+2), "pub", "size", strconv.Itoa(size))
	out := sub.wait(b, time.Minute)
	best := 0.0
	for _, m := range regexp.MustCompile(`delta (\d+) lost (\d+)`).FindAllStringSubmatch(out, -1) {
		n, _ := strconv.ParseFloat(m[1], 64)
		best = max(best, n)
		if m[2] != "0" {
			b.Logf("ddsperf lost %s", m[2])
		}
	}
	if best == 0 {
		b.Fatalf("ddsperf received nothing\n%s", out)
	}
	return best
}

func ddsperfToSpace(b *testing.B, size, seconds int) (rate float64, lost int) {
	p, domain := space(b, func(c *member.Config) { c.Subgroup = squall.SubgroupConfig{Name: "space", RingBytes: 4 << 20} }), newDomain()
	r := readerOf(b, keyed(b, p, dataTopic, dds.QoS{}), dds.QoS{History: qos.KeepAll(), Limits: qos.Limits{Samples: 10_000}})
	gateway(b, p, domain, rtps.Topic{Name: dataTopic, Direction: rtps.In})
	ddsperf(b, domain, "-D", strconv.Itoa(seconds+2), "pub", "size", strconv.Itoa(size))
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	next, n := uint32(0), 0
	take := func(all []dds.Sample[keyedSeq]) {
		for i := range all {
			if !all[i].Info.Valid {
				continue
			}
			if n > 0 && all[i].Value.Seq != next {
				lost += int(all[i].Value.Seq - next)
			}
			next = all[i].Value.Seq + 1
			n++
		}
	}
	var begun time.Time
	for begun.IsZero() || time.Since(begun) < time.Duration(seconds)*time.Second {
		s, err := r.Next(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if begun.IsZero() {
			begun = time.Now()
		}
		take([]dds.Sample[keyedSeq]{s})
		more, err := r.Take(dds.Query{})
		if err != nil {
			b.Fatal(err)
		}
		take(more)
	}
	return float64(n) / time.Since(begun).Seconds(), lost
}
