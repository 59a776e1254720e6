package schedule

// tree is a binomial tree. It has rounds of as many steps as there are blocks: in round t the ranks
// below 2^t have the message, and each sends all of it to the rank that is 2^t higher, if there is
// one.
//
//	round  0    1    2            7 nodes
//	       0→1  0→2  0→4
//	            1→3  1→5
//	                 2→6
type tree struct{ nodes, blocks int }

func (t tree) steps() int { return Steps(Tree, t.nodes, t.blocks) }

func (t tree) sends(rank int) []Move {
	var moves []Move
	for round := rounds(rank + 1); rank+1<<round < t.nodes; round++ {
		moves = t.edge(moves, round, rank)
	}
	return moves
}

func (t tree) receives(rank int) []Move {
	if rank == 0 {
		return nil
	}
	round := rounds(rank+1) - 1
	return t.edge(nil, round, rank-1<<round)
}

// edge appends a rank's sends of one round.
func (t tree) edge(moves []Move, round, from int) []Move {
	for b := range t.blocks {
		moves = append(moves, t.move(round, from, b))
	}
	return moves
}

func (t tree) move(round, from, block int) Move {
	return Move{Step: int32(round*t.blocks + block), From: int32(from), To: int32(from + 1<<round), Block: int32(block)}
}

func (t tree) walk() walk {
	step := 0
	return func(moves []Move) []Move {
		round, block := step/t.blocks, step%t.blocks
		for from := 0; from < 1<<round && from+1<<round < t.nodes; from++ {
			moves = append(moves, t.move(round, from, block))
		}
		step++
		return moves
	}
}
