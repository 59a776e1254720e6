package schedule

import "math/bits"

// none stands where there is no block.
const none = -1

// cube is the binomial pipeline. Nodes sit at the vertices of a hypercube of dims dimensions, and
// in step j blocks move along direction j % dims, between the vertices whose numbers differ in that
// bit. The root, alone at vertex 0, sends a new block in each step, and the last one again when it
// has run out of them; every other vertex sends the highest block that it has, unless its neighbour
// is the root.
//
//	step   0      1      2      3      4        3 blocks, 4 nodes
//	       0→1 b0 0→2 b1 0→1 b2 0→2 b2
//	              1→3 b0 2→3 b1 1→3 b2
//	                     3→2 b0 3→1 b1
//
// Where the nodes are no power of two, there are as many vertices as the largest power of two
// below, and vertices 1, 2, … have a second node each: vertex v holds ranks v and v + vertices − 1.
// What the two do for their vertex is said in vertex.go. Each of them may then lack one block that
// the other has, so there is one more step in which the pairs even out.
//
// Where one node is left over, it needs no pair: it is the guest. In each step the root's neighbour
// has nothing to send, and it has had the block of dims steps ago since then. It gives that block
// to the guest, which gets a block in each step that way, in the order of the blocks, from nodes
// that do not wait. A pair has to pass on a block that has just arrived; the guest takes the same
// number of steps and leaves every node more time. With five nodes and links of 400 Mbit/s a pair
// took 1.15 to 1.4 of the ideal time, as its blocks got larger.
//
// With one block this is a binomial tree; among a power of two of nodes it is the very one of
// tree.go.
type cube struct {
	nodes, blocks int
	dims          int // of the hypercube; at least one
}

func newCube(nodes, blocks int) cube {
	return cube{nodes: nodes, blocks: blocks, dims: bits.Len(uint(nodes)) - 1}
}

func (c cube) vertices() int { return 1 << c.dims }

// hosting reports whether there is a guest, which is the last rank then.
func (c cube) hosting() bool { return c.nodes == c.vertices()+1 }

// paired reports whether vertices are pairs.
func (c cube) paired() bool { return c.nodes > c.vertices()+1 }

// give is what the guest gets in a step.
func (c cube) give(step int) (m Move, ok bool) {
	block := step - c.dims
	if !c.hosting() || block < 0 || block >= c.blocks {
		return m, false
	}
	return Move{Step: int32(step), From: 1 << (step % c.dims), To: int32(c.nodes - 1), Block: int32(block)}, true
}

// crossings is the number of steps in which blocks move along edges of the hypercube.
func (c cube) crossings() int { return c.dims + c.blocks - 1 }

// delay is how many steps after step b block b has reached every node, at most.
func (c cube) delay() int {
	if c.blocks == 1 || c.dims == 1 {
		return rounds(c.nodes) - 1
	}
	return rounds(c.nodes)
}

func (c cube) steps() int { return Steps(Pipeline, c.nodes, c.blocks) }

// out is the block that a vertex sends in a step, in closed form. Block b leaves the root in step
// b, in direction b % dims, and spreads in the directions that follow. Look at a vertex' number
// turned right by this step's direction d, so that bit t stands for the direction t steps from now:
// block step − dims + r left the root in the direction of bit r and has since been through the
// directions of all higher bits, so it is at the vertices where bit r is set and all lower bits are
// clear. The number of zeros at the end therefore tells the highest block that is here.
//
// Source: DSN 2018 §4.4.
func (c cube) out(vertex, step, d int) int {
	if vertex == 0 {
		return min(step, c.blocks-1)
	}
	turned := uint(vertex)>>d | uint(vertex)<<(c.dims-d)&uint(c.vertices()-1)
	if turned == 1 { // the neighbour is the root
		return none
	}
	block := step - c.dims + bits.TrailingZeros(turned)
	if block < 0 { // nothing is here yet
		return none
	}
	return min(block, c.blocks-1)
}

// cross is a vertex' part in a step: the block that leaves it and the block that arrives.
func (c cube) cross(vertex, step, d int) (out, in int) {
	return c.out(vertex, step, d), c.out(vertex^1<<d, step, d)
}

// at returns a vertex as it is before the first step.
func (c cube) at(number int) vertex {
	second := number + c.vertices() - 1
	return vertex{number: number, second: second, paired: number > 0 && second < c.nodes && !c.hosting(), lacks: [2]int{none, none}}
}

// vertexOf is where a rank sits, and whether it is its vertex' node 0 or 1.
func (c cube) vertexOf(rank int) (number, node int) {
	if rank < c.vertices() {
		return rank, 0
	}
	return rank - c.vertices() + 1, 1
}

func (c cube) isGuest(rank int) bool { return c.hosting() && rank == c.nodes-1 }

func (c cube) sends(rank int) []Move {
	if c.isGuest(rank) {
		return nil
	}
	return c.moves(func(m Move) bool { return m.From == int32(rank) }, rank)
}

func (c cube) receives(rank int) (moves []Move) {
	if c.isGuest(rank) {
		for block := range c.blocks {
			m, _ := c.give(block + c.dims)
			moves = append(moves, m)
		}
		return moves
	}
	return c.moves(func(m Move) bool { return m.To == int32(rank) }, rank)
}

// moves goes through the steps of a rank's vertex and of its neighbours, and returns the moves that
// wanted selects. Which node of a neighbour's pair sends or receives depends on its history, so the
// neighbours are followed from the start: that is the factor log nodes in the cost.
func (c cube) moves(wanted func(Move) bool, rank int) []Move {
	number, _ := c.vertexOf(rank)
	own, neighbours := c.at(number), make([]vertex, c.dims)
	for d := range neighbours {
		neighbours[d] = c.at(number ^ 1<<d)
	}
	moves := make([]Move, 0, c.blocks+c.dims+1)
	keep := func(m Move, ok bool) {
		if ok && wanted(m) {
			moves = append(moves, m)
		}
	}
	for step, d := 0, 0; step < c.crossings(); step, d = step+1, (d+1)%c.dims {
		mine := own.cross(c.cross(own.number, step, d))
		for i := range neighbours {
			if n := &neighbours[i]; n.paired || i == d {
				theirs := n.cross(c.cross(n.number, step, d))
				if i == d {
					keep(between(step, mine, theirs))
					keep(between(step, theirs, mine))
				}
			}
		}
		keep(mine.within(step))
		keep(c.give(step))
	}
	for _, part := range own.even() {
		keep(part.within(c.crossings()))
	}
	keep(c.give(c.crossings()))
	return moves
}

// walk follows all vertices at once.
func (c cube) walk() walk {
	all := make([]vertex, c.vertices())
	for i := range all {
		all[i] = c.at(i)
	}
	step, d := 0, 0
	parts := make([]part, len(all))
	return func(moves []Move) []Move {
		first := len(moves)
		if step < c.crossings() {
			moves = c.appendCrossing(moves, step, d, all, parts)
		} else {
			moves = appendEven(moves, step, all)
		}
		if m, ok := c.give(step); ok {
			moves = append(moves, m)
		}
		step, d = step+1, (d+1)%c.dims
		sortBySender(moves[first:])
		return moves
	}
}

func (c cube) appendCrossing(moves []Move, step, d int, all []vertex, parts []part) []Move {
	for i := range all {
		parts[i] = all[i].cross(c.cross(i, step, d))
	}
	for i := range all {
		if m, ok := between(step, parts[i], parts[i^1<<d]); ok {
			moves = append(moves, m)
		}
		if m, ok := parts[i].within(step); ok {
			moves = append(moves, m)
		}
	}
	return moves
}

func appendEven(moves []Move, step int, all []vertex) []Move {
	for i := range all {
		for _, p := range all[i].even() {
			if m, ok := p.within(step); ok {
				moves = append(moves, m)
			}
		}
	}
	return moves
}
