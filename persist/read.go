package persist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
)

// Info describes a log as it is on disk.
type Info struct {
	ID          LogID
	Engine      string        // its name
	First, Last Record        // without data and sender; the zero value if Count is 0
	Count       uint64        // records that can be read: from First to Last, and all of them after the snapshot
	Bytes       int64         // of the blocks with these records: with what the log adds to them, and records in the first block that the snapshot stands for
	DiskBytes   int64         // that the files take, with what is set aside for what comes
	Global      order.Version // every member's disk has everything up to it
	Snapshot    order.Version // of the snapshot next to the log; zero: none
	Repaired    Repaired
	Relabeled   bool // its label was damaged, and was written anew when it was opened
}

// Info describes the log. What cannot be read is left out.
func (l *Log) Info() Info {
	i := Info{ID: l.config.ID, Engine: l.config.driver.String(), Global: *l.global.Load(), Repaired: Repaired(l.repaired), DiskBytes: diskBytes(l.dir), Relabeled: l.config.relabeled}
	if h, err := readSnapshotHead(l.dir); err == nil {
		i.Snapshot = h.at.Version
	}
	_ = l.look(func(b *journal.Book) error {
		if b.Count() == 0 {
			return nil
		}
		e := b.End()
		i.Count, i.Last = b.Count(), Record{Number: e.Records - 1, Version: e.Version, Time: e.Time}
		if h, ok := b.First(); ok {
			i.Bytes = int64(e.Bytes - h.Offset)
		}
		if r, ok := b.Oldest(); ok {
			i.First = Record(r)
		}
		return nil
	})
	return i
}

// End is where the log ends on disk, whatever can be read of it.
func (l *Log) End() End {
	e := l.state.Load().end
	return End{Records: e.Records, Version: e.Version, Time: e.Time}
}

// diskBytes adds up the files of a directory.
func diskBytes(dir string) (bytes int64) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// look asks the book that all readers of single records share.
func (l *Log) look(ask func(*journal.Book) error) error {
	l.read.Lock()
	defer l.read.Unlock()
	if err := l.readable(); err != nil {
		return err
	}
	err := l.book.Extend(l.state.Load().end)
	if err == nil {
		err = ask(l.book)
	}
	return l.notice(err)
}

// readable says whether the files are still open. A log whose disk failed can be read, a closed one
// cannot.
func (l *Log) readable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return fmt.Errorf("log %v: %w", l.config.ID, ErrClosed)
	}
	return nil
}

func (l *Log) named(err error) error {
	if err == nil {
		return nil
	}
	if d := (*journal.Damage)(nil); errors.As(err, &d) {
		return fmt.Errorf("log %v: %w; %s", l.config.ID, err, engine.LogAdvice)
	}
	return fmt.Errorf("log %v: %w", l.config.ID, err)
}

// notice is named, and tells of the first damage that is found.
func (l *Log) notice(err error) error {
	err = l.named(err)
	if errors.Is(err, ErrDamaged) && !l.damaged.Swap(true) && l.config.Damaged != nil {
		l.config.Damaged(err)
	}
	return err
}

// Get reads the record of a version.
func (l *Log) Get(v order.Version) (Record, error) {
	return l.one(func(b *journal.Book) (uint64, error) { return b.Find(v) })
}

// At reads the last record whose time is not after t.
func (l *Log) At(t order.Time) (Record, error) {
	return l.one(func(b *journal.Book) (uint64, error) { return b.FindTime(t) })
}

// one reads the record whose number is found.
func (l *Log) one(find start) (Record, error) {
	var r journal.Record
	err := l.look(func(b *journal.Book) error {
		n, err := find(b)
		if err == nil {
			r, err = b.Read(n)
		}
		return err
	})
	return Record(r), err
}

// Range reads the records of [from, to). A zero from is the first record that is kept, which is the
// one after the snapshot if there is one; a zero to is what is durable when the loop begins. What
// it should read and was dropped from the front is an ErrTruncated, and so is what a snapshot
// stands for.
//
// This goes for all loops over a log: data is the reader's own, as a part of a block that stays in
// memory as long as the data of one of its records is kept. After an error there is nothing more.
func (l *Log) Range(from, to order.Version) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		l.each(yield, byVersion(from), func(r *Record) bool { return to == order.Version{} || r.Version.Before(to) })
	}
}

// Between reads the records whose times are in [from, to). A zero from is the first record that is
// kept, a zero to what is durable when the loop begins.
func (l *Log) Between(from, to order.Time) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		l.each(yield, byTime(from), func(r *Record) bool { return to == 0 || r.Time < to })
	}
}

// Tail reads from a version on, and then what is appended, as soon as it is durable, until the
// context ends: its error is the last thing. Views come and go meanwhile. A log that is closed, or
// failed, ends it too. A zero from is the first record that is kept.
func (l *Log) Tail(ctx context.Context, from order.Version) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		c, err := l.cursor(byVersion(from))
		for err == nil && ctx.Err() == nil {
			if !c.read(math.MaxUint64, func(r *Record) bool { return yield(*r, nil) }, &err) && err == nil {
				return
			}
			if err == nil {
				err = c.wait(ctx)
			}
		}
		yield(Record{}, cmp.Or(err, ctx.Err()))
	}
}

// each yields the records that are durable now, from a start on, as long as wanted returns true.
func (l *Log) each(yield func(Record, error) bool, start start, wanted func(*Record) bool) {
	c, err := l.cursor(start)
	if err == nil {
		c.read(c.book.End().Records, func(r *Record) bool { return wanted(r) && yield(*r, nil) }, &err)
	}
	if err != nil {
		yield(Record{}, err)
	}
}

// start finds the number that a loop starts with.
type start func(*journal.Book) (uint64, error)

func byVersion(v order.Version) start {
	return func(b *journal.Book) (uint64, error) {
		if v == (order.Version{}) {
			return b.Origin(), nil
		}
		if err := b.Reaches(v); err != nil {
			return 0, err
		}
		return b.Seek(v)
	}
}

func byTime(t order.Time) start {
	return func(b *journal.Book) (uint64, error) {
		if t == 0 {
			return b.Origin(), nil
		}
		if err := b.ReachesTime(t); err != nil {
			return 0, err
		}
		return b.SeekTime(t)
	}
}

// cursor is where a loop is. It has a book of its own, so that loops do not wait for each other.
type cursor struct {
	log   *Log
	book  *journal.Book
	epoch uint64
	next  uint64        // number of the record that comes next
	last  order.Version // of the last record that was read
}

func (l *Log) cursor(start start) (*cursor, error) {
	c := &cursor{log: l}
	err := c.fork()
	if err == nil {
		c.next, err = start(c.book)
	}
	return c, c.notice(err)
}

// notice tells of damage, unless the log was changed behind this book: then what is missing was cut
// or dropped.
func (c *cursor) notice(err error) error {
	if c.log.state.Load().epoch != c.epoch {
		return c.log.named(err)
	}
	return c.log.notice(err)
}

func (c *cursor) fork() error {
	l := c.log
	return l.look(func(b *journal.Book) error {
		c.book, c.epoch = b.Fork(), l.state.Load().epoch
		return nil
	})
}

// follow takes in what changed: records were added, or something was cut or dropped.
func (c *cursor) follow() error {
	s := c.log.state.Load()
	if s.epoch == c.epoch {
		return c.book.Extend(s.end)
	}
	if err := c.fork(); err != nil || c.next <= c.book.End().Records {
		return err
	}
	return fmt.Errorf("%w: record %d was cut off", ErrNotFound, c.next)
}

// read yields the records before a number that are here; false if the loop is to end.
func (c *cursor) read(to uint64, yield func(*Record) bool, failed *error) bool {
	for {
		err := c.stretch(to, yield)
		switch {
		case err == nil:
			return true
		case errors.Is(err, errLeft):
			return false
		case (errors.Is(err, ErrTruncated) || errors.Is(err, ErrDamaged)) && c.log.state.Load().epoch != c.epoch:
			if err = c.follow(); err == nil {
				continue
			}
		}
		*failed = c.notice(err)
		return false
	}
}

var errLeft = errors.New("the loop was left")

// stretch reads on as far as the book goes.
func (c *cursor) stretch(to uint64, yield func(*Record) bool) error {
	if err := c.log.readable(); err != nil {
		return err
	}
	for r, err := range c.book.Records(c.next) {
		if err != nil {
			return err
		}
		if r.Number >= to {
			return nil
		}
		c.next, c.last = r.Number+1, r.Version
		if !yield((*Record)(&r)) {
			return errLeft
		}
	}
	return nil
}

// wait returns when there may be more to read.
func (c *cursor) wait(ctx context.Context) error {
	l := c.log
	l.mu.Lock()
	err, wait := l.broken(), l.change()
	if errors.Is(err, ErrReadOnlyDisk) {
		err = nil // nothing will come
	}
	ready := l.state.Load().end.Records > c.next || l.state.Load().epoch != c.epoch
	l.mu.Unlock()
	if ready {
		return c.notice(c.follow())
	}
	if err != nil {
		return err
	}
	select {
	case <-wait:
		return c.notice(c.follow())
	case <-ctx.Done():
		return ctx.Err()
	}
}
