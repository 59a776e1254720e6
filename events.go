package squall

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/internal/viewchange"
)

// Event is something that happened to a group: a value of one of the types of this package that are
// documented as events, to be told apart by a type switch. String describes it in one line.
type Event interface {
	fmt.Stringer
	level() slog.Level
}

// ViewInstalled says that the group has formed, or goes on with other members.
type ViewInstalled struct {
	View  *View
	Links []string // by rank: "shm", "tcp" or "self"
}

func (e ViewInstalled) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "view %d of %q installed:", e.View.ID, e.View.Cluster)
	for r, m := range e.View.Members {
		fmt.Fprintf(&b, " node %d at %s (%s)", m.ID, m.Addr, e.Links[r])
	}
	return b.String()
}

func (ViewInstalled) level() slog.Level { return slog.LevelInfo }

// GroupBootstrapped says that this process bootstrapped a group, which has no state and no messages
// yet: no member of an earlier group of that name answered, and no directory of the initial members
// has the history of one. An application that kept View().Group can tell that the group is another
// one.
type GroupBootstrapped struct {
	Group   string // its identity, the same in all of its views
	Members []Member
	// Unlisted says that Config.Join is empty and that no log in Config.Dir names the group: this
	// process, started again, bootstraps another group, even if others of this one still run.
	Unlisted bool
}

func (e GroupBootstrapped) String() string {
	text := fmt.Sprintf("bootstrapped group %s with %d members: it begins with no state and no messages", e.Group, len(e.Members))
	if e.Unlisted {
		text += "; Join is empty, so this process bootstraps another group when it is started again: list all members in Join, at each of them"
	}
	return text
}

func (e GroupBootstrapped) level() slog.Level {
	if e.Unlisted {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// MemberDown says that a member is suspected: the group treats it as failed, permanently. The next
// view excludes it.
type MemberDown struct {
	Member Member
	Err    error // why it is suspected
}

func (e MemberDown) String() string {
	return fmt.Sprintf("node %d at %s is suspected: %v", e.Member.ID, e.Member.Addr, e.Err)
}
func (MemberDown) level() slog.Level { return slog.LevelWarn }

// ViewChangeStep is a step of a view change at one member.
type ViewChangeStep uint8

// Steps of a view change.
const (
	ViewWedged   ViewChangeStep = iota // the view has stopped: nothing is sent or received in it any more
	ViewProposed                       // this member leads the change and proposes the next view
	ViewDecided                        // the next view is decided
)

// ViewChanging reports a step by which a view ends.
type ViewChanging struct {
	Step    ViewChangeStep
	Next    *View    // the view that is proposed or decided; nil: none, or the group ends
	Removed []Member // with ViewProposed: the members that failed
	Left    []Member // with ViewProposed: the members that leave

	text string
}

func (e ViewChanging) String() string    { return e.text }
func (e ViewChanging) level() slog.Level { return slog.LevelDebug }

// viewChanging makes the event of a step of a view change.
func viewChanging(e viewchange.Event) ViewChanging {
	out := ViewChanging{text: e.String()}
	switch e := e.(type) {
	case viewchange.Proposed:
		out.Step, out.Next, out.Removed, out.Left = ViewProposed, e.View, e.Removed, e.Left
	case viewchange.Decided:
		out.Step, out.Next = ViewDecided, e.Decision.View
	}
	return out
}

// NotProvisioned says that a shard of a subgroup has too few members in the view that was
// installed, and why, or that it waits for a member that has its log. Every member reports it, with
// every such view. An error in the result of an application's own Layout is reported at the member
// that made the view; the other members report that the Layout placed no members.
type NotProvisioned struct {
	Subgroup string
	Shard    int
	Reason   string
}

func (e NotProvisioned) String() string  { return e.Reason }
func (NotProvisioned) level() slog.Level { return slog.LevelWarn }

// StateRestoring says that this process reads a subgroup's state from a member.
type StateRestoring struct {
	Subgroup string
	Shard    int
	Source   NodeID
}

func (e StateRestoring) String() string {
	return fmt.Sprintf("subgroup %q: restoring the state from node %d", e.Subgroup, e.Source)
}
func (StateRestoring) level() slog.Level { return slog.LevelDebug }

// StateSourceFailed says that a member did not give a subgroup's state. This process then tries
// other members.
type StateSourceFailed struct {
	Subgroup string
	Shard    int
	Source   NodeID
	Err      error
}

func (e StateSourceFailed) String() string {
	return fmt.Sprintf("subgroup %q: no state from node %d: %v", e.Subgroup, e.Source, e.Err)
}
func (StateSourceFailed) level() slog.Level { return slog.LevelWarn }

// StateRestored says that this process has a subgroup's state, and delivers messages.
type StateRestored struct {
	Subgroup string
	Shard    int
	Source   NodeID
	Bytes    uint64
	Took     time.Duration // time to read the state
	CatchUp  time.Duration // time to deliver what was queued meanwhile
}

func (e StateRestored) String() string {
	return fmt.Sprintf("subgroup %q: restored from node %d: %d bytes in %v, and %v to catch up",
		e.Subgroup, e.Source, e.Bytes, e.Took.Round(time.Millisecond), e.CatchUp.Round(time.Millisecond))
}
func (StateRestored) level() slog.Level { return slog.LevelInfo }

// StateGiven says that a member read a subgroup's state from this process or, if Err is set, that
// the member did not get all of it.
type StateGiven struct {
	Subgroup string
	Shard    int
	To       NodeID
	Bytes    uint64
	Took     time.Duration
	Err      error
}

func (e StateGiven) String() string {
	if e.Err != nil {
		return fmt.Sprintf("subgroup %q: node %d got only %d bytes of the state: %v", e.Subgroup, e.To, e.Bytes, e.Err)
	}
	return fmt.Sprintf("subgroup %q: gave the state to node %d: %d bytes in %v", e.Subgroup, e.To, e.Bytes, e.Took.Round(time.Millisecond))
}
func (StateGiven) level() slog.Level { return slog.LevelDebug }

// RestartStep is a step of the restart of a group.
type RestartStep uint8

// Steps of a restart.
const (
	RestartWaiting     RestartStep = iota // the restart cannot go on: Nodes are missing
	RestartLearned                        // another process knows a newer view
	RestartProposed                       // this process leads the restart, and proposes View
	RestartReconciling                    // this process brings its logs to the agreed ends
	RestartReconciled                     // the logs are at the agreed ends; with Err: the attempt failed, and is repeated
	RestartSuperseded                     // another process leads the restart
	RestartIgnored                        // a message of Nodes was ignored
	RestartInstalled                      // View is in force, and this process is a member of it
	RestartFoundGroup                     // a group runs already
)

// Restarting reports how the members of a group that had ended meet again.
type Restarting struct {
	Step  RestartStep
	Nodes []NodeID // nodes that are missing, or that sent a message
	View  *View    // nil: the step has none
	Err   error

	text string
}

func (e Restarting) String() string    { return e.text }
func (e Restarting) level() slog.Level { return slog.LevelInfo }

// restarting makes the event of a step of a restart.
func restarting(e restart.Event) Restarting {
	out := Restarting{text: e.String()}
	switch e := e.(type) {
	case restart.Waiting:
		out.Step, out.Nodes = RestartWaiting, e.For
	case restart.Learned:
		out.Step, out.Nodes, out.View = RestartLearned, []NodeID{e.From.ID}, e.View
	case restart.Proposed:
		out.Step, out.View = RestartProposed, e.View
	case restart.Completing:
		out.Step, out.View = RestartProposed, e.View
	case restart.Reconciling:
		out.Step = RestartReconciling
	case restart.Reconciled:
		out.Step, out.Err = RestartReconciled, e.Err
	case restart.Superseded:
		out.Step, out.Nodes = RestartSuperseded, []NodeID{e.By.Node}
	case restart.Ignored:
		out.Step, out.Nodes = RestartIgnored, []NodeID{e.From.ID}
	case restart.Restarted:
		out.Step, out.View = RestartInstalled, e.View
	case restart.Found:
		out.Step = RestartFoundGroup
	}
	return out
}

// StateLost says that the shard that this process is in had members before, and that no member that
// has its state is left: the shard begins anew. Every member of the shard reports it, before
// anything is delivered. Members that had a state replace it (StateBegun).
type StateLost struct {
	Subgroup string
	Shard    int
}

func (e StateLost) String() string {
	return fmt.Sprintf("subgroup %q: no process has the state of shard %d any more: it begins anew", e.Subgroup, e.Shard)
}
func (StateLost) level() slog.Level { return slog.LevelWarn }

// StateBegun says that this process entered a shard that begins, so that its application's state
// was replaced by that of an empty reader (SubgroupConfig.Restore).
type StateBegun struct {
	Subgroup string
	Shard    int
}

func (e StateBegun) String() string {
	return fmt.Sprintf("subgroup %q: shard %d begins, and the application's state with it", e.Subgroup, e.Shard)
}
func (StateBegun) level() slog.Level { return slog.LevelInfo }

// SnapshotTaken says that this process took a snapshot by its SnapshotPolicy.
type SnapshotTaken struct {
	Subgroup string
	Version  Version // of the last record that the snapshot stands for
	Took     time.Duration
}

func (e SnapshotTaken) String() string {
	return fmt.Sprintf("subgroup %q: a snapshot of version %v in %v", e.Subgroup, e.Version, e.Took.Round(time.Millisecond))
}
func (SnapshotTaken) level() slog.Level { return slog.LevelDebug }

// SnapshotFailed says that a snapshot that SnapshotPolicy asks for could not be taken. The log
// keeps all records, and another attempt follows.
type SnapshotFailed struct {
	Subgroup string
	Err      error
}

func (e SnapshotFailed) String() string {
	return fmt.Sprintf("subgroup %q: no snapshot could be taken, and the log keeps growing: %v", e.Subgroup, e.Err)
}
func (SnapshotFailed) level() slog.Level { return slog.LevelWarn }

// LogCaughtUp says that this process got the records that its log lacked from another member.
type LogCaughtUp struct {
	Subgroup string
	Shard    int
	Records  uint64  // records that came
	Cut      uint64  // records of this log that were removed: they were on this disk only, and the others never had them
	Snapshot Version // version of the snapshot of the others after which the log begins; zero: no snapshot came
	Took     time.Duration
}

func (e LogCaughtUp) String() string {
	text := fmt.Sprintf("log of subgroup %q: caught up by %d records in %v", e.Subgroup, e.Records, e.Took.Round(time.Millisecond))
	if e.Snapshot != (Version{}) {
		text += fmt.Sprintf(", after a snapshot of version %v", e.Snapshot)
	}
	if e.Cut > 0 {
		text += fmt.Sprintf("; dropped the last %d of its own, which the others do not have", e.Cut)
	}
	return text
}
func (LogCaughtUp) level() slog.Level { return slog.LevelInfo }

// LogRepaired says that this process's log was damaged; the records from the damage on come from
// other members.
type LogRepaired struct {
	Subgroup string
	Shard    int
	Damage   error
	Aside    string // where the files are now of a log that could not be read at all, and that begins anew; empty: the end of the log was dropped
}

func (e LogRepaired) String() string {
	if e.Aside != "" {
		return fmt.Sprintf("log of subgroup %q: it cannot be read, all of it comes from other members, and its files are in %s: %v", e.Subgroup, e.Aside, e.Damage)
	}
	return fmt.Sprintf("log of subgroup %q: its end is dropped, and comes from other members: %v", e.Subgroup, e.Damage)
}
func (LogRepaired) level() slog.Level { return slog.LevelWarn }

// LogDamaged says that a reader of this process's log found it damaged, for the first time. New
// deliveries are still kept. The process repairs the log when it is started again, if other members
// have the records; Damage says what to do if not.
type LogDamaged struct {
	Subgroup string
	Shard    int
	Damage   error
}

func (e LogDamaged) String() string {
	return fmt.Sprintf("log of subgroup %q: %v", e.Subgroup, e.Damage)
}
func (LogDamaged) level() slog.Level { return slog.LevelWarn }

// LogTorn says that the last write to this process's log was not complete when the process before
// this one ended, and is dropped. Nothing of it was acknowledged if the disk kept what it had
// confirmed; otherwise, the acknowledged records come from other members.
type LogTorn struct {
	Subgroup string
	Shard    int
	Record   uint64 // the number of the first record that is dropped
	Version  Version
}

func (e LogTorn) String() string {
	return fmt.Sprintf("log of subgroup %q: a write that did not end is dropped: record %d, near version %v, and what was written with it", e.Subgroup, e.Record, e.Version)
}
func (LogTorn) level() slog.Level { return slog.LevelInfo }

// ConnectionRejected says that a process that is no member tried to connect, at the port or at the
// socket of shared memory, or that a connection broke the rules. At most 10 of these events are
// reported each second; ConnectionsRejected counts the others.
type ConnectionRejected struct {
	Remote string // the peer's host:port, or its process
	Reason string // a short text, the same for all rejections of a kind
	Err    error

	text   string
	broken bool // the other end closed it
}

func (e ConnectionRejected) String() string { return e.text }

// level of a connection that the other end closed before it said what it wanted is low: health
// checks do that, and processes that found another member first.
func (e ConnectionRejected) level() slog.Level {
	if e.broken {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// ConnectionsRejected says how many more connections were rejected within about a second than
// ConnectionRejected reported one by one.
type ConnectionsRejected struct{ Count int }

func (e ConnectionsRejected) String() string {
	return fmt.Sprintf("%d more connections rejected", e.Count)
}
func (ConnectionsRejected) level() slog.Level { return slog.LevelWarn }

// Listening says at which address the other members reach this process; with port 0 it tells the
// port.
type Listening struct{ Addr string }

func (e Listening) String() string  { return "listening on " + e.Addr }
func (Listening) level() slog.Level { return slog.LevelDebug }

// JoinStep is a step of forming a group, or of joining one.
type JoinStep uint8

// Steps of forming and joining a group.
const (
	JoinAsked         JoinStep = iota // a process asked to be a member
	JoinWaiting                       // this process has a place, and waits for the other members
	JoinRefused                       // a process was refused, or told to ask again
	JoinFailed                        // an attempt of this process failed; it tries again
	JoinRedirected                    // this process was sent to the member at Addr
	JoinMeeting                       // this process connects to the members of View
	JoinReached                       // a process has connected to all members of View
	JoinAdmitted                      // a process is a member, from View on
	JoinForgotten                     // a process ended or disconnected before it was a member
	JoinAborted                       // forming the group failed; it is tried again
	JoinViewProposed                  // the first view was sent to its members
	JoinViewInstalled                 // all members of the first view are ready
)

// Joining reports a step of forming a group, or of joining one.
type Joining struct {
	Step JoinStep
	Node NodeID // the process that joins; 0: this one, or none
	Addr string // address of that process, or of the member that was asked
	View ViewID // 0: the step has none
	Err  error  // why it failed, or why the process was refused

	text  string
	quiet bool // it is no news for a log
}

func (e Joining) String() string { return e.text }

// level is such that the logs of both processes say once why one of them waits, and nothing if it
// does not wait for long: members that start at the same time find each other after some attempts.
func (e Joining) level() slog.Level {
	if !e.quiet && (e.Step == JoinRefused || e.Step == JoinFailed) {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// startTime is the time in which attempts to join that failed are no news: the others start too.
const startTime = 3 * time.Second

// joinings reports how a group is formed or joined.
type joinings struct {
	cfg   *Config
	began time.Time
	mu    sync.Mutex
	last  [JoinViewInstalled + 1]string // by step: the text of the event before
}

// report may be called on any goroutine.
func (j *joinings) report(e join.Event) {
	out := joining(e)
	if refused, ok := e.(join.Refused); ok {
		out.quiet = !refused.Final
	} else {
		out.quiet = !port.Final(out.Err) && time.Since(j.began) < startTime
	}
	j.mu.Lock()
	if out.quiet = out.quiet || out.text == j.last[out.Step]; !out.quiet {
		j.last[out.Step] = out.text
	}
	j.mu.Unlock()
	j.cfg.emit(out)
}

// joining makes the event of a step of forming or joining a group.
func joining(e join.Event) Joining {
	out := Joining{text: e.String()}
	of := func(step JoinStep, m Member) { out.Step, out.Node, out.Addr = step, m.ID, m.Addr }
	switch e := e.(type) {
	case join.JoinRequested:
		of(JoinAsked, e.Member)
	case join.Applied:
		of(JoinAsked, e.Member)
	case join.Held:
		out.Step, out.Addr = JoinWaiting, e.Addr
	case join.Refused:
		out.Step, out.Node, out.Addr, out.Err = JoinRefused, e.ID, e.Addr, errors.New(e.Text)
	case join.AttemptFailed:
		out.Step, out.Addr, out.Err = JoinFailed, e.Addr, e.Err
	case join.Redirected:
		out.Step, out.Addr = JoinRedirected, e.To
	case join.Meeting:
		out.Step, out.Addr, out.View = JoinMeeting, e.Addr, e.View
	case join.Reached:
		of(JoinReached, e.Member)
		out.View = e.View
	case join.Admitted:
		of(JoinAdmitted, e.Member)
		out.View = e.View
	case join.Forgotten:
		of(JoinForgotten, e.Member)
		out.Err = e.Err
	case join.Aborted:
		out.Step, out.Err = JoinAborted, e.Err
	case join.ViewProposed:
		out.Step, out.View = JoinViewProposed, e.View.ID
	case join.ViewInstalled:
		out.Step, out.View = JoinViewInstalled, e.View.ID
	}
	return out
}

// Halted says that the group has halted at this process, and why.
type Halted struct{ Reason error }

func (e Halted) String() string    { return fmt.Sprintf("group halted: %v", e.Reason) }
func (e Halted) level() slog.Level { return slog.LevelError }

// emit logs an event and hands it to the application.
func (c *Config) emit(e Event) {
	c.Logger.Log(context.Background(), e.level(), e.String(), "cluster", c.Cluster, "node", uint64(c.ID))
	if c.Events != nil {
		c.Events(e)
	}
}
