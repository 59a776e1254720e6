// Package seam gives package squalltest what it needs of package replicated and programs do not: copies of objects, and clients, whose
// processes, clocks and connections are simulated. Package replicated sets the functions.
package seam

import "time"

// Host is the process of a copy.
type Host interface {
	ID() uint64
	Incarnation() uint64
	// View returns the view in force and the ids of its members, which all have the object, in order of rank, with their
	// incarnations.
	View() (id uint64, nodes, incarnations []uint64)
	// Wall is the wall clock, in nanoseconds since the Unix epoch.
	Wall() uint64
	// Send has a record ordered, unless the process ends before that.
	Send(record []byte)
	// Confirm calls f when the copy has executed what any member had executed when it was called.
	Confirm(f func(error))
	Halt(error)
}

// Copy is a process's copy of an object.
type Copy interface {
	// Join is called when the process becomes a member, with a source of random numbers.
	Join(h Host, random func() uint32)
	// Leave ends the calls that wait.
	Leave(reason error)
	// Deliver applies a record.
	Deliver(view, seq, sender, time uint64, data []byte, replayed bool)
	Snapshot() ([]byte, error)
	// Restore replaces the copy; nil stands for one that begins.
	Restore(image []byte) error
	// Tend sends what is due: announcements, operations to enable, sessions that were touched.
	Tend()
	// Take takes a client's request. Answer is called once, unless the process ends.
	Take(request []byte, answer func([]byte))
	// Time is that of the object, Executed how many commands were executed, and Failed why the copy is not used any more.
	Time() uint64
	Executed() uint64
	Failed() error
	// State returns the application's state.
	State() any
}

// Model executes operations of an object one after the other, without a group.
type Model interface {
	// Reset begins with the state of a new object, and returns it encoded.
	Reset() string
	// Execute executes an operation on an encoded state, as if at a place of the order and a time of the object.
	Execute(state, name string, args []byte, at At) (reply []byte, failed bool, next string)
}

// At is what a handler's context said.
type At struct {
	View, Seq, Time, Member, Session uint64
}

// Carrier performs what a client decides.
type Carrier interface {
	Now() time.Time
	// Call sends a request on a link to a member and waits for the answer, which it gives to f. It fails if there is none.
	Call(link uint64, member int, request []byte, f func(answer []byte)) error
	// Dropped says that the link is not used any more: calls that wait on it fail.
	Dropped(link uint64)
	// Sleep waits.
	Sleep(time.Duration)
	// Wait waits until Changed is called.
	Wait()
	Changed()
	// Over returns why a call that began so long ago is given up, or nil.
	Over(began time.Time) error
	// Ask and Asked are told when an operation is called, and when and how that ends.
	Ask(request []byte) (call int)
	Asked(call int, answer []byte, err error)
}

// Client is a client whose carrier is simulated.
type Client interface {
	// Object returns a *replicated.RemoteObject.
	Object(token [16]byte) any
	// Late drops a member that does not answer, and reports whether the session is idle and Touch is to be called.
	Late() (idle bool)
	Touch()
}

// These are set by package replicated.
var (
	NewCopy   func(object any) (Copy, error)
	NewModel  func(object any) Model
	NewClient func(object string, members int, sessionTimeout, memberTimeout time.Duration, c Carrier) Client
	// Declared returns how an object is declared, or an error if that is wrong.
	Declared func(object any) (Declaration, error)
)

// Declaration is what a declaration says of an object.
type Declaration struct {
	Name         string
	Persistent   bool
	AfterPersist bool // a command is executed when every disk has it
}
