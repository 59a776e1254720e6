package demo

import (
	"time"

	"github.com/squall-go/squall"
)

// The hidden commands, below "demo", that members run: without --chaos and --durable, and with them.
const (
	memberCommand  = "run-member"
	chaosCommand   = "run-chaos-member"
	durableCommand = "run-durable-member"
)

// subjectConfig is what the parent tells a member first.
type subjectConfig struct {
	ID       squall.NodeID
	Process  int // its number
	Cluster  string
	Subgroup string
	Listen   string
	Join     []string
	Expect   int
	Fabric   squall.Fabric
	Lines    [][]byte // to send, over and over
	Size     int      // bytes of a message; 0 is the line's own and a header
	Verbose  bool

	// Without --chaos and --durable.
	Repeat int    // how often the lines are sent
	Total  uint64 // messages of all members
	Probes int    // messages of the unloaded phase

	// With --chaos.
	FailAfter time.Duration
	Events    string // the file that gets what happens to it

	// With --durable.
	Dir    string // of the node
	Engine squall.LogEngine
}

// order is what the parent tells a member later: one of these.
type order struct {
	Stop   bool     // sending
	Finish []uint64 // messages to have, by the process that sent them
	Leave  bool     // alone, while the others go on; or all, at the end
	Dump   bool     // into the file of events
	Send   bool     // all lines
	Probe  bool     // one message at a time
}

// subjectReport is what a member tells its parent: one of these.
type subjectReport struct {
	Listening string
	View      *viewReport
	Restored  *restored
	Stopped   *uint64 // messages that were accepted from it
	Account   *account
	Fault     string // something is wrong, as one member can see

	// Without --chaos and --durable.
	Links     []string // by member, ready: the group has formed
	Progress  uint64   // messages delivered so far
	Delivered *delivered
	Probed    *latency
	Lost      *lost

	// With --chaos.
	Mark   *mark
	Pause  *pause
	Dumped bool

	// With --durable.
	Waiting string // the processes that a restart waits for, and why
	Acked   uint64 // messages of this process, from its first one on, that are on every disk
}

// viewReport says that a view is in force.
type viewReport struct {
	ID    squall.ViewID
	Nodes []squall.NodeID
}

// mark is the state after so many messages.
type mark struct {
	What     markKind
	View     squall.ViewID // that ended; 0 if that is not what it says
	Messages uint64
	Digest   string
}

// markKind says where a mark is.
type markKind string

const (
	atCount   markKind = "count"   // the number of messages is a round one
	atViewEnd markKind = "view"    // all messages of a view are in it
	atRestore markKind = "restore" // the state came from another member
	atEnd     markKind = "end"     // the member ends
)

// restored says that a member has the state: of another one, and all that was delivered meanwhile,
// or of its own log.
type restored struct {
	Source   squall.NodeID
	Messages uint64 // that the state stands for
	Took     time.Duration
}

// pause is how long a member delivered nothing, at most, around the change to a view.
type pause struct {
	View squall.ViewID
	Took time.Duration
}

// account is what a member has to say at its end, or at the end of the run.
type account struct {
	Mark      mark
	Bytes     uint64
	Delivered []uint64 // messages, by the process that sent them
	Sent      uint64   // messages that were accepted from it
	Views     int      // in which it delivered something
	Longest   time.Duration
	Halted    string // why it ended before its time; empty: it did not
	Evicted   bool   // that is why
}
