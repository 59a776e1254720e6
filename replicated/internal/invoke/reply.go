package invoke

// Answered is how a member answered.
type Answered uint8

// How a member answered.
const (
	Silent   Answered = iota // it did not
	Returned                 // with a reply
	Refused                  // with the text of an error
)

// Reply is what one member answered. The zero Answered stands for a member that did not.
type Reply struct {
	Member uint64
	Said   Answered
	Data   []byte
}
