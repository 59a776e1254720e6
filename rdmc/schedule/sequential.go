package schedule

// sequential is the root alone: the whole message to rank 1, then to rank 2, and so on.
//
//	step   0      1      2      3            2 blocks, 3 nodes
//	       0→1 b0 0→1 b1 0→2 b0 0→2 b1
type sequential struct{ nodes, blocks int }

func (s sequential) steps() int { return Steps(Sequential, s.nodes, s.blocks) }

// at is the move of a step; there is one in each.
func (s sequential) at(step int) Move {
	return Move{Step: int32(step), From: 0, To: int32(1 + step/s.blocks), Block: int32(step % s.blocks)}
}

func (s sequential) sends(rank int) []Move {
	if rank != 0 {
		return nil
	}
	return s.between(0, s.steps())
}

func (s sequential) receives(rank int) []Move {
	if rank == 0 {
		return nil
	}
	return s.between((rank-1)*s.blocks, rank*s.blocks)
}

func (s sequential) between(first, end int) []Move {
	moves := make([]Move, 0, end-first)
	for step := first; step < end; step++ {
		moves = append(moves, s.at(step))
	}
	return moves
}

func (s sequential) walk() walk {
	step := 0
	return func(moves []Move) []Move {
		step++
		return append(moves, s.at(step-1))
	}
}
