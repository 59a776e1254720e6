package demo

import (
	"time"

	"github.com/squall-go/squall"
)

// keeperCommand is the hidden command, below "demo", that a member runs with --durable.
const keeperCommand = "run-durable-member"

// keeperConfig is what the parent tells a member first.
type keeperConfig struct {
	ID      squall.NodeID
	Process int // its number
	Cluster string
	Dir     string // of the node
	Listen  string
	Join    []string
	Expect  int
	Fabric  squall.Fabric
	Engine  squall.LogEngine
	Lines   [][]byte // to send, over and over
	Size    int      // bytes of a message; 0 is the line's own
	Verbose bool
}

// keeperOrder is what the parent tells a member later: one of these.
type keeperOrder struct {
	Stop   bool // sending
	Finish []uint64
	Leave  bool
}

// keeperReport is what a member tells its parent: one of these.
type keeperReport struct {
	Listening string
	View      *viewReport
	Waiting   string // for whom a restart waits, and why
	Recovered *recovered
	Acked     uint64 // messages of this process, from its first one on, that are on every disk
	Stopped   *uint64
	Account   *account
	Fault     string // something is wrong, as one member can see
}

// recovered says that a member has the state that its log tells.
type recovered struct {
	Messages uint64
	Took     time.Duration // to read the log
}
