package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/bits"
	"os"
	"slices"
)

// The pages of a bbolt file, as far as the engine follows them. It does so through mapped memory
// and believes every number that it finds: a wrong one takes it to an address that is not there,
// round in circles, or through four billion pages that do not exist; and what it finds wrong while
// it collects the free pages ends the process. So all that it will follow is checked before it
// opens a file.
//
//	page     id 8 │ flags 2 │ count 2 │ overflow 4 │ elements │ keys and values
//	head     magic 4 │ version 4 │ page size 4 │ flags 4 │ root 8 │ sequence 8 │ freelist 8 │ pages 8 │ transaction 8 │ sum 8
//	branch   position 4 │ key size 4 │ page 8
//	leaf     flags 4 │ position 4 │ key size 4 │ value size 4
//	bucket   root 8 │ sequence 8 │ a page, if the root is 0
//
// The check visits each page once and reads the elements and the keys, but no values. Nothing that
// it allocates depends on a number in the file, except for one bit for each page that the file has
// room for.
const (
	PageHead    = 16
	HeadBytes   = 64
	elementSize = 16

	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10

	bucketElement = 0x01
	bucketHead    = 16

	boltMagic   = 0xED0CDAED
	boltVersion = 2

	noFreelist = ^uint64(0)

	// countAside is the count of a list of free pages that has its count as its first number.
	countAside = 0xFFFF
	// maxKey is the size of a key at most.
	maxKey = 32768
	// minPage and maxPage bound the size of pages, which is that of the machine that made the file.
	minPage, maxPage = 1 << 10, 1 << 16
	// maxHeight bounds the pages from a root to a leaf: ten are more than any file needs, and the
	// engine calls itself for each.
	maxHeight = 48
	// MetaBucket has the values of a store.
	MetaBucket = "squall"
	// maxTransaction is more than there will ever be, and MaxIndex more than a log will ever have.
	maxTransaction, MaxIndex = 1 << 62, 1 << 62
)

// Schema says what is in a file: the buckets of the root, which have no buckets in them.
type Schema struct {
	Buckets []string
	dense   string // the bucket whose keys are numbers of 8 bytes from 1 on, each one more than the one before; empty: none
}

// The schemas of the files that engines open. Their buckets are those of raft-boltdb and of
// raft-wal, and our own.
var (
	MetaSchema    = &Schema{Buckets: []string{MetaBucket}}
	BoltLogSchema = &Schema{Buckets: []string{"conf", "logs"}, dense: "logs"}
	WALListSchema = &Schema{Buckets: []string{"stable", "wal-meta"}}
)

// pages is a file that is checked.
type pages struct {
	ctx    context.Context
	path   string
	file   []byte
	schema *Schema
	size   uint64   // of a page
	high   uint64   // pages in use: ids are below
	root   uint64   // id of the page that leads to the buckets
	list   uint64   // id of the list of free pages
	seen   []uint64 // one bit for each page that was visited
	visits int
	last   uint64            // number of the last dense key; 0: none yet
	values func(value) error // optional: is given what the buckets hold
}

// value is one of a bucket.
type value struct {
	bucket     string
	key, value []byte
}

// CheckPages follows every page of a file from its root once, and returns what does not fit as an
// error. The file must not be written meanwhile. The error of a context that ended is no damage.
func CheckPages(ctx context.Context, path string, s *Schema) error {
	return onPages(ctx, path, s, nil)
}

// onPages does this, and gives on the values in their order.
func onPages(ctx context.Context, path string, s *Schema, values func(value) error) error {
	f, err := os.Open(path)
	if err != nil {
		return Named(err, path)
	}
	defer f.Close()
	return Mapped(f, func(file []byte) error {
		p := &pages{ctx: ctx, path: path, file: file, schema: s, values: values}
		return p.check()
	})
}

func (p *pages) damaged(format string, args ...any) error { return Damaged(p.path, format, args...) }

// check checks everything that the newest head page leads to, and that none of it is listed as
// free.
func (p *pages) check() error {
	if err := p.heads(); err != nil {
		return err
	}
	p.seen = make([]uint64, (p.high+63)/64)
	free, err := p.freelist()
	if err != nil {
		return err
	}
	if err := p.buckets(); err != nil {
		return err
	}
	for i := range len(free) / 8 {
		if id := binary.LittleEndian.Uint64(free[8*i:]); p.visited(id) {
			return p.damaged("page %d is in use, and listed as free", id)
		}
	}
	return nil
}

// head is one of the two head pages.
type head struct{ size, root, list, high, transaction uint64 }

// heads finds the newest head page. The engine writes the two in turn and would do with one, which
// brings back what was true before the last transaction; a crash does not damage them, because all
// of one lies in a single sector. One that a failed sync did not write is older than by one
// transaction: the next process goes on with what the system has in memory, and writes the other.
func (p *pages) heads() error {
	first, good := p.headAt(0)
	second, also := p.headAt(first.size)
	if !good { // the second one ends the first page, however long that is
		for size := uint64(minPage); size <= maxPage && !also; size *= 2 {
			second, also = p.headAt(size)
		}
	}
	if !good || !also {
		return p.damaged("%d of its 2 head pages are good", bits.OnesCount8(bit(good)|bit(also)<<1))
	}
	h := first
	if second.transaction > first.transaction {
		h = second
	}
	switch older := min(first.transaction, second.transaction); {
	case first.size != second.size:
		return p.damaged("its head pages say that pages have %d and %d bytes", first.size, second.size)
	case (h.transaction-older)%2 == 0 || h.transaction >= maxTransaction:
		return p.damaged("its head pages are of transactions %d and %d", first.transaction, second.transaction)
	case h.high > uint64(len(p.file))/h.size:
		return p.damaged("it has %d bytes, and needs %d pages of %d", len(p.file), h.high, h.size)
	}
	p.size, p.root, p.list, p.high = h.size, h.root, h.list, h.high
	return nil
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// headAt reads a head page.
func (p *pages) headAt(at uint64) (h head, ok bool) {
	if at+PageHead+HeadBytes > uint64(len(p.file)) {
		return h, false
	}
	b := p.file[at+PageHead:][:HeadBytes]
	sum := fnv.New64a()
	sum.Write(b[:HeadBytes-8])
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	if binary.LittleEndian.Uint32(b) != boltMagic || binary.LittleEndian.Uint32(b[4:]) != boltVersion || word(56) != sum.Sum64() {
		return h, false
	}
	h = head{size: uint64(binary.LittleEndian.Uint32(b[8:])), root: word(16), list: word(32), high: word(40), transaction: word(48)}
	return h, h.size >= minPage && h.size <= maxPage && bits.OnesCount64(h.size) == 1
}

// freelist checks that the list of free pages is one, and names pages that there are, in order. It
// returns their ids.
func (p *pages) freelist() (free []byte, err error) {
	if p.list == noFreelist {
		return nil, nil
	}
	g, err := p.visit(p.list)
	if err != nil {
		return nil, err
	}
	if g.flags != freelistPage {
		return nil, p.damaged("page %d is no list of free pages", p.list)
	}
	n, ids := uint64(g.count), g.body
	if n == countAside {
		n, ids = binary.LittleEndian.Uint64(ids), ids[8:]
	}
	if n > uint64(len(ids)/8) {
		return nil, p.damaged("page %d lists %d free pages and has space for %d", p.list, n, len(ids)/8)
	}
	free = ids[:8*n]
	before := uint64(1)
	for i := range n {
		id := binary.LittleEndian.Uint64(free[8*i:])
		if id <= before || id >= p.high {
			return nil, p.damaged("page %d lists page %d as free after page %d, and there are %d", p.list, id, before, p.high)
		}
		before = id
	}
	return free, nil
}

// page is one that was visited, with the pages that it goes on in.
type page struct {
	id       uint64
	flags    uint16
	count    int
	overflow uint64 // pages behind the first one
	body     []byte // behind its head
}

// visit reads a page, once.
func (p *pages) visit(id uint64) (g page, err error) {
	if p.visits++; p.visits%256 == 0 && p.ctx.Err() != nil {
		return g, fmt.Errorf("%s: %w", p.path, p.ctx.Err())
	}
	if id < 2 || id >= p.high {
		return g, p.damaged("it leads to page %d, and there are %d", id, p.high)
	}
	g = pageIn(p.file[id*p.size:])
	if g.id != id || g.overflow >= p.high-id {
		return g, p.damaged("page %d says that it is page %d with %d more", id, g.id, g.overflow)
	}
	for i := id; i <= id+g.overflow; i++ {
		if p.visited(i) {
			return g, p.damaged("two ways lead to page %d", i)
		}
		p.seen[i/64] |= 1 << (i % 64)
	}
	g.body = p.file[id*p.size+PageHead : (id+g.overflow+1)*p.size]
	return g, nil
}

func (p *pages) visited(id uint64) bool { return p.seen[id/64]&(1<<(id%64)) != 0 }

// pageIn decodes the head of a page.
func pageIn(b []byte) page {
	return page{
		id: binary.LittleEndian.Uint64(b), flags: binary.LittleEndian.Uint16(b[8:]),
		count: int(binary.LittleEndian.Uint16(b[10:])), overflow: uint64(binary.LittleEndian.Uint32(b[12:])),
	}
}

// element is one of a page: it leads to another page, or has a value.
type element struct {
	flags      uint32
	key, value []byte
	page       uint64
}

// buckets follows the root to all buckets, which must be the buckets of the schema, and the buckets
// to their values.
func (p *pages) buckets() error {
	var found []string
	err := p.tree(p.root, 0, nil, nil, func(e element) error {
		name := string(e.key)
		if e.flags != bucketElement || !slices.Contains(p.schema.Buckets, name) {
			return p.damaged("it has %q with flags %#x where its buckets are", clipped(e.key), e.flags)
		}
		found = append(found, name)
		return p.bucket(name, e.value)
	})
	if err == nil && len(found) < len(p.schema.Buckets) {
		err = p.damaged("it has the buckets %q, and should have %q", found, p.schema.Buckets)
	}
	return err
}

// clipped is what of a key is shown.
func clipped(key []byte) []byte { return key[:min(len(key), 32)] }

// bucket checks one: it leads to a tree of its own, or holds its only page.
func (p *pages) bucket(name string, b []byte) error {
	each := func(e element) error { return p.value(name, e) }
	if len(b) < bucketHead {
		return p.damaged("bucket %q has %d bytes", name, len(b))
	}
	if root := binary.LittleEndian.Uint64(b); root != 0 {
		if len(b) != bucketHead {
			return p.damaged("bucket %q leads to page %d and has %d bytes", name, root, len(b))
		}
		return p.tree(root, 0, nil, nil, each)
	}
	if len(b) < bucketHead+PageHead {
		return p.damaged("bucket %q has %d bytes", name, len(b))
	}
	g := pageIn(b[bucketHead:])
	g.body = b[bucketHead+PageHead:]
	if g.flags != leafPage || g.id != 0 || g.overflow != 0 {
		return p.damaged("bucket %q has a page with id %d, flags %#x and %d more", name, g.id, g.flags, g.overflow)
	}
	used, err := p.elements(&g, nil, nil, each)
	if err == nil && used != len(g.body) {
		err = p.damaged("bucket %q has %d bytes, and uses %d", name, len(g.body), used)
	}
	return err
}

// value checks what a bucket holds, but not the value itself.
func (p *pages) value(bucket string, e element) error {
	if e.flags != 0 {
		return p.damaged("%q in bucket %q has flags %#x", clipped(e.key), bucket, e.flags)
	}
	if bucket == p.schema.dense {
		if err := p.follows(e.key); err != nil {
			return err
		}
	}
	if p.values != nil {
		return p.values(value{bucket, e.key, e.value})
	}
	return nil
}

// follows checks that a dense key is the next number. What reads the entries of a log goes from the
// first number to the last one: a wrong one of them would keep it busy for ever.
func (p *pages) follows(key []byte) error {
	if len(key) != 8 {
		return p.damaged("an entry has a key of %d bytes", len(key))
	}
	n := binary.BigEndian.Uint64(key)
	if n == 0 || n >= MaxIndex || p.last != 0 && n != p.last+1 {
		return p.damaged("entry %d comes after entry %d", n, p.last)
	}
	p.last = n
	return nil
}

// tree goes down from a page, whose keys are not before low and before high; nil: there is no such
// bound.
func (p *pages) tree(id uint64, height int, low, high []byte, each func(element) error) error {
	g, err := p.visit(id)
	if err != nil {
		return err
	}
	if g.flags == leafPage && (g.count > 0 || height == 0) {
		return p.whole(&g, low, high, each)
	}
	if g.flags != branchPage || g.count == 0 || height == maxHeight {
		return p.damaged("page %d has flags %#x and %d elements, %d pages below its root", id, g.flags, g.count, height)
	}
	if err := p.whole(&g, low, high, func(element) error { return nil }); err != nil {
		return err
	}
	next, at := g.element(0, g.count*elementSize)
	for i := range g.count {
		here, bound := next, high
		if i+1 < g.count {
			next, at = g.element(i+1, at)
			bound = next.key
		}
		if err := p.tree(here.page, height+1, here.key, bound, each); err != nil {
			return err
		}
	}
	return nil
}

// whole checks the elements of a page, and that it is no longer than they need; older versions of
// the engine added a page where one was just full.
func (p *pages) whole(g *page, low, high []byte, each func(element) error) error {
	used, err := p.elements(g, low, high, each)
	if err == nil && PageHead+uint64(used) < g.overflow*p.size {
		err = p.damaged("page %d uses %d bytes, and has %d pages more", g.id, used, g.overflow)
	}
	return err
}

// elements checks that the elements of a page lie within it, one behind the other as the engine
// writes them, and that their keys grow. It returns where the last element ends.
func (p *pages) elements(g *page, low, high []byte, each func(element) error) (used int, err error) {
	used = g.count * elementSize
	if used > len(g.body) {
		return used, p.damaged("page %d has %d elements, and space for %d", g.id, g.count, len(g.body)/elementSize)
	}
	before := low
	for i := range g.count {
		e, end := g.element(i, used)
		if end > len(g.body) {
			return used, p.damaged("element %d of page %d does not lie within it, after the one before", i, g.id)
		}
		if c := bytes.Compare(before, e.key); c > 0 || c == 0 && i > 0 || high != nil && bytes.Compare(e.key, high) >= 0 {
			return used, p.damaged("the keys of page %d are out of order at element %d", g.id, i)
		}
		if err := each(e); err != nil {
			return used, err
		}
		before, used = e.key, end
	}
	return used, nil
}

// element decodes one, whose key begins at a place, and says where its value ends: behind the page
// if it makes no sense.
func (g *page) element(i, at int) (e element, end int) {
	b := g.body[i*elementSize:][:elementSize]
	word := func(at int) int { return int(binary.LittleEndian.Uint32(b[at:])) }
	position, key, value := word(0), word(4), 0
	if g.flags == leafPage {
		e.flags, position, key, value = uint32(position), word(4), word(8), word(12)
	} else {
		e.page = binary.LittleEndian.Uint64(b[8:])
	}
	end = at + key + value
	if i*elementSize+position != at || key == 0 || key > maxKey || end > len(g.body) {
		return e, len(g.body) + 1
	}
	e.key, e.value = g.body[at:at+key:at+key], g.body[at+key:end:end]
	return e, end
}
