package squall

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/persist"
)

// SnapshotPolicy says when a process takes a snapshot of a persistent subgroup by itself, so that
// neither its log nor the time of a restart grows without end. It takes one when a limit is
// reached. A field of 0 is no limit; the zero value takes no snapshot.
//
// A snapshot is taken only when the log has grown by at least the size of the last snapshot, too.
// So a large state is not written again and again for small changes, and snapshots at most double
// what is written.
type SnapshotPolicy struct {
	Records uint64        // records in the log after the last snapshot
	Bytes   int64         // bytes of these records
	Every   time.Duration // time since the last snapshot, if there is a record after it
}

// DefaultSnapshots returns the policy of persistent objects and persistent spaces of topics, unless
// LogConfig.Snapshots has another one.
func DefaultSnapshots() SnapshotPolicy { return SnapshotPolicy{Records: 1 << 20, Bytes: 64 << 20} }

// NoSnapshots returns the policy of a process that takes no snapshot by itself, where there is a
// default.
func NoSnapshots() SnapshotPolicy { return SnapshotPolicy{Bytes: -1} }

// takes reports whether the policy ever takes a snapshot.
func (p SnapshotPolicy) takes() bool { return p.Records > 0 || p.Bytes > 0 || p.Every > 0 }

// due reports whether a snapshot is to be taken of a log that has grown so much, when the last one
// was taken or tried so long ago. If it is not, it returns the time after which Every makes it due,
// or 0.
func (p SnapshotPolicy) due(g persist.Growth, since time.Duration) (now bool, after time.Duration) {
	switch {
	case g.Records == 0 || g.Bytes < g.SnapshotBytes:
		return false, 0
	case p.Records > 0 && g.Records >= p.Records, p.Bytes > 0 && g.Bytes >= p.Bytes, p.Every > 0 && since >= p.Every:
		return true, 0
	case p.Every > 0:
		return false, p.Every - since
	}
	return false, 0
}

// Pauses of the goroutine that takes snapshots by policy: between two looks at a log that grows,
// and after a snapshot that failed.
const (
	snapshotLook  = time.Second
	snapshotRetry = time.Minute
)

// snapshotter takes snapshots of a subgroup by its policy. Grown is rung when the log may have
// grown.
type snapshotter struct {
	subgroup *Subgroup
	policy   SnapshotPolicy
	grown    wait.Bell
	last     time.Time // when the last snapshot was taken or tried, or the group was opened
}

func newSnapshotter(s *Subgroup, p SnapshotPolicy) *snapshotter {
	return &snapshotter{subgroup: s, policy: p, grown: wait.NewBell(), last: time.Now()}
}

// run takes snapshots until ctx ends.
func (a *snapshotter) run(ctx context.Context) {
	for {
		var after <-chan time.Time
		if now, in := a.look(); now {
			if err := a.take(ctx); err != nil && wait.Sleep(ctx, snapshotRetry) != nil {
				return
			}
		} else if in > 0 {
			after = time.After(in)
		}
		if wait.Sleep(ctx, snapshotLook) != nil {
			return
		}
		select {
		case <-a.grown:
		case <-after:
		case <-ctx.Done():
			return
		}
	}
}

// look reports whether a snapshot is to be taken, or after which time one may be.
func (a *snapshotter) look() (now bool, after time.Duration) {
	s := a.subgroup
	shard, ok := s.Shard()
	if !ok {
		return false, 0
	}
	k := s.group.durable.get(persist.LogID{Name: s.decl.Name, Shard: shard})
	if k == nil {
		return false, 0
	}
	g, err := k.log.Growth()
	if err != nil { // it is damaged, or closed: others report it
		return false, 0
	}
	return a.policy.due(g, time.Since(a.last))
}

// take takes a snapshot. It returns an error if another attempt should wait.
func (a *snapshotter) take(ctx context.Context) error {
	began := time.Now()
	a.last = began
	s := a.subgroup
	at, err := s.takeSnapshot(ctx, func(w io.Writer) io.Writer { return until{ctx, w} })
	switch {
	case ctx.Err() != nil || errors.Is(err, ErrLeftShard):
		return nil
	case err != nil:
		s.group.cfg.emit(SnapshotFailed{Subgroup: s.decl.Name, Err: err})
		return err
	case at != (Version{}):
		s.group.cfg.emit(SnapshotTaken{Subgroup: s.decl.Name, Version: at, Took: time.Since(began)})
	}
	return nil
}

// until is a writer that fails when its context has ended, so that a group that closes does not
// wait until a large state is written.
type until struct {
	ctx context.Context
	io.Writer
}

func (u until) Write(b []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.Writer.Write(b)
}
