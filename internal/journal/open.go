package journal

import "github.com/squall-go/squall/order"

// block is a block that is being written.
type block struct {
	Header
	buf      []byte // room for the header, then records
	senders  []order.NodeID
	hint     int      // of the sender that was found last
	kept     *kept    // a record that waits as it is; nil: all are in buf
	releases []func() // of records that were too small to be kept
}

// kept is a record that is not copied before its group is written.
type kept struct {
	data    []byte
	release func()
	sealed  *Seal // of a record in fragments, once it is known
}

// keepBytes is from where on a record that may be kept is not copied: it becomes a block of its
// own, which costs more than to copy less.
const keepBytes = 32 << 10

// firstBytes is what a block begins with: a log that is little used takes little memory.
const firstBytes = 16 << 10

// start makes the block ready for its first record, which comes behind the last one of the log.
func (b *block) start(r *Record, last End, sealed bool) {
	b.Header = Header{
		Kind: Records, First: r.Number, View: r.Version.View, FirstSeq: r.Version.Seq, LastSeq: r.Version.Seq,
		FirstTime: r.Time, LastTime: r.Time, Before: last.Version, BeforeTime: last.Time, Sealed: sealed,
	}
	b.room(firstBytes)
	b.buf = b.buf[:bodyAt(sealed)]
	b.senders, b.hint = b.senders[:0], 0
}

// room makes the memory of a block at least so large.
func (b *block) room(bytes int) {
	if cap(b.buf) < bytes {
		b.buf = append(make([]byte, 0, bytes), b.buf...)
	}
}

// sender is a node's place in the table of senders: the one behind the last, if it has none.
// Senders take turns, so the next one is looked at first.
func (b *block) sender(id order.NodeID) int {
	if k := b.hint + 1; k < len(b.senders) && b.senders[k] == id {
		b.hint = k
		return k
	}
	for k, s := range b.senders {
		if s == id {
			b.hint = k
			return k
		}
	}
	return len(b.senders)
}

// takes says whether a record may be added.
func (b *block) takes(r *Record, sender, limit int) bool {
	senders := max(len(b.senders), sender+1)
	return r.Version.View == b.View && r.Version.Seq-b.FirstSeq <= maxDelta && senders <= maxSenders &&
		len(b.buf)+recordBytes+len(r.Data)+senders*senderBytes <= limit
}

// put adds a record.
func (b *block) put(r *Record, sender int) {
	at, n := len(b.buf), recordBytes+len(r.Data)
	if need := at + n + (len(b.senders)+1)*senderBytes; need > cap(b.buf) {
		b.room(max(min(2*cap(b.buf), MaxBlockBytes), need))
	}
	b.buf = b.buf[:at+n]
	putRecord(b.buf[at:], len(r.Data), uint32(r.Version.Seq-b.FirstSeq), sender, r.Time)
	copy(b.buf[at+recordBytes:], r.Data)
	b.LastSeq, b.LastTime = r.Version.Seq, r.Time
	b.Count++
	if r.Release != nil {
		b.releases = append(b.releases, r.Release)
	}
}

// fragment makes the block the next part of a large record.
func (b *block) fragment(of *block) {
	b.Header, b.kept = of.Header, of.kept
	b.senders = append(b.senders[:0], of.senders...)
	b.buf = b.buf[:0]
}

// waiting is how much data waits outside of the block.
func (b *block) waiting() int {
	if b.kept == nil {
		return 0
	}
	return len(b.kept.data)
}

// cost is what the block's records took of the journal's memory. That of a record in fragments is
// given back with its last one.
func (b *block) cost() int {
	switch {
	case b.kept == nil:
		return len(b.buf) - bodyAt(b.Sealed) - len(b.senders)*senderBytes
	case b.Kind == Fragment && b.Part+1 < b.Parts:
		return 0
	}
	return recordBytes + len(b.kept.data)
}

// fill copies what waited outside: all of it, or this fragment's part.
func (b *block) fill(payload int) {
	if b.kept == nil {
		return
	}
	data := b.kept.data
	if b.Kind == Fragment {
		data = data[int(b.Part)*payload:]
		data = data[:min(payload, len(data))]
	}
	at := bodyAt(b.Sealed)
	b.room(at + recordBytes + len(data) + senderBytes)
	b.buf = b.buf[:at+recordBytes]
	putRecord(b.buf[at:], len(data), 0, 0, b.LastTime)
	b.buf = append(b.buf, data...)
}

// seal hashes the block's records behind the earlier records. The fragments of a record have one
// seal.
func (b *block) seal(c *Chain, sign bool) {
	if b.Kind == Fragment {
		b.sealFragment(c, sign)
		return
	}
	before, at := c.Head(), bodyAt(true)
	for k := range uint64(b.Count) {
		r, n := b.recordAt(at)
		c.Add(b.First+k, &r)
		at += n
	}
	b.Seal = c.Seal(before, b.First+uint64(b.Count), sign)
}

func (b *block) sealFragment(c *Chain, sign bool) {
	if b.kept.sealed == nil {
		before := c.Head()
		c.Add(b.First, &Record{Version: b.LastVersion(), Time: b.LastTime, Sender: b.senders[0], Data: b.kept.data})
		s := c.Seal(before, b.First+1, false)
		b.kept.sealed = &s
	}
	b.Seal = *b.kept.sealed
	if sign {
		b.Seal = c.Seal(b.Seal.Before, b.First+1, true)
	}
}

// recordAt reads back a record of a block that is being written.
func (b *block) recordAt(at int) (r Record, n int) {
	p := page{Header: b.Header, body: b.buf}
	end := at + recordBytes + p.dataBytes(at)
	return Record{
		Version: order.Version{View: b.View, Seq: b.FirstSeq + order.Seq(p.delta(at))}, Time: p.time(at),
		Sender: b.senders[p.sender(at)], Data: b.buf[at+recordBytes : end],
	}, end - at
}

// finish puts in what was left open: the checksums, the senders and the header.
func (b *block) finish() {
	stamp(b.buf[bodyAt(b.Sealed):])
	b.buf = encodeHeader(b.buf, &b.Header, b.senders)
}

// letGo says that what was kept is needed no more.
func (b *block) letGo() {
	if b.kept != nil && b.kept.release != nil {
		b.kept.release()
		b.kept.release = nil
	}
	b.kept = nil
	for _, release := range b.releases {
		release()
	}
	clear(b.releases)
	b.releases = b.releases[:0]
}
