package table

import (
	"slices"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// MaxAnswers is how many bytes of answers wait for buffer space: a peer for which more wait does
// not take what it asked for.
const MaxAnswers = 1 << 20

// answerCost is the memory of an answer's place in the list.
const answerCost = 64

// Answer is a frame of channel 0, or a short one of another channel, that found no buffer space.
type Answer struct {
	Kind    pair.Kind
	Channel int
	ID      uint64
	Data    []byte
}

// Bytes is the memory of the answer, with its place in the list.
func (a *Answer) Bytes() int { return answerCost + len(a.Data) }

// Answers are the answers to one peer that wait for buffer space, the oldest first (EP7). The zero
// value is ready.
type Answers struct {
	list  []Answer
	bytes int
}

// Len is their number, and Bytes their memory.
func (q *Answers) Len() int { return len(q.list) }

// Bytes is their memory.
func (q *Answers) Bytes() int { return q.bytes }

// Fits reports whether one more may wait.
func (q *Answers) Fits(a *Answer) bool {
	return q.bytes+a.Bytes() <= MaxAnswers || mutant.Enabled && mutant.On(mutant.TableEndlessAnswers)
}

// Push adds an answer that fits.
func (q *Answers) Push(a Answer) {
	q.list = append(q.list, a)
	q.bytes += a.Bytes()
}

// First is the oldest one. There is one.
func (q *Answers) First() *Answer { return &q.list[0] }

// Pop removes the oldest one, which was sent, and returns its memory.
func (q *Answers) Pop() (bytes int) {
	bytes = q.list[0].Bytes()
	q.list[0] = Answer{}
	q.list = q.list[1:]
	q.bytes -= bytes
	return bytes
}

// Drop removes the messages of a channel on which none is sent any more, and returns their memory.
func (q *Answers) Drop(channel int) (bytes int) {
	q.list = slices.DeleteFunc(q.list, func(a Answer) bool {
		drop := a.Channel == channel && a.Kind.Counted()
		if drop {
			bytes += a.Bytes()
		}
		return drop
	})
	q.bytes -= bytes
	return bytes
}

// Clear removes all of them, and returns their memory.
func (q *Answers) Clear() (bytes int) {
	bytes = q.bytes
	*q = Answers{}
	return bytes
}
