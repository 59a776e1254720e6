package member

import (
	"github.com/squall-go/squall/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/journal"
)

// Log is where a member keeps what a shard of a persistent subgroup delivers, over all views.
type Log interface {
	// Append takes a record, or reports that there is no room now; the loop is woken when there is again. It sets the record's time.
	Append(r *journal.Record) bool
	// Appended is how many records it took so far.
	Appended() uint64
	// Durable is how many of them are on disk, and the version of the last one in the log that is; 0:0 if it has none. The loop is woken when
	// that changes.
	Durable() (records uint64, last order.Version)
	// SetGlobal tells it that every member's disk has everything before a version.
	SetGlobal(order.Version)
}

// RecorderConfig describes a Recorder.
type RecorderConfig struct {
	Log Log
	// Receiver is the application.
	Receiver multicast.Receiver
	// AfterPersist delivers to the application only what is on every member's disk. Memory bounds what waits for that, in bytes.
	AfterPersist bool
	Memory       int
	// Observe is told the times of records, so that what this member sends later has later ones.
	Observe func(order.Time)
}

// Recorder keeps what a shard delivers in its log before the application sees it. It is the receiver of all the parts that this member has in that
// shard. All but Frontier, and Record while the log is not whole, is the loop's.
type Recorder struct {
	Frontier Frontier
	cfg      RecorderConfig
	ahead    int    // messages of the run at hand, from its start, that are in the log and that the application did not take
	partial  bool   // the log lacks what others have
	unseen   unseen // AfterPersist: what the application did not see yet
}

// NewRecorder makes one for a log.
func NewRecorder(cfg RecorderConfig) *Recorder {
	return &Recorder{cfg: cfg, unseen: unseen{bound: cfg.Memory}}
}

// SetPartial says whether the log lacks anything of what others have: while it does, nothing of it counts as persisted.
func (r *Recorder) SetPartial(partial bool) { r.partial = partial }

// Deliver implements multicast.Receiver: it takes what both the log and the application have room for.
func (r *Recorder) Deliver(run []multicast.Message) (taken int) {
	if r.cfg.AfterPersist {
		return r.hold(run)
	}
	for r.ahead < len(run) && r.Record(&run[r.ahead]) {
		r.ahead++
	}
	if r.ahead > 0 {
		taken = r.cfg.Receiver.Deliver(run[:r.ahead])
		r.ahead -= taken
	}
	return taken
}

// hold records messages and keeps them until every member's disk has them.
func (r *Recorder) hold(run []multicast.Message) (taken int) {
	for taken < len(run) && r.unseen.room(run[taken]) && r.Record(&run[taken]) {
		r.unseen.keep(run[taken])
		taken++
	}
	return taken
}

// MaxRun implements multicast.Receiver.
func (r *Recorder) MaxRun() int { return r.cfg.Receiver.MaxRun() }

// Record appends a message to the log and gives it the time of its version there, or reports that there is no room. The loop's, but while the
// log is partial: then of whoever has taken over.
func (r *Recorder) Record(m *multicast.Message) bool {
	rec := journal.Record{Version: m.Version(), Time: m.Time, Sender: m.Sender, Data: m.Data}
	body := m.Body()
	if body != nil {
		rec.Release = body.Hold().Release
	}
	if !r.cfg.Log.Append(&rec) {
		if body != nil {
			body.Release()
		}
		return false
	}
	m.Time = rec.Time
	r.cfg.Observe(rec.Time)
	return true
}

// drained reports whether everything that was taken is on disk.
func (r *Recorder) drained(durable uint64) bool {
	return durable == r.cfg.Log.Appended() && r.ahead == 0 && !r.partial
}

// global notes what is on every disk, and shows the application what waited for it.
func (r *Recorder) global(v order.Version) (work int) {
	if r.Frontier.reach(Everywhere, v) {
		r.cfg.Log.SetGlobal(v)
		work++
	}
	if r.unseen.empty() {
		if r.cfg.AfterPersist && !r.partial {
			r.Frontier.reach(Shown, v)
		}
		return work
	}
	shown, next := r.unseen.give(r.cfg.Receiver, v)
	if shown > 0 {
		r.Frontier.reach(Shown, next)
	}
	return work + shown
}

// Close ends the hold on messages that the application will not see any more.
func (r *Recorder) close(reason error) {
	r.Frontier.fail(reason)
	r.unseen.drop()
}
