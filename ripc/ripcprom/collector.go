// Package ripcprom exports the statistics of an endpoint to Prometheus.
package ripcprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/squall-go/squall/ripc"
)

// NewCollector returns a collector for an endpoint, which has the label endpoint with the given
// name. It reads, when it is asked, what the endpoint counts anyway.
func NewCollector(e *ripc.Endpoint, name string) prometheus.Collector {
	c := &collector{endpoint: e}
	for _, m := range metrics {
		c.descs = append(c.descs, prometheus.NewDesc(m.name, m.help, nil, prometheus.Labels{"endpoint": name}))
	}
	return c
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// metrics are the metrics of an endpoint.
var metrics = []struct {
	name, help string
	kind       prometheus.ValueType
	value      func(*ripc.Stats) float64
}{
	{"squall_ripc_frames_sent_total", "Messages, requests, replies and notices sent.", counter, func(s *ripc.Stats) float64 { return float64(s.FramesSent) }},
	{"squall_ripc_sent_bytes_total", "Bytes of them in the rings.", counter, func(s *ripc.Stats) float64 { return float64(s.BytesSent) }},
	{"squall_ripc_frames_received_total", "Messages, requests, replies and notices received.", counter, func(s *ripc.Stats) float64 { return float64(s.FramesReceived) }},
	{"squall_ripc_received_bytes_total", "Bytes of them in the rings.", counter, func(s *ripc.Stats) float64 { return float64(s.BytesReceived) }},
	{"squall_ripc_calls_total", "Calls that were sent.", counter, func(s *ripc.Stats) float64 { return float64(s.Calls) }},
	{"squall_ripc_calls_retried_total", "Calls that were sent again, to where the service had moved.", counter, func(s *ripc.Stats) float64 { return float64(s.CallsRetried) }},
	{"squall_ripc_refused_total", "Processes that were turned away.", counter, func(s *ripc.Stats) float64 { return float64(s.Refused) }},
	{"squall_ripc_watches_total", "Times that a goroutine began to look for messages.", counter, func(s *ripc.Stats) float64 { return float64(s.WatchesTaken) }},
	{"squall_ripc_sleeps_total", "Times that such a goroutine slept.", counter, func(s *ripc.Stats) float64 { return float64(s.Sleeps) }},
	{"squall_ripc_wakes_total", "Times that such a goroutine woke another one.", counter, func(s *ripc.Stats) float64 { return float64(s.Wakes) }},
	{"squall_ripc_peers_connected_total", "Processes that connected.", counter, func(s *ripc.Stats) float64 { return float64(s.PeersConnected) }},
	{"squall_ripc_peers_lost_total", "Connections to processes that ended.", counter, func(s *ripc.Stats) float64 { return float64(s.PeersLost) }},
	{"squall_ripc_services_moved_total", "Services that were found at another place than before.", counter, func(s *ripc.Stats) float64 { return float64(s.ServicesMoved) }},
	{"squall_ripc_events_dropped_total", "Events that the application did not take in time.", counter, func(s *ripc.Stats) float64 { return float64(s.EventsDropped) }},
	{"squall_ripc_peers", "Processes that are connected.", gauge, func(s *ripc.Stats) float64 { return float64(s.Peers) }},
	{"squall_ripc_services", "Services of the endpoint.", gauge, func(s *ripc.Stats) float64 { return float64(s.Services) }},
	{"squall_ripc_channels", "Channels to other services.", gauge, func(s *ripc.Stats) float64 { return float64(s.Channels) }},
}

// collector implements prometheus.Collector.
type collector struct {
	endpoint *ripc.Endpoint
	descs    []*prometheus.Desc // by place in metrics
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector. Any goroutine.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.endpoint.Stats()
	for i, m := range metrics {
		to <- prometheus.MustNewConstMetric(c.descs[i], m.kind, m.value(&s))
	}
}
