package pair

import "github.com/squall-go/squall/internal/mutant"

// Notices keeps, for each key, the latest notice that was not taken (RP9), in the order in which
// the keys came. Its size is bounded by the channel's window: a notice is freed when it is taken or
// replaced. The zero value is ready.
type Notices struct {
	places map[uint64]int // of a key in the list
	list   []*Frame       // nil: taken
	first  int
}

// Add keeps a notice and returns the one that it replaces, or nil.
func (n *Notices) Add(f *Frame) (replaced *Frame) {
	if n.places == nil {
		n.places = map[uint64]int{}
	}
	if at, waits := n.places[f.ID]; waits {
		replaced = n.list[at]
		if mutant.Enabled && mutant.On(mutant.PairOldNotice) {
			return f
		}
		n.list[at] = f
		return replaced
	}
	if len(n.list) == cap(n.list) && n.first > len(n.list)/2 {
		n.compact()
	}
	n.places[f.ID] = len(n.list)
	n.list = append(n.list, f)
	return nil
}

// compact gives the places of notices that were taken to the next ones: where one always waits, the
// list would grow for ever.
func (n *Notices) compact() {
	waits := copy(n.list, n.list[n.first:])
	clear(n.list[waits:])
	n.list, n.first = n.list[:waits], 0
	for at, f := range n.list {
		n.places[f.ID] = at
	}
}

// Take returns the notice of the key that has waited longest, or nil.
func (n *Notices) Take() *Frame {
	if n.first == len(n.list) {
		return nil
	}
	f := n.list[n.first]
	n.list[n.first] = nil
	delete(n.places, f.ID)
	if n.first++; n.first == len(n.list) {
		n.list, n.first = n.list[:0], 0
	}
	return f
}

// Len is the number of notices that wait.
func (n *Notices) Len() int { return len(n.list) - n.first }
