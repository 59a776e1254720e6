package sim

import (
	"bytes"
	"slices"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/order"
)

// shardHistory is what the log of a shard is, as far as the member that is ahead: all logs are
// prefixes of it, except for records that a member had alone as all members ended at once.
type shardHistory struct {
	records  []kept
	full     bool         // some log of it had no room
	reported uint64       // how many are said to be on every disk
	restart  order.ViewID // the last view that began after all members had ended
	base     uint64       // how many records there were then
	// some member reported that no record to come has this time or an earlier one
	settled order.Time
}

// kept is a record in the form in which a member first recorded it.
type kept struct {
	version order.Version
	time    order.Time
	sender  order.NodeID
	data    []byte
}

func (k *kept) is(r *journal.Record) bool {
	return k.version == r.Version && k.time == r.Time && k.sender == r.Sender && bytes.Equal(k.data, r.Data)
}

// shard is the history of a shard's log.
func (w *world) shard(id shardID) *shardHistory {
	h := w.shards[id]
	if h == nil {
		h = &shardHistory{}
		w.shards[id] = h
	}
	return h
}

// before is how many records have versions before v.
func (h *shardHistory) before(v order.Version) uint64 {
	n, _ := slices.BinarySearchFunc(h.records, v, func(k kept, v order.Version) int { return k.version.Compare(v) })
	return uint64(n)
}

// find is the record of a version, or nil.
func (h *shardHistory) find(v order.Version) *kept {
	if n := h.before(v); n < uint64(len(h.records)) && h.records[n].version == v {
		return &h.records[n]
	}
	return nil
}

// logged shows the checkers what was appended to a log: a message that was delivered, or a record
// of another log.
func (w *world) logged(l *diskLog, r *journal.Record, number uint64, imported bool) {
	w.stir()
	w.event(recorded, l.proc.node.place, uint64(l.id.decl), number, uint64(r.Version.View), uint64(r.Version.Seq), uint64(r.Time))
	if h := w.shard(l.id); number >= h.base && h.drops(l, r.Version.View, imported) {
		return
	}
	w.judge("log", w.shard(l.id).add(l, r, number))
}

// add takes a record of a member's log: it is what others have at this place, or the next one.
func (h *shardHistory) add(l *diskLog, r *journal.Record, number uint64) error {
	n := uint64(len(h.records))
	switch {
	case number > n:
		return violated("G6", "%v records %v as number %d, and there are %d", l, r, number, n)
	case number < n:
		if k := &h.records[number]; !k.is(r) {
			return violated("G6", "%v records %v as number %d, and others have version %v of node %d at %v there", l, r, number, k.version, k.sender, k.time)
		}
		return nil
	case r.Time <= h.settled:
		return violated("G6", "%v records %v, and a member reported that nothing comes any more up to %v", l, r, h.settled)
	case n > 0 && (!h.records[n-1].version.Before(r.Version) || h.records[n-1].time >= r.Time):
		return violated("G6", "%v records %v after version %v at %v", l, r, h.records[n-1].version, h.records[n-1].time)
	}
	h.records = append(h.records, kept{r.Version, r.Time, r.Sender, slices.Clone(r.Data)})
	return nil
}

// drops reports whether what a log gets of a view counts for the shard no more.
func (h *shardHistory) drops(l *diskLog, v order.ViewID, imported bool) bool {
	k := l.proc.keeper(l.id)
	if imported && h.outside(l.proc, v) {
		return true
	}
	return h.leftBehind(v, k) || !imported && h.dropsRest(v, k)
}

// outside reports whether a process that takes records of a view from another log has not entered
// the view with which the shard went on. It still brings its logs to the ends of a ballot that was
// outvoted, though a higher one made it a member of that view. It enters only a view whose ends its
// logs have, and is compared then.
func (h *shardHistory) outside(p *process, v order.ViewID) bool {
	return v < h.restart && !slices.ContainsFunc(p.seats, func(s *seat) bool { return s.record.view.ID >= h.restart })
}

// leftBehind reports whether what a keeper's member records or delivers in a view counts for the
// shard no more. The shard lost its members in that view or in a later one, and went on from the
// disk of another process. This member was in the shard before, and hung meanwhile or still gives
// its application the rest of that view: it cuts the end of its log should it come back.
func (h *shardHistory) leftBehind(v order.ViewID, k *keeper) bool {
	return v < h.restart && k != nil && !k.sitting()
}

// dropsRest reports whether what a keeper's member records of a view that ended counts for the
// shard no more, although the member is in the shard again. The shard lost its members in that view
// or in a later one, and went on from the disk of another process, as far as that one had written
// its log (V11). This member was in the shard before, and came back after it had gone on: it is
// fresh there, so its log lacks something, and first takes the rest of the view that ended (SH5).
// Before the log counts as complete, it is made what the shard's log is, and all that the other
// process had not written is cut: checkComplete compares it.
func (h *shardHistory) dropsRest(v order.ViewID, k *keeper) bool {
	return v < h.restart && k != nil && k.partial && k.since >= h.restart
}

// begin takes away what none of the processes has that came back after all had ended. What was
// settled behind that is safe only as far as wall clocks did not go back meanwhile.
func (h *shardHistory) begin(v order.ViewID, n uint64) {
	h.restart, h.base, h.settled = v, n, 0
	h.records = h.records[:min(n, uint64(len(h.records)))]
	if n > 0 {
		h.settled = h.records[n-1].time
	}
}
