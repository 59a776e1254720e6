package demo

import (
	"fmt"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
	"github.com/squall-go/squall/internal/proc"
)

// process is what the parent of a trial knows of a member process.
type process struct {
	number  int // from 1 up
	id      squall.NodeID
	child   *proc.Child
	addr    string // where it listens; empty: it has not said yet
	stage   stage
	heard   bool             // to its end
	stopped *uint64          // messages that were accepted from it, once it is to send no more
	account *testlab.Answer  // what it has when it has all, or at its end; nil: it has told nothing
	asked   bool             // for that
	until   time.Duration    // when it was not in the group any more, or began to hang
	views   [2]squall.ViewID // the first and the last one that it has seen
	// delivered is how many messages it has, as far as is known.
	delivered uint64

	// Without --chaos and --durable.
	said   string          // the last event that it told
	end    error           // how it ended before its time; io.EOF: without an error
	probed *testlab.Answer // of the unloaded phase

	// With --chaos.
	hangs  time.Duration // at least
	missed bool          // while it hangs: a view without it is in force
	from   time.Duration // when it was in the group with all of its state

	// With --durable.
	waits     string  // the awaited processes, and the reason
	recovered *uint64 // messages that its log told of
	acked     uint64  // messages of it that are on every disk, as it was told
}

// stage is how far a process is.
type stage string

const (
	starting  stage = "is starting"
	whole     stage = "is a member"
	isHung    stage = "hangs"
	goesOn    stage = "goes on, and does not know that it is out"
	isLeaving stage = "is leaving"
	isKilled  stage = "was killed"
	isOut     stage = "is out"
	hasLeft   stage = "has left"
	isGone    stage = "has ended"
)

// name returns the name of the process in error messages and progress reports.
func (p *process) name() string { return fmt.Sprintf("node %d (process %d)", p.id, p.number) }

// answers reports whether it will do what it is told.
func (p *process) answers() bool {
	return p.stage == starting || p.stage == whole || p.stage == isLeaving
}

// sees notes that it has seen a view.
func (p *process) sees(v squall.ViewID) {
	if p.views[0] == 0 {
		p.views[0] = v
	}
	p.views[1] = max(p.views[1], v)
}

// fate is how it ended, in a word or two.
func (p *process) fate() string {
	switch {
	case p.account != nil && p.account.Kind == testlab.HaltedEvicted:
		return "evicted"
	case p.stage == isOut:
		return "cut off"
	case p.stage == isKilled:
		return "killed"
	case p.stage == hasLeft:
		return "left"
	}
	return "stayed"
}
