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

// Time is a reading of the hybrid logical clock that orders the versions of a log: nanoseconds
// since the Unix epoch.
type Time = order.Time

// TimeOf returns the reading of a wall clock as a Time.
func TimeOf(t time.Time) Time { return order.TimeOf(t) }

// Record is one version of a log.
type Record = persist.Record

// LogInfo describes a log as it is on this process's disk.
type LogInfo = persist.Info

// LogEngine is what a log is kept in: bolt.Engine of package persist/bolt, or wal.Engine of package
// persist/wal.
type LogEngine = persist.Engine

// Retention says which records may be dropped from the front of a log. A zero field sets no limit.
type Retention = persist.Retention

// Stage is how far a version of a persistent subgroup has come.
type Stage = order.Stage

// Stages of a version. A version that is OnEveryDisk survives even if all members end at once.
const (
	OnThisDisk  = order.OnThisDisk
	OnEveryDisk = order.OnEveryDisk
)

// LogConfig says how this process keeps the log of a persistent subgroup. It may differ between
// members.
type LogConfig struct {
	// Engine is the engine of a log that is created; nil is bolt.Engine. An existing log keeps its
	// engine. The program must import the package of the engine, also of one that is the default or
	// that an existing log has: Open returns ErrNoEngine otherwise, with the import.
	Engine LogEngine
	// MemoryBytes bounds the messages that are delivered and not on disk yet, in bytes. At the
	// limit, only the senders of this subgroup are blocked. 0 is 16 MiB.
	MemoryBytes int
	// Retain says which records may be dropped from a log that has no snapshot; a record that some
	// member's disk lacks is never dropped. The records after a snapshot stay until the next
	// snapshot. The zero value keeps everything, as objects and spaces of topics need it.
	Retain Retention
	// Snapshots says when this process takes snapshots by itself, as TakeSnapshot does. It needs
	// SubgroupConfig.Snapshot. The zero value takes none.
	Snapshots SnapshotPolicy
	// Sign, if not nil, chains all records by their hashes and signs the chain with this process's
	// key, once for each write. A holder of the public key can verify that no record was changed
	// (squall log verify).
	Sign ed25519.PrivateKey
	// DeliverAfterPersist delays each delivery until the message is on every member's disk, instead
	// of until every member holds it. OnView may then come before the last messages of the view
	// before. A process that leaves a shard is not given the messages that waited for disks there;
	// futures of its own messages among them end with their version and ErrLeftShard. Replayed
	// messages (Message.Replayed) are on this process's disk; the disk of another member may lack
	// the last ones of them.
	DeliverAfterPersist bool
	// Recover takes the place of SubgroupConfig.Restore in an application that keeps its state
	// elsewhere, in a database for instance, and needs only the records that the state lacks. It is
	// called where Restore would be, with the log of the shard that this process enters, and reads
	// what it needs. The snapshot, if OpenSnapshot returns one, and the records that Range yields
	// from the zero Version to the zero Version are everything that the log has. Log.Snapshot must
	// not be called meanwhile. Nothing is replayed. An error fails Open, or halts the group here.
	Recover func(*Log) error
}

// Errors of logs, to be tested with errors.Is.
var (
	// ErrNotPersistent is returned where a subgroup keeps no log, or this process keeps none in it.
	ErrNotPersistent = member.ErrNotPersistent
	// ErrLeftShard says that this process is not in the shard any more, and so does not learn which
	// versions are on the disks of its members. With DeliverAfterPersist it also ends the futures
	// of messages that the shard delivers and that this process was not given.
	ErrLeftShard = member.ErrLeftShard
	// ErrNotFinal is returned for a time at or before which more versions may come.
	ErrNotFinal = errors.New("the log is not final at that time yet")
	// ErrNotOnEveryDisk is returned for a snapshot of a version that some member's disk lacks.
	ErrNotOnEveryDisk = persist.ErrNotGlobal
	// ErrLogDamaged says that a log cannot be read; its text says where. The command squall log
	// verify checks the whole log.
	ErrLogDamaged = persist.ErrDamaged
	// ErrLogTruncated is returned for a version before the first one that is kept.
	ErrLogTruncated = persist.ErrTruncated
	// ErrNotInLog is returned for a version or a snapshot that the log does not have.
	ErrNotInLog = persist.ErrNotFound
	// ErrOtherCluster and ErrOtherNode say that a directory belongs to another cluster, or to
	// another node of the cluster.
	ErrOtherCluster = persist.ErrOtherCluster
	ErrOtherNode    = persist.ErrOtherNode
	// ErrNoEngine says that the program does not import the package of a log engine that it needs.
	ErrNoEngine = persist.ErrNoEngine
	// ErrNewerFormat says that a directory was written by a newer version of this package.
	ErrNewerFormat = persist.ErrNewerFormat
	// ErrInUse says that another process uses a directory.
	ErrInUse = persist.ErrInUse
	// ErrDiskStuck halts a group at a member whose disk does not take a change of membership within
	// FailAfter: the others wait for it.
	ErrDiskStuck = member.ErrDiskStuck
	// ErrReadOnlyDisk and ErrDiskFull say why a log cannot be written.
	ErrReadOnlyDisk = persist.ErrReadOnlyDisk
	ErrDiskFull     = persist.ErrDiskFull
)

// Log is this process's log of one shard of a persistent subgroup: every message that was delivered
// there, in order, over all views and restarts. Its methods may be called from any goroutine, but
// not in callbacks where they say that they wait. The records that it returns are on this process's
// disk; Persisted returns how many of them are on every disk.
type Log struct {
	subgroup string
	log      *persist.Log
	frontier *member.Frontier
	upcalls  *upcalls
}

// Log returns this process's log of the shard that it is in. It fails with ErrNotPersistent if
// there is none.
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
	return d.handle(id, k), nil
}

func (d *durable) handle(id persist.LogID, k *shardLog) *Log {
	return &Log{id.Name, k.log, &k.recorder.Frontier, &d.group.upcalls}
}

// Info returns the first and the last record of the log, the number of records, and the space that
// they take.
func (l *Log) Info() LogInfo { return l.log.Info() }

// Persisted returns the version before which everything is on this process's disk, or on every
// member's.
func (l *Log) Persisted(s Stage) Version { return l.frontier.At(member.Stage(s)) }

// WaitPersisted waits until a version is on this process's disk, or on every member's.
func (l *Log) WaitPersisted(ctx context.Context, s Stage, v Version) error {
	return l.frontier.Wait(l.upcalls.bound(ctx), member.Stage(s), v)
}

// Get reads one version. It fails with ErrNotInLog if there is none, and with ErrLogTruncated if it
// is not kept any more.
func (l *Log) Get(v Version) (Record, error) { return l.log.Get(v) }

// Range yields the records of [from, to), in order. The zero Version as from is the first record
// that is kept, which is the first one after the snapshot if there is one; as to, it is the
// present end of the log. An error ends the sequence: ErrLogTruncated if records that it should
// yield are not kept any more.
func (l *Log) Range(from, to Version) iter.Seq2[Record, error] { return l.log.Range(from, to) }

// Tail yields the records from a version on, and then each record that follows, across views, until
// ctx ends.
func (l *Log) Tail(ctx context.Context, from Version) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if err := l.upcalls.waits(); err != nil {
			yield(Record{}, err)
			return
		}
		l.log.Tail(ctx, from)(yield)
	}
}

// At reads the last version whose time is not after t. The answer is final: At waits until no
// version with such a time can come any more, and all of them are on every member's disk. So every
// member gives the same answer, and no failure changes it.
func (l *Log) At(ctx context.Context, t Time) (Record, error) {
	if err := l.settle(ctx, t); err != nil {
		return Record{}, err
	}
	return l.log.At(t)
}

// TryAt is like At, but fails with ErrNotFinal instead of waiting.
func (l *Log) TryAt(t Time) (Record, error) {
	if !l.settled(t) {
		return Record{}, fmt.Errorf("log of subgroup %q at %v: %w: it is settled up to %v", l.subgroup, t, ErrNotFinal, l.frontier.Settled())
	}
	return l.log.At(t)
}

// Between waits until the times of [from, to) are settled, in the sense of At, and then yields the
// records with these times.
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

// settled reports whether no version with such a time can come: the members have said so, or a
// later version is on every disk already.
func (l *Log) settled(t Time) bool {
	if t == math.MaxUint64 { // any version that comes has such a time
		return false
	}
	if t <= l.frontier.Settled() {
		return true
	}
	for next, err := range l.log.Between(t+1, math.MaxInt64) {
		return err == nil && next.Version.Before(l.Persisted(OnEveryDisk))
	}
	return false
}

// Snapshot keeps what write writes as the application's state after a version, and drops the
// records up to that version: from then on the log begins with the record after it. The version
// must be on every member's disk, which WaitPersisted waits for. Subgroup.TakeSnapshot does all of
// that with SubgroupConfig.Snapshot.
func (l *Log) Snapshot(at Version, write func(io.Writer) error) error {
	if !at.Before(l.Persisted(OnEveryDisk)) {
		return fmt.Errorf("snapshot of subgroup %q at %v: %w: what they have comes before %v", l.subgroup, at, ErrNotOnEveryDisk, l.Persisted(OnEveryDisk))
	}
	return l.log.Snapshot(at, write)
}

// OpenSnapshot opens the last snapshot for reading. The Record says after which version the
// snapshot was taken, and has no data. OpenSnapshot fails with ErrNotInLog if there is none.
func (l *Log) OpenSnapshot() (Record, io.ReadCloser, error) { return l.log.OpenSnapshot() }

// boundary is sent to a fresh member of a persistent subgroup. It is the log's last version where
// the deliveries of the view begin.
type boundary struct {
	Last Version `json:"last"` // zero: the log is empty
}
