package schedule

// chain is a bucket brigade: rank i sends block b to rank i+1 in step i+b.
//
//	step   0      1      2      3            2 blocks, 4 nodes
//	       0→1 b0 0→1 b1
//	              1→2 b0 1→2 b1
//	                     2→3 b0 2→3 b1
type chain struct{ nodes, blocks int }

func (c chain) steps() int { return Steps(Chain, c.nodes, c.blocks) }

func (c chain) sends(rank int) []Move {
	if rank == c.nodes-1 {
		return nil
	}
	moves := make([]Move, c.blocks)
	for b := range moves {
		moves[b] = c.move(rank, rank+b)
	}
	return moves
}

func (c chain) receives(rank int) []Move {
	if rank == 0 {
		return nil
	}
	return c.sends(rank - 1)
}

func (c chain) move(from, step int) Move {
	return Move{Step: int32(step), From: int32(from), To: int32(from + 1), Block: int32(step - from)}
}

func (c chain) walk() walk {
	step := 0
	return func(moves []Move) []Move {
		for from := max(0, step-c.blocks+1); from <= min(step, c.nodes-2); from++ {
			moves = append(moves, c.move(from, step))
		}
		step++
		return moves
	}
}
