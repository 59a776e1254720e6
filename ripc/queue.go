package ripc

import "github.com/squall-go/squall/ripc/internal/pair"

// arrival is a message that no goroutine has received yet.
type arrival struct {
	peer   *peer
	frame  *pair.Frame
	number uint64 // of the frame: one that was freed is used again
	in     *inbound
}

// queue is a list of arrivals, the oldest first. The windows of the channels bound it.
type queue struct {
	ring  []arrival // its length is a power of two
	first int
	count int
}

func (q *queue) len() int { return q.count }

func (q *queue) push(a arrival) {
	if q.count == len(q.ring) {
		grown := make([]arrival, max(16, 2*len(q.ring)))
		for i := range q.count {
			grown[i] = q.ring[(q.first+i)&(len(q.ring)-1)]
		}
		q.ring, q.first = grown, 0
	}
	q.ring[(q.first+q.count)&(len(q.ring)-1)] = a
	q.count++
}

func (q *queue) pop() arrival {
	a := q.ring[q.first]
	q.ring[q.first] = arrival{}
	q.first = (q.first + 1) & (len(q.ring) - 1)
	q.count--
	return a
}

// unpop puts back what was popped last.
func (q *queue) unpop(a arrival) {
	q.first = (q.first - 1) & (len(q.ring) - 1)
	q.ring[q.first] = a
	q.count++
}
