package schedule

// hybrid is a pipeline between the leaders of the racks and one within each rack, from its leader.
// The rack of the root is led by the root, every other by its lowest rank. So each block enters
// each rack once.
//
// A leader has two pipelines to serve and one send per step. The pipeline between the racks takes
// the even steps and the pipelines within the racks take the odd ones, delayed by so many of their
// steps that a leader has each block when it passes it on; the root's rack starts at once:
//
//	step    0  1  2  3  4  5  6  7  …
//	racks   0     1     2     3         steps of the pipeline between leaders
//	root's     0     1     2            steps of the pipeline within the root's rack
//	others        (delay)  0     1      steps of the pipeline within the other ones
//
// Starting each pipeline when the one before it ends would keep whole racks waiting for as long as
// the message takes to travel.
type hybrid struct {
	racks   []rack
	places  []place // by rank
	leaders cube    // its ranks are the indexes of racks
}

// rack is the nodes of one label.
type rack struct {
	ranks  []int32 // in order; the first one leads
	within cube    // its ranks are the indexes of ranks; unused if there is only one
	delay  int     // steps by which the pipeline within starts later than the one between the racks
}

func (r *rack) alone() bool { return len(r.ranks) == 1 }

// place is where a rank stands: in which rack, and which one there.
type place struct{ rack, index int }

// divided reports whether the labels make a hybrid something of its own: several racks, and one of
// them with several nodes. Otherwise it is the plain pipeline.
func divided(labels []string) bool {
	racks := 0
	for _, number := range numbered(labels) {
		racks = max(racks, number+1)
	}
	return racks > 1 && racks < len(labels)
}

// numbered gives each rank the number of its rack, in the order in which the labels come first.
func numbered(labels []string) []int {
	known, numbers := map[string]int{}, make([]int, len(labels))
	for rank, label := range labels {
		number, ok := known[label]
		if !ok {
			number = len(known)
			known[label] = number
		}
		numbers[rank] = number
	}
	return numbers
}

func newHybrid(blocks int, labels []string) *hybrid {
	h := &hybrid{}
	for rank, number := range numbered(labels) {
		if number == len(h.racks) {
			h.racks = append(h.racks, rack{})
		}
		r := &h.racks[number]
		h.places = append(h.places, place{number, len(r.ranks)})
		r.ranks = append(r.ranks, int32(rank))
	}
	h.leaders = newCube(len(h.racks), blocks)
	for i := range h.racks {
		r := &h.racks[i]
		if !r.alone() {
			r.within = newCube(len(r.ranks), blocks)
		}
		if i > 0 {
			r.delay = h.leaders.delay()
		}
	}
	return h
}

// steps is that of the pipeline that ends last. Every rack starts when the leaders' steps that it
// needs are over, so that is mostly the one within the largest rack.
func (h *hybrid) steps() int {
	last := 2*h.leaders.steps() - 1
	for i := range h.racks {
		if r := &h.racks[i]; !r.alone() {
			last = max(last, 2*(r.within.steps()+r.delay))
		}
	}
	return last
}

func (h *hybrid) sends(rank int) []Move {
	at := h.places[rank]
	var between, within []Move
	if at.index == 0 {
		between = h.leaders.sends(at.rack)
	}
	if r := &h.racks[at.rack]; !r.alone() {
		within = r.within.sends(at.index)
	}
	return byStep(h.placeBetween(between), h.racks[at.rack].placeWithin(within))
}

// receives are all of one pipeline: a leader is the root of the one within its rack.
func (h *hybrid) receives(rank int) []Move {
	at := h.places[rank]
	if at.index == 0 {
		return h.placeBetween(h.leaders.receives(at.rack))
	}
	r := &h.racks[at.rack]
	return r.placeWithin(r.within.receives(at.index))
}

// placeBetween turns moves of the pipeline between the racks into moves of the plan.
func (h *hybrid) placeBetween(moves []Move) []Move {
	for i, m := range moves {
		moves[i] = Move{Step: 2 * m.Step, From: h.racks[m.From].ranks[0], To: h.racks[m.To].ranks[0], Block: m.Block}
	}
	return moves
}

// placeWithin turns moves of the pipeline within a rack into moves of the plan.
func (r *rack) placeWithin(moves []Move) []Move {
	for i, m := range moves {
		moves[i] = Move{Step: 2*(m.Step+int32(r.delay)) + 1, From: r.ranks[m.From], To: r.ranks[m.To], Block: m.Block}
	}
	return moves
}

// byStep merges two lists; no step is in both.
func byStep(a, b []Move) []Move {
	merged := make([]Move, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].Step < b[0].Step {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	return append(append(merged, a...), b...)
}

func (h *hybrid) walk() walk {
	between := h.leaders.walk()
	within := make([]walk, len(h.racks))
	for i := range h.racks {
		if !h.racks[i].alone() {
			within[i] = h.racks[i].within.walk()
		}
	}
	step := 0
	return func(moves []Move) []Move {
		first := len(moves)
		if turn := step / 2; step%2 == 1 {
			moves = h.appendWithin(moves, turn, within)
		} else if turn < h.leaders.steps() {
			moves = between(moves)
			h.placeBetween(moves[first:])
		}
		step++
		sortBySender(moves[first:])
		return moves
	}
}

func (h *hybrid) appendWithin(moves []Move, turn int, within []walk) []Move {
	for i, next := range within {
		r := &h.racks[i]
		if next == nil || turn < r.delay || turn >= r.delay+r.within.steps() {
			continue
		}
		first := len(moves)
		moves = next(moves)
		r.placeWithin(moves[first:])
	}
	return moves
}
