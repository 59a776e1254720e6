package mutant

// The faults of confirmations. What each must be caught as stands in the simulator's tests.
const (
	ConfirmsAlone   Name = "a confirmation round needs no quorum"
	JoinsRound      Name = "a confirmation that is asked for during a round is served by that round"
	ConfirmsUngiven Name = "a confirmation does not wait for what was received"
)

// ConfirmNames are all of them.
var ConfirmNames = []Name{ConfirmsAlone, JoinsRound, ConfirmsUngiven}
