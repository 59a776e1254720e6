// Package simulate is what package squalltest needs of package member and programs do not: copies
// of objects whose processes, clocks and connections are simulated. It has the interface between
// both; package member implements Object, and package squalltest Host.
package simulate

// Object is an object that takes part in a simulation.
type Object interface {
	// Declared returns how the object is declared, or an error if that is wrong.
	Declared() (Declaration, error)
	// Copy makes the object a process's copy.
	Copy() (Copy, error)
	// Model makes the object one that is in no group.
	Model() Model
}

// Host is the process of a copy.
type Host interface {
	ID() uint64
	// View returns the view in force, and the members of each shard in it.
	View() (id uint64, shards [][]Member)
	// Later calls f after a while, in which events may come.
	Later(f func())
	// Secret returns the proof by which members of the group know each other's requests.
	Secret(use string, text []byte) []byte
	// Wall is the wall clock, in nanoseconds since the Unix epoch.
	Wall() uint64
	// Send has a message ordered, unless the process ends before that. It has the next place of the
	// process.
	Send(message []byte)
	// Soon calls f in a moment, in which other things may happen.
	Soon(f func())
	// Confirm calls f when the copy has executed what any member had executed when it was called.
	Confirm(f func(error))
	Halt(error)
}

// Member is a process in a view.
type Member struct {
	Node, Incarnation uint64
	Place             string // where clients reach it
}

// Copy is a process's copy of an object.
type Copy interface {
	// Join is called when the process becomes a member, with a source of random numbers.
	Join(h Host, random func() uint32)
	// Installed is called when a view begins.
	Installed()
	// Leave ends the calls that wait.
	Leave(reason error)
	// Deliver applies a message, and calls each after each of its records.
	Deliver(view, seq, sender, time uint64, data []byte, replayed bool, each func(record []byte, index uint64))
	Snapshot() ([]byte, error)
	// Restore replaces the copy; nil stands for one that begins.
	Restore(image []byte) error
	// Take takes a client's request, to a shard if shard is 1 + its number. Answer is called once,
	// unless the process ends.
	Take(shard int, request []byte, answer func([]byte))
	// Call has the process itself call a command on the object, or on the shard that it is in, and
	// reports false if it cannot now. Done is called once, unless the process ends, with whether the
	// command was executed; neither that nor not is that it may have been.
	Call(name string, args []byte, done func(executed, not bool)) (call uint64, ok bool)
	// Shard is 1 + the number of the shard that the copy is of, or 0.
	Shard() int
	// Forwards returns the next requests by which this member forwards what handlers sent to shards.
	// They may be in flight together. Handed is called once with the answer to each, or nil if there
	// is none.
	Forwards() []Forward
	Handed(f Forward, answer []byte)
	// Time is that of the object, Executed how many commands were executed, and Failed why the copy is
	// not used any more.
	Time() uint64
	Executed() uint64
	Failed() error
	// State returns the application's state.
	State() any
}

// Forward is a request of a member to a member of another shard.
type Forward struct {
	From    int // 1 + the number of the shard that sent it
	To      int // and of the one to which it goes
	Request []byte
	Name    string    // of the destination
	At      [3]uint64 // the cursor of what was sent
	Attempt uint64    // counts how often the member began again
}

// Model executes operations of an object one after the other, without a group.
type Model interface {
	// Reset begins with the state of a new object, and returns it encoded.
	Reset() string
	// Execute executes an operation on an encoded state, as if at a place of the order and a time of
	// the object.
	Execute(state, name string, args []byte, at At) (reply []byte, failed bool, next string)
}

// At is what a handler's context said.
type At struct {
	View, Seq, Index, Time, Member, Session uint64
}

// Declaration is what a declaration says of an object.
type Declaration struct {
	Name         string
	Persistent   bool
	AfterPersist bool // a command is executed when every disk has it
	Shards       int  // at least 1
}
