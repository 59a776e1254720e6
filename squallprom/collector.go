// Package squallprom exports the statistics of a Squall group to Prometheus.
package squallprom

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/squall-go/squall"
)

// NewCollector returns a collector for a group. It reads, when it is asked, what the group counts
// anyway. One registry can hold the collectors of several groups, and of several members in one
// process: their labels cluster and node differ. After the group has closed the collector keeps the
// last values.
func NewCollector(g *squall.Group) prometheus.Collector {
	labels := prometheus.Labels{"cluster": g.View().Cluster, "node": strconv.FormatUint(uint64(g.ID()), 10)}
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
	value      func(*squall.Group, *squall.GroupStats) float64
}{
	{"squall_loop_cycles_total", "Turns of the loop.", counter,
		func(_ *squall.Group, s *squall.GroupStats) float64 { return float64(s.Cycles) }},
	{"squall_loop_sleeps_total", "Times the loop slept.", counter,
		func(_ *squall.Group, s *squall.GroupStats) float64 { return float64(s.Sleeps) }},
	{"squall_rejected_connections_total", "Connections of strangers, and of peers that broke the rules, that were rejected.", counter,
		func(_ *squall.Group, s *squall.GroupStats) float64 { return float64(s.RejectedConnections) }},
	{"squall_view_id", "Number of the membership in force.", gauge,
		func(g *squall.Group, _ *squall.GroupStats) float64 { return float64(g.View().ID) }},
	{"squall_members", "Members of the view.", gauge,
		func(g *squall.Group, _ *squall.GroupStats) float64 { return float64(len(g.View().Members)) }},
	{"squall_members_down_total", "Members that were suspected here.", counter,
		func(_ *squall.Group, s *squall.GroupStats) float64 { return float64(s.MembersDown) }},
	{"squall_halted", "1 once the group has halted here, 0 while it works.", gauge, halted},
}

func halted(g *squall.Group, _ *squall.GroupStats) float64 {
	if g.Err() != nil {
		return 1
	}
	return 0
}

// subgroupMetrics are the metrics of each subgroup that is declared.
var subgroupMetrics = []struct {
	name, help string
	kind       prometheus.ValueType
	value      func(*squall.SubgroupStats) float64
}{
	{"squall_messages_sent_total", "Messages published here.", counter, func(s *squall.SubgroupStats) float64 { return float64(s.Sent) }},
	{"squall_sent_bytes_total", "Bytes of the messages published here.", counter, func(s *squall.SubgroupStats) float64 { return float64(s.SentBytes) }},
	{"squall_nulls_sent_total", "Nulls sent here, for turns without a message.", counter, func(s *squall.SubgroupStats) float64 { return float64(s.NullsSent) }},
	{"squall_messages_delivered_total", "Messages delivered here.", counter, func(s *squall.SubgroupStats) float64 { return float64(s.Delivered) }},
	{"squall_delivered_bytes_total", "Bytes of the messages delivered here.", counter,
		func(s *squall.SubgroupStats) float64 { return float64(s.DeliveredBytes) }},
	{"squall_nulls_delivered_total", "Turns without a message passed over here.", counter,
		func(s *squall.SubgroupStats) float64 { return float64(s.NullsDelivered) }},
	{"squall_large_sent_total", "Large messages published here.", counter, func(s *squall.SubgroupStats) float64 { return float64(s.LargeSent) }},
	{"squall_large_delivered_total", "Large messages delivered here.", counter,
		func(s *squall.SubgroupStats) float64 { return float64(s.LargeDelivered) }},
	{"squall_large_bytes", "Bytes of large messages of this process that some member has not delivered, of at most LargeMemoryBytes.", gauge,
		func(s *squall.SubgroupStats) float64 { return float64(s.LargeBytes) }},
	{"squall_log_records_total", "Records that the log took since this process began.", counter,
		func(s *squall.SubgroupStats) float64 { return float64(s.Log.Records) }},
	{"squall_log_durable_records_total", "Records that the log took since this process began and that are on this process's disk.", counter,
		func(s *squall.SubgroupStats) float64 { return float64(s.Log.DurableRecords) }},
	{"squall_log_kept_records", "Records that can be read.", gauge, func(s *squall.SubgroupStats) float64 { return float64(s.Log.KeptRecords) }},
	{"squall_log_disk_bytes", "Size of the log's files.", gauge, func(s *squall.SubgroupStats) float64 { return float64(s.Log.DiskBytes) }},
	{"squall_log_settled_timestamp_seconds", "The time up to which the log is complete, and on every member's disk.", gauge,
		func(s *squall.SubgroupStats) float64 { return float64(s.Log.Settled) / 1e9 }},
	{"squall_messages_undelivered", "Messages of this process whose space in the ring is in use.", gauge,
		func(s *squall.SubgroupStats) float64 { return float64(s.Undelivered) }},
}

// batchMetrics are the histograms of each subgroup, one per stage.
var batchMetrics = []struct {
	name, help string
	histogram  func(*squall.SubgroupStats) *squall.Histogram
}{
	{"squall_send_batch_messages", "Messages published at once.", func(s *squall.SubgroupStats) *squall.Histogram { return &s.SendBatch }},
	{"squall_receive_batch_messages", "Messages and nulls of one sender received at once.",
		func(s *squall.SubgroupStats) *squall.Histogram { return &s.ReceiveBatch }},
	{"squall_deliver_batch_messages", "Messages delivered at once.", func(s *squall.SubgroupStats) *squall.Histogram { return &s.DeliverBatch }},
}

// collector implements prometheus.Collector.
type collector struct {
	group                                 *squall.Group
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
	group := c.group.Stats()
	for i, m := range groupMetrics {
		to <- prometheus.MustNewConstMetric(c.groupDescs[i], m.kind, m.value(c.group, &group))
	}
	for _, s := range c.group.Subgroups() {
		stats := s.Stats()
		for i, m := range subgroupMetrics {
			to <- prometheus.MustNewConstMetric(c.subgroupDescs[i], m.kind, m.value(&stats), s.Name())
		}
		for i, m := range batchMetrics {
			count, sum, buckets := cumulative(m.histogram(&stats))
			to <- prometheus.MustNewConstHistogram(c.batchDescs[i], count, sum, buckets, s.Name())
		}
	}
}

// cumulative returns a histogram in the form of Prometheus: how many batches had at most each size.
// The count is the sum of the buckets, because the loop may count a batch between two reads. The
// last bucket has no bound.
func cumulative(h *squall.Histogram) (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = map[float64]uint64{}
	for k, n := range h.Buckets {
		count += n
		if k < len(h.Buckets)-1 {
			buckets[float64(uint64(1)<<k)] = count
		}
	}
	return count, float64(h.Sum), buckets
}
