package persist

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
)

// ErrNotGlobal is returned for a snapshot of what not every member's disk has yet: a restart may
// still cut it from the log.
var ErrNotGlobal = errors.New("not on every member's disk yet")

// Snapshot keeps what write writes next to the log, instead of all records up to a version: the log
// begins after it from then on, whatever else is in the block of that version. It is durable when
// this returns nil, and blocks that hold nothing but such records are dropped. The snapshot before
// it is replaced; if the new one cannot be written, it stays.
func (l *Log) Snapshot(at order.Version, write func(io.Writer) error) error {
	l.snapshots.Lock()
	defer l.snapshots.Unlock()
	last, err := l.upTo(at)
	if err == nil {
		err = l.mayStand(last)
	}
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { return writeSnapshot(l.store.disk, l.dir, snapshotHead{at: last}, write) },
		func() error { return l.drop(func(b *journal.Book) error { return b.BeginBehind(last) }) },
	}
	if mutant.Enabled && mutant.On(mutant.DropBeforeSnap) {
		steps[0], steps[1] = steps[1], steps[0]
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return l.named(err)
		}
	}
	return nil
}

// upTo returns the last record that is not after a version, without its data. It may be the record
// of the snapshot.
func (l *Log) upTo(at order.Version) (r journal.Record, err error) {
	if err := l.Err(); err != nil {
		return r, err
	}
	err = l.look(func(b *journal.Book) error {
		next, err := b.Seek(behind(at))
		if err == nil && next > b.Origin() {
			r, err = b.Read(next - 1)
			return err
		}
		if err != nil {
			return err
		}
		var have bool
		switch r, have = b.Snapshot(); {
		case !have:
			return fmt.Errorf("version %v: %w", at, ErrNotFound)
		case at.Before(r.Version):
			return fmt.Errorf("version %v: %w: the snapshot that is here is of %v", at, ErrTruncated, r.Version)
		}
		return nil
	})
	r.Data = nil
	return r, err
}

// behind is the smallest version after another one.
func behind(v order.Version) order.Version {
	if v.Seq++; v.Seq == 0 {
		v.View++
	}
	return v
}

// mayStand says whether a snapshot may stand for all records up to one.
func (l *Log) mayStand(last journal.Record) error {
	if g := *l.global.Load(); g.Before(last.Version) {
		return fmt.Errorf("log %v: snapshot of version %v: %w: they have everything up to %v", l.config.ID, last.Version, ErrNotGlobal, g)
	}
	return nil
}

// aboveSnapshot says that what a snapshot stands for is not cut off.
func (l *Log) aboveSnapshot(after order.Version) error {
	h, err := readSnapshotHead(l.dir)
	if err == nil && after.Before(h.at.Version) {
		err = fmt.Errorf("cutting after version %v: %w: the snapshot here is of %v", after, ErrTruncated, h.at.Version)
	}
	if engine.Missing(err) {
		return nil
	}
	return l.named(err)
}

// OpenSnapshot reads the snapshot: at is the last record that it stands for, without data. Its
// content is checked as it is read; where it is damaged, an error stands in place of its end.
// ErrNotFound: there is none.
func (l *Log) OpenSnapshot() (at Record, content io.ReadCloser, err error) {
	s, err := openSnapshot(l.dir)
	if engine.Missing(err) {
		return at, nil, fmt.Errorf("log %v: snapshot: %w", l.config.ID, ErrNotFound)
	}
	if err != nil {
		return at, nil, l.notice(err)
	}
	s.notice = l.notice
	return Record(s.head.at), s, nil
}

// Install replaces the snapshot and the log: with another member's snapshot, and no records yet.
// The next record comes after at. Append must not be called meanwhile. A crash leaves the old
// state or the new one. The order makes it so: the snapshot says that no block up to a certain one
// is part of the log, and is durable at once, in place of the old one; the blocks are dropped
// afterwards, or when the log is opened.
func (l *Log) Install(at Record, content io.Reader) error {
	l.snapshots.Lock()
	defer l.snapshots.Unlock()
	if err := l.Sync(context.Background()); err != nil {
		return err
	}
	if err := l.Err(); err != nil {
		return err
	}
	h := snapshotHead{at: journal.Record(at), block: l.state.Load().end.Block + 1}
	h.at.Data = nil
	err := writeSnapshot(l.store.disk, l.dir, h, func(w io.Writer) error {
		_, err := io.Copy(w, content)
		return err
	})
	if errors.Is(err, journal.ErrUnknown) {
		return l.holding(func() error { return l.named(err) })
	}
	if err != nil {
		return l.named(err)
	}
	return l.holding(func() error {
		err := l.altered(func(b *journal.Book) error { return follow(b, h) })
		if err != nil && !errors.Is(err, journal.ErrUnknown) {
			err = fmt.Errorf("%w: %w", journal.ErrUnknown, err) // the snapshot is there already
		}
		return err
	})
}

// follow has a log begin behind a snapshot that is installed.
func follow(b *journal.Book, h snapshotHead) error {
	if b.End().Block >= h.block {
		return errAppending
	}
	if err := b.Restart(h.end()); err != nil {
		return err
	}
	return b.BeginBehind(h.at)
}
