package faultfs

import (
	"maps"
	"math/rand/v2"
)

const pageBytes = 4096

// content is the bytes of a file. A page without memory is zeros; a page is never written in place,
// so contents may share pages.
type content struct {
	size  int64
	pages map[int64][]byte
}

func (c *content) clone() content { return content{c.size, maps.Clone(c.pages)} }

// read copies what is there from an offset on, and returns how much that is.
func (c *content) read(p []byte, off int64) int {
	if off >= c.size {
		return 0
	}
	p = p[:min(int64(len(p)), c.size-off)]
	for done := 0; done < len(p); {
		at := off + int64(done)
		rest := p[done:min(len(p), done+int(pageBytes-at%pageBytes))]
		if page := c.pages[at/pageBytes]; page != nil {
			copy(rest, page[at%pageBytes:])
		} else {
			clear(rest)
		}
		done += len(rest)
	}
	return len(p)
}

// write puts bytes at an offset, and lengthens the file if need be.
func (c *content) write(p []byte, off int64) {
	if len(p) > 0 {
		c.size = max(c.size, off+int64(len(p)))
	}
	for len(p) > 0 {
		n := min(len(p), int(pageBytes-off%pageBytes))
		page := make([]byte, pageBytes)
		copy(page, c.pages[off/pageBytes])
		copy(page[off%pageBytes:], p[:n])
		if c.pages == nil {
			c.pages = map[int64][]byte{}
		}
		c.pages[off/pageBytes] = page
		p, off = p[n:], off+int64(n)
	}
}

// resize drops what is behind a size, or lengthens the file with zeros.
func (c *content) resize(size int64) {
	if size < c.size {
		last := size / pageBytes
		maps.DeleteFunc(c.pages, func(i int64, _ []byte) bool { return i > last || i == last && size%pageBytes == 0 })
		if page := c.pages[last]; page != nil {
			kept := make([]byte, pageBytes)
			copy(kept, page[:size%pageBytes])
			c.pages[last] = kept
		}
	}
	c.size = size
}

// change is something that was done to a file: bytes that were written, or with resize a size that
// was set.
type change struct {
	step   uint64 // numbers what was done to the disk
	off    int64
	data   []byte
	resize bool
	size   int64
	synced bool // it is on the platter already, though what came before may not be
}

func (g *change) apply(c *content) {
	if g.resize {
		c.resize(g.size)
	} else {
		c.write(g.data, g.off)
	}
}

// pieces cuts a write at the boundaries of sectors.
func (g *change) pieces(sector int64, visit func(data []byte, off int64)) {
	for data, off := g.data, g.off; len(data) > 0; {
		n := min(int64(len(data)), sector-off%sector)
		visit(data[:n], off)
		data, off = data[n:], off+n
	}
}

// Fate is what becomes of what was not synced when the power goes.
type Fate int

// Fates.
const (
	Drawn      Fate = iota // one of the others, for each file and for all names
	Nothing                // of it has arrived
	Everything             // has arrived
	Prefix                 // has arrived; the last write of it is torn
	Scattered              // any part of it has arrived
)

// or draws a fate if it is not said.
func (f Fate) or(dice *rand.Rand) Fate {
	if f == Drawn {
		return Nothing + Fate(dice.IntN(4))
	}
	return f
}

// settle lets changes that were not synced arrive on the platter as far as their fate says.
func (f Fate) settle(c *content, changes []change, dice *rand.Rand) {
	sector := int64(512)
	if dice.IntN(2) == 0 {
		sector = 4096
	}
	switch f {
	case Nothing:
		settleRest(c, changes)
	case Everything:
		for i := range changes {
			changes[i].apply(c)
		}
	case Prefix:
		settlePrefix(c, changes, sector, dice)
	case Scattered:
		settleScattered(c, changes, sector, dice)
	}
}

// settleRest lets arrive only what was synced by itself.
func settleRest(c *content, changes []change) {
	for i := range changes {
		if changes[i].synced {
			changes[i].apply(c)
		}
	}
}

func settlePrefix(c *content, changes []change, sector int64, dice *rand.Rand) {
	whole := dice.IntN(len(changes) + 1)
	for i := range changes[:whole] {
		changes[i].apply(c)
	}
	defer settleRest(c, changes[whole:])
	if whole == len(changes) || changes[whole].resize {
		return
	}
	torn := &changes[whole]
	left := dice.Int64N(int64(len(torn.data))/sector + 2) // sectors
	torn.pieces(sector, func(data []byte, off int64) {
		if left--; left >= 0 {
			c.write(data, off)
		}
	})
}

// settleScattered lets any version of each sector arrive: the first changes of it, up to one. The
// size is that behind any one of the changes, so what was written beyond it is gone.
func settleScattered(c *content, changes []change, sector int64, dice *rand.Rand) {
	sized := dice.IntN(len(changes) + 1)
	stale := map[int64]bool{} // sectors of which nothing more arrives
	for i := range changes {
		g := &changes[i]
		if g.resize {
			if i < sized {
				g.apply(c)
			}
			continue
		}
		end := g.off + int64(len(g.data))
		if (i < sized || g.synced) && c.size < end {
			c.resize(end)
		}
		g.pieces(sector, func(data []byte, off int64) {
			if at := off / sector; g.synced || !stale[at] && dice.IntN(2) == 0 {
				if off < c.size {
					c.write(data[:min(int64(len(data)), c.size-off)], off)
				}
			} else {
				stale[at] = true
			}
		})
	}
}
