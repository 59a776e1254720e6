package member

import (
	"testing"
	"time"

	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/views"
)

// A leader may fail while its decision is on the way to the disk, and the decision of the next one
// follows it there.
func TestADiskThatTakesOneDecisionAndNotTheNextIsStuck(t *testing.T) {
	var done []func()
	m := &Member{cfg: Config{
		FailAfter: time.Second, Wake: func() {},
		Record: func(_ *views.View, _ viewchange.Ballot, _ *viewchange.Decision, recorded func()) {
			done = append(done, recorded)
		},
	}}
	e := &epoch{m: m, view: &views.View{Subgroups: []views.Subgroup{{Mode: views.Persistent}}}, change: &viewchange.Change{}}
	record := e.recorder()
	record(1<<8, nil)
	m.now += time.Second / 2
	record(2<<8|1, nil)
	done[0]()
	m.runCalls()
	if m.now += time.Second; e.stuck() {
		t.Error("the second decision is given up before its time")
	}
	if m.now += time.Millisecond; !e.stuck() {
		t.Error("the disk does not take the second decision, and the member waits for it for ever")
	}
	done[1]()
	m.runCalls()
	if m.now += time.Hour; e.stuck() {
		t.Error("the disk has taken both")
	}
}
