package mutant

// The faults of large messages. What each must be caught as stands in the simulator's tests.
const (
	NotHeld    Name = "a large message that moves to the next view is published before its members have the body"
	EarlyPlace Name = "a large message takes its place before every member has the body"
	OldBody    Name = "who has a body in the view that ends counts as having it in the next one"
)

// LargeNames are all of them.
var LargeNames = []Name{NotHeld, EarlyPlace, OldBody}
