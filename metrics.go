package squall

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/squall-go/squall/multicast"
	"github.com/squall-go/squall/persist"
)

// Collector makes the group's counters readable for Prometheus. It reads, when it is asked, what the loop counts anyway, so
// that a group costs the same without it. Several groups and members of one process fit into one registry: the labels cluster
// and node tell them apart. After Close it keeps giving the last values.
func (g *Group) Collector() prometheus.Collector {
	labels := prometheus.Labels{"cluster": g.cfg.Cluster, "node": strconv.FormatUint(uint64(g.cfg.ID), 10)}
	c := &collector{group: g}
	for _, m := range groupMetrics {
		c.groupDescs = append(c.groupDescs, prometheus.NewDesc(m.name, m.help, nil, labels))
	}
	for _, m := range subgroupMetrics {
		c.subgroupDescs = append(c.subgroupDescs, prometheus.NewDesc(m.name, m.help, []string{"subgroup"}, labels))
	}
	for _, h := range batchMetrics {
		c.batchDescs = append(c.batchDescs, prometheus.NewDesc(h.name, h.help, []string{"subgroup"}, labels))
	}
	return c
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// groupMetrics are the metrics of a group.
var groupMetrics = []struct {
	name, help string
	kind       prometheus.ValueType
	value      func(*Group) float64
}{
	{"squall_loop_cycles_total", "Turns of the loop.", counter, func(g *Group) float64 { return float64(g.runner.Stats.Cycles.Load()) }},
	{"squall_loop_sleeps_total", "Times the loop slept.", counter, func(g *Group) float64 { return float64(g.runner.Stats.Sleeps.Load()) }},
	{"squall_rejected_connections_total", "Connections of strangers, and of whoever broke the rules, that were rejected.", counter,
		func(g *Group) float64 { return float64(g.Rejected()) }},
	{"squall_view_id", "Number of the membership in force.", gauge, func(g *Group) float64 { return float64(g.View().ID) }},
	{"squall_members", "Members of the view.", gauge, func(g *Group) float64 { return float64(len(g.View().Members)) }},
	{"squall_members_down_total", "Members that were taken for failed here.", counter, func(g *Group) float64 { return float64(g.down.Load()) }},
	{"squall_halted", "1 once the group does nothing any more, 0 while it works.", gauge, (*Group).haltedGauge},
}

func (g *Group) haltedGauge() float64 {
	if g.Err() != nil {
		return 1
	}
	return 0
}

// subgroupMetrics are the metrics of each subgroup that this process is a member of.
var subgroupMetrics = []struct {
	name, help string
	kind       prometheus.ValueType
	value      func(*Subgroup) float64
}{
	{"squall_messages_sent_total", "Messages published here.", counter, count(func(s *multicast.Stats) *multicast.Count { return &s.Sent })},
	{"squall_sent_bytes_total", "Bytes of the messages published here.", counter, count(func(s *multicast.Stats) *multicast.Count { return &s.SentBytes })},
	{"squall_nulls_sent_total", "Nulls sent here, for turns without a message.", counter, count(func(s *multicast.Stats) *multicast.Count { return &s.NullsSent })},
	{"squall_messages_delivered_total", "Messages delivered here.", counter, count(func(s *multicast.Stats) *multicast.Count { return &s.Delivered })},
	{"squall_delivered_bytes_total", "Bytes of the messages delivered here.", counter, count(func(s *multicast.Stats) *multicast.Count { return &s.DeliveredBytes })},
	{"squall_nulls_delivered_total", "Turns without a message passed over here.", counter, count(func(s *multicast.Stats) *multicast.Count { return &s.NullsDelivered })},
	{"squall_large_sent_total", "Large messages published here.", counter, count(func(s *multicast.Stats) *multicast.Count { return &s.LargeSent })},
	{"squall_large_delivered_total", "Large messages delivered here.", counter, count(func(s *multicast.Stats) *multicast.Count { return &s.LargeDelivered })},
	{"squall_large_bytes", "Bytes of large messages of this process that some member has not delivered, of at most LargeMemoryBytes.", gauge,
		func(s *Subgroup) float64 { return float64(s.outbox.LargeBytes()) }},
	{"squall_log_records_total", "Records that the log took since this process began.", counter, ofLog(func(k *shardLog) float64 { return float64(k.log.Appended()) })},
	{"squall_log_durable_records_total", "Those of them that are on this process's disk.", counter, ofLog(func(k *shardLog) float64 {
		records, _ := k.log.Durable()
		return float64(records)
	})},
	{"squall_log_kept_records", "Records that can be read.", gauge, ofLog(func(k *shardLog) float64 { return float64(k.log.Info().Count) })},
	{"squall_log_disk_bytes", "What the log's files take.", gauge, ofLog(func(k *shardLog) float64 { return float64(k.log.Info().DiskBytes) })},
	{"squall_log_settled_timestamp_seconds", "The time up to which the log is complete, and on every member's disk.", gauge,
		ofLog(func(k *shardLog) float64 { return float64(k.recorder.Frontier.Settled()) / 1e9 })},
	{"squall_messages_undelivered", "Messages of this process whose room in the ring is in use.", gauge, func(s *Subgroup) float64 { return float64(s.outbox.Undelivered()) }},
}

// ofLog is a figure of the log of a persistent subgroup, and 0 where there is none.
func ofLog(of func(*shardLog) float64) func(*Subgroup) float64 {
	return func(s *Subgroup) float64 {
		n, ok := s.Shard()
		if s.decl.Mode != Persistent || !ok {
			return 0
		}
		k, err := s.group.durable.keep(persist.LogID{Name: s.decl.Name, Shard: n})
		if err != nil {
			return 0
		}
		return of(k)
	}
}

func count(of func(*multicast.Stats) *multicast.Count) func(*Subgroup) float64 {
	return func(s *Subgroup) float64 { return float64(of(s.Stats()).Load()) }
}

// batchMetrics are the histograms of each subgroup, one per stage.
var batchMetrics = []struct {
	name, help string
	histogram  func(*multicast.Stats) *multicast.Histogram
}{
	{"squall_send_batch_messages", "Messages published at once.", func(s *multicast.Stats) *multicast.Histogram { return &s.SendBatch }},
	{"squall_receive_batch_messages", "Messages and nulls of one sender received at once.", func(s *multicast.Stats) *multicast.Histogram { return &s.ReceiveBatch }},
	{"squall_deliver_batch_messages", "Messages delivered at once.", func(s *multicast.Stats) *multicast.Histogram { return &s.DeliverBatch }},
}

// collector implements prometheus.Collector. It touches no row of the table: those are unmapped when the group closes, and
// the counters are not.
type collector struct {
	group                                 *Group
	groupDescs, subgroupDescs, batchDescs []*prometheus.Desc // by place in the tables above
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, descs := range [][]*prometheus.Desc{c.groupDescs, c.subgroupDescs, c.batchDescs} {
		for _, d := range descs {
			to <- d
		}
	}
}

// Collect implements prometheus.Collector. Any goroutine.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for i, m := range groupMetrics {
		to <- prometheus.MustNewConstMetric(c.groupDescs[i], m.kind, m.value(c.group))
	}
	for _, s := range c.group.subs {
		for i, m := range subgroupMetrics {
			to <- prometheus.MustNewConstMetric(c.subgroupDescs[i], m.kind, m.value(s), s.Name())
		}
		for i, m := range batchMetrics {
			count, sum, buckets := cumulative(m.histogram(s.Stats()))
			to <- prometheus.MustNewConstHistogram(c.batchDescs[i], count, sum, buckets, s.Name())
		}
	}
}

// cumulative is a histogram the way Prometheus wants it: how many batches were at most so large. The count is the sum of the buckets,
// because the loop may add a batch between two looks. The last bucket has no bound of its own.
func cumulative(h *multicast.Histogram) (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = map[float64]uint64{}
	for k := range h.Buckets {
		count += h.Buckets[k].Load()
		if k < len(h.Buckets)-1 {
			buckets[float64(uint64(1)<<k)] = count
		}
	}
	return count, float64(h.Sum.Load()), buckets
}
