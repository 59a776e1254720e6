package catchup

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

var (
	// ErrShort says that a source ends before what it has announced.
	ErrShort = errors.New("the source has less than it announced")
	// ErrGap says that a source has dropped what comes behind the snapshot of the own log, and has no
	// snapshot itself.
	ErrGap = errors.New("the source does not reach back to the own snapshot, and has none itself")
	// ErrOther says that the own log, of which nothing may be dropped, is not the beginning of the
	// source's.
	ErrOther = errors.New("the source's log does not begin with this one")
)

// Reader reads a log as far as it is durable.
type Reader interface {
	Info() persist.Info
	Get(v order.Version) (persist.Record, error)
	At(t order.Time) (persist.Record, error) // the last record whose time is not after t
	Range(from, to order.Version) iter.Seq2[persist.Record, error]
	SnapshotEnd() (persist.Record, error) // the last record that the snapshot stands for
}

// Log is the own log.
type Log interface {
	Reader
	Sync() error
	Cut(after order.Version) error // zero: all of it
	Import(r persist.Record) error
	Install(at persist.Record, snapshot io.Reader) error
}

// Source is the log of another process.
type Source interface {
	Ready(before order.Version) (persist.Info, error) // waits until all that lies before a version is on its disk; zero: all that is there
	Probe(v order.Version) (Mark, error)              // the record at a version, or the last one before it
	Snapshot() (at persist.Record, bytes Snapshot, err error)
	Records(b Bounds) iter.Seq2[persist.Record, error]
}

// Snapshot has the bytes of a source's snapshot. Finish reads the rest of them, and says what is
// wrong with them.
type Snapshot interface {
	io.Reader
	Finish() error
	Total() uint64
}

// Bounds select records: versions in [From, To), and times from Since on.
type Bounds struct {
	From, To order.Version
	Since    order.Time
}

// Task has a log become that of a source.
type Task struct {
	Log    Log
	Source Source
	Before order.Version // where it ends; zero: with the source's log as it is then
	Keep   bool          // nothing is dropped of the own log
	Result               // over all sources

	until persist.Info // of the source
}

// Result is what came of a task.
type Result struct {
	Last     order.Version // of the log, with its snapshot; zero: it is empty
	Common   order.Version // up to which the own log was the source's; zero: there was nothing, or it was of no use
	Cut      uint64        // own records that the sources do not have, and that are gone
	Snapshot order.Version // of the snapshot that was installed; zero: none was
	Records  uint64        // that were imported
	Bytes    uint64        // of data, and of snapshots
}

// Progress reports whether a source gave something.
func (r *Result) Progress() bool { return r.Records > 0 || r.Snapshot != order.Version{} }

// OwnError is what the own log said: no source can help.
type OwnError struct{ Err error }

// Error implements error.
func (e OwnError) Error() string { return e.Err.Error() }

// Unwrap returns it.
func (e OwnError) Unwrap() error { return e.Err }

// own marks an error as one of the own log.
func own(err error) error {
	if err == nil {
		return nil
	}
	return OwnError{err}
}

// Run gets all of it from the source. What it appended to the log is durable when it ends, however
// it ends (CU3): the log's end is what others are told, and it must not grow behind that.
func (t *Task) Run() (err error) {
	if err = t.Log.Sync(); err != nil {
		return own(err)
	}
	if t.until, err = t.Source.Ready(t.Before); err != nil {
		return err
	}
	from, err := t.align()
	if err != nil {
		return err
	}
	err = t.fill(from)
	if mutant.Enabled && mutant.On(mutant.CompleteUnsynced) {
		return err
	}
	if late := own(t.Log.Sync()); err == nil {
		err = late
	}
	return err
}

// align makes the own log a part of the source's one, of which nothing in front of its end is
// missing, and returns where it goes on.
func (t *Task) align() (from Bounds, err error) {
	p := &prefix{log: t.Log, source: t.until, probe: func(v order.Version) (Mark, error) {
		if end := t.Before; end != (order.Version{}) && !v.Before(end) { // nothing there is common, even if both have it
			v = lastBefore(end)
		}
		return t.Source.Probe(v)
	}}
	common, err := p.find()
	if err != nil {
		return from, err
	}
	mine := t.Log.Info()
	drops := mine.Count > 0 && (!common.Found || common.Version.Before(mine.Last.Version)) || !common.Found && mine.Snapshot != order.Version{}
	if drops && t.Keep {
		return from, fmt.Errorf("%w: they have version %v in common, and this one goes on to %v", ErrOther, common.Version, mine.Last.Version)
	}
	if !common.Found {
		return t.anew(mine)
	}
	t.Common, t.Last = common.Version, common.Version
	if drops {
		err = t.cut(common.Version, mine.Count)
	}
	return behind(common.Version, common.Time), err
}

// behind are the records behind one.
func behind(v order.Version, t order.Time) Bounds { return Bounds{From: After(v), Since: t + 1} }

// cut drops the own records behind a version.
func (t *Task) cut(after order.Version, had uint64) error {
	if invariants.Enabled {
		invariants.Check(!t.Keep, "CU1", "a log that has to be kept is cut after %v", after)
	}
	if err := t.Log.Cut(after); err != nil {
		return own(err)
	}
	t.Cut += had - t.Log.Info().Count
	return nil
}

// anew drops the own log, of which nothing can be shown to be the source's, and begins with the
// source's snapshot or with the first record that it keeps.
func (t *Task) anew(mine persist.Info) (from Bounds, err error) {
	t.Common, t.Last = order.Version{}, order.Version{}
	if t.until.Snapshot != (order.Version{}) {
		t.Cut += mine.Count
		return t.install()
	}
	if mine.Snapshot != (order.Version{}) {
		return from, fmt.Errorf("%w: it is of %v, and the source begins with %v", ErrGap, mine.Snapshot, t.until.First.Version)
	}
	if mine.Count > 0 {
		if err := t.cut(order.Version{}, mine.Count); err != nil {
			return from, err
		}
	}
	return Bounds{From: t.until.First.Version}, nil
}

// install puts the source's snapshot in place of the own log.
func (t *Task) install() (from Bounds, err error) {
	at, bytes, err := t.Source.Snapshot()
	if err != nil {
		return from, err
	}
	err = t.Log.Install(at, bytes)
	t.Bytes += bytes.Total()
	if theirs := bytes.Finish(); theirs != nil {
		return from, theirs // whatever the own log made of it
	}
	if err != nil {
		return from, own(err)
	}
	t.Snapshot, t.Last = at.Version, at.Version
	return behind(at.Version, at.Time), nil
}

// fill imports what the source has from a version on.
func (t *Task) fill(may Bounds) error {
	may.To = t.Before
	if may.To == (order.Version{}) {
		may.To = After(t.until.Last.Version)
	}
	if t.until.Count == 0 || !may.From.Before(may.To) {
		return nil
	}
	for r, err := range t.Source.Records(may) {
		if err != nil {
			return err
		}
		if err := t.Log.Import(r); err != nil {
			return own(err)
		}
		t.Records, t.Bytes, t.Last = t.Records+1, t.Bytes+uint64(len(r.Data)), r.Version
	}
	if last := t.until.Last.Version; last.Before(may.To) && t.Last.Before(last) {
		return fmt.Errorf("%w: it ended with %v, and announced %v", ErrShort, t.Last, last)
	}
	return nil
}
