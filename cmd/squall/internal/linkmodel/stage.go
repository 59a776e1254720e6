package linkmodel

import (
	"time"

	"github.com/squall-go/squall/internal/invariants"
)

// stage serves blocks in the order in which they come, at a rate.
type stage struct {
	rate  float64       // bytes/s
	extra time.Duration // for each block
	free  time.Duration // when it will have served all that came
	busy  time.Duration // for how long it has been busy when it is free
}

// work is how long a block keeps the stage busy.
func (s *stage) work(bytes int64) time.Duration { return s.extra + duration(bytes, s.rate) }

// serve puts a block in the queue and returns when it is served. A stage that is faster than the
// others on the block's way is free for another one before this one is through; it works ahead, as
// it would if it worked on both in turns.
func (s *stage) serve(now time.Duration, bytes int64) (served time.Duration) {
	work := s.work(bytes)
	s.free, s.busy = max(s.free, now)+work, s.busy+work
	if invariants.Enabled {
		invariants.Check(s.busy <= s.free, "L2", "busy for %v at %v", s.busy, s.free)
	}
	return s.free
}

// wires are the stages of a network.
type wires struct {
	egress, ingress []stage
	rack            []int // by node; nil without racks
	up, down        []stage
	links           map[[2]int32]float64 // rates of slow links, lower node first
}

func newWires(n *Network) *wires {
	w := &wires{egress: make([]stage, n.Nodes), ingress: make([]stage, n.Nodes), links: map[[2]int32]float64{}}
	for i := range w.egress {
		w.egress[i] = stage{rate: n.rate(), extra: n.Overhead}
	}
	copy(w.ingress, w.egress)
	for _, l := range n.SlowLinks {
		w.links[pair(int32(l.A), int32(l.B))] = l.Rate
	}
	if len(n.Racks) > 0 {
		w.placeRacks(n)
	}
	return w
}

// placeRacks numbers the racks in the order in which their labels come, and gives each the uplink
// that its nodes' rates and the oversubscription make.
func (w *wires) placeRacks(n *Network) {
	known := map[string]int{}
	for node, label := range n.Racks {
		number, ok := known[label]
		if !ok {
			number = len(known)
			known[label] = number
			w.up = append(w.up, stage{})
		}
		w.rack = append(w.rack, number)
		w.up[number].rate += w.egress[node].rate
	}
	if n.Oversubscription == 0 {
		w.up = nil
		return
	}
	for i := range w.up {
		w.up[i].rate /= n.Oversubscription
	}
	w.down = append(w.down, w.up...)
}

func pair(a, b int32) [2]int32 { return [2]int32{min(a, b), max(a, b)} }

// crosses reports whether two nodes are in different racks.
func (w *wires) crosses(from, to int32) bool { return w.rack != nil && w.rack[from] != w.rack[to] }

// alone is how long a block takes that meets no other one, from the sender's egress to the
// receiver's ingress. Racks are not counted.
func (w *wires) alone(from, to int32, bytes int64) time.Duration {
	d := max(w.egress[from].work(bytes), w.ingress[to].work(bytes))
	if rate, slow := w.links[pair(from, to)]; slow {
		d = max(d, w.egress[from].extra+duration(bytes, rate))
	}
	return d
}

// pass sends a block from an egress, which serves it from now on, and returns when the last byte
// has passed.
func (w *wires) pass(now time.Duration, from, to int32, bytes int64) (through time.Duration) {
	through = max(now+w.alone(from, to, bytes), w.ingress[to].serve(now, bytes))
	if w.up != nil && w.crosses(from, to) {
		through = max(through, w.up[w.rack[from]].serve(now, bytes), w.down[w.rack[to]].serve(now, bytes))
	}
	return through
}
