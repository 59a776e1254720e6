package squall

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/internal/transfer"
	"github.com/squall-go/squall/views"
)

// Event is something that happened to a group. Its type says what; String tells it in a line.
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

// GroupFounded says that this process founded a group, which has no state and no messages yet: no member of an earlier group of the name answered, and
// no directory of those that are in it has the history of one. Applications that kept View().Group see that the group is another one.
type GroupFounded struct {
	Group   string // its identity, the same in all of its views
	Members []Member
}

func (e GroupFounded) String() string {
	return fmt.Sprintf("founded group %s with %d members: it begins with no state and no messages", e.Group, len(e.Members))
}
func (GroupFounded) level() slog.Level { return slog.LevelInfo }

// MemberDown says that a member is taken for failed. The next view is without it.
type MemberDown struct{ views.Suspected }

func (e MemberDown) String() string    { return e.Suspected.String() }
func (e MemberDown) level() slog.Level { return slog.LevelWarn }

// Changing tells of the moves by which a view ends. Its Event is one of the types below.
type Changing struct{ views.Event }

// What a Changing can hold.
type (
	ChangeProposed = views.Proposed
	ChangeDecided  = views.Decided
	Wedged         = views.Wedged
)

func (e Changing) level() slog.Level { return slog.LevelDebug }

// NotProvisioned says that a shard of a subgroup has too few members in the view that was installed, and why, or that it waits for a member that has its log. Every
// member is told, with every such view. What an application's own Layout answered is told where the view was made; the others hear that it placed nobody.
type NotProvisioned struct{ views.Unmet }

func (e NotProvisioned) String() string    { return e.Unmet.String() }
func (e NotProvisioned) level() slog.Level { return slog.LevelWarn }

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

// StateSourceFailed says that a member did not give a subgroup's state. Others are tried.
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

// StateRestored says that this process has a subgroup's state, and delivers.
type StateRestored struct {
	Subgroup string
	Shard    int
	Source   NodeID
	Bytes    uint64
	Took     time.Duration // to read it
	Behind   time.Duration // to hand over what was delivered meanwhile
}

func (e StateRestored) String() string {
	return fmt.Sprintf("subgroup %q: restored from node %d: %d bytes in %v, and %v to catch up",
		e.Subgroup, e.Source, e.Bytes, e.Took.Round(time.Millisecond), e.Behind.Round(time.Millisecond))
}
func (StateRestored) level() slog.Level { return slog.LevelInfo }

// StateGiven says that a member read a subgroup's state from this process, or, with an error, that it did not get all of it.
type StateGiven struct{ transfer.Given }

func (e StateGiven) String() string {
	if e.Err != nil {
		return fmt.Sprintf("subgroup %q: node %d got only %d bytes of the state: %v", e.Subgroup, e.To, e.Bytes, e.Err)
	}
	return fmt.Sprintf("subgroup %q: gave the state to node %d: %d bytes in %v", e.Subgroup, e.To, e.Bytes, e.Took.Round(time.Millisecond))
}
func (StateGiven) level() slog.Level { return slog.LevelDebug }

// Restarting tells how the members of a group that had ended find together again. Its Event is one of package restart.
type Restarting struct{ restart.Event }

func (e Restarting) level() slog.Level { return slog.LevelInfo }

// StateLost says that the shard that this process is in had members before, of which none is left that has its state: the shard begins
// anew. Every member of it is told, before anything is delivered. Those that had a state replace it (StateBegun).
type StateLost struct {
	Subgroup string
	Shard    int
}

func (e StateLost) String() string {
	return fmt.Sprintf("subgroup %q: nobody has the state of shard %d any more: it begins anew", e.Subgroup, e.Shard)
}
func (StateLost) level() slog.Level { return slog.LevelWarn }

// StateBegun says that this process entered a shard that begins, so that its application's state was replaced by that of an empty
// reader (SubgroupConfig.Restore).
type StateBegun struct {
	Subgroup string
	Shard    int
}

func (e StateBegun) String() string {
	return fmt.Sprintf("subgroup %q: shard %d begins, and the application's state with it", e.Subgroup, e.Shard)
}
func (StateBegun) level() slog.Level { return slog.LevelInfo }

// LogCaughtUp says that this process got what its log lacked from another member.
type LogCaughtUp struct {
	Subgroup string
	Shard    int
	Records  uint64  // that came
	Cut      uint64  // of its own that the others never had, and that are gone: they were on this disk only
	Snapshot Version // of the snapshot of the others behind which the log begins; zero: none came
	Took     time.Duration
}

func (e LogCaughtUp) String() string {
	text := fmt.Sprintf("log of subgroup %q: caught up by %d records in %v", e.Subgroup, e.Records, e.Took.Round(time.Millisecond))
	if e.Snapshot != (Version{}) {
		text += fmt.Sprintf(", behind a snapshot of version %v", e.Snapshot)
	}
	if e.Cut > 0 {
		text += fmt.Sprintf("; dropped the last %d of its own, which the others do not have", e.Cut)
	}
	return text
}
func (LogCaughtUp) level() slog.Level { return slog.LevelInfo }

// LogRepaired says that this process's log was damaged; what was in it from there on comes from other members.
type LogRepaired struct {
	Subgroup string
	Shard    int
	Damage   error
	Aside    string // where the log's files are now, of which nothing could be read, and the log begins anew; empty: its end was dropped
}

func (e LogRepaired) String() string {
	if e.Aside != "" {
		return fmt.Sprintf("log of subgroup %q: it cannot be read, all of it comes from other members, and its files are in %s: %v", e.Subgroup, e.Aside, e.Damage)
	}
	return fmt.Sprintf("log of subgroup %q: its end is dropped, and comes from other members: %v", e.Subgroup, e.Damage)
}
func (LogRepaired) level() slog.Level { return slog.LevelWarn }

// LogDamaged says that somebody who read this process's log found it damaged, for the first time. What is delivered is still kept. The process repairs
// it when it is started again, if other members have it; Damage says what to do if not.
type LogDamaged struct {
	Subgroup string
	Shard    int
	Damage   error
}

func (e LogDamaged) String() string {
	return fmt.Sprintf("log of subgroup %q: %v", e.Subgroup, e.Damage)
}
func (LogDamaged) level() slog.Level { return slog.LevelWarn }

// LogTorn says that the last write to this process's log had not ended when the process before it did, and is dropped. Nothing of it was
// acknowledged, if the disk kept what it said that it had; otherwise, what was comes from other members.
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

// ConnectionRejected says that something else than a member knocked at the port, or at the socket of shared memory. There are
// no more than 10 of them a second; ConnectionsRejected counts the others.
type ConnectionRejected struct{ port.Rejection }

func (e ConnectionRejected) String() string    { return e.Rejection.String() }
func (e ConnectionRejected) level() slog.Level { return slog.LevelWarn }

// ConnectionsRejected says how many connections were rejected within about a second besides those that were told of one by one.
type ConnectionsRejected struct{ Count int }

func (e ConnectionsRejected) String() string {
	return fmt.Sprintf("%d more connections rejected", e.Count)
}
func (ConnectionsRejected) level() slog.Level { return slog.LevelWarn }

// Listening says where the other members reach this process; with port 0 it is the place to learn the port.
type Listening struct{ Addr string }

func (e Listening) String() string  { return "listening on " + e.Addr }
func (Listening) level() slog.Level { return slog.LevelDebug }

// Joining says how far the forming of the group is. Its Event is one of the types below.
type Joining struct{ join.Event }

// What a Joining can hold: at the founder requests, how each was answered, and the view's way to its members; at the others each
// attempt to reach the founder, and what came of it; at members of a group that works, who joins and how far that is; at who
// joins, the same.
type (
	JoinRequested  = join.JoinRequested
	JoinRefused    = join.Refused
	JoinForgotten  = join.Forgotten
	JoinFailed     = join.AttemptFailed
	JoinHeld       = join.Held
	JoinRedirected = join.Redirected
	JoinApplied    = join.Applied
	JoinMeeting    = join.Meeting
	JoinReached    = join.Reached
	JoinAdmitted   = join.Admitted
	JoinAborted    = join.Aborted
	ViewProposed   = join.ViewProposed
	MembersReady   = join.ViewInstalled // told before this process's own ViewInstalled
)

func (e Joining) level() slog.Level { return slog.LevelDebug }

// Halted says that the group does nothing any more, and why.
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
