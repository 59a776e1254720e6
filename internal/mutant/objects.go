package mutant

// The faults of replicated objects and their clients. The tests of package squalltest find each.
const (
	ReplyDropped      Name = "a reply is kept until the next command of its session"
	SessionsLeftOut   Name = "sessions are not handed to new members"
	RepliesLeftOut    Name = "replies of sessions are not handed to new members"
	ExecutedAgain     Name = "a number that was executed is executed again"
	ExpiryForgotten   Name = "a member that takes a state over forgets when sessions expire"
	EarlyAcknowledged Name = "a client acknowledges numbers before one that has ended"
)

// ObjectNames are all of them.
var ObjectNames = []Name{ReplyDropped, SessionsLeftOut, RepliesLeftOut, ExecutedAgain, ExpiryForgotten, EarlyAcknowledged}
