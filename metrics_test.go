package squall_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/squallprom"
)

// sample is what a collector says: the value of a counter or a gauge, or a histogram.
type sample struct {
	value, sum float64
	count      uint64
	bounds     []float64 // of the buckets
	upTo       []uint64  // per bucket, what it and those before it have
}

// scrape reads everything that collectors have, by name and the labels that tell metrics of one
// name apart.
func scrape(t testing.TB, collectors ...prometheus.Collector) map[string]sample {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]sample{}
	for _, f := range families {
		for _, m := range f.Metric {
			key := f.GetName()
			for _, l := range m.Label {
				if l.GetName() != "cluster" {
					key += " " + l.GetValue()
				}
			}
			h := m.GetHistogram()
			s := sample{value: m.GetCounter().GetValue() + m.GetGauge().GetValue(), sum: h.GetSampleSum(), count: h.GetSampleCount()}
			for _, b := range h.GetBucket() {
				s.bounds, s.upTo = append(s.bounds, b.GetUpperBound()), append(s.upTo, b.GetCumulativeCount())
			}
			all[key] = s
		}
	}
	return all
}

func TestMetricsTellWhatWasSentAndDelivered(t *testing.T) {
	const each = 100
	var delivered [2]atomic.Int64
	groups := cluster(t, 2, func(i int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{
			{Name: "a", Deliver: func(squall.Message) { delivered[i].Add(1) }},
			{Name: "of one", Members: []squall.NodeID{1}, Deliver: func(squall.Message) {}},
		}
	})
	for range each {
		send(t, must(groups[0].Subgroup("a")), "ten bytes.")
	}
	eventually(t, "deliveries", func() bool { return delivered[0].Load() == each && delivered[1].Load() == each })
	eventually(t, "the room of all messages is free", func() bool {
		return scrape(t, squallprom.NewCollector(groups[0]))["squall_messages_undelivered 1 a"].value == 0
	})
	knock(t, groups[0])
	got := scrape(t, squallprom.NewCollector(groups[0]), squallprom.NewCollector(groups[1]))
	for name, want := range map[string]float64{
		"squall_messages_sent_total 1 a":      each,
		"squall_sent_bytes_total 1 a":         10 * each,
		"squall_messages_sent_total 2 a":      0,
		"squall_messages_delivered_total 1 a": each,
		"squall_messages_delivered_total 2 a": each,
		"squall_delivered_bytes_total 2 a":    10 * each,
		"squall_nulls_sent_total 1 a":         0,
		"squall_members 1":                    2,
		"squall_members_down_total 1":         0,
		"squall_view_id 2":                    float64(groups[1].View().ID),
		"squall_rejected_connections_total 1": float64(groups[0].Stats().RejectedConnections),
		"squall_halted 1":                     0,
		"squall_messages_sent_total 1 of one": 0,
		"squall_messages_sent_total 2 of one": 0, // there too: it may come into it with any view
	} {
		if s, ok := got[name]; !ok || s.value != want {
			t.Errorf("%s is %v (%v), not %v", name, s.value, ok, want)
		}
	}
	// How many nulls node 2 sends depends on when it declares itself silent; its turns are passed
	// over either way.
	if sent, passed := got["squall_nulls_sent_total 2 a"].value, got["squall_nulls_delivered_total 1 a"].value; sent == 0 || passed < each-1 {
		t.Errorf("node 2 sent %v nulls and node 1 passed over %v, in %d turns", sent, passed, each)
	}
	if got["squall_loop_cycles_total 1"].value == 0 {
		t.Error("no cycles")
	}
	for name, want := range map[string]float64{"send_batch": each, "deliver_batch": each} {
		h := got[fmt.Sprintf("squall_%s_messages 1 a", name)]
		if h.sum != want || h.count == 0 || h.count > each {
			t.Errorf("%s: %+v", name, h)
		}
		if len(h.bounds) < 2 || h.bounds[0] != 1 || h.bounds[1] != 2 || h.upTo[len(h.upTo)-1] != h.count {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

// knock has a stranger rejected by a member.
func knock(t testing.TB, g *squall.Group) {
	t.Helper()
	before := g.Stats().RejectedConnections
	conn, err := net.Dial("tcp", g.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\n\r\n")
	eventually(t, "a rejection", func() bool { return g.Stats().RejectedConnections > before })
}

func TestMetricsFollowTheConventions(t *testing.T) {
	groups := cluster(t, 1, func(_ int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}}
	})
	problems, err := testutil.CollectAndLint(squallprom.NewCollector(groups[0]))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestMetricsFollowTheViewsAndStayAfterTheGroupHasClosed(t *testing.T) {
	for _, fabric := range fabrics {
		groups := cluster(t, 3, func(_ int, c *squall.Config) {
			c.Fabric = fabric
			c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}}
		})
		send(t, must(groups[0].Subgroup("a")), "x")
		if err := groups[0].Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		v := awaitView(t, 2, groups[1:]...)
		senior, junior := groups[v.Members[0].ID-1], groups[v.Members[1].ID-1]
		senior.ReportFailure(junior.ID())
		<-junior.Done()
		awaitView(t, 1, senior)
		for name, want := range map[string]float64{
			"squall_halted 1": 1, "squall_members_down_total 1": 0, "squall_messages_sent_total 1 a": 1,
			metric("squall_halted", senior): 0, metric("squall_members_down_total", senior): 1, metric("squall_members", senior): 1,
			metric("squall_view_id", senior): 3, metric("squall_halted", junior): 1,
		} {
			if got := scrape(t, squallprom.NewCollector(groups[0]), squallprom.NewCollector(groups[1]), squallprom.NewCollector(groups[2]))[name].value; got != want {
				t.Errorf("%v: %s is %v, not %v", fabric, name, got, want)
			}
		}
		senior.Close(context.Background())
		scrape(t, squallprom.NewCollector(groups[0]), squallprom.NewCollector(groups[1]))
	}
}

// metric is one of a group's, as scrape names them.
func metric(name string, g *squall.Group) string { return fmt.Sprintf("%s %d", name, g.ID()) }
