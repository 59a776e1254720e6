package invoke

import "fmt"

// Status is how a record ended.
type Status uint8

// How a record ended.
const (
	Done      Status = iota // executed now, or it had nothing to execute
	Failed                  // executed now; the reply is the text of the application's error
	Again                   // it was executed before; the reply is that of the execution
	AgainFail               // the same, and the reply is the text of an error
	NotThere                // the session does not exist, or has ended
	Forgotten               // it was executed before, and its reply was acknowledged
	TooMany                 // the number is too far after the acknowledged numbers
	Disabled                // the operation is not enabled
	Malformed               // the record cannot be read
	Elsewhere               // the record is for another shard: its sender was there when it sent the record
	Early                   // the command that its object sent before it was not executed
	NotKept                 // it was executed before, and its reply was too large to be kept
	Crowded                 // there are too many sessions, of all clients or of the account
	Full                    // too much is kept for the session, or for all: it is executed once the numbers before it are acknowledged
)

func (s Status) String() string {
	switch s {
	case Done:
		return "done"
	case Failed:
		return "failed"
	case Again:
		return "done before"
	case AgainFail:
		return "failed before"
	case NotThere:
		return "no such session"
	case Forgotten:
		return "acknowledged before"
	case TooMany:
		return "too many numbers are not acknowledged"
	case Full:
		return "too many replies are not acknowledged"
	case Disabled:
		return "the operation is not enabled"
	case Malformed:
		return "malformed"
	case Elsewhere:
		return "the record is for another shard"
	case Early:
		return "what was sent before it was not executed"
	case NotKept:
		return "it was executed before, and its reply was too large to be kept"
	case Crowded:
		return "there are too many sessions"
	}
	return fmt.Sprintf("status %d", uint8(s))
}
