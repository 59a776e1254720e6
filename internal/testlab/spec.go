package testlab

import (
	"fmt"
	"time"

	"github.com/squall-go/squall"
)

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
	Loads     []Load
	Log       string // file
	RunLength int    // messages that share a checksum in the log
	LogBytes  int64  // after so many the process sends nothing more
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
	Bytes     int // of a message; at least headerBytes. More than half of RingBytes: it goes as a large message
	RingBytes int
	Window    int
	Async     int

	Durable      bool             // the subgroup is persistent, and the process tells which of its messages are on every disk
	Engine       squall.LogEngine // of its log
	AfterPersist bool             // messages are delivered only then
	Most         uint64           // messages that a process sends; 0: no limit
	Snapshots    bool             // the application takes snapshots, and takes the log over with Restore and replayed messages; else with Recover
}

// config makes a group's configuration of it.
func (s *Spec) config() squall.Config {
	return squall.Config{
		Cluster: s.Cluster, ID: s.ID, Dir: s.Dir, Listen: s.Listen, Join: s.Join, InitialMembers: s.Expect, Fabric: s.Fabric,
		Heartbeat: s.Heartbeat, FailAfter: s.FailAfter,
	}
}

// request is what a process is told to do. It answers each with an answer.
type request struct {
	Do       string
	ID       squall.NodeID // report: the member that failed
	Subgroup int           // block
	For      time.Duration // block, leave
}

// Answer is how a process does.
type Answer struct {
	Err       string
	View      squall.ViewID
	Accepted  []uint64 // messages that Send took, by subgroup
	Delivered uint64   // messages, in all subgroups
	Gap       time.Duration
	Use       Use
	Rejected  uint64  // connections
	States    []State // of durable loads, by subgroup
}

// Use is what a process holds of what it must give back.
type Use struct {
	Goroutines, Descriptors, Mappings int
	Stacks                            string // of the goroutines
}

func (u Use) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %d mappings", u.Goroutines, u.Descriptors, u.Mappings)
}

// news is a line that a process writes.
type news struct {
	Kind   string // listening, view, event, halted, acked or answer
	Text   string
	View   *Installed
	Answer *Answer
	Acked  []Ack
}

// Kinds of news.
const (
	newsListening = "listening"
	newsView      = "view"
	newsEvent     = "event"
	newsHalted    = "halted"
	newsAcked     = "acked"
	newsAnswer    = "answer"
)

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

// has reports whether a node is in the view.
func (i *Installed) has(id squall.NodeID) bool {
	for _, m := range i.Members {
		if m.ID == id {
			return true
		}
	}
	return false
}
