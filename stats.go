package squall

import (
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/persist"
)

// GroupStats counts what this process did in a group since Open.
type GroupStats struct {
	Cycles              uint64 // turns of the polling loop
	Sleeps              uint64 // times that the loop slept
	MembersDown         uint64 // members that were suspected here
	RejectedConnections uint64 // see ConnectionRejected
}

// SubgroupStats counts what this process did in a subgroup since Open, over all views.
type SubgroupStats struct {
	Sent, SentBytes           uint64 // messages published here
	Delivered, DeliveredBytes uint64 // messages delivered here
	LargeSent, LargeDelivered uint64 // of these, large messages
	NullsSent, NullsDelivered uint64 // turns that were passed without a message

	Undelivered int // messages of this process whose space in the ring is in use
	LargeBytes  int // bytes of large messages of this process that some member has not delivered

	SendBatch    Histogram // messages published at once
	ReceiveBatch Histogram // messages and nulls of one sender received at once
	DeliverBatch Histogram // messages delivered at once

	Log LogStats // of a persistent subgroup; zero if this process is in no shard of it
}

// LogStats counts what this process's log of a shard took since Open, and says what the log has.
type LogStats struct {
	Records        uint64 // records that the log took
	DurableRecords uint64 // of these, records that are on this process's disk
	KeptRecords    uint64 // records that can be read
	DiskBytes      int64  // size of the log's files
	Settled        Time   // up to this time the log is complete, and on every member's disk
}

// HistogramBuckets is the number of buckets of a Histogram.
const HistogramBuckets = 21

var _ [HistogramBuckets]struct{} = [multicast.HistogramBuckets]struct{}{}

// Histogram counts batches by their size. Bucket k counts the batches of more than 2^(k-1) and at
// most 2^k messages; the last one also counts all larger batches.
type Histogram struct {
	Buckets [HistogramBuckets]uint64
	Sum     uint64 // messages of all batches
	Batches uint64
}

// Mean returns the mean size of a batch, or 0 before the first one.
func (h Histogram) Mean() float64 {
	if h.Batches == 0 {
		return 0
	}
	return float64(h.Sum) / float64(h.Batches)
}

// Stats returns what this process did in the group so far. After Close it keeps the last values.
func (g *Group) Stats() GroupStats {
	return GroupStats{
		Cycles: g.runner.Stats.Cycles.Load(), Sleeps: g.runner.Stats.Sleeps.Load(),
		MembersDown: g.down.Load(), RejectedConnections: g.rejections.count(),
	}
}

// Stats returns what this process did in the subgroup so far. After Close it keeps the last values.
func (s *Subgroup) Stats() SubgroupStats {
	c := s.outbox.Stats
	return SubgroupStats{
		Sent: c.Sent.Load(), SentBytes: c.SentBytes.Load(),
		Delivered: c.Delivered.Load(), DeliveredBytes: c.DeliveredBytes.Load(),
		LargeSent: c.LargeSent.Load(), LargeDelivered: c.LargeDelivered.Load(),
		NullsSent: c.NullsSent.Load(), NullsDelivered: c.NullsDelivered.Load(),
		Undelivered: s.outbox.Undelivered(), LargeBytes: s.outbox.LargeBytes(),
		SendBatch: histogram(&c.SendBatch), ReceiveBatch: histogram(&c.ReceiveBatch), DeliverBatch: histogram(&c.DeliverBatch),
		Log: s.logStats(),
	}
}

func histogram(of *multicast.Histogram) (h Histogram) {
	for k := range h.Buckets {
		h.Buckets[k] = of.Buckets[k].Load()
	}
	h.Sum, h.Batches = of.Sum.Load(), of.Batches.Load()
	return h
}

func (s *Subgroup) logStats() LogStats {
	n, ok := s.Shard()
	if s.decl.Mode != Persistent || !ok {
		return LogStats{}
	}
	d := s.group.durable
	d.mu.Lock()
	k := d.logs[persist.LogID{Name: s.decl.Name, Shard: n}]
	d.mu.Unlock()
	if k == nil { // it is being opened
		return LogStats{}
	}
	info := k.log.Info()
	durable, _ := k.log.Durable()
	return LogStats{
		Records: k.log.Appended(), DurableRecords: durable, KeptRecords: uint64(info.Count), DiskBytes: int64(info.DiskBytes),
		Settled: k.recorder.Frontier.Settled(),
	}
}
