package persist

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"os"
)

// The pages of a bbolt file, as far as following them needs. The engine follows them through mapped memory and does not doubt them: a number
// that is wrong takes it to an address that is not there, or round in circles until the stack is full, which nothing recovers.
//
//	page     id 8 │ flags 2 │ count 2 │ overflow 4 │ elements
//	head     magic 4 │ version 4 │ page size 4 │ flags 4 │ root 8 │ sequence 8 │ freelist 8 │ pages 8 │ transaction 8 │ sum 8
//	branch   position 4 │ key size 4 │ page 8
//	leaf     flags 4 │ position 4 │ key size 4 │ value size 4
const (
	pageHead    = 16
	headBytes   = 64
	elementSize = 16

	branchPage   = 0x01
	leafPage     = 0x02
	headPage     = 0x04
	freelistPage = 0x10

	bucketElement = 0x01
	bucketHead    = 16

	boltMagic   = 0xED0CDAED
	boltVersion = 2

	noFreelist = ^uint64(0)
)

type pages struct {
	path string
	file io.ReaderAt
	size uint64 // of a page
	high uint64 // pages in use: ids are below
	list uint64 // id of the freelist
	free []uint64
	seen map[uint64]bool
}

// checkPages follows every page of a file from its root once, and says what does not fit. Nobody may write meanwhile.
func checkPages(path string) error { return onPages(path, (*pages).all) }

// checkTrunk checks what is at hand, whatever the size of the file: its head pages, and that it has as many pages as they say.
func checkTrunk(path string) error {
	return onPages(path, func(*pages, uint64) error { return nil })
}

func onPages(path string, check func(p *pages, root uint64) error) error {
	f, err := os.Open(path)
	if err != nil {
		return named(err, path)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return named(err, path)
	}
	p := &pages{path: path, file: f, seen: map[uint64]bool{}}
	root, err := p.head()
	if err != nil {
		return err
	}
	if have := uint64(info.Size()); p.high > have/p.size {
		return damaged(path, "it has %d bytes, and needs %d pages of %d", have, p.high, p.size)
	}
	return check(p, root)
}

// all checks everything that the root leads to, and that none of it is listed as free.
func (p *pages) all(root uint64) error {
	if err := p.freelist(); err != nil {
		return err
	}
	if err := p.follow(root); err != nil {
		return err
	}
	for _, id := range p.free {
		if p.seen[id] {
			return damaged(p.path, "page %d is in use, and listed as free", id)
		}
	}
	return nil
}

// head finds the newest head page, and the root of the tree. The engine writes the two in turn and would do with one, which brings back what was
// true before the last transaction; a crash does not damage them, because all of one lies in a single sector.
func (p *pages) head() (root uint64, err error) {
	good, newest := 0, uint64(0)
	for i := range uint64(2) {
		h := make([]byte, headBytes)
		at, ok := p.headAt(i, h)
		if !ok {
			continue
		}
		good++
		if tx := binary.LittleEndian.Uint64(h[48:]); good == 1 || tx > newest {
			newest = tx
			p.size = at
			root, p.list, p.high = binary.LittleEndian.Uint64(h[16:]), binary.LittleEndian.Uint64(h[32:]), binary.LittleEndian.Uint64(h[40:])
		}
	}
	if good < 2 {
		return 0, damaged(p.path, "%d of its 2 head pages are good", good)
	}
	return root, nil
}

// headAt reads a head page and returns the size of pages. That of the second one is where a page of that size ends.
func (p *pages) headAt(i uint64, h []byte) (size uint64, ok bool) {
	if i == 0 {
		return p.headIn(0, h)
	}
	for size := uint64(1 << 9); size <= 1<<20; size *= 2 {
		if have, ok := p.headIn(size, h); ok && have == size {
			return size, true
		}
	}
	return 0, false
}

func (p *pages) headIn(at uint64, h []byte) (size uint64, ok bool) {
	if _, err := p.file.ReadAt(h, int64(at+pageHead)); err != nil {
		return 0, false
	}
	sum := fnv.New64a()
	sum.Write(h[:56])
	size = uint64(binary.LittleEndian.Uint32(h[8:]))
	return size, binary.LittleEndian.Uint32(h) == boltMagic && binary.LittleEndian.Uint32(h[4:]) == boltVersion &&
		binary.LittleEndian.Uint64(h[56:]) == sum.Sum64() && size >= 1<<9 && size <= 1<<20
}

// freelist checks that the list of free pages is one, and names pages that there are.
func (p *pages) freelist() error {
	if p.list == noFreelist {
		return nil
	}
	flags, count, body, err := p.page(p.list)
	if err != nil {
		return err
	}
	if flags != freelistPage {
		return damaged(p.path, "page %d is no list of free pages", p.list)
	}
	n, ids := uint64(count), body
	if count == 0xFFFF && len(body) >= 8 {
		n, ids = binary.LittleEndian.Uint64(body), body[8:]
	}
	if n > uint64(len(ids)/8) {
		return damaged(p.path, "page %d lists %d free pages and has room for %d", p.list, n, len(ids)/8)
	}
	for i := range n {
		if id := binary.LittleEndian.Uint64(ids[8*i:]); id < 2 || id >= p.high {
			return damaged(p.path, "page %d lists page %d as free, and there are %d", p.list, id, p.high)
		}
	}
	return nil
}

// page reads a page with what overflows from it, each once.
func (p *pages) page(id uint64) (flags uint16, count uint16, body []byte, err error) {
	head := make([]byte, pageHead)
	if id < 2 || id >= p.high {
		return 0, 0, nil, damaged(p.path, "it leads to page %d, and there are %d", id, p.high)
	}
	if _, err := p.file.ReadAt(head, int64(id*p.size)); err != nil {
		return 0, 0, nil, named(err, p.path)
	}
	more := uint64(binary.LittleEndian.Uint32(head[12:]))
	if binary.LittleEndian.Uint64(head) != id || more >= p.high-id {
		return 0, 0, nil, damaged(p.path, "page %d says that it is page %d with %d more", id, binary.LittleEndian.Uint64(head), more)
	}
	for i := id; i <= id+more; i++ {
		if p.seen[i] {
			return 0, 0, nil, damaged(p.path, "two ways lead to page %d", i)
		}
		p.seen[i] = true
	}
	body = make([]byte, (more+1)*p.size-pageHead)
	if _, err := p.file.ReadAt(body, int64(id*p.size+pageHead)); err != nil {
		return 0, 0, nil, named(err, p.path)
	}
	return binary.LittleEndian.Uint16(head[8:]), binary.LittleEndian.Uint16(head[10:]), body, nil
}

// follow goes down from a page. Each page is read once, so that it ends.
func (p *pages) follow(root uint64) error {
	for todo := []uint64{root}; len(todo) > 0; {
		id := todo[len(todo)-1]
		flags, count, body, err := p.page(id)
		if err != nil {
			return err
		}
		below, err := p.elements(id, flags, int(count), body)
		if err != nil {
			return err
		}
		todo = append(todo[:len(todo)-1], below...)
	}
	return nil
}

// elements checks that those of a page lie within it, and returns the pages that they lead to. That of a leaf begins at its own place.
func (p *pages) elements(id uint64, flags uint16, count int, body []byte) (below []uint64, err error) {
	if flags != branchPage && flags != leafPage || count*elementSize > len(body) || flags == branchPage && count == 0 {
		return nil, damaged(p.path, "page %d has flags %#x and %d elements", id, flags, count)
	}
	var before []byte
	for i := range count {
		e := body[i*elementSize:]
		word := func(at int) uint64 { return uint64(binary.LittleEndian.Uint32(e[at:])) }
		position, key, value := word(0), word(4), uint64(0)
		if flags == leafPage {
			position, key, value = word(4), word(8), word(12)
		}
		if position < elementSize || position+key+value > uint64(len(e)) {
			return nil, damaged(p.path, "element %d of page %d does not lie within it", i, id)
		}
		name := e[position : position+key]
		if i > 0 && string(before) >= string(name) {
			return nil, damaged(p.path, "the keys of page %d are out of order at element %d", id, i)
		}
		before = name
		switch {
		case flags == branchPage:
			below = append(below, binary.LittleEndian.Uint64(e[8:]))
		case word(0) == bucketElement:
			more, err := p.bucket(id, e[position+key:position+key+value])
			if err != nil {
				return nil, err
			}
			below = append(below, more...)
		case word(0) != 0:
			return nil, damaged(p.path, "element %d of page %d has flags %#x", i, id, word(0))
		}
	}
	return below, nil
}

// bucket is a value that leads to a tree of its own, or holds its only page.
func (p *pages) bucket(id uint64, value []byte) (below []uint64, err error) {
	if len(value) < bucketHead {
		return nil, damaged(p.path, "a bucket of page %d has %d bytes", id, len(value))
	}
	if root := binary.LittleEndian.Uint64(value); root != 0 {
		return []uint64{root}, nil
	}
	if len(value) < bucketHead+pageHead {
		return nil, damaged(p.path, "a bucket of page %d has %d bytes", id, len(value))
	}
	page := value[bucketHead:]
	flags, count := binary.LittleEndian.Uint16(page[8:]), int(binary.LittleEndian.Uint16(page[10:]))
	if flags != leafPage {
		return nil, damaged(p.path, "a bucket of page %d is no leaf", id)
	}
	return p.elements(id, flags, count, page[pageHead:])
}
