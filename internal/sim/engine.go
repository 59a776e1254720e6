package sim

import (
	"fmt"
	"slices"

	"github.com/squall-go/squall/internal/journal"
)

// engine is a log on a simulated disk, as a log engine keeps it. It implements journal.Store, and
// is as good as an engine has to be, not better: groups of entries that were not synced may be
// there or not when the power comes back, each as a whole or not at all.
//
// Sync points are: its name and its entries as it is opened, each group of entries, and each cut of
// its end or its beginning.
type engine struct {
	*storedLog
	disk *disk
	memo *memo
	name string
	err  error // why it takes nothing any more
}

// storedLog is a log on a disk.
type storedLog struct {
	exists stored[bool]
	log    stored[entries]
	named  stored[map[string][]byte] // values
	torn   bool                      // there is a part of a group at its end
}

// entries have consecutive indexes.
type entries struct {
	first uint64
	data  [][]byte
}

// next is the index of the entry that comes next; of no meaning if there is none.
func (e entries) next() uint64 { return e.first + uint64(len(e.data)) }

// openEngine opens the log of a name; it is made if it is not there. What the process before has
// written is synced with its name: that process may have ended before it did so.
func openEngine(d *disk, name string) (*engine, error) {
	l := d.logs[name]
	if l == nil && d.full {
		return nil, errFull
	}
	if l == nil {
		l = &storedLog{}
		l.exists.change(true)
		d.logs[name] = l
	}
	if d.lax != NoDirSync {
		d.sync(&l.exists)
	}
	d.sync(&l.log)
	return &engine{storedLog: l, disk: d, name: name, memo: openMemo(d, &l.named)}, nil
}

// lose is the loss of power. It reports whether the log is still there.
func (l *storedLog) lose(d *disk) bool {
	l.exists.lose(d)
	l.torn = l.log.lose(d) || l.torn
	l.named.lose(d)
	return l.exists.seen
}

// tidy drops a part of a group at the end, and reports whether there was one.
func (l *storedLog) tidy() (torn bool) {
	torn, l.torn = l.torn, false
	return torn
}

// onPlatter is how many entries are on the platter, whatever arrives of the rest, name and all.
func (l *storedLog) onPlatter() int {
	if !l.exists.platter {
		return 0
	}
	n := len(l.log.platter.data)
	for _, c := range l.log.changes {
		n = min(n, len(c.data))
	}
	return n
}

// FirstIndex implements journal.Store.
func (e *engine) FirstIndex() (uint64, error) {
	if len(e.log.seen.data) == 0 {
		return 0, nil
	}
	return e.log.seen.first, nil
}

// LastIndex implements journal.Store.
func (e *engine) LastIndex() (uint64, error) {
	if len(e.log.seen.data) == 0 {
		return 0, nil
	}
	return e.log.seen.next() - 1, nil
}

// GetLog implements journal.Store.
func (e *engine) GetLog(index uint64, l *journal.Entry) error {
	has := e.log.seen
	if index < has.first || index >= has.next() {
		return journal.ErrNoEntry
	}
	*l = journal.Entry{Index: index, Data: slices.Clone(has.data[index-has.first])}
	return nil
}

// StoreLogs implements journal.Store.
func (e *engine) StoreLogs(logs []*journal.Entry) error {
	if err := e.write(logs); err != nil {
		return err
	}
	return e.sync()
}

// write is the first half of StoreLogs, which takes no time. A full disk has room for a part of it.
func (e *engine) write(logs []*journal.Entry) error {
	if e.err != nil || len(logs) == 0 {
		return e.err
	}
	if e.disk.full {
		e.err, e.torn = errFull, true
		return e.err
	}
	now := e.log.seen
	if len(now.data) == 0 {
		now.first = logs[0].Index
	}
	for _, l := range logs {
		if l.Index != now.next() {
			return fmt.Errorf("entry %d comes after entry %d", l.Index, now.next()-1)
		}
		now.data = append(now.data, slices.Clone(l.Data))
	}
	e.log.change(now)
	return nil
}

// sync is the second half. Nothing more is taken when a write failed: what it was to take may be
// there or not.
func (e *engine) sync() error {
	if e.err == nil {
		e.disk.sync(&e.log)
	}
	return e.err
}

// DeleteRange implements journal.Store: it drops the end of the log, or its beginning.
func (e *engine) DeleteRange(low, high uint64) error {
	now := e.log.seen
	last := now.next() - 1
	switch {
	case e.err != nil || len(now.data) == 0 || high < low || high < now.first || low > last:
		return e.err
	case high >= last:
		n := max(low, now.first) - now.first
		now.data = now.data[:n:n] // what comes next must not overwrite what the platter has
	case low <= now.first:
		now.first, now.data = high+1, now.data[high+1-now.first:]
	default:
		return fmt.Errorf("entries %d to %d are in the middle of %d to %d", low, high, now.first, last)
	}
	e.log.change(now)
	return e.sync()
}

// Set implements journal.Store.
func (e *engine) Set(key, value []byte) error {
	if e.err != nil {
		return e.err
	}
	return e.memo.Put(map[string][]byte{string(key): value})
}

// Get implements journal.Store.
func (e *engine) Get(key []byte) ([]byte, error) { return e.memo.Get(string(key)) }
