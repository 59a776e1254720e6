package invoke

import (
	"github.com/squall-go/squall/order"
)

// Operation describes a command or a query.
type Operation[A, R any] struct {
	Name  string
	Query bool
	Args  Codec[A]
	Reply Codec[R]
	Key   func(A) string // of an operation on objects in shards; nil: none
	AsIs  bool           // the arguments are carried as they are: A is []byte
}

// Encoder encodes the arguments of a call.
type Encoder interface {
	AppendTo(b []byte) ([]byte, error)
	// Size returns how many bytes AppendTo appends, or false if that is not known before.
	Size() (int, bool)
	// Raw returns what AppendTo appends, if that is there already.
	Raw() ([]byte, bool)
	// Known returns the number of the operation in a numbering, or -1 if it is to be looked up by its
	// name.
	Known(in *Numbering) int
}

// Numbering is what commands need to be sent. It does not change, so that they take no lock, which
// the loop holds while it executes.
type Numbering struct {
	Shard   int            // of the machine
	Numbers map[string]int // of the enabled operations
}

// Encoded is arguments that are encoded.
type Encoded []byte

// AppendTo implements Encoder.
func (e Encoded) AppendTo(b []byte) ([]byte, error) { return append(b, e...), nil }

// Size implements Encoder.
func (e Encoded) Size() (int, bool) { return len(e), true }

// Raw implements Encoder.
func (e Encoded) Raw() ([]byte, bool) { return e, true }

// Known implements Encoder.
func (e Encoded) Known(*Numbering) int { return -1 }

// Outcome is what became of a command.
type Outcome struct {
	Version order.Version
	Status  Status
	Session uint64 // of a record that opened one
	Reply   []byte // encoded; valid during Complete. Unused if the handler set the value itself
	Args    []byte // encoded; valid during Complete. Of a member's command that came to another shard than its own
	Typed   bool   // it did
	Err     error  // no record of it was applied here
}

// Pending is a command whose outcome is awaited. Complete is called once, and does not keep the
// outcome; then Signal is called once, with no lock held.
type Pending interface {
	Complete(o *Outcome)
	Signal()
	// Typed returns a *Slot for the value of the command, or nil.
	Typed() any
}

// Slot is where the handler of a command puts its value, if it returns an R.
type Slot[R any] struct{ Value R }

// Reading is a query that is being called.
type Reading interface {
	Encoder
	// Answer takes an encoded reply.
	Answer(reply []byte) error
	// Typed returns a *Read.
	Typed() any
	// Kept is memory that the handler's side keeps from one query to the next.
	Kept() *any
}

// Scratch is the memory of a Reading for the handler's side.
type Scratch struct{ kept any }

// Kept implements Reading.
func (s *Scratch) Kept() *any { return &s.kept }

// Read is the arguments and the value of a query in the process of its caller.
type Read[A, R any] struct {
	Args  A
	Value R
}
