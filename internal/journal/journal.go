package journal

import (
	"fmt"
	"math"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
)

// Config of a journal.
type Config struct {
	Memory int    // bytes appended and not yet durable; more is back-pressure. 0: DefaultMemory
	Block  int    // bytes of a block at most, up to MaxBlockBytes. 0: MaxBlockBytes
	Group  int    // bytes of a group at most, but for its last block. 0: half of Memory, so that one half is filled while the other is written
	After  End    // where the log ends already
	Chain  *Chain // of a signed log, behind After.Head; nil: not signed
}

// DefaultMemory is how much may be appended and not yet durable.
const DefaultMemory = 16 << 20

// minBlockBytes leaves room for a header, a seal and a few records.
const minBlockBytes = 512

func (c Config) withDefaults() Config {
	if c.Memory <= 0 {
		c.Memory = DefaultMemory
	}
	if c.Block <= 0 || c.Block > MaxBlockBytes {
		c.Block = MaxBlockBytes
	}
	c.Block = max(c.Block, minBlockBytes)
	if c.Group <= 0 {
		c.Group = c.Memory / 2
	}
	return c
}

// Journal is the part of a log that was appended and is not durable: blocks that wait, the last of
// them open, and the group that is being written. Append, Take and Written belong to the owner of
// the journal; Finish may run beside Append, because it touches nothing but the group.
type Journal struct {
	c        Config
	used     int      // bytes of everything that is here, the group's included
	queue    []*block // not yet taken; the last one may be open
	open     *block   // the last one, while records are added to it
	free     []*block // blocks whose memory is used again
	last     End      // behind the last record appended; Block and Head are not kept here
	end      End      // behind the last record that is durable
	appended uint64
	durable  uint64
	group    group
	broken   error
}

// group is what is being written.
type group struct {
	underway bool
	bytes    int // about so many are stored
	blocks   []*block
	entries  []Entry
	logs     []*Entry
	records  uint64 // that become durable with it
	end      End
}

// New returns a journal that begins at the end of a log.
func New(c Config) *Journal {
	c = c.withDefaults()
	return &Journal{c: c, last: c.After, end: c.After}
}

// Append takes a record. It returns false if there is no space now, or the disk failed. Times in a
// log grow: if the record's time is not after that of the record before, Append sets it to the next
// time after that one. Versions must grow, too: a version that does not is a fault of the caller.
func (j *Journal) Append(r *Record) bool {
	if !j.room(r) {
		return false
	}
	r.Time = max(r.Time, j.last.Time+1)
	j.add(r)
	return true
}

// AppendAt takes a record that another member has, with the time that it has there.
func (j *Journal) AppendAt(r Record) bool {
	if !j.room(&r) {
		return false
	}
	if mutant.Enabled && mutant.On(mutant.OwnTime) {
		r.Time = j.last.Time + 1
	}
	if r.Time <= j.last.Time {
		panic(invariants.Violation{ID: "A1", Detail: fmt.Sprintf("a record of %v after %v", r.Time, j.last.Time)})
	}
	j.add(&r)
	return true
}

// room says whether a record may come. One that is larger than all the memory may come alone, so
// that it can come at all.
func (j *Journal) room(r *Record) bool {
	return j.broken == nil && (j.used == 0 || j.used+recordBytes+len(r.Data) <= j.c.Memory)
}

// Fits says whether a record may ever follow the last one that was appended. Append panics for one
// that may not.
func (j *Journal) Fits(r *Record) error {
	if !j.last.Version.Before(r.Version) {
		return fmt.Errorf("version %v does not come after %v, the last one of the log", r.Version, j.last.Version)
	}
	return nil
}

func (j *Journal) add(r *Record) {
	if err := j.Fits(r); err != nil {
		panic(invariants.Violation{ID: "A1", Detail: err.Error()})
	}
	r.Number = j.last.Records
	j.used += recordBytes + len(r.Data)
	if r.Release != nil && len(r.Data) >= keepBytes || len(r.Data) > j.payload() {
		j.keep(r)
	} else {
		j.put(r)
	}
	j.last.Records, j.last.Version, j.last.Time = r.Number+1, r.Version, r.Time
	j.appended++
}

// payload is how much data a block with one record takes.
func (j *Journal) payload() int {
	return j.c.Block - bodyAt(j.c.Chain != nil) - recordBytes - senderBytes
}

// put copies a record into the open block.
func (j *Journal) put(r *Record) {
	b := j.open
	sender := 0
	if b != nil {
		sender = b.sender(r.Sender)
	}
	if b == nil || !b.takes(r, sender, j.c.Block) {
		b, sender = j.begin(r), 0
	}
	if sender == len(b.senders) {
		b.senders = append(b.senders, r.Sender)
	}
	b.put(r, sender)
}

// begin opens a block for a record.
func (j *Journal) begin(r *Record) *block {
	b := j.fresh()
	b.start(r, j.last, j.c.Chain != nil)
	j.queue = append(j.queue, b)
	j.open = b
	return b
}

// keep lets a record wait as it is. It becomes a block, or a run of fragments, when its group is
// written.
func (j *Journal) keep(r *Record) {
	b := j.fresh()
	b.start(r, j.last, j.c.Chain != nil)
	b.kept = &kept{data: r.Data, release: r.Release}
	if r.Release == nil {
		b.kept.data = append([]byte(nil), r.Data...)
	}
	b.senders = append(b.senders, r.Sender)
	if n := j.payload(); len(r.Data) > n {
		b.Kind, b.Total, b.Parts = Fragment, uint64(len(r.Data)), uint32((len(r.Data)+n-1)/n)
	}
	b.Count = 1
	j.queue = append(j.queue, b)
	j.open = nil
}

func (j *Journal) fresh() *block {
	if n := len(j.free); n > 0 {
		b := j.free[n-1]
		j.free = j.free[:n-1]
		return b
	}
	return &block{}
}

// Next is the next group to write, all that accumulated: nil if there is nothing, or a group is
// under way. It is Take and Finish in one.
func (j *Journal) Next() []*Entry {
	if !j.Take() {
		return nil
	}
	return j.Finish()
}

// Take sets aside what accumulated, as the group that Finish completes: false if there is nothing,
// or a group is under way.
func (j *Journal) Take() bool {
	if j.group.underway || len(j.queue) == 0 || j.broken != nil {
		return false
	}
	g := &j.group
	*g = group{underway: true, blocks: g.blocks[:0], entries: g.entries[:0], logs: g.logs[:0], end: j.end}
	taken, size := 0, 0
	for taken < len(j.queue) && size < j.c.Group {
		n, whole := j.take(j.queue[taken], j.c.Group-size)
		size += n
		if !whole {
			break
		}
		taken++
	}
	j.queue = append(j.queue[:0], j.queue[taken:]...)
	if len(j.queue) == 0 {
		j.open = nil
	}
	g.bytes = size
	return true
}

// Underway is about how many bytes the group has that is being written.
func (j *Journal) Underway() int { return j.group.bytes }

// take moves a block into the group, or as many fragments of a large record as there is room for:
// at least one.
func (j *Journal) take(b *block, room int) (size int, whole bool) {
	g := &j.group
	if b.Kind != Fragment {
		g.add(b)
		return len(b.buf) + b.waiting(), true
	}
	for b.Part < b.Parts && size < max(room, 1) {
		f := j.fresh()
		f.fragment(b)
		b.Part++
		g.add(f)
		size += j.c.Block
	}
	if b.Part < b.Parts {
		return size, false
	}
	j.recycle(b) // the last fragment lets go of what is kept
	return size, true
}

// add gives a block its place in the store. A record is counted when the last of its fragments is.
func (g *group) add(b *block) {
	b.Index = g.end.Block + 1
	g.blocks = append(g.blocks, b)
	if g.end.Block = b.Index; b.Kind == Fragment && b.Part+1 < b.Parts {
		return
	}
	g.records += uint64(b.Count)
	e := b.end(0)
	g.end.Records, g.end.Version, g.end.Time = e.Records, e.Version, e.Time
}

// Finish computes the checksums of what Take set aside, and the seals of a signed log, and gives
// the entries to be stored.
func (j *Journal) Finish() []*Entry {
	g := &j.group
	for i, b := range g.blocks {
		b.fill(j.payload())
		if j.c.Chain != nil {
			b.seal(j.c.Chain, i == len(g.blocks)-1)
		}
		b.Offset = g.end.Bytes
		b.finish()
		g.end.Bytes += uint64(len(b.buf))
		g.entries = append(g.entries, Entry{Index: b.Index, Data: b.buf})
	}
	if j.c.Chain != nil {
		g.end.Head = j.c.Chain.Head()
	}
	for i := range g.entries {
		g.logs = append(g.logs, &g.entries[i])
	}
	return g.logs
}

// Written says that the group is durable. With an error the disk failed: the journal is broken for
// good, and lets go of everything.
func (j *Journal) Written(err error) {
	g := &j.group
	if err != nil {
		j.fail(err)
		return
	}
	if !g.underway {
		return
	}
	if invariants.Enabled {
		invariants.Check(g.end.Records >= j.end.Records && g.end.Records <= j.last.Records, "A2",
			"durable %d after %d of %d", g.end.Records, j.end.Records, j.last.Records)
	}
	j.durable += g.records
	j.end = g.end
	for _, b := range g.blocks {
		j.used -= b.cost()
		if b.Kind != Fragment || b.Part+1 == b.Parts {
			b.letGo()
		}
		j.recycle(b)
	}
	g.underway = false
}

func (j *Journal) fail(err error) {
	if j.broken != nil {
		return
	}
	j.broken = err
	j.group.underway = false
	for _, b := range j.group.blocks {
		b.letGo()
	}
	for _, b := range j.queue {
		b.letGo()
	}
	j.group.blocks, j.queue, j.open, j.free = nil, nil, nil, nil
}

// recycle keeps a block's memory for the next one, as much in all as may be in use.
func (j *Journal) recycle(b *block) {
	b.kept = nil
	if (len(j.free)+1)*j.c.Block <= max(j.c.Memory, j.c.Block)+j.c.Block {
		j.free = append(j.free, b)
	}
}

// Restart goes on from another end: the log was cut, or is another one. Nothing may be waiting.
func (j *Journal) Restart(after End) {
	if len(j.queue) > 0 || j.group.underway {
		panic(invariants.Violation{ID: "A2", Detail: "a journal that is not empty starts again"})
	}
	j.last, j.end = after, after
	if j.c.Chain != nil {
		j.c.Chain.Reset(after.Head)
	}
}

// Appended is how many records were appended since the log was opened.
func (j *Journal) Appended() uint64 { return j.appended }

// Durable is how many of them are durable, and the version of the last one.
func (j *Journal) Durable() (records uint64, last order.Version) { return j.durable, j.end.Version }

// End is where the durable log ends.
func (j *Journal) End() End { return j.end }

// Last is where the log ends with what is not durable yet.
func (j *Journal) Last() End { return j.last }

// Used is how many bytes are here.
func (j *Journal) Used() int { return j.used }

// Err is why the journal is broken; nil: it is not.
func (j *Journal) Err() error { return j.broken }

// maxDelta is how far apart the positions of a block's records may be.
const maxDelta = math.MaxUint32
