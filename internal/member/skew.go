package member

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/order"
)

// MaxSkew is how far the wall clocks of members of a persistent subgroup may differ. The times of
// messages move the clocks of all members, and the times in their logs, for good; so a member whose
// messages have times far ahead of all wall clocks fails (B10).
//
//	wall                       + MaxSkew                 + 2·MaxSkew
//	 ├── clocks of members that ──┤                            │
//	 │   are not ahead           clocks follow messages to here
//	 │                            └── of a member whose wall ──┤ no message with a later time is received
//	                                  clock is ahead
const MaxSkew = 24 * time.Hour

// walls is what a member knows of wall clocks.
type walls struct {
	now   atomic.Uint64 // W: loop. Only grows. The latest reading of the own one, or of the second latest of the others' if that is more.
	heard bool          // all others of the view in force, or of one before, told theirs
}

// wall reads the wall clock. One that was set back stands still, as far as it matters here. Loop.
func (m *Member) wall() order.Time {
	own := m.cfg.Wall()
	m.walls.raise(own)
	return own
}

func (w *walls) raise(t order.Time) {
	if uint64(t) > w.now.Load() {
		w.now.Store(uint64(t))
	}
}

// hearWalls takes note of the others' wall clocks. The latest of them may be a lie; that of one
// more member is not, if one lies. So a member whose own wall clock is far behind does not take all
// others for liars.
func (e *epoch) hearWalls() {
	if !e.view.Persistent() {
		return
	}
	latest, second, all := order.Time(0), order.Time(0), true
	for r := range order.Rank(len(e.view.Members)) {
		if r == e.self || e.table.Frozen(r) {
			continue
		}
		line := e.table.Line(r, e.layout.line[r])
		all = all && wordHeartbeat.Load(line) != 0 // which is stored behind the first reading of the clock
		told := wordWall.Load(line)
		latest, second = max(latest, told), max(second, min(latest, told))
	}
	e.m.walls.raise(second)
	e.m.walls.heard = e.m.walls.heard || all
}

// latest is the latest time that a message or a view may have, as far as this member can tell, and
// whether it can tell: before it has heard the others' wall clocks, its own clock may be the wrong
// one. The clocks of a view begin with its time.
func (m *Member) latest() (t order.Time, known bool) {
	return max(later(m.walls.now.Load(), 2*MaxSkew), order.Time(m.clock.began.Load())), m.walls.heard
}

// later is a time that lies behind another one, or the last that there is.
func later(t uint64, d time.Duration) order.Time {
	return order.Time(min(t, math.MaxInt64-uint64(d)) + uint64(d))
}
