package client

import (
	"fmt"
)

// Said is what an answer begins with.
type Said byte

// Kinds of answers.
const (
	Done          Said = iota + 1 // view, seq, reply; of Open the session
	Failed                        // view, seq, the text of the handler's error
	Ended                         // the session is over
	Unknown                       // the operation is not there: a text
	Else                          // another error: a text
	Away                          // this member cannot serve: ask another one
	Compacted                     // events behind the cursor are not kept any more
	Denied                        // the client may not do it: identity, what it is, object, operation, reason
	NotReached                    // what a query asks about is not final yet: a text
	NotKept                       // the log does not go back that far: a text
	Cut                           // the command was executed before, and its reply was too large to be kept
	Crowded                       // there are too many sessions
	Full                          // too many replies are kept: the command was not executed, and is sent again when an earlier one has ended
	TooLarge                      // what the client sent is larger than the object takes: a text
	NoKey                         // the object is in shards, and the operation has no key: a text
	NotPersistent                 // the object is not persistent: a text
)

// AnswerHead is the size of an answer without its text.
const AnswerHead = 1 + 2*8

// Answer is what a member answers.
type Answer struct {
	Said      Said
	View, Seq uint64
	Text      []byte
}

// AppendTo appends the answer as a member sends it.
func (a *Answer) AppendTo(b []byte) []byte {
	b = append(b, byte(a.Said))
	b = order.AppendUint64(b, a.View)
	b = order.AppendUint64(b, a.Seq)
	return append(b, a.Text...)
}

// ParseAnswer takes an answer apart. Its text refers to data.
func ParseAnswer(data []byte) (a Answer, err error) {
	if len(data) < AnswerHead {
		return a, fmt.Errorf("an answer of %d bytes", len(data))
	}
	return Answer{Said(data[0]), order.Uint64(data[1:]), order.Uint64(data[9:]), data[AnswerHead:]}, nil
}
