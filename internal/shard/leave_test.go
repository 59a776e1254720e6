package shard

import (
	"errors"
	"testing"

	"github.com/squall-go/squall/views"
)

// A process leaves when everything is delivered, for which a full backlog has no room. It tells
// nobody that the state is here.
func TestAProcessThatLeavesForgoesWhatItStillGets(t *testing.T) {
	s := newStage(t, Config{Logs: true})
	id := s.installed(fresh(5), 0)
	s.core.Begins(id, 5, 0, true)
	s.core.Ready(id)
	s.wants("1 hold", "1 lack", "1 hold log", "1 await", "1 offer", "1 fetch 1")
	s.core.Leaves()
	s.wants("1 withhold", "1 drop", "1 over", "1 cancel")
	s.ends(Result{Outcome: Failed, Err: errors.New("cancelled")})
	s.wants()
	s.installed(view(6, 3, views.Subgroup{Members: ranks(0, 1)}, views.Subgroup{Members: ranks(2), Fresh: ranks(2)}), 1)
	s.wants("2 hold", "2 lack", "1 over", "2 drop", "2 over")
}

// What does not come from others is here soon. A backlog that the application gets empties.
func TestAProcessThatLeavesTakesOverWhatIsHere(t *testing.T) {
	s := newStage(t, Config{})
	id := s.installed(fresh(5), 0)
	s.core.Begins(id, 5, 0, false)
	s.core.Ready(id)
	s.wants("1 hold", "1 await", "1 fetch 1")
	s.ends(Result{})
	s.wants("1 thank", "1 hand over")
	s.core.Leaves()
	s.wants()
	s.ends(Result{})
	s.wants("1 arrive", "1 live", "1 restored")

	s = newStage(t, Config{Logs: true, Recovers: true})
	id = s.installed(settled(5), 0)
	s.core.Begins(id, 5, 0, false)
	s.core.Ready(id)
	s.wants("1 hold", "1 hold log", "1 await", "1 sync")
	s.core.Leaves()
	s.wants()
}
