package member

import (
	"math"
	"sync"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
)

// Log is where a member keeps what a shard of a persistent subgroup delivers, over all views.
type Log interface {
	// Append takes a record, or reports that there is no room now; the loop is woken when there is
	// again. It sets the record's time.
	Append(r *journal.Record) bool
	// Appended is how many records it took so far.
	Appended() uint64
	// Durable is how many of them are on disk, and the version of the last one in the log that is;
	// 0:0 if it has none. The loop is woken when that changes.
	Durable() (records uint64, last order.Version)
	// SetGlobal tells it that every member's disk has everything up to a version.
	SetGlobal(order.Version)
}

// RecorderConfig describes a Recorder.
type RecorderConfig struct {
	Log Log
	// Receiver is the application.
	Receiver multicast.Receiver
	// AfterPersist delivers to the application only what is on every member's disk. Memory bounds
	// what waits for that, in bytes.
	AfterPersist bool
	Memory       int
	Self         order.NodeID // whose messages HeldBack counts
	// Observe is told the times of records, so that what this member sends later has later ones.
	Observe func(order.Time)
}

// Recorder keeps what a shard delivers in its log before the application sees it. It is the
// receiver of all the parts that this member has in that shard. All but Frontier, and Take and Last
// where they say so, is the loop's.
type Recorder struct {
	Frontier  Frontier
	cfg       RecorderConfig
	ahead     int            // messages of the run at hand, from its start, that are in the log and that the application did not take
	partial   bool           // the log lacks what others have, or activities append to it
	lacks     order.ViewID   // the log lacks records from before this view that other logs have; 0: it lacks none
	appending journal.Record // the record that is being appended: a field, to avoid an allocation
	last      order.Version  // the last one that was appended here
	given     order.Version  // without AfterPersist: the last one that the application took
	over      order.ViewID   // the last view that has ended
	since     order.ViewID   // the last view as which began the log was partial

	// Between the loop and the goroutine that calls Take. The loop gives out of heldBack without
	// mu: Take is not called while the log is whole.
	mu       sync.Mutex
	heldBack heldBack // AfterPersist: what the application did not see yet
	// takenOver is the view of the last Suspend. The application takes over the messages of earlier
	// views with the log, including messages that come out of a backlog later: to show these would
	// deliver them twice.
	takenOver order.ViewID
	closed    bool // nothing is taken any more
	gone      bool // this member is not in the shard: the application does not see the rest
}

// NewRecorder makes one for a log.
func NewRecorder(cfg RecorderConfig) *Recorder {
	return &Recorder{cfg: cfg, heldBack: heldBack{bound: cfg.Memory, self: cfg.Self}}
}

// end says that a view has ended. What is left of it, which is no more than its rings hold, is
// taken at once: the disks of the next view are waited for only when everything before it is in the
// log, so that no room would ever come.
func (r *Recorder) end(v order.ViewID) { r.over = v }

// Lacks says that, as a view begins, the log lacks something of what others have. What is left of
// earlier views, the rest of a run at hand too, comes to Keep.
func (r *Recorder) Lacks(since order.ViewID) {
	if r.lacks == 0 {
		r.lacks = since
	}
	r.Suspend(since)
}

// Suspend says that, as a view begins, the log lacks something, or that the application takes over
// what is in the log. Until Whole, nothing counts as persisted. What waits for disks is not shown:
// it is in the log that the application takes over.
func (r *Recorder) Suspend(since order.ViewID) {
	r.partial, r.since = true, since
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takenOver = since
	r.heldBack.drop()
}

// Whole says that the log lacks nothing any more, and that the application has taken over what came
// before the view of Suspend.
func (r *Recorder) Whole() {
	if r.partial {
		r.partial, r.lacks, r.ahead, r.given = false, 0, 0, r.Last()
		r.Frontier.reach(Shown, order.Version{View: r.since})
	}
}

// leave says that this member is not in the shard any more: its application sees nothing more of
// what waits for disks, and no goroutine here learns how far the others' disks are.
func (r *Recorder) leave() {
	r.mu.Lock()
	r.gone = true
	r.mu.Unlock()
	r.drop()
	r.Frontier.suspend(ErrLeftShard)
}

// enter is the opposite of leave.
func (r *Recorder) enter() {
	r.mu.Lock()
	r.gone = false
	r.mu.Unlock()
	r.Frontier.suspend(nil)
}

// drop forgets what waits for disks.
func (r *Recorder) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heldBack.drop()
}

// Deliver implements multicast.Receiver: it takes what both the log and the application have room
// for.
func (r *Recorder) Deliver(run []multicast.Message) (taken int) {
	if r.cfg.AfterPersist {
		return r.hold(run)
	}
	for r.ahead < len(run) && r.record(&run[r.ahead]) {
		r.ahead++
	}
	if r.ahead > 0 {
		taken = r.cfg.Receiver.Deliver(run[:r.ahead])
		r.ahead -= taken
		if taken > 0 {
			r.given = run[taken-1].Version()
		}
	}
	return taken
}

// Keep records messages that the application does not get any more. Of the views from which on the
// log lacks something it records none.
func (r *Recorder) Keep(run []multicast.Message) (taken int) {
	if len(run) > 0 && !r.Keeps(run[0].View) {
		r.ahead = 0
		return len(run)
	}
	for r.ahead < len(run) && r.record(&run[r.ahead]) {
		r.ahead++
	}
	taken, r.ahead = r.ahead, 0
	return taken
}

// Keeps reports whether the log takes the messages of a view from Keep. A log that became partial
// while messages of earlier views were still to be recorded takes these: it lacks none of what came
// before them, the state at a boundary between them and the view from which on the log lacks
// something is told by where the log ends, and nothing that makes the log whole begins before they
// are delivered.
func (r *Recorder) Keeps(v order.ViewID) bool { return r.lacks == 0 || v < r.lacks }

// hold records messages and keeps them until every member's disk has them.
func (r *Recorder) hold(run []multicast.Message) (taken int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for taken < len(run) && (r.gone || run[taken].View <= r.over || r.heldBack.room(run[taken])) && r.keep(&run[taken]) {
		taken++
	}
	return taken
}

// Take records a message and, with AfterPersist, keeps the message until every disk has it. It
// reports false if there is no room in the log. It is for the code that makes a partial log whole,
// and does not bound the messages that wait for disks: they come out of a backlog that is bounded
// already, and while the log is partial no message is on every disk, so that waiting for buffer
// space among them would never end. A caller for which the Recorder is a receiver calls Deliver
// instead.
func (r *Recorder) Take(m *multicast.Message) bool {
	if !r.cfg.AfterPersist {
		return r.record(m)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keep(m)
}

// keep needs mu.
func (r *Recorder) keep(m *multicast.Message) bool {
	if r.closed || !r.record(m) {
		return false
	}
	if !r.gone && m.View >= r.takenOver {
		r.heldBack.keep(*m)
	}
	return true
}

// Last returns the last version in the log, on disk or not; zero if the log is empty. It is called
// when nothing is being appended. The record that was appended last may have been cut off since,
// when this log was replaced by another member's log; a cut leaves nothing behind that is not on
// disk.
func (r *Recorder) Last() order.Version {
	durable, kept := r.cfg.Log.Durable() // the last one is of an earlier process, perhaps
	if durable == r.cfg.Log.Appended() || r.last.Before(kept) {
		return kept
	}
	return r.last
}

// Given returns a version up to which the application took everything, and nothing behind it; zero
// if there is nothing. It means something once the application has taken over what is in the log.
func (r *Recorder) Given() order.Version {
	if r.cfg.AfterPersist {
		return lastBefore(r.Frontier.At(Shown))
	}
	return r.given
}

// HeldBack is how many messages of this member wait until every disk has them. Any goroutine.
func (r *Recorder) HeldBack() int {
	return int(r.heldBack.own.Load())
}

// MaxRun implements multicast.Receiver.
func (r *Recorder) MaxRun() int { return r.cfg.Receiver.MaxRun() }

// record appends a message to the log and gives it the time of its version there, or reports that
// there is no room.
func (r *Recorder) record(m *multicast.Message) bool {
	rec := &r.appending
	*rec = journal.Record{Version: m.Version(), Time: m.Time, Sender: m.Sender, Data: m.Data}
	body := m.Body()
	if body != nil {
		rec.Release = body.Hold().Release
	}
	if !r.cfg.Log.Append(rec) {
		if body != nil {
			body.Release()
		}
		return false
	}
	m.Time, r.last = rec.Time, rec.Version
	r.cfg.Observe(rec.Time)
	return true
}

// drained reports whether everything of a view up to a position is on disk: the log took it, and
// all that it took is there.
func (r *Recorder) drained(durable uint64, v order.ViewID, end order.Seq) bool {
	if r.partial { // another goroutine may be appending
		return false
	}
	took := end == 0 || r.last.View == v && r.last.Seq+1 >= end
	return took && durable == r.cfg.Log.Appended()
}

// global notes what is on every disk, and shows the application what waited for it. The log is told
// first: a goroutine whose wait on the frontier ends may take a snapshot at once.
func (r *Recorder) global(v order.Version) (work int) {
	if r.Frontier.At(Everywhere).Before(v) {
		r.cfg.Log.SetGlobal(lastBefore(v))
		r.Frontier.reach(Everywhere, v)
		work++
	}
	if r.cfg.AfterPersist && !r.partial {
		work += r.show(v)
	}
	return work
}

// lastBefore is the last version that can be before another one.
func lastBefore(v order.Version) order.Version {
	switch {
	case v.Seq > 0:
		v.Seq--
	case v.View > 0:
		v = order.Version{View: v.View - 1, Seq: math.MaxUint64}
	}
	return v
}

// show gives the application what lies before a version.
func (r *Recorder) show(v order.Version) (shown int) {
	next := v
	if !r.heldBack.empty() {
		if shown, next = r.heldBack.give(r.cfg.Receiver, v); shown == 0 {
			return 0
		}
	}
	r.Frontier.reach(Shown, next)
	return shown
}

// close ends the hold on messages that the application will not see any more.
func (r *Recorder) close(reason error) {
	r.Frontier.fail(reason)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.heldBack.drop()
}

// NoLog takes nothing: it stands for a log that could not be opened, until its member has halted.
var NoLog Log = noLog{}

type noLog struct{}

func (noLog) Append(*journal.Record) bool      { return false }
func (noLog) Appended() uint64                 { return 0 }
func (noLog) Durable() (uint64, order.Version) { return 0, order.Version{} }
func (noLog) SetGlobal(order.Version)          {}
