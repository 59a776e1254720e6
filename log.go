package squall

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"time"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// Time is a reading of the hybrid logical clock that orders the versions of a log: nanoseconds since the Unix epoch.
type Time = order.Time

// TimeOf is the reading of a wall clock.
func TimeOf(t time.Time) Time { return order.TimeOf(t) }

// Record is one version of a log.
type Record = persist.Record

// LogInfo describes a log as it is on this process's disk.
type LogInfo = persist.Info

// LogEngine says what a log is kept in.
type LogEngine = persist.Engine

// Engines of a log.
const (
	EngineBolt = persist.EngineBolt // one file, embedded: the default
	EngineWAL  = persist.EngineWAL  // segments that are only appended to, for high rates
)

// Retention says what may be dropped from the front of a log. Zero fields do not limit.
type Retention = persist.Retention

// Stage is how far a version of a persistent subgroup has come.
type Stage uint8

// Stages of a version. What is OnEveryDisk survives even if all members end at once.
const (
	OnThisDisk  = Stage(member.Here)
	OnEveryDisk = Stage(member.Everywhere)
)

// String returns "on this disk" or "on every disk".
func (s Stage) String() string {
	switch s {
	case OnThisDisk:
		return "on this disk"
	case OnEveryDisk:
		return "on every disk"
	}
	return fmt.Sprintf("stage %d", uint8(s))
}

// LogConfig says how this process keeps the log of a persistent subgroup. It may differ between members.
type LogConfig struct {
	// Engine of a log that is made anew; one that is there keeps its own.
	Engine LogEngine
	// Memory bounds what is delivered and not on disk yet, in bytes; then the subgroup's senders are held up, and nobody else. 0 is 16 MiB.
	MemoryBytes int
	// Retain says what may be dropped from a log that has no snapshot; nothing that some member's disk lacks ever is. What is behind a snapshot
	// stays until the next one. The zero value keeps everything.
	Retain Retention
	// Sign, if not nil, chains all records by their hashes and signs the chain with this process's key, once for each write: who has the public key
	// can tell that nothing was changed (squall log verify).
	Sign ed25519.PrivateKey
	// DeliverAfterPersist has messages delivered only when they are on every member's disk, instead of when every member holds them. OnView
	// may come before the last messages of the view before then. A process that leaves a shard is not given what waited for disks there;
	// futures of its own messages among that end with their version and ErrLeftShard.
	DeliverAfterPersist bool
	// Recover is called before anything is delivered, with the log of the shard that this process enters: at Open, and, on another
	// goroutine, when it enters a shard later, as soon as it has caught up with others, if there are any. The log of a shard that begins is
	// empty. Recover replaces the whole state of the application by what it reads: the snapshot, if OpenSnapshot has one, and then what
	// Range yields from the zero Version to the zero Version. These are all records behind the snapshot and no others; without a snapshot,
	// all that Retain has left. Snapshot must not be called meanwhile. An error fails Open, or halts the group here.
	Recover func(*Log) error
}

// Errors of logs, to be tested with errors.Is.
var (
	// ErrNotPersistent is returned where a subgroup, or this process in it, keeps no log.
	ErrNotPersistent = member.ErrNotPersistent
	// ErrLeftShard says that this process is not in the shard any more, and so does not learn how far the disks of its members are. With
	// DeliverAfterPersist it also ends the futures of messages that the shard delivers and that this process was not given.
	ErrLeftShard = member.ErrLeftShard
	// ErrUnsettled is returned for a time of which more may come.
	ErrUnsettled = errors.New("more may come of that time")
	// ErrNotOnEveryDisk is returned for a snapshot of a version that some member's disk lacks.
	ErrNotOnEveryDisk = persist.ErrNotGlobal
	// ErrLogDamaged says that a log cannot be read; its text says where. squall log verify looks at all of it.
	ErrLogDamaged = persist.ErrDamaged
	// ErrLogTruncated is returned for a version behind the first one that is kept.
	ErrLogTruncated = persist.ErrTruncated
	// ErrNotInLog is returned for what is not there.
	ErrNotInLog = persist.ErrNotFound
	// ErrOtherCluster and ErrOtherNode say that a directory belongs to another cluster, or another node of it.
	ErrOtherCluster = persist.ErrOtherCluster
	ErrOtherNode    = persist.ErrOtherNode
	// ErrNewerFormat says that a directory was written by a newer version of this package.
	ErrNewerFormat = persist.ErrNewerFormat
	// ErrInUse says that another process works in a directory.
	ErrInUse = persist.ErrInUse
	// ErrDiskStuck halts a group at a member whose disk does not take a change of membership within FailAfter: the others wait for it.
	ErrDiskStuck = member.ErrDiskStuck
	// ErrReadOnlyDisk and ErrDiskFull say why a log cannot be written.
	ErrReadOnlyDisk = persist.ErrReadOnlyDisk
	ErrDiskFull     = persist.ErrDiskFull
)

// Log is this process's log of one shard of a persistent subgroup: every message that was delivered there, in order, over all views and
// restarts. Its methods may be called from any goroutine, but not in upcalls where they say that they wait. What is read is on this
// process's disk; Persisted tells how much of that is on every disk.
type Log struct {
	subgroup string
	log      *persist.Log
	frontier *member.Frontier
	upcalls  *upcalls
}

// Log is this process's log of the shard that it is in. It fails with ErrNotPersistent if there is none.
func (s *Subgroup) Log() (*Log, error) {
	if s.decl.Mode != Persistent {
		return nil, fmt.Errorf("subgroup %q: %w", s.decl.Name, ErrNotPersistent)
	}
	n, ok := s.Shard()
	if !ok {
		return nil, fmt.Errorf("subgroup %q: %w: this process is in no shard of it", s.decl.Name, ErrNotPersistent)
	}
	return s.group.durable.open(persist.LogID{Name: s.decl.Name, Shard: n})
}

func (d *durable) open(id persist.LogID) (*Log, error) {
	k, err := d.keep(id)
	if err != nil {
		return nil, err
	}
	return &Log{id.Name, k.log, &k.recorder.Frontier, &d.group.upcalls}, nil
}

// Info describes the log: its first and last record, how many there are, and how much room they take.
func (l *Log) Info() LogInfo { return l.log.Info() }

// Persisted is the version before which everything is on this process's disk, or on every member's.
func (l *Log) Persisted(s Stage) Version { return l.frontier.At(member.Stage(s)) }

// WaitPersisted returns when a version is on this process's disk, or on every member's.
func (l *Log) WaitPersisted(ctx context.Context, s Stage, v Version) error {
	return l.frontier.Wait(l.upcalls.bound(ctx), member.Stage(s), v)
}

// Get reads one version: ErrNotInLog if there is none, ErrLogTruncated if it is kept no more.
func (l *Log) Get(v Version) (Record, error) { return l.log.Get(v) }

// Range yields the records of [from, to), in order. The zero Version as from is the first record that is kept, which is the first one behind the snapshot if there
// is one; as to, it is the end as it is now. An error ends it: ErrLogTruncated if records that it should yield are kept no more.
func (l *Log) Range(from, to Version) iter.Seq2[Record, error] { return l.log.Range(from, to) }

// Tail yields the records from a version on, and then each one that follows, across views, until ctx ends.
func (l *Log) Tail(ctx context.Context, from Version) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if err := l.upcalls.waits(); err != nil {
			yield(Record{}, err)
			return
		}
		l.log.Tail(ctx, from)(yield)
	}
}

// At reads the last version whose time is not after t, as it is for good: it waits until no version with such a time can come any more, and all are
// on every member's disk. So every member gives the same answer, and no failure changes it.
func (l *Log) At(ctx context.Context, t Time) (Record, error) {
	if err := l.settle(ctx, t); err != nil {
		return Record{}, err
	}
	return l.log.At(t)
}

// TryAt is At that fails with ErrUnsettled instead of waiting.
func (l *Log) TryAt(t Time) (Record, error) {
	if !l.settled(t) {
		return Record{}, fmt.Errorf("log of subgroup %q at %v: %w: it is settled up to %v", l.subgroup, t, ErrUnsettled, l.frontier.Settled())
	}
	return l.log.At(t)
}

// Between yields the records with times of [from, to) once they are settled, as At says; it waits for that.
func (l *Log) Between(ctx context.Context, from, to Time) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if to > 0 {
			if err := l.settle(ctx, to-1); err != nil {
				yield(Record{}, err)
				return
			}
		}
		l.log.Between(from, to)(yield)
	}
}

func (l *Log) settle(ctx context.Context, t Time) error {
	if l.settled(t) {
		return nil
	}
	if err := l.frontier.Settle(l.upcalls.bound(ctx), t); err != nil {
		return fmt.Errorf("log of subgroup %q at %v: %w", l.subgroup, t, err)
	}
	return nil
}

// settled reports whether nothing with such a time can come: members told so, or a later version is on every disk already.
func (l *Log) settled(t Time) bool {
	if t <= l.frontier.Settled() {
		return true
	}
	for next, err := range l.log.Between(t+1, math.MaxInt64) {
		return err == nil && next.Version.Before(l.Persisted(OnEveryDisk))
	}
	return false
}

// Snapshot keeps what write writes as the application's state behind a version, and drops the records up to it: from then on the log begins with the record
// behind that version. The version must be on every member's disk: WaitPersisted.
func (l *Log) Snapshot(at Version, write func(io.Writer) error) error {
	if !at.Before(l.Persisted(OnEveryDisk)) {
		return fmt.Errorf("snapshot of subgroup %q at %v: %w: what they have comes before %v", l.subgroup, at, ErrNotOnEveryDisk, l.Persisted(OnEveryDisk))
	}
	return l.log.Snapshot(at, write)
}

// OpenSnapshot reads the last snapshot. The Record says which version it is behind, and has no data. ErrNotInLog if there is none.
func (l *Log) OpenSnapshot() (Record, io.ReadCloser, error) { return l.log.OpenSnapshot() }

// boundary is sent to a fresh member of a persistent subgroup: the log's last version where the deliveries of the view begin.
type boundary struct {
	Last Version `json:"last"` // zero: it is empty
}
