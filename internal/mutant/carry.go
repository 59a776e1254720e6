package mutant

// The faults of what is carried from a view to the next. What each must be caught as stands in the
// tests of packages smc and multicast.
const (
	ForgetOpen Name = "a claim that is open when a view ends is forgotten"
	NoTrim     Name = "what a failed sender left behind the trim is delivered"
)

// The faults of what is kept of a view.
const (
	KeptReused  Name = "room of messages that the application keeps is used again"
	KeptTooLong Name = "messages of a view are kept after it"
)

// KeepNames are all of them.
var KeepNames = []Name{KeptReused, KeptTooLong}

// CarryNames are all of them.
var CarryNames = []Name{ForgetOpen, NoTrim}
