package schedule

// vertex is one or two nodes of the hypercube that act as one. Of a pair, in each step one node
// sends what leaves the vertex and the other one receives what arrives; and as that one is free to
// send, it sends its partner what the partner lacks, which is free to receive:
//
//	      ┌──────────┐
//	←─out─┤ sender   │
//	      │   ↑      │      in → receiver, then the sender lacks that block
//	─in──→│ receiver │      inner: receiver → sender, what the sender lacked until now
//	      └──────────┘
//
// So each lacks at most one block that the other has, and before it comes to lack another one it
// gets that one. A vertex that sends nothing in a step still has one node that receives and one
// that is sent what it lacks.
//
// Source: the early version of the RDMC paper, §3.
type vertex struct {
	number int // the rank of node 0
	second int // the rank of node 1, if paired
	paired bool
	lacks  [2]int // by node: the block that its partner has and it has not, or none
}

// part is what the nodes of a vertex do in a step.
type part struct {
	sender, receiver int32 // ranks
	out, in          int   // the blocks they send and receive, or none
	giver, taker     int32 // ranks within the pair
	inner            int   // the block between them, or none
}

// cross lets the vertex take its part in a step in which it sends block out and receives block in,
// either of which may be none.
func (v *vertex) cross(out, in int) part {
	if !v.paired {
		rank := int32(v.number)
		return part{sender: rank, receiver: rank, out: out, in: in, inner: none}
	}
	sender := v.sender(out)
	receiver := 1 - sender
	p := part{sender: v.rank(sender), receiver: v.rank(receiver), out: out, in: in, giver: v.rank(receiver), taker: v.rank(sender), inner: v.lacks[sender]}
	v.lacks[sender] = in
	return p
}

// sender returns the node of the pair that sends, or that would send if there was a block to send.
// It must have the block. If both nodes have it, the node that lacks another block sends, because
// the sending node is also given the block that it lacks; if both lack a block, the node that lacks
// the older block sends. If neither lacks a block, node 1 sends: so a block reaches node 0 first.
func (v *vertex) sender(out int) int {
	switch {
	case out != none && v.lacks[0] == out:
		return 1
	case out != none && v.lacks[1] == out:
		return 0
	case v.lacks[1] == none && v.lacks[0] != none:
		return 0
	case v.lacks[0] != none && v.lacks[0] < v.lacks[1]:
		return 0
	}
	return 1
}

func (v *vertex) rank(node int) int32 {
	if node == 0 {
		return int32(v.number)
	}
	return int32(v.second)
}

// even lists what the nodes of a vertex still have to give each other after the last step: each
// what the other one lacks.
func (v *vertex) even() (parts [2]part) {
	for node := range parts {
		parts[node] = part{giver: v.rank(1 - node), taker: v.rank(node), inner: v.lacks[node]}
	}
	return parts
}

// between is the move from one vertex to its neighbour, if there is one in this step.
func between(step int, from, to part) (Move, bool) {
	return Move{Step: int32(step), From: from.sender, To: to.receiver, Block: int32(from.out)}, from.out != none
}

// within is the move between the nodes of a vertex, if there is one in this step.
func (p part) within(step int) (Move, bool) {
	return Move{Step: int32(step), From: p.giver, To: p.taker, Block: int32(p.inner)}, p.inner != none
}
