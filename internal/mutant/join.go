package mutant

// The faults of joining.
const (
	StaleReady  Name = "a joiner that greeted the members of an earlier view may be proposed"
	NotHeldBack Name = "a joiner that did not appear may join again at once"
)

// JoinNames are all of them.
var JoinNames = []Name{StaleReady, NotHeldBack}
