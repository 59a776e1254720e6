package mutant

// The faults of joining.
const (
	StaleReady  Name = "a joiner that greeted the members of an earlier view may be proposed"
	NotHeldBack Name = "a joiner that did not appear may join again at once"
	// HolderPresumedAlive takes a member that was not reached for one that is alive.
	HolderPresumedAlive Name = "a joiner is refused because of a member that was not reached"
)

// JoinNames are all of them.
var JoinNames = []Name{StaleReady, NotHeldBack, HolderPresumedAlive}
