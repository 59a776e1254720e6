package rdmc

import (
	"time"

	"github.com/squall-go/squall/rdmc"
	"github.com/squall-go/squall/rdmc/schedule"
)

// way is how a message gets from its root to the others.
type way string

const (
	byBlocks way = "rdmc" // by a schedule
	byTurns  way = "tcp"  // plain TCP, to one receiver after another
	byCopy   way = "copy" // not at all: every receiver copies that many bytes in its own memory
)

// sharing is what nodes make of it that they are on one host.
type sharing string

const (
	notShared sharing = ""       // nothing: blocks by TCP, as between hosts
	copied    sharing = "copied" // receivers copy the message from the root's memory
	viewed    sharing = "viewed" // receivers look at it in the root's memory
)

// task is one run, as all member processes are told it.
type task struct {
	Number     uint64 // of the run: names its groups and seeds its content
	Way        way
	Algorithm  schedule.Algorithm
	BlockBytes int
	Bytes      int
	Sharing    sharing
	Roots      []int // each sends a message of so many bytes to all others
}

// blockBytes returns the size of blocks where none is given, the same for all processes.
func blockBytes(a schedule.Algorithm, nodes, bytes int) int {
	if a == schedule.Auto {
		_, size := schedule.Choose(nodes, int64(bytes), nil)
		return size
	}
	return schedule.BlockBytes(a, nodes, int64(bytes))
}

// seed is what the content of a root's message is made of.
func (t *task) seed(root int) uint64 { return t.Number<<8 | uint64(root) }

// patience is how long a member waits for a step of a run to end.
const patience = 90 * time.Second

// address is where a member is.
type address struct {
	Peer  rdmc.Peer
	Plain string // for plain TCP
}

// Requests.
const (
	opPrepare = "prepare" // a task; answered when this member is ready to start
	opGo      = "go"      // at an instant; answered when this member's part is done
	opReport  = "report"  // answered with a report; the run is over
)

// report is what a member saw of a run.
type report struct {
	Start     instant         // when it began to send, if it is a root
	Done      map[int]instant // by root: when the message was here whole
	CPU       time.Duration   // user and system, from being ready to when all members were done
	PeakBytes int64           // beyond what was in use when it was ready; -1: unknown
}
