package testlab

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/squall-go/squall"
)

// Engines has the log engines by the name that Load.Engine uses. A program adds the engines that it
// imports: they take a third of the time of a first build.
var Engines = map[string]squall.LogEngine{}

// Spec is what a process is told when it starts.
type Spec struct {
	Life      int // numbers the processes of a run, from 1; a node that comes back is another one
	Cluster   string
	ID        squall.NodeID
	Listen    string
	Dir       string // what it keeps on its disk; empty: nothing
	Join      []string
	Expect    int
	Fabric    squall.Fabric
	Heartbeat time.Duration
	FailAfter time.Duration
	Within    time.Duration // in which it has to be in the group; 0: no limit
	Loads     []Load
	Sends     bool       // it begins to send as soon as it is in the group
	Log       string     // file; empty: it keeps none
	RunLength int        // messages that share a checksum in the log
	LogBytes  int64      // after so many the process sends nothing more
	Level     slog.Level // of what it writes to its standard error
	Crash     Crash
}

// Crash is when a process ends itself, as kill -9 does.
type Crash struct {
	Planned bool
	Open    bool          // counted from the moment at which it is in the group, else from its start
	After   time.Duration // 0: at that moment
}

// Load is a subgroup, and what each process sends to it.
type Load struct {
	Name      string
	Bytes     int      // of a message; at least HeaderBytes. More than half of RingBytes: it goes as a large message
	Lines     [][]byte // that messages carry in turn, behind the header; 0 Bytes leave them as they are. nil: a pattern
	RingBytes int
	Window    int
	Async     int
	Stateful  bool   // the application has a State, which a process that joins gets from another one
	Timed     bool   // messages are lines without headers; the application counts and digests them, and measures how long those of the process take
	Total     uint64 // messages that all processes send to a timed load; the application tells a mark without a digest when it has them

	Durable      bool   // the subgroup is persistent, the application has a State, and the process tells which of its messages are on every disk
	Acks         int    // messages of which it is not known whether they are on every disk, at most; 0: mostUnacked
	Newest       bool   // report only the newest message that is on every disk; all earlier ones are, too
	Engine       string // of its log, by name; "" is bolt
	AfterPersist bool   // messages are delivered only then
	Most         uint64 // messages that a process sends; 0: no limit
	Snapshots    bool   // the application takes snapshots, and takes the log over with Restore and replayed messages; else with Recover
}

// Config makes a group's configuration of it, without subgroups.
func (s *Spec) Config() squall.Config {
	return squall.Config{
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: s.Level})),
		Cluster: s.Cluster, ID: s.ID, Dir: s.Dir, Listen: s.Listen, Join: s.Join, InitialMembers: s.Expect, Fabric: s.Fabric,
		Heartbeat: s.Heartbeat, FailAfter: s.FailAfter,
	}
}

// Request is what a process is told to do. It answers each with an Answer.
type Request struct {
	Do       string
	ID       squall.NodeID // report: the member that failed
	Subgroup int           // block
	For      time.Duration // block, hold, leave, probe: within which it has to be done
	Count    int           // probe
}

// What a process can be told to do.
const (
	DoSend   = "send"   // begin to send
	DoHold   = "hold"   // stop sending, and wait until all is delivered here, and on every disk if the load is durable
	DoProbe  = "probe"  // have a timed load send so many messages more, each when the one before is delivered here, and measure these
	DoMark   = "mark"   // begin to measure gaps between deliveries
	DoStatus = "status" // say how it is
	DoUse    = "use"    // and what it holds
	DoReport = "report" // say that a node failed
	DoBlock  = "block"  // stay in the next upcall of a subgroup for so long
	DoLeave  = "leave"
)

// Answer is how a process does.
type Answer struct {
	Do        string // the request
	Err       string
	Halted    string // why it halted; empty: it did not halt, or has left
	Kind      string // of the halt
	View      squall.ViewID
	Accepted  []uint64 // messages that Send took, by subgroup
	Delivered uint64   // messages, in all subgroups
	Gap       time.Duration
	Use       Use
	Rejected  uint64        // connections
	States    []State       // by subgroup; empty for loads without one
	Lives     []Lives       // of these states
	Longest   time.Duration // between two deliveries
	Timing    Timing        // of a timed load
}

// Use is what a process holds of what it must give back.
type Use struct {
	Goroutines, Descriptors, Mappings int
	Stacks                            string // of the goroutines
}

func (u Use) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %d mappings", u.Goroutines, u.Descriptors, u.Mappings)
}

// News is a line that a process writes.
type News struct {
	Kind     string // one of those below
	Text     string
	View     *Installed
	Answer   *Answer
	Acked    []Ack
	Mark     *Mark
	Restored *Restored
}

// Kinds of news.
const (
	NewsListening = "listening" // at the address Text
	NewsView      = "view"
	NewsEvent     = "event"  // Text
	NewsHalted    = "halted" // what kind of halt, and why; with an Answer if it was in the group
	NewsFault     = "fault"  // Text is wrong, as one process can see
	NewsAcked     = "acked"
	NewsMark      = "mark"
	NewsRestored  = "restored"
	NewsAnswer    = "answer" // to a request
)

// Restored says that a process has taken over a state: of another member, and all that was
// delivered meanwhile, or of its own log.
type Restored struct {
	Source   squall.NodeID
	Messages uint64 // that the state stands for
	Took     time.Duration
}

// Installed is a view as a process saw it.
type Installed struct {
	ID      squall.ViewID
	Members []Incarnation
}

// Incarnation is one process of a view.
type Incarnation struct {
	ID          squall.NodeID
	Incarnation uint64
}

func installed(v *squall.View) *Installed {
	i := &Installed{ID: v.ID}
	for _, m := range v.Members {
		i.Members = append(i.Members, Incarnation{m.ID, m.Incarnation})
	}
	return i
}

// Nodes are the members of the view, by rank.
func (i *Installed) Nodes() (ids []squall.NodeID) {
	for _, m := range i.Members {
		ids = append(ids, m.ID)
	}
	return ids
}
