package journal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/order"
)

// A cut within a block takes two calls of the store: its blocks are deleted, and what is kept of
// the first one is stored again. A crash between them would lose records that were to stay. So what
// will be done is stored first, under a name of its own, and done again when the log is opened and
// finds it there; that it was done already changes nothing.
var redoKey = []byte("squall.cut")

// redo is what is done by a cut: the blocks from … to are deleted, and then one is stored, if there
// is one.
type redo struct {
	from, to uint64
	index    uint64 // of the block that is stored
	block    []byte // nil: none
}

const redoBytes = 4 + 3*8

// encode puts a checksum over everything in front.
func (r redo) encode() []byte {
	b := make([]byte, 4, redoBytes+len(r.block))
	for _, v := range []uint64{r.from, r.to, r.index} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = append(b, r.block...)
	binary.LittleEndian.PutUint32(b, crc.Of(b[4:]))
	return b
}

func decodeRedo(b []byte) (r redo, err error) {
	if len(b) < redoBytes || crc.Of(b[4:]) != binary.LittleEndian.Uint32(b) {
		return r, fmt.Errorf("%w: the note of a cut that was interrupted has a wrong checksum", ErrDamaged)
	}
	r.from, r.to, r.index = binary.LittleEndian.Uint64(b[4:]), binary.LittleEndian.Uint64(b[12:]), binary.LittleEndian.Uint64(b[20:])
	r.block = b[redoBytes:]
	return r, nil
}

// redo finishes a cut that a crash interrupted.
func (b *Book) redo() error {
	note, err := b.store.Get(redoKey)
	if err != nil {
		return b.failed("the note of a cut", err)
	}
	if len(note) == 0 {
		return nil
	}
	r, err := decodeRedo(note)
	if err != nil {
		return b.failed("opening", err)
	}
	return b.apply(r)
}

// cut notes what it will do, and does it.
func (b *Book) cut(r redo) error {
	if len(r.block) > 0 {
		if err := b.store.Set(redoKey, r.encode()); err != nil {
			return b.unsure("noting a cut", err)
		}
	}
	if err := b.apply(r); err != nil {
		return err
	}
	_, err := b.bounds()
	return err
}

// apply does what was noted, from whatever point it got to before.
func (b *Book) apply(r redo) error {
	b.forget()
	first, err := b.store.FirstIndex()
	if err != nil {
		return b.failed("cutting", err)
	}
	last, err := b.store.LastIndex()
	if err != nil {
		return b.failed("cutting", err)
	}
	if last >= r.from && last != 0 {
		// Deleting what is there, and not what was, leaves nothing behind that came between. The
		// block that is stored next may be there already.
		if err := b.store.DeleteRange(max(first, r.from), last); err != nil {
			return b.unsure("cutting", err)
		}
	}
	if len(r.block) == 0 {
		return nil
	}
	if err := b.store.StoreLogs([]*Entry{{Index: r.index, Data: r.block}}); err != nil {
		return b.unsure("cutting", err)
	}
	if err := b.store.Set(redoKey, []byte{}); err != nil {
		return b.unsure("cutting", err)
	}
	return nil
}

// CutFrom drops a record and everything behind it, durably. A journal of this log must be told
// (Restart).
func (b *Book) CutFrom(number uint64) error {
	if number >= b.end.Records {
		return nil
	}
	if number = max(number, b.origin); number == b.start && b.start > 0 { // numbers and times go on
		h, err := b.header(b.first)
		if err != nil {
			return err
		}
		return b.Restart(End{Records: h.First, Version: h.Before, Time: h.BeforeTime})
	}
	index, err := b.locate(number)
	if err != nil {
		return err
	}
	p, err := b.load(index)
	if err != nil {
		return err
	}
	keep := int(number - p.First)
	if keep > len(p.at) {
		return b.bad(p)
	}
	return b.cut(redo{from: index, to: b.last, index: index, block: p.prefix(keep)})
}

// prefix is the block again with its first records only; nil for none. Its seal is signed no more:
// the next group's signature covers it.
func (p *page) prefix(keep int) []byte {
	if keep == 0 {
		return nil
	}
	h, last := p.Header, keep-1
	h.Count, h.LastSeq, h.LastTime = uint32(keep), p.version(last).Seq, p.time(int(p.at[last]))
	if h.Sealed {
		h.Seal = Seal{Before: p.Seal.Before, After: p.Seal.Before}
		for k := range keep {
			r := p.record(k)
			h.Seal.After = h.Seal.After.Extend(r.Number, &r)
		}
	}
	end := int(p.at[last]) + recordBytes + p.dataBytes(int(p.at[last]))
	block := append(make([]byte, bodyAt(h.Sealed)), p.body[:end]...)
	return encodeHeader(block, &h, p.nodes())
}

// nodes are the senders of the block.
func (p *page) nodes() []order.NodeID {
	nodes := make([]order.NodeID, len(p.senders)/senderBytes)
	for i := range nodes {
		nodes[i] = order.NodeID(binary.LittleEndian.Uint64(p.senders[i*senderBytes:]))
	}
	return nodes
}

// DropBefore drops the blocks that hold nothing but records before a number, durably. The last
// block stays: it says where the log ends.
func (b *Book) DropBefore(number uint64) error {
	if number <= b.start || b.last == b.first {
		return nil
	}
	index, err := b.search(func(h *Header) bool { return h.First+uint64(h.Count) > number })
	if err == nil {
		index, err = b.whole(min(index, b.last))
	}
	if err != nil || index == b.first {
		return err
	}
	h, err := b.header(index)
	if err != nil {
		return err
	}
	if err := b.store.DeleteRange(b.first, index-1); err != nil {
		return b.unsure("dropping the front", err)
	}
	b.first = index
	b.begin(h.First)
	b.forget()
	return nil
}

// BeginBehind says that a snapshot stands for all records up to one. They are not read any more,
// even if their block is still here, and the blocks that hold nothing else are dropped, durably. Of
// a log that ends before that record nothing is left: it goes on behind it, as after Restart. The
// snapshot may be another member's only if the log was restarted behind it.
func (b *Book) BeginBehind(last Record) error {
	last.Data, last.Release = nil, nil
	b.snapshot = &last
	if b.end.Records <= last.Number {
		return b.Restart(End{Records: last.Number + 1, Version: last.Version, Time: last.Time})
	}
	b.begin(b.start)
	return b.DropBefore(last.Number + 1)
}

// whole is the first block of the record that a block is a fragment of.
func (b *Book) whole(index uint64) (uint64, error) {
	h, err := b.header(index)
	if err == nil && h.Kind == Fragment {
		index -= min(uint64(h.Part), index-b.first)
	}
	return index, err
}

// Restart drops everything, durably; the log goes on behind a record that is elsewhere, in a
// snapshot. A journal of this log must be told.
func (b *Book) Restart(at End) error {
	if _, reading := b.store.(frozen); reading {
		b.forget()
		b.first, b.last, b.end = 0, 0, at
		b.begin(at.Records)
		return nil
	}
	h := Header{
		Index: b.last + 1, Kind: Mark, First: at.Records, View: at.Version.View, FirstSeq: at.Version.Seq, LastSeq: at.Version.Seq,
		FirstTime: at.Time, LastTime: at.Time, Before: at.Version, BeforeTime: at.Time, Sealed: at.Head != Head{}, Seal: Seal{Before: at.Head, After: at.Head},
	}
	mark := encodeHeader(make([]byte, bodyAt(h.Sealed)), &h, nil)
	return b.cut(redo{from: b.first, to: b.last, index: h.Index, block: mark})
}

// Repair reads all of a log and drops the first record that is damaged and everything behind it;
// what was dropped must be had from somewhere else. It is for a log that OpenBook refused, or in
// which a reader found damage.
func Repair(s Store, name string) (rep Repaired, err error) {
	b := &Book{store: s, name: name}
	if err := b.redo(); errors.Is(err, ErrDamaged) {
		err = s.Set(redoKey, []byte{})
		if err != nil {
			return rep, b.failed("repair", err)
		}
	}
	if b.first, err = s.FirstIndex(); err != nil {
		return rep, b.failed("first block", err)
	}
	if b.last, err = s.LastIndex(); err != nil {
		return rep, b.failed("last block", err)
	}
	last := b.last
	sound, err := b.sound()
	if err != nil {
		return rep, err
	}
	for index := sound; index >= max(b.first, 1); index-- {
		good, done, err := b.salvage(index)
		if err != nil {
			return rep, err
		}
		if done {
			rep.Blocks = int(last - index)
			rep.Record, rep.Version = good.Records, good.Version
			return rep, nil
		}
	}
	rep.Blocks = int(last - b.first + 1)
	return rep, b.cut(redo{from: b.first, to: last})
}

// sound is the first block that is not good, or the last one.
func (b *Book) sound() (index uint64, err error) {
	for index = b.first; index < b.last; index++ {
		if index == 0 { // there is none
			continue
		}
		if p, err := b.load(index); isDamage(err) || err == nil && p.fault != "" {
			break
		} else if err != nil {
			return 0, err
		}
	}
	return index, nil
}

// salvage cuts the log behind the last good record of a block, if it has one.
func (b *Book) salvage(index uint64) (good End, done bool, err error) {
	p, err := b.load(index)
	if err != nil {
		if isDamage(err) {
			err = nil
		}
		return good, false, err
	}
	if p.fault != "" && len(p.at) == 0 {
		return good, false, nil
	}
	r := redo{from: index + 1, to: b.last}
	if p.fault != "" {
		r = redo{from: index, to: b.last, index: index, block: p.prefix(len(p.at))}
	}
	if p.fault != "" || index < b.last {
		err = b.cut(r)
	}
	return b.end, true, err
}
