package logs

import (
	"slices"
	"sync"

	"github.com/squall-go/squall"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// meter counts what one subgroup delivers, and finds how much of it lies before a version.
type meter struct {
	mu    sync.Mutex
	marks []mark // in order; marks before the last question are dropped
	count uint64
	sum   uint64 // loop
}

// mark says how many messages there are up to a version.
type mark struct {
	version squall.Version
	count   uint64
}

// deliver takes a run of messages.
func (m *meter) deliver(run []squall.Message) {
	for i := range run {
		m.sum += bench.Touch(run[i].Data)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count += uint64(len(run))
	m.marks = append(m.marks, mark{run[len(run)-1].Version(), m.count})
}

func (m *meter) delivered() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// before is how many messages lie before a version, to the run: of one that it divides, none.
// Versions of successive questions grow.
func (m *meter) before(v squall.Version) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, _ := slices.BinarySearchFunc(m.marks, v, func(k mark, v squall.Version) int {
		if k.version.Before(v) {
			return -1
		}
		return 1
	})
	if n == 0 {
		return 0
	}
	m.marks = append(m.marks[:0], m.marks[n-1:]...) // the last one before stays: nothing may have come when the next question does
	return m.marks[0].count
}
