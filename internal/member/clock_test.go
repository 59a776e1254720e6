package member_test

import (
	"sync"
	"testing"

	"github.com/squall-go/squall/order"
)

// B9: goroutines that move the clock at the same time do not set it back for each other.
func TestTheClockNeverGoesBackBetweenGoroutines(t *testing.T) {
	w := skewed(t, 0)
	w.pass(heartbeat) // it looks at its wall clock
	m := w.members[0]
	const readings = 2_000_000
	begin := m.Now()
	var moving sync.WaitGroup
	for lag := range order.Time(4) {
		moving.Go(func() {
			for k := range order.Time(readings) {
				to := begin + 4*k + lag
				m.Hear(to)
				if now := m.Now(); now < to {
					t.Errorf("B9: the clock was at %d, and reads %d", to-begin, now-begin)
					return
				}
			}
		})
	}
	moving.Wait()
}
