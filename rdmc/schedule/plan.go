package schedule

import (
	"errors"
	"fmt"
	"iter"
	"slices"
)

// What a plan can be made for. Steps and moves of all of them fit an int32.
const (
	MaxNodes  = 4096
	MaxBlocks = 65536
)

// ErrSize says that there is no plan of this size.
var ErrSize = errors.New("schedule: no plan of this size")

// Move is one block in flight: in step Step, rank From sends block Block to rank To.
type Move struct{ Step, From, To, Block int32 }

// Plan is one message's schedule. Nodes are ranks 0 to Nodes−1, and 0 is the root, which has all
// blocks from the start. It is immutable: any goroutine may use it. It holds no moves; each call
// computes what it returns.
type Plan struct {
	algorithm     Algorithm
	nodes, blocks int
	shape         shape
}

// shape is what the algorithms differ in.
type shape interface {
	steps() int
	sends(rank int) []Move
	receives(rank int) []Move
	walk() walk
}

// walk appends the moves of the next step, by sender. It starts with step 0 and is asked once for
// each step.
type walk func(moves []Move) []Move

// New makes the plan for a message of so many blocks among so many nodes. The racks are none, or
// one label for each rank; only Hybrid and Auto look at them. Auto is the pipeline, or Hybrid if
// there are several racks, one of them with several nodes; a caller that knows the message's size
// in bytes makes a better choice with Choose. A group of one has a plan without steps.
func New(a Algorithm, nodes, blocks int, racks []string) (*Plan, error) {
	switch {
	case int(a) >= len(names):
		return nil, fmt.Errorf("%w: %d", ErrUnknown, uint8(a))
	case nodes < 1 || nodes > MaxNodes:
		return nil, fmt.Errorf("%w: %d nodes, want 1 to %d", ErrSize, nodes, MaxNodes)
	case blocks < 1 || blocks > MaxBlocks:
		return nil, fmt.Errorf("%w: %d blocks, want 1 to %d", ErrSize, blocks, MaxBlocks)
	case len(racks) != 0 && len(racks) != nodes:
		return nil, fmt.Errorf("%w: %d rack labels for %d nodes", ErrSize, len(racks), nodes)
	}
	if a == Auto {
		a = Pipeline
		if divided(racks) {
			a = Hybrid
		}
	}
	return &Plan{algorithm: a, nodes: nodes, blocks: blocks, shape: shapeOf(a, nodes, blocks, racks)}, nil
}

func shapeOf(a Algorithm, nodes, blocks int, racks []string) shape {
	switch {
	case nodes == 1:
		return sequential{nodes: 1, blocks: blocks}
	case a == Sequential:
		return sequential{nodes: nodes, blocks: blocks}
	case a == Chain:
		return chain{nodes: nodes, blocks: blocks}
	case a == Tree:
		return tree{nodes: nodes, blocks: blocks}
	case a == Hybrid && divided(racks):
		return newHybrid(blocks, racks)
	}
	return newCube(nodes, blocks)
}

// Nodes is the number of nodes, the root included.
func (p *Plan) Nodes() int { return p.nodes }

// Blocks is the number of blocks of the message.
func (p *Plan) Blocks() int { return p.blocks }

// Algorithm is the algorithm of the plan. It is never Auto.
func (p *Plan) Algorithm() Algorithm { return p.algorithm }

// Steps is the number of steps until every node has every block.
func (p *Plan) Steps() int { return p.shape.steps() }

// Sends lists what a rank sends, in step order, at most one move per step. It costs no more than
// blocks·log nodes, but for the root of Sequential, which sends everything. A rank outside of the
// plan sends nothing.
func (p *Plan) Sends(rank int) []Move {
	if rank < 0 || rank >= p.nodes {
		return nil
	}
	return p.shape.sends(rank)
}

// Receives lists what a rank receives, in step order, at most one move per step; it costs what
// Sends does. A rank outside of the plan receives nothing.
func (p *Plan) Receives(rank int) []Move {
	if rank < 0 || rank >= p.nodes {
		return nil
	}
	return p.shape.receives(rank)
}

// All is every move, by step, then sender. It is computed step by step and holds one step at a
// time.
func (p *Plan) All() iter.Seq[Move] {
	return func(yield func(Move) bool) {
		next := p.shape.walk()
		var moves []Move
		for range p.Steps() {
			moves = next(moves[:0])
			for _, m := range moves {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// String names the plan for logs and tests.
func (p *Plan) String() string {
	return fmt.Sprintf("%v of %d blocks to %d nodes in %d steps", p.algorithm, p.blocks, p.nodes, p.Steps())
}

func bySender(a, b Move) int { return int(a.From - b.From) }

func sortBySender(moves []Move) { slices.SortFunc(moves, bySender) }
