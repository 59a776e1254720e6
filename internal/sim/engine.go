package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/internal/journal"
)

// engine is a log on a simulated disk, as a log engine keeps it: a directory with one file to which entries are appended. It implements
// journal.Store, and is as good as an engine has to be, not better: entries that were not synced may be there or not when the power
// comes back, a torn one is dropped as it is opened, and one that has rotted is given as it is.
//
//	entry   | length 4 | entries of its group behind it 4 | index 8 | CRC-32C of these and the data 4 | data |
//
// A group is there as a whole or not at all: the last of its entries makes it count. Named values lie in a file beside it.
//
// Sync points are: the directories and the file as it is made, each group of entries, each cut of the end, and, as the beginning is
// dropped, the file that takes the place of the one before, and its name.
type engine struct {
	disk  *disk
	dir   string
	name  string // of its file
	first uint64 // index of the first entry
	ends  []int  // where each entry ends in the file
	memo  *memo
	torn  int   // bytes that were dropped as it was opened
	err   error // why it takes nothing any more
}

const entryHeader = 20

// openEngine opens the log in a directory; it is made if it is not there. Names are synced whether they are there or not: the process that made them
// may have ended before that, and all that is written would be lost with one of them.
func openEngine(d *disk, dir string) (*engine, error) {
	e := &engine{disk: d, dir: dir, name: dir + "/log"}
	if err := makeDirs(d, dir); err != nil {
		return nil, err
	}
	if _, err := d.read(e.file()); errors.Is(err, fs.ErrNotExist) {
		if err := d.create(e.file()); err != nil {
			return nil, err
		}
	}
	if err := e.tidy(); err != nil {
		return nil, err
	}
	if err := d.syncDir(dir); err != nil {
		return nil, err
	}
	var err error
	if e.memo, err = openMemo(d, dir); err != nil {
		return nil, err
	}
	return e, e.load()
}

func (e *engine) file() string { return e.name }

// fresh is the file that takes the place of another one.
func (e *engine) fresh() string { return e.dir + "/log.new" }

// makeDirs makes a directory and its parents, and syncs their names.
func makeDirs(d *disk, path string) error {
	parent := ""
	for i := range len(path) + 1 {
		if i < len(path) && path[i] != '/' {
			continue
		}
		if err := d.mkdir(path[:i]); err != nil {
			return err
		}
		if err := d.syncDir(parent); err != nil {
			return err
		}
		parent = path[:i]
	}
	return nil
}

// tidy removes what a change that was not finished has left.
func (e *engine) tidy() error {
	if err := e.disk.remove(e.fresh()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// load finds the entries. What lies behind the last group that ends with an entry that checks is torn, and dropped.
func (e *engine) load() error {
	data := e.seen()
	whole, index := 0, uint64(0)
	for off := 0; ; {
		h, ok := parseEntry(data[off:])
		if h.bytes == 0 || len(e.ends) > 0 && h.index != index+1 {
			break
		}
		if len(e.ends) == 0 {
			e.first = h.index
		}
		off, index = off+h.bytes, h.index
		if e.ends = append(e.ends, off); ok && h.behind == 0 {
			whole = len(e.ends)
		}
	}
	e.ends = e.ends[:whole]
	if e.torn = len(data) - e.end(); e.torn == 0 {
		return e.disk.sync(e.file()) // the process that wrote it may have ended before that
	}
	return e.cut(e.end())
}

// entryHead is what stands before the data of an entry.
type entryHead struct {
	bytes  int // with the data
	behind uint32
	index  uint64
}

// parseEntry is the head of the entry at the beginning of some data, and whether it checks. One without bytes is none.
func parseEntry(data []byte) (h entryHead, ok bool) {
	if len(data) < entryHeader {
		return h, false
	}
	n := entryHeader + int(binary.LittleEndian.Uint32(data))
	if n > len(data) {
		return h, false
	}
	h = entryHead{n, binary.LittleEndian.Uint32(data[4:]), binary.LittleEndian.Uint64(data[8:])}
	return h, entrySum(data[:16], data[entryHeader:n]) == binary.LittleEndian.Uint32(data[16:])
}

// appendEntry encodes an entry.
func appendEntry(b []byte, l *journal.Entry, behind int) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(l.Data)))
	b = binary.LittleEndian.AppendUint32(b, uint32(behind))
	b = binary.LittleEndian.AppendUint64(b, l.Index)
	b = binary.LittleEndian.AppendUint32(b, entrySum(b[start:], l.Data))
	return append(b, l.Data...)
}

func entrySum(header, data []byte) uint32 {
	return crc.Add(crc.Of(header), data)
}

func (e *engine) end() int {
	if len(e.ends) == 0 {
		return 0
	}
	return e.ends[len(e.ends)-1]
}

// start is where the entry at a place begins.
func (e *engine) start(k int) int {
	if k == 0 {
		return 0
	}
	return e.ends[k-1]
}

func (e *engine) cut(at int) error {
	if err := e.disk.truncate(e.file(), at); err != nil {
		return err
	}
	return e.disk.sync(e.file())
}

// FirstIndex implements journal.Store.
func (e *engine) FirstIndex() (uint64, error) {
	if len(e.ends) == 0 {
		return 0, nil
	}
	return e.first, nil
}

// LastIndex implements journal.Store.
func (e *engine) LastIndex() (uint64, error) {
	if len(e.ends) == 0 {
		return 0, nil
	}
	return e.first + uint64(len(e.ends)) - 1, nil
}

// GetLog implements journal.Store.
func (e *engine) GetLog(index uint64, l *journal.Entry) error {
	k := index - e.first
	if index < e.first || k >= uint64(len(e.ends)) {
		return journal.ErrNoEntry
	}
	*l = journal.Entry{Index: index, Data: append([]byte(nil), e.seen()[e.start(int(k))+entryHeader:e.ends[k]]...)}
	return nil
}

// StoreLogs implements journal.Store.
func (e *engine) StoreLogs(logs []*journal.Entry) error {
	if err := e.write(logs); err != nil {
		return err
	}
	return e.sync()
}

// write is the first half of StoreLogs, which takes no time.
func (e *engine) write(logs []*journal.Entry) error {
	if e.err != nil || len(logs) == 0 {
		return e.err
	}
	last, _ := e.LastIndex()
	size := 0
	for _, l := range logs {
		size += entryHeader + len(l.Data)
	}
	text, ends := make([]byte, 0, size), make([]int, 0, len(logs))
	for k, l := range logs {
		if last > 0 && l.Index != last+1 {
			return fmt.Errorf("entry %d comes after entry %d", l.Index, last)
		}
		text, last = appendEntry(text, l, len(logs)-1-k), l.Index
		ends = append(ends, e.end()+len(text))
	}
	if e.err = e.disk.extend(e.file(), text); e.err != nil {
		return e.err
	}
	if len(e.ends) == 0 {
		e.first = logs[0].Index
	}
	e.ends = append(e.ends, ends...)
	return nil
}

// sync is the second half. Nothing more is taken when it failed: what it was to take may be there or not.
func (e *engine) sync() error {
	if e.err == nil {
		e.err = e.disk.sync(e.file())
	}
	return e.err
}

// DeleteRange implements journal.Store: it drops the end of the log, or its beginning.
func (e *engine) DeleteRange(low, high uint64) error {
	last, _ := e.LastIndex()
	switch {
	case e.err != nil || len(e.ends) == 0 || high < low || high < e.first || low > last:
		return e.err
	case high >= last:
		return e.dropEnd(int(max(low, e.first) - e.first))
	case low <= e.first:
		return e.dropBeginning(int(high - e.first + 1))
	}
	return fmt.Errorf("entries %d to %d are in the middle of %d to %d", low, high, e.first, last)
}

// dropEnd keeps n entries.
func (e *engine) dropEnd(n int) error {
	e.ends = e.ends[:n]
	if h, _ := parseEntry(e.seen()[e.start(max(n-1, 0)):]); n > 0 && h.behind > 0 {
		e.err = e.regroup()
		return e.err
	}
	e.err = e.cut(e.end())
	return e.err
}

// regroup writes all entries anew, each a group of its own: the last one would not count without the entries that are dropped.
func (e *engine) regroup() error {
	var text []byte
	for k := range e.ends {
		var l journal.Entry
		if err := e.GetLog(e.first+uint64(k), &l); err != nil {
			return err
		}
		text = appendEntry(text, &l, 0)
	}
	return e.replaceBy(text)
}

// seen is what is in the file, which is there.
func (e *engine) seen() []byte {
	data, err := e.disk.read(e.file())
	if err != nil {
		panic(err)
	}
	return data
}

// dropBeginning drops n entries. The rest goes into another file, which takes the place of this one.
func (e *engine) dropBeginning(n int) error {
	from := e.start(n)
	if e.err = e.replaceBy(slices.Clone(e.seen()[from:e.end()])); e.err != nil {
		return e.err
	}
	var ends []int
	for _, end := range e.ends[n:] {
		ends = append(ends, end-from)
	}
	e.first, e.ends = e.first+uint64(n), ends
	return nil
}

func (e *engine) replaceBy(data []byte) error {
	if err := replaceFile(e.disk, e.dir, e.file(), e.fresh(), data); err != nil {
		return fmt.Errorf("log in %q: %w", e.dir, err)
	}
	return nil
}

// replaceFile replaces a file atomically.
func replaceFile(d *disk, dir, path, fresh string, data []byte) error {
	if old, err := d.read(path); err == nil {
		d.used -= len(old)
	}
	for _, do := range []func() error{
		func() error { return d.create(fresh) },
		func() error { return d.extend(fresh, data) },
		func() error { return d.sync(fresh) },
		func() error { return d.rename(fresh, path) },
		func() error { return d.syncDir(dir) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
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
