package simnet

import (
	"sync"
	"unsafe"

	"github.com/squall-go/squall/fabric"
)

// A load of a shared word tells nothing but the word's address, and several networks run at the
// same time, each on a goroutine of its own. So the replicas of Seeping pairs of networks with the
// option Loads lie in regions of one reserved piece of address space, from which the address of a
// word leads to its network and its link.
const (
	regions     = 16
	regionBytes = 32 << 20 // reserved: only the pages that are written use memory
	pageBytes   = 4 << 10
)

// region is a piece of the reserved memory, for one network at a time.
type region struct {
	mem   []byte
	used  int     // bytes
	links []*link // by page; nil: none looks through it now
}

var (
	reserve  sync.Once
	reserved []byte
	// lent are the regions in use, by place. A network's own goroutine is the only one that looks at
	// its own entry after it was set.
	lent   [regions]*region
	lentMu sync.Mutex
)

// borrowRegion returns a region that no other network uses, or nil if there is none.
func borrowRegion() *region {
	reserve.Do(func() { // outside of the heap: the collector would wait until there is many times as much garbage
		mem, _, err := fabric.NewMemory(regions * regionBytes)
		if err != nil {
			panic(err)
		}
		reserved = mem
	})
	lentMu.Lock()
	defer lentMu.Unlock()
	for i := range lent {
		if lent[i] == nil {
			lent[i] = &region{mem: reserved[i*regionBytes:][:regionBytes], links: make([]*link, regionBytes/pageBytes)}
			return lent[i]
		}
	}
	return nil
}

// returnRegion lets another network use a region.
func returnRegion(r *region) {
	lentMu.Lock()
	defer lentMu.Unlock()
	clear(r.mem[:r.used])
	for i := range lent {
		if lent[i] == r {
			lent[i] = nil
		}
	}
}

// take returns zeroed memory in whole pages, or nil if there is no more.
func (r *region) take(n int) []byte {
	size := (n + pageBytes - 1) / pageBytes * pageBytes
	if r.used+size > len(r.mem) {
		return nil
	}
	r.used += size
	return r.mem[r.used-size:][:n:n]
}

// offset is where a word lies in the reserved memory; false: somewhere else.
func offset(word unsafe.Pointer) (uintptr, bool) {
	if len(reserved) == 0 {
		return 0, false
	}
	at := uintptr(word) - uintptr(unsafe.Pointer(&reserved[0]))
	return at, at < uintptr(len(reserved))
}

// shows has loads of words in a replica show what its link lets become visible by then; nil:
// nothing more.
func shows(replica []byte, l *link) {
	if len(replica) == 0 {
		return
	}
	at, ok := offset(unsafe.Pointer(&replica[0]))
	if !ok {
		return
	}
	links := lent[at/regionBytes].links
	first := at % regionBytes / pageBytes
	for page := first; page <= first+uintptr(len(replica)-1)/pageBytes; page++ {
		links[page] = l
	}
}

// BeforeLoad is to be called before each load of a shared word by a step, where networks have the
// option Loads: what the owner of the word's row has stored may become visible now.
func BeforeLoad(line *[fabric.WordsPerLine]uint64) {
	at, ok := offset(unsafe.Pointer(line))
	if !ok {
		return
	}
	r := lent[at/regionBytes]
	if r == nil {
		return
	}
	if l := r.links[at%regionBytes/pageBytes]; l != nil && l.up && !l.closed && l.in.head < len(l.in.flight) {
		l.looks()
	}
}

// looks lets some more become visible, in half of the looks.
func (l *link) looks() {
	if l.in.random.IntN(2) == 0 {
		l.seep()
		l.net.Stats.LoadsBetween++
	}
}
