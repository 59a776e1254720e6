package persist

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/internal/background"
	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
)

// Record is one delivered message in a log.
type Record struct {
	Version order.Version // its place in the total order; grows within a log
	Time    order.Time    // of the log's hybrid clock; grows strictly within a log
	Sender  order.NodeID
	Number  uint64 // 0, 1, 2 … over the life of the log; set when the record is read or appended
	Data    []byte
	// Release is looked at by Append only. If it is not nil, Data is not copied but kept until it
	// is on disk; then Release is called once, by the goroutine that writes the log.
	Release func()
}

func (r Record) String() string { return journal.Record(r).String() }

// End is the place after the last record of a log.
type End struct {
	Records uint64        // how many records there are before it, over the life of the log
	Version order.Version // of the last record
	Time    order.Time    // of the last record
}

// Repaired says what was dropped of a log that was damaged when it was opened.
type Repaired struct {
	Blocks  int    // at least so many; 0: nothing was dropped
	Record  uint64 // the number of the first record that was
	Version order.Version
}

// LogID names a log in a store: that of one shard of a subgroup.
type LogID struct {
	Name  string
	Shard int
}

func (id LogID) String() string { return fmt.Sprintf("%s.%d", id.Name, id.Shard) }

// Retention says what may be dropped from the front of a log. Zero fields do not limit; the zero
// value keeps everything. Whole blocks are dropped, and never what is not globally persisted or is
// after a snapshot.
type Retention struct {
	Age     time.Duration
	Bytes   int64
	Records uint64
}

// LogConfig is how a log is opened.
type LogConfig struct {
	ID          LogID
	Engine      Engine // of a log that is new, nil: bolt.Engine; one that is there keeps its own
	MemoryBytes int    // bytes appended and not yet durable; more is back-pressure. 0: 16 MiB
	Retain      Retention
	Sign        ed25519.PrivateKey // optional: a hash chain over all records, its head signed once per group
	Wake        func()             // the loop should look: Durable moved, or there is space again
	Failed      func(error)        // once: the disk failed; nothing is acknowledged afterwards
	// Damaged is called once, when a reader finds that the log is damaged: what is appended is
	// still kept. It must not use the log.
	Damaged func(error)
	// Repair reads all of the log, and drops the first damaged record and what is after it,
	// instead of refusing to open; Info says what was dropped. What cannot be repaired in place, as
	// a snapshot, is refused all the same, and nothing was dropped then.
	Repair bool

	relabeled bool                        // the label was written anew
	wrap      func(engine.Log) engine.Log // nil: none. A test puts an engine that fails in front of the log's
	noteEvery uint64                      // 0: noteBlocks
	driver    engine.Driver               // of the log, once it is placed
}

// Log is one log of a store. Append is for one goroutine at a time; all other methods are safe for
// concurrent use.
//
// One goroutine writes. It takes all that was appended while the disk was busy, stores it as one
// group with one call of the engine (one fdatasync with wal, two with bolt), and says so: the disk
// is never idle while something waits, and nothing waits for a group to fill.
type Log struct {
	store  *Store
	dir    string
	config LogConfig
	engine engine.Log

	mu       sync.Mutex // guards the next five, for some nanoseconds at a time
	journal  *journal.Journal
	idle     bool          // the writer sleeps
	changed  chan struct{} // closed when something became durable, or will never; nil: no goroutine waits
	closing  bool
	failure  error
	work     chan struct{} // wakes the writer
	done     chan struct{} // the writer has ended; nil: there is none
	repaired journal.Repaired
	damaged  atomic.Bool // a reader found that it is

	state  atomic.Pointer[state] // W: the writer, and the goroutine that holds files
	global atomic.Pointer[order.Version]

	snapshots sync.Mutex // held while a snapshot is replaced
	retained  time.Time  // W: the writer. When retention was looked at

	least uint64     // the block of the last note of how far the log goes; 0: there is none. files guards it.
	files sync.Mutex // held while the engine is written to
	read  sync.Mutex // guards book, for some milliseconds at a time
	book  *journal.Book
}

// state is how far the log is durable.
type state struct {
	records uint64 // since it was opened
	end     journal.End
	epoch   uint64 // changes when something was cut or dropped: what a book knows is wrong then
}

// openLog opens the log in a directory that has an engine's files.
func openLog(ctx context.Context, s *Store, dir string, c LogConfig) (_ *Log, err error) {
	l := &Log{store: s, dir: dir, config: c, work: make(chan struct{}, 1)}
	o := engine.Opening{Context: ctx, ReadOnly: s.config.ReadOnly, Repair: c.Repair}
	opened, err := engine.Open(o, c.driver, dir)
	if err != nil {
		return nil, err
	}
	l.engine, opened.Until = opened, ctx
	if c.wrap != nil {
		l.engine = c.wrap(l.engine)
	}
	if err := l.openBook(ctx); err != nil {
		return nil, errors.Join(err, l.engine.Close())
	}
	opened.Until = nil
	l.global.Store(&order.Version{})
	l.state.Store(&state{end: l.book.End()})
	l.journal = journal.New(journal.Config{Memory: c.MemoryBytes, Block: c.driver.BlockBytes(), After: l.book.End(), Chain: l.chain()})
	if !s.config.ReadOnly {
		l.done = make(chan struct{})
		go l.run()
	}
	return l, nil
}

// openBook finds the ends of the log, and repairs the log if LogConfig.Repair asks for it.
func (l *Log) openBook(ctx context.Context) (err error) {
	name := l.dir
	if l.store.config.ReadOnly {
		if l.book, err = journal.ReadBook(l.engine, name); err == nil {
			err = l.checkEnd()
		}
		if err == nil {
			err = settleSnapshot(l.book, l.dir)
		}
		return err
	}
	var dropped journal.Repaired
	if l.config.Repair {
		if _, err = readWhole(ctx, l.dir); err != nil {
			return err
		}
		if dropped, err = journal.Repair(l.engine, name); err != nil {
			return err
		}
	}
	if l.book, l.repaired, err = journal.OpenBook(l.engine, name); dropped.Blocks > 0 {
		l.repaired = dropped
	}
	if err == nil {
		err = l.checkEnd()
	}
	if errors.Is(err, ErrDamaged) {
		return fmt.Errorf("%w; %s", err, engine.LogAdvice)
	}
	if err != nil {
		return engine.Named(err, name)
	}
	return l.settle()
}

// chain is that of a signed log.
func (l *Log) chain() *journal.Chain {
	if l.config.Sign == nil {
		return nil
	}
	o := journal.Origin{Cluster: l.store.Cluster(), Node: l.store.Node(), Log: l.config.ID.Name, Shard: l.config.ID.Shard}
	return journal.NewChain(o, l.config.Sign, l.book.End().Head)
}

// Append takes a record: false if there is no space, then Wake comes when there is; or if the log
// failed or is closed. It copies the data unless the record has a Release, never waits for the
// disk, and sets the record's time and number. Versions must grow.
func (l *Log) Append(r *Record) bool {
	l.mu.Lock()
	ok := l.done != nil && !l.closing && l.journal.Append((*journal.Record)(r))
	wake := ok && l.idle
	if wake {
		l.idle = false
	}
	l.mu.Unlock()
	if wake {
		l.work <- struct{}{}
	}
	return ok
}

// Appended is how many records were appended since the log was opened.
func (l *Log) Appended() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.journal.Appended()
}

// Durable is how many of them are on disk, and the version of the last record that is, whenever it
// was appended.
func (l *Log) Durable() (records uint64, last order.Version) {
	s := l.state.Load()
	return s.records, s.end.Version
}

// largeGroup is how many bytes it takes for a group to cost more processor time than the loops of a
// machine can spare at once.
const largeGroup = 64 << 10

// run is the writer. A large group is written by a thread of low priority, so that it does not take
// the core from the loop, and a small one by this goroutine, without the switch.
func (l *Log) run() {
	defer close(l.done)
	var hand background.Hand
	defer hand.Close()
	var err error
	write := func() { err = l.writeGroup() }
	for l.await() {
		if l.journal.Underway() < largeGroup {
			write()
		} else {
			hand.Do(write)
		}
		l.written(err)
		if err != nil {
			return
		}
		if err := errors.Join(l.retain(), l.note()); err != nil {
			l.fail(err)
			return
		}
	}
}

// note notes how far the log goes, which is durable, if it goes far beyond the note before.
func (l *Log) note() error {
	l.files.Lock()
	defer l.files.Unlock()
	end := l.state.Load().end
	if every := cmp.Or(l.config.noteEvery, noteBlocks); end.Block < l.least+every {
		return nil
	}
	return l.noteLeast(end)
}

// writeGroup writes the group that is under way.
func (l *Log) writeGroup() error {
	l.files.Lock()
	defer l.files.Unlock()
	l.mu.Lock()
	failed := l.failure // since the group was taken: another goroutine changed the files
	l.mu.Unlock()
	if failed != nil {
		return failed
	}
	return l.engine.StoreLogs(l.journal.Finish())
}

// await takes what accumulated; it sleeps while there is nothing. false: the log is closed, and
// everything is written.
func (l *Log) await() bool {
	for {
		l.mu.Lock()
		took := l.journal.Take()
		l.idle = !took
		closing := l.closing
		l.mu.Unlock()
		if took || closing {
			return took
		}
		if err := l.rest(); err != nil {
			l.fail(err)
			return false
		}
	}
}

// written wakes the goroutines that wait for this Log, and the loop (Wake).
func (l *Log) written(err error) {
	if err != nil {
		l.fail(err)
		return
	}
	l.mu.Lock()
	l.journal.Written(nil)
	records, _ := l.journal.Durable()
	l.state.Store(&state{records: records, end: l.journal.End(), epoch: l.state.Load().epoch})
	l.broadcast()
	l.mu.Unlock()
	if l.config.Wake != nil {
		l.config.Wake()
	}
}

// broadcast wakes all that wait for a change. The caller holds mu.
func (l *Log) broadcast() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// change is a channel that is closed at the next change. The caller holds mu.
func (l *Log) change() <-chan struct{} {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// fail ends the log: what is durable stays, nothing more will be.
func (l *Log) fail(err error) { l.end(err)() }

// end does this, and returns what tells of it: a caller that holds a lock lets go of it first.
func (l *Log) end(err error) (tell func()) {
	err = fmt.Errorf("log %v: %w", l.config.ID, engine.Named(err, l.dir))
	l.mu.Lock()
	first := l.failure == nil
	if first {
		l.failure = err
		l.journal.Written(err)
	}
	l.broadcast()
	l.mu.Unlock()
	if !first || l.config.Failed == nil {
		return func() {}
	}
	return func() { l.config.Failed(err) }
}

// Err is why the log failed; nil: it did not.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken()
}

// broken is why nothing can be appended. The caller holds mu.
func (l *Log) broken() error {
	switch {
	case l.failure != nil:
		return l.failure
	case l.closing:
		return fmt.Errorf("log %v: %w", l.config.ID, ErrClosed)
	case l.done == nil:
		return fmt.Errorf("log %v: %w: it was opened to be read only", l.config.ID, ErrReadOnlyDisk)
	}
	return nil
}

// Import appends a record of another member's log, with the time that it has in that log. It waits
// for space. Append must not be called meanwhile.
func (l *Log) Import(ctx context.Context, r Record) error {
	r.Release = nil
	for {
		l.mu.Lock()
		err := l.imports(&r)
		var wait <-chan struct{}
		if err == nil && !l.journal.AppendAt(journal.Record(r)) {
			wait = l.change()
		}
		wake := err == nil && wait == nil && l.idle
		if wake {
			l.idle = false
		}
		l.mu.Unlock()
		if wake {
			l.work <- struct{}{}
		}
		if err != nil || wait == nil {
			return err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// imports says why a record cannot be imported. It comes from elsewhere, so that it may be
// anything. The caller holds mu.
func (l *Log) imports(r *Record) error {
	if err := l.broken(); err != nil {
		return err
	}
	if last := l.journal.Last(); !last.Version.Before(r.Version) || r.Time <= last.Time {
		return fmt.Errorf("log %v: version %v of %v: %w %v of %v", l.config.ID, r.Version, r.Time, ErrOrder, last.Version, last.Time)
	}
	return nil
}

// ErrOrder is returned for a record to be imported that does not come after the last one of the
// log.
var ErrOrder = errors.New("it does not come after the last record,")

// Sync waits until everything that was appended so far is durable.
func (l *Log) Sync(ctx context.Context) error {
	for target := l.Appended(); ; {
		l.mu.Lock()
		records, _ := l.journal.Durable()
		err, wait := l.failure, l.change()
		l.mu.Unlock()
		if records >= target || err != nil {
			return err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// SetGlobal says that every member's disk has everything up to a version. It only grows.
func (l *Log) SetGlobal(v order.Version) {
	for {
		old := l.global.Load()
		if !old.Before(v) || l.global.CompareAndSwap(old, &v) {
			return
		}
	}
}

// Cut drops everything after a version, durably. It waits first for what was appended; nothing may
// be appended meanwhile.
func (l *Log) Cut(after order.Version) error {
	if err := l.Sync(context.Background()); err != nil {
		return err
	}
	if err := l.aboveSnapshot(after); err != nil {
		return err
	}
	return l.alter(func(b *journal.Book) error {
		next, err := b.Seek(behind(after))
		if err != nil {
			return err
		}
		return b.CutFrom(next)
	})
}

// alter changes what is on disk otherwise than by appending to it, and lets the journal and all
// readers go on from there.
func (l *Log) alter(change func(*journal.Book) error) error {
	return l.holding(func() error { return l.altered(change) })
}

// altered is alter for a caller that holds the files.
func (l *Log) altered(change func(*journal.Book) error) error {
	l.mu.Lock()
	err, used := l.broken(), l.journal.Used()
	l.mu.Unlock()
	if err == nil && used > 0 {
		err = fmt.Errorf("log %v: %w", l.config.ID, errAppending)
	}
	if err != nil {
		return err
	}
	if err := l.forgetLeast(); err != nil {
		return fmt.Errorf("log %v: %w: %w", l.config.ID, journal.ErrUnknown, engine.Named(err, l.dir))
	}
	return l.rewrite(change, func(end journal.End) { l.journal.Restart(end) })
}

// holding changes the files. If what they hold is not known afterwards, the log has failed: what
// was appended to it might not be there when it is opened again, or be cut off by a change that was
// noted.
func (l *Log) holding(change func() error) error {
	l.files.Lock()
	err := change()
	tell := func() {}
	if errors.Is(err, journal.ErrUnknown) && !errors.Is(err, errFront) {
		tell = l.end(err)
	}
	l.files.Unlock()
	tell()
	return err
}

var errAppending = errors.New("it is appended to while it is cut")

// drop changes only the front of the log, which nothing that is appended depends on.
func (l *Log) drop(change func(*journal.Book) error) error {
	return l.holding(func() error {
		err := l.rewrite(change, nil)
		if errors.Is(err, ErrDamaged) {
			err = fmt.Errorf("%w: %w", errFront, err)
		}
		return err
	})
}

// errFront is returned when damage keeps the front of a log from being dropped. What is appended
// does not depend on it.
var errFront = errors.New("the front stays")

// rewrite lets the book change the files, which the caller holds. Without then, the end of the log
// stays: the writer may have made it known meanwhile that it is further behind than the book says.
func (l *Log) rewrite(change func(*journal.Book) error, then func(journal.End)) error {
	l.read.Lock()
	defer l.read.Unlock()
	if err := l.readable(); err != nil {
		return err
	}
	err := l.book.Extend(l.state.Load().end)
	if err == nil {
		err = change(l.book)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("log %v: %w", l.config.ID, engine.Named(err, l.dir))
	}
	old := l.state.Load()
	next := &state{records: old.records, end: old.end, epoch: old.epoch + 1}
	if then != nil {
		next.end = l.book.End()
		then(next.end)
	}
	l.state.Store(next)
	l.broadcast()
	return nil
}

// close writes what was appended, and closes the files. It returns nil if all of that is durable.
func (l *Log) close() error {
	l.mu.Lock()
	wake := !l.closing && l.idle && l.done != nil
	l.closing = true
	if wake {
		l.idle = false
	}
	l.mu.Unlock()
	if wake {
		l.work <- struct{}{}
	}
	if l.done != nil {
		<-l.done
	}
	l.mu.Lock()
	err := l.failure
	l.broadcast()
	l.mu.Unlock()
	l.read.Lock()
	defer l.read.Unlock()
	if err == nil && l.done != nil {
		err = l.noteEnd()
	}
	return errors.Join(err, l.engine.Close())
}

// settle makes a log that was opened ready to be written to.
func (l *Log) settle() error {
	if err := errors.Join(l.noteLeast(l.book.End()), l.forgetEnd()); err != nil {
		return engine.Named(err, l.dir)
	}
	return settleSnapshot(l.book, l.dir)
}
