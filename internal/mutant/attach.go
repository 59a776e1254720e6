package mutant

// The faults of how nodes meet in a group of transfers. The simulator's tests, or those of
// package attach, find each.
const (
	OfferAttaches   Name = "a node that is offered a group counts the dialer as attached before it has the confirmation"
	AnswerAttaches  Name = "a dialer counts the acceptor as attached before that has the confirmation"
	EndAccuses      Name = "an acceptor without the confirmation counts the dialer as gone when their link ends"
	SilenceUnsaid   Name = "a dialer that gives up an acceptor which may have the confirmation does not report it"
	EarlierStays    Name = "an offer over a later link does not end the tie over the earlier one"
	EarlierOffer    Name = "an offer over an earlier link counts"
	DoubtForgotten  Name = "a dialer does not ask behind an offer to a node that it doubts"
	NothingHeldBack Name = "a node that stood still reports its peers at once"
	SleepIsSilence  Name = "a node that stood still takes what it did not hear then for silence"
	FarewellUnsaid  Name = "a node that leaves tells those that are not attached nothing of the reason"
	OfferForgotten  Name = "an offer of a group that is not open does not wait"
)

// AttachNames are all of them.
var AttachNames = []Name{OfferAttaches, AnswerAttaches, EndAccuses, SilenceUnsaid, EarlierStays, EarlierOffer, DoubtForgotten, NothingHeldBack, SleepIsSilence, FarewellUnsaid, OfferForgotten}
