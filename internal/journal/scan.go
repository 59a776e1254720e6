package journal

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/squall-go/squall/order"
)

// Scan is how a whole log is read from its first block to its last, behind what is damaged, too.
// Nothing is believed that a block says about another one.
type Scan struct {
	Name   string
	Origin Origin            // of the signatures
	Key    ed25519.PublicKey // that they are checked with; nil: they are not
	Record func(Record)      // optional: each one that is good. Its data is valid until the call returns
	Fault  func(*Damage)     // each thing that is not as it was written
	Block  func(index, last uint64)
}

// Scanned is what was found.
type Scanned struct {
	Blocks, Records uint64
	Bytes           uint64 // of the blocks
	First, Last     Record // without data; valid if Records > 0
	Sealed          uint64 // records of signed blocks
	Vouched         uint64 // records that a good signature covers
	Begin           Head   // before the first sealed record: what was dropped, or zeros
}

// scan is one that is under way. A chain of seals is a run of blocks in which each goes on where
// the one before ended.
type scan struct {
	Scan
	book    *Book
	found   Scanned
	after   *Header // the block before this one; nil: it is not known what it held
	chained bool    // head is known
	head    Head
	pending uint64 // sealed records behind the last good signature
	run     *run   // a record of which the first fragments were read
}

type run struct {
	head Header
	data []byte
	bad  bool
}

// Read reads the log. An error is one of the store; damage is told to Fault.
func (c Scan) Read(s Store) (Scanned, error) {
	r := &scan{Scan: c, book: &Book{store: s, name: c.Name}}
	first, err := s.FirstIndex()
	if err != nil {
		return r.found, fmt.Errorf("%s: first block: %w", c.Name, err)
	}
	last, err := s.LastIndex()
	if err != nil {
		return r.found, fmt.Errorf("%s: last block: %w", c.Name, err)
	}
	r.book.first, r.book.last = first, last
	for index := first; index <= last && last != 0; index++ {
		if err := r.block(index); err != nil {
			return r.found, err
		}
		if c.Block != nil {
			c.Block(index, last)
		}
	}
	r.endRun(last)
	return r.found, nil
}

func (s *scan) fault(block, record uint64, v order.Version, format string, args ...any) {
	s.Fault(&Damage{Log: s.Name, Block: block, Record: record, Version: v, What: fmt.Sprintf(format, args...)})
}

func (s *scan) block(index uint64) error {
	p, err := s.book.load(index)
	if err != nil {
		return s.lost(index, err)
	}
	s.book.at = nil
	s.found.Blocks++
	s.found.Bytes += uint64(p.bytes())
	s.follows(p)
	before := s.seals(p)
	if p.Kind == Fragment {
		s.fragment(p, before)
	} else {
		s.endRun(index)
		s.records(p)
	}
	if p.fault != "" {
		s.unreadable(p)
	}
	s.after = &p.Header
	return nil
}

// bytes is the length of the whole block.
func (p *page) bytes() int { return bodyAt(p.Sealed) + len(p.body) + len(p.senders) }

// next is the number of the record behind a block.
func (h *Header) next() uint64 { return h.First + uint64(h.Count) }

// lost is a block of which nothing can be read. What comes behind it is judged by itself again.
func (s *scan) lost(index uint64, err error) error {
	var d *Damage
	if !errors.As(err, &d) {
		return err
	}
	if s.after != nil {
		d.Record, d.Version = s.after.next(), s.after.LastVersion()
	}
	s.Fault(d)
	s.after, s.chained, s.run = nil, false, nil
	return nil
}

func (s *scan) unreadable(p *page) {
	var d *Damage
	if errors.As(s.book.bad(p), &d) {
		s.Fault(d)
	}
	s.chained = false
}

// follows compares where a block begins with where the one before it ended.
func (s *scan) follows(p *page) {
	a := s.after
	if p.Kind == Mark && s.found.Blocks > 1 {
		s.fault(p.Index, p.First, p.LastVersion(), "it says that the log begins here, and there are blocks before it")
	}
	if a == nil || p.Kind == Mark || p.Kind == Fragment && p.Part > 0 {
		return
	}
	next, v := a.next(), p.FirstVersion()
	if p.First != next {
		s.fault(p.Index, next, v, "record %d follows record %d", p.First, int64(next)-1)
	}
	if !a.LastVersion().Before(v) && next > 0 {
		s.fault(p.Index, p.First, v, "its version does not come after %v", a.LastVersion())
	}
	if p.FirstTime <= a.LastTime && next > 0 {
		s.fault(p.Index, p.First, v, "its time %v does not come after %v", p.FirstTime, a.LastTime)
	}
}

// seals compares where the chain of a block begins with where it is, and returns the head before
// the block.
func (s *scan) seals(p *page) Head {
	if !p.Sealed {
		s.chained = false
		return Head{}
	}
	again := p.Kind == Fragment && p.Part > 0 // whose seal is that of the first fragment
	want, known := s.head, s.chained
	if !known && s.after != nil && !s.after.Sealed {
		want, known = Head{}, true // signing was switched on here
	}
	if known && !again && p.Seal.Before != want {
		s.fault(p.Index, p.First, p.FirstVersion(), "the chain of hashes does not go on here")
	}
	if s.found.Sealed == 0 && !again {
		s.found.Begin = p.Seal.Before
	}
	if !again {
		s.head = p.Seal.Before
	}
	s.chained = true
	return s.head
}

func (s *scan) records(p *page) {
	for k := range p.at {
		r := p.record(k)
		s.good(&r, p.Sealed)
	}
	if p.Sealed && p.fault == "" {
		s.vouch(&p.Header)
	}
}

// good counts a record.
func (s *scan) good(r *Record, sealed bool) {
	if sealed {
		s.head = s.head.Extend(r.Number, r)
		s.found.Sealed++
		s.pending++
	}
	if s.Record != nil {
		s.Record(*r)
	}
	s.found.Last = *r
	s.found.Last.Data = nil
	if s.found.Records == 0 {
		s.found.First = s.found.Last
	}
	s.found.Records++
}

// vouch compares the hash of what was read with the one in a block's seal, and checks the signature
// if it has one.
func (s *scan) vouch(h *Header) {
	if s.head != h.Seal.After {
		s.fault(h.Index, h.First, h.LastVersion(), "its records differ from the hashed ones")
		s.head, s.pending = h.Seal.After, 0
		return
	}
	if !h.Seal.Signed() || s.Key == nil {
		return
	}
	if !s.Origin.Vouches(s.Key, h.next(), &h.Seal) {
		s.fault(h.Index, h.First, h.LastVersion(), "its signature is not one of this log by that key")
		return
	}
	s.found.Vouched += s.pending
	s.pending = 0
}

// fragment adds a part to the record that is being put together.
func (s *scan) fragment(p *page, before Head) {
	if p.Part == 0 {
		s.endRun(p.Index)
		s.run = &run{head: p.Header}
	}
	f := s.run
	if f == nil || p.Part != 0 && !f.goesOn(&p.Header, s.after) {
		s.fault(p.Index, p.First, p.LastVersion(), "it is not the next fragment of its record")
		s.run, s.chained = nil, false
		return
	}
	if f.bad = f.bad || p.fault != ""; !f.bad {
		f.data = append(f.data, p.record(0).Data...)
	}
	if p.Part+1 == p.Parts {
		s.whole(p, before)
	}
}

func (f *run) goesOn(h *Header, before *Header) bool {
	return before != nil && before.Kind == Fragment && h.Part == before.Part+1 && h.Parts == f.head.Parts && h.First == f.head.First &&
		h.Total == f.head.Total && h.Sealed == f.head.Sealed && h.Seal.Before == f.head.Seal.Before && h.Seal.After == f.head.Seal.After
}

// whole is a record whose last fragment is here.
func (s *scan) whole(p *page, before Head) {
	f := s.run
	s.run = nil
	switch {
	case f.bad:
		s.chained = false
	case uint64(len(f.data)) != f.head.Total:
		s.fault(f.head.Index, f.head.First, f.head.LastVersion(), "its fragments have %d bytes, and it had %d", len(f.data), f.head.Total)
		s.chained = false
	default:
		r := p.record(0)
		r.Data = f.data
		s.head = before
		s.good(&r, p.Sealed)
		if p.Sealed {
			s.vouch(&p.Header)
		}
	}
}

// endRun says that the rest of a record is missing. At the end of a log that is what a crash
// leaves, and opening it drops it.
func (s *scan) endRun(at uint64) {
	if f := s.run; f != nil {
		s.fault(at, f.head.First, f.head.LastVersion(), "the rest of a record in %d fragments is missing; opening the log drops it", f.head.Parts)
		s.run, s.chained = nil, false
	}
}

// Look reads the header of a block, and checks that and nothing else.
func Look(b []byte) (Header, error) {
	h, _, _, err := decodeHeader(b)
	return h, err
}

// Length is how long a block is, as its header says, which is not checked; 0: there is none.
func Length(b []byte) int {
	if len(b) < headerBytes || binary.LittleEndian.Uint32(b) != magic {
		return 0
	}
	sealed := binary.LittleEndian.Uint16(b[6:])&flagSealed != 0
	n := uint64(bodyAt(sealed)) + uint64(binary.LittleEndian.Uint32(b[120:])) + uint64(binary.LittleEndian.Uint32(b[116:]))*senderBytes
	if n > MaxBlockBytes {
		return 0
	}
	return int(n)
}
