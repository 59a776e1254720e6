package journal

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/squall-go/squall/order"
)

// Book reads a log, and cuts it. It finds its way by the headers of blocks, of which it remembers
// some: nothing is read through as it is opened, and a search takes as many reads as the number of
// blocks has bits. It is for one goroutine; Fork makes one for another.
type Book struct {
	store       Store
	name        string // for errors
	first, last uint64 // indexes of the blocks; both 0: none
	start       uint64 // number of the first record in the first block
	origin      uint64 // number of the first record that can be read: start, or the one behind a snapshot
	snapshot    *Record
	end         End
	headers     map[uint64]Header // some of the headers that were read
	at          *page             // the block that was read last
}

// headersMax is how many headers a book remembers.
const headersMax = 4096

// OpenBook finds the ends of a log. It finishes a cut that a crash interrupted, checks the last
// block, and drops a record of which only some fragments were written: it was never durable.
// Everything else that is wrong is a *Damage.
func OpenBook(s Store, name string) (*Book, Repaired, error) {
	b := &Book{store: s, name: name}
	if err := b.redo(); err != nil {
		return nil, Repaired{}, err
	}
	repaired, err := b.bounds()
	if err != nil {
		return nil, Repaired{}, err
	}
	return b, repaired, nil
}

// ReadBook opens a log of which nothing may be changed. What OpenBook would drop is not shown.
func ReadBook(s Store, name string) (*Book, error) {
	b := &Book{store: frozen{s}, name: name}
	_, err := b.bounds()
	return b, err
}

// frozen is a store that stays as it is: what would be dropped only seems to be.
type frozen struct{ Store }

func (frozen) DeleteRange(uint64, uint64) error { return nil }
func (frozen) Set([]byte, []byte) error         { return nil }
func (frozen) StoreLogs([]*Entry) error         { return errBlock("the log is open for reading only") }

// bounds finds the ends.
func (b *Book) bounds() (rep Repaired, err error) {
	b.forget()
	if b.first, err = b.store.FirstIndex(); err != nil {
		return rep, b.failed("first block", err)
	}
	if b.last, err = b.store.LastIndex(); err != nil {
		return rep, b.failed("last block", err)
	}
	b.end = End{}
	b.begin(0)
	if b.last == 0 {
		return rep, nil
	}
	first, err := b.header(b.first)
	if err == nil && first.Kind == Fragment && first.Part != 0 {
		err = b.damage(b.first, first.First, first.LastVersion(), "the first block is the middle of a record")
	}
	if err != nil {
		return rep, err
	}
	if rep, err = b.dropIncomplete(); err != nil {
		return rep, err
	}
	b.begin(first.First)
	return rep, b.settle(b.last)
}

// begin says with which record the first block begins.
func (b *Book) begin(start uint64) {
	b.start, b.origin = start, start
	if s := b.snapshot; s != nil {
		b.origin = max(start, s.Number+1)
	}
}

// settle sets the end to that of a block, which must be good to its last record.
func (b *Book) settle(last uint64) error {
	b.last, b.end = last, End{}
	if last == 0 {
		return nil
	}
	p, err := b.load(last)
	if err == nil && p.fault != "" {
		err = b.bad(p)
	}
	if err == nil {
		b.end = p.end(p.length)
	}
	return err
}

// dropIncomplete drops the fragments at the end of a record whose last fragment is not there.
func (b *Book) dropIncomplete() (rep Repaired, err error) {
	h, err := b.header(b.last)
	if err != nil || h.Kind != Fragment || h.Part+1 == h.Parts {
		return rep, err
	}
	start := b.last - uint64(h.Part)
	if start < b.first || start > b.last {
		return rep, b.damage(b.last, h.First, h.LastVersion(), "a fragment whose first one is not there")
	}
	head, err := b.header(start)
	if err == nil && (head.Kind != Fragment || head.Part != 0 || head.First != h.First) {
		err = b.damage(start, h.First, h.LastVersion(), "fragments of two records are mixed")
	}
	if err != nil {
		return rep, err
	}
	rep = Repaired{Blocks: int(h.Part) + 1, Record: h.First, Version: h.LastVersion()}
	if err := b.store.DeleteRange(start, b.last); err != nil {
		return rep, b.failed("dropping an incomplete record", err)
	}
	if b.last = start - 1; b.last < b.first {
		b.first, b.last = 0, 0
	}
	b.forget()
	return rep, nil
}

// Fork is another book of the same log as it is now, for another goroutine.
func (b *Book) Fork() *Book {
	f := *b
	f.headers, f.at = nil, nil
	return &f
}

// Extend says that the log now ends there: a group was written.
func (b *Book) Extend(e End) error {
	if e.Block == b.end.Block {
		return nil
	}
	if b.last == 0 {
		first, err := b.store.FirstIndex()
		if err != nil {
			return b.failed("first block", err)
		}
		b.first = first
	}
	b.last, b.end = e.Block, e
	return nil
}

// End is where the log ends. Of a log with fragments at its end that are not a whole record yet, it
// is before them.
func (b *Book) End() End { return b.end }

// Origin is the number of the first record that can be read, or will be the first one.
func (b *Book) Origin() uint64 { return b.origin }

// Count is how many records can be read.
func (b *Book) Count() uint64 { return b.end.Records - b.origin }

// Snapshot is the last record that a snapshot stands for, without its data; false: there is none
// (BeginBehind).
func (b *Book) Snapshot() (Record, bool) {
	if b.snapshot == nil {
		return Record{}, false
	}
	return *b.snapshot, true
}

// Oldest is the first record that can be read, without its data and its sender; false if there is
// none, or it is damaged.
func (b *Book) Oldest() (r Record, ok bool) {
	h, some := b.First()
	if !some || b.Count() == 0 {
		return r, false
	}
	if b.origin == h.First && h.Count > 0 {
		return Record{Number: h.First, Version: h.FirstVersion(), Time: h.FirstTime}, true
	}
	index, err := b.locate(b.origin)
	if err != nil {
		return r, false
	}
	p, err := b.load(index)
	if err != nil || b.origin-p.First >= uint64(len(p.at)) {
		return r, false
	}
	k := int(b.origin - p.First)
	return Record{Number: b.origin, Version: p.version(k), Time: p.time(int(p.at[k]))}, true
}

// First is the header of the first block; false if there is none.
func (b *Book) First() (Header, bool) { return b.edge(b.first) }

// Last is the header of the last block; false if there is none.
func (b *Book) Last() (Header, bool) { return b.edge(b.last) }

func (b *Book) edge(index uint64) (Header, bool) {
	if b.last == 0 {
		return Header{}, false
	}
	h, err := b.header(index)
	return h, err == nil
}

// Header is that of a block, from First to Last.
func (b *Book) Header(index uint64) (Header, error) { return b.header(index) }

func (b *Book) header(index uint64) (Header, error) {
	if h, ok := b.headers[index]; ok {
		return h, nil
	}
	p, err := b.load(index)
	if err != nil {
		return Header{}, err
	}
	return p.Header, nil
}

// load reads a block and checks it. What is wrong with one of its records is in the page.
func (b *Book) load(index uint64) (*page, error) {
	if b.at != nil && b.at.Index == index {
		return b.at, nil
	}
	var l Entry
	if err := b.store.GetLog(index, &l); err != nil {
		return nil, b.missing(index, err)
	}
	p, err := decode(l.Data)
	if err == nil && p.Index != index {
		err = errBlock(fmt.Sprintf("it is block %d", p.Index))
	}
	if errors.Is(err, ErrNewerFormat) {
		return nil, fmt.Errorf("%w: %s: block %d", err, b.name, index)
	}
	if err != nil {
		return nil, b.damage(index, b.near(index), order.Version{}, err.Error())
	}
	b.remember(p)
	return p, nil
}

func (b *Book) remember(p *page) {
	if b.headers == nil || len(b.headers) >= headersMax {
		b.headers = make(map[uint64]Header)
	}
	b.headers[p.Index], b.at = p.Header, p
}

func (b *Book) forget() { b.headers, b.at = nil, nil }

// missing says why a block cannot be had: it was dropped meanwhile, or is not where it must be, or
// its bytes are wrong, or the disk failed.
func (b *Book) missing(index uint64, err error) error {
	switch {
	case errors.Is(err, ErrNoEntry):
		if first, e := b.store.FirstIndex(); e == nil && index < first {
			return fmt.Errorf("%s: block %d: %w", b.name, index, ErrTruncated)
		}
		return b.damage(index, b.near(index), order.Version{}, "the block is not there")
	case errors.Is(err, ErrDamaged):
		return b.damage(index, b.near(index), order.Version{}, err.Error())
	}
	return b.failed(fmt.Sprintf("block %d", index), err)
}

// near is the number of the first record of a block that cannot be read, if the one before it is
// known.
func (b *Book) near(index uint64) uint64 {
	if h, ok := b.headers[index-1]; ok {
		return h.First + uint64(h.Count)
	}
	return b.origin
}

func (b *Book) damage(block, record uint64, v order.Version, what string) error {
	return &Damage{Log: b.name, Block: block, Record: record, Version: v, What: what}
}

// bad is the damage of the first record of a page that cannot be read.
func (b *Book) bad(p *page) error {
	v := p.FirstVersion()
	if k := len(p.at); k > 0 {
		v = p.version(k - 1)
	}
	return b.damage(p.Index, p.First+uint64(len(p.at)), v, p.fault)
}

func (b *Book) failed(what string, err error) error {
	return fmt.Errorf("%s: %s: %w", b.name, what, err)
}

// unsure is the error of a change that failed.
func (b *Book) unsure(what string, err error) error {
	return fmt.Errorf("%s: %s: %w: %w", b.name, what, ErrUnknown, err)
}

// search is the first block for which a question is answered with yes; all blocks behind it answer
// so, too. last+1: none does.
func (b *Book) search(yes func(*Header) bool) (uint64, error) {
	low, high := b.first, b.last+1
	for low < high {
		mid := low + (high-low)/2
		h, err := b.header(mid)
		if err != nil {
			return 0, err
		}
		if yes(&h) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low, nil
}

// Seek is the number of the first record whose version is not before v; the number of the next
// record to come if there is none.
func (b *Book) Seek(v order.Version) (uint64, error) {
	return b.seek(
		func(h *Header) bool { return h.Count > 0 && !h.LastVersion().Before(v) },
		func(p *page, k int) bool { return !p.version(k).Before(v) })
}

// SeekTime is the number of the first record whose time is not before t; the number of the next
// record to come if there is none.
func (b *Book) SeekTime(t order.Time) (uint64, error) {
	return b.seek(
		func(h *Header) bool { return h.Count > 0 && h.LastTime >= t },
		func(p *page, k int) bool { return p.time(int(p.at[k])) >= t })
}

func (b *Book) seek(inBlock func(*Header) bool, inPage func(*page, int) bool) (uint64, error) {
	if b.last == 0 {
		return b.end.Records, nil
	}
	index, err := b.search(inBlock)
	if err != nil || index > b.last {
		return b.end.Records, err
	}
	p, err := b.load(index)
	if err != nil {
		return 0, err
	}
	for k := range p.at {
		if inPage(p, k) {
			return p.First + uint64(k), nil
		}
	}
	return 0, b.bad(p)
}

// Find is the number of the record of a version.
func (b *Book) Find(v order.Version) (uint64, error) {
	n, err := b.Seek(v)
	if err != nil || n == b.end.Records {
		return 0, b.absent(v, err)
	}
	r, err := b.Read(n)
	if err != nil {
		return 0, err
	}
	if r.Version != v {
		return 0, b.absent(v, nil)
	}
	return n, nil
}

// Before is the version of the record before the first one that can be read, and its time; zero:
// there was none, or it is not known.
func (b *Book) Before() (order.Version, order.Time, error) {
	if s := b.snapshot; s != nil && b.origin == s.Number+1 {
		return s.Version, s.Time, nil
	}
	if b.last == 0 {
		return order.Version{}, 0, nil
	}
	h, err := b.header(b.first)
	return h.Before, h.BeforeTime, err
}

// Reaches says whether nothing that was ever in the log at or behind a version was dropped.
func (b *Book) Reaches(v order.Version) error {
	before, _, err := b.Before()
	if err == nil && b.origin > 0 && !before.Before(v) {
		err = fmt.Errorf("%s: version %v: %w; everything up to version %v was dropped", b.name, v, ErrTruncated, before)
	}
	return err
}

// ReachesTime says whether nothing that was ever in the log at or behind a time was dropped.
func (b *Book) ReachesTime(t order.Time) error {
	_, before, err := b.Before()
	if err == nil && b.origin > 0 && before >= t {
		err = fmt.Errorf("%s: time %v: %w; everything up to %v was dropped", b.name, t, ErrTruncated, before)
	}
	return err
}

func (b *Book) absent(v order.Version, err error) error {
	if err == nil {
		err = b.Reaches(v)
	}
	if err == nil {
		err = fmt.Errorf("%s: version %v: %w", b.name, v, ErrNotFound)
	}
	return err
}

// FindTime is the number of the last record whose time is not after t.
func (b *Book) FindTime(t order.Time) (uint64, error) {
	if t == math.MaxUint64 {
		t--
	}
	n, err := b.SeekTime(t + 1)
	switch {
	case err != nil:
		return 0, err
	case n > b.origin:
		return n - 1, nil
	case b.origin > 0:
		return 0, fmt.Errorf("%s: time %v: %w", b.name, t, ErrTruncated)
	}
	return 0, fmt.Errorf("%s: time %v: %w", b.name, t, ErrNotFound)
}

// Read reads a record.
func (b *Book) Read(number uint64) (Record, error) {
	index, err := b.locate(number)
	if err != nil {
		return Record{}, err
	}
	p, err := b.load(index)
	if err != nil {
		return Record{}, err
	}
	r, err := b.record(p, number)
	r.Data = bytes.Clone(r.Data) // the page stays
	return r, err
}

// locate finds the block of a record, the first one of a run of fragments.
func (b *Book) locate(number uint64) (uint64, error) {
	switch {
	case number < b.origin:
		return 0, fmt.Errorf("%s: record %d: %w, number %d", b.name, number, ErrTruncated, b.origin)
	case number >= b.end.Records:
		return 0, fmt.Errorf("%s: record %d: %w", b.name, number, ErrNotFound)
	case b.at != nil && b.at.Kind == Records && number >= b.at.First && number-b.at.First < uint64(b.at.Count):
		return b.at.Index, nil
	}
	return b.search(func(h *Header) bool { return h.First+uint64(h.Count) > number })
}

// record is one of a page, put together if it takes several blocks.
func (b *Book) record(p *page, number uint64) (Record, error) {
	k := number - p.First
	if number < p.First || k >= uint64(p.Count) {
		return Record{}, b.damage(p.Index, number, p.FirstVersion(), "its record is in no block")
	}
	if k >= uint64(len(p.at)) {
		return Record{}, b.bad(p)
	}
	r := p.record(int(k))
	if p.Kind != Fragment {
		return r, nil
	}
	return b.join(p.Header, r)
}

// join puts the fragments of a record together.
func (b *Book) join(head Header, r Record) (Record, error) {
	if head.Part != 0 {
		return Record{}, b.damage(head.Index, head.First, head.LastVersion(), "the first fragment of its record is not there")
	}
	data := make([]byte, 0, min(head.Total, 4*MaxBlockBytes)) // beyond that it grows with what is there, not with what a header says
	data = append(data, r.Data...)
	for part := uint32(1); part < head.Parts; part++ {
		p, err := b.load(head.Index + uint64(part))
		if err != nil {
			return Record{}, err
		}
		if p.fault != "" {
			return Record{}, b.bad(p)
		}
		if p.Kind != Fragment || p.Part != part || p.Parts != head.Parts || p.First != head.First || p.Total != head.Total {
			return Record{}, b.damage(p.Index, head.First, head.LastVersion(), "it is not the next fragment of its record")
		}
		data = append(data, p.record(0).Data...)
	}
	if uint64(len(data)) != head.Total {
		return Record{}, b.damage(head.Index, head.First, head.LastVersion(), "the fragments of its record have another length")
	}
	r.Data = data
	return r, nil
}

// Records reads from a record on, to the end as it is when the loop gets there. The data of a
// record is a part of the block that it was read in: it is the caller's own, but keeps the whole
// block in memory. After an error there is nothing more.
func (b *Book) Records(from uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if from >= b.end.Records {
			return
		}
		index, err := b.locate(from)
		for err == nil && from < b.end.Records {
			var more bool
			if index, from, more, err = b.run(index, from, yield); err == nil && !more {
				return
			}
		}
		if err != nil {
			yield(Record{}, err)
		}
	}
}

// run yields the records of a block from a number on. It says which block comes next, and whether
// the loop goes on.
func (b *Book) run(index, from uint64, yield func(Record, error) bool) (uint64, uint64, bool, error) {
	p, err := b.load(index)
	if err != nil {
		return 0, from, false, err
	}
	b.at = nil // it is the reader's from now on
	for ; from < min(p.First+uint64(p.Count), b.end.Records); from++ {
		r, err := b.record(p, from)
		if err != nil {
			return 0, from, false, err
		}
		if !yield(r, nil) {
			return 0, from, false, nil
		}
	}
	return index + uint64(max(p.Parts, 1)), from, true, nil
}
