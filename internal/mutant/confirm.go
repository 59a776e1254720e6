package mutant

// The faults of confirmations. What each must be caught as stands in the simulator's tests.
const (
	ConfirmsAlone   Name = "a confirmation round needs no quorum"
	JoinsRound      Name = "a confirmation that is asked for during a round is served by that round"
	ConfirmsUngiven Name = "a confirmation does not wait for what was received"

	PeeksAlone     Name = "a direct round needs no quorum"
	PeeksOver      Name = "a direct round does not look whether there is a decision"
	PeeksAtTheDead Name = "a direct round counts members whose processes ended"
	PeeksUngiven   Name = "after a direct round the application may lack what was received"
)

// ConfirmNames are all of them.
var ConfirmNames = []Name{ConfirmsAlone, JoinsRound, ConfirmsUngiven, PeeksAlone, PeeksOver, PeeksAtTheDead, PeeksUngiven}
