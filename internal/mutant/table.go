package mutant

// The faults of an endpoint's table. What each must be caught as stands in the tests of package
// ripc/internal/table.
const (
	TableOwnOnly        Name = "only memory of its own account has a starved peer polled again"
	TableNoLastLook     Name = "a peer is not polled any more before it was told to ring"
	TableForgetsStirred Name = "a peer that is not polled stays so although something was sent to it"
	TableNoNext         Name = "a poller that leaves wakes no other goroutine"
	TableEndlessAnswers Name = "answers wait without bound"
	TableForgetsShort   Name = "a body waits for the memory of the endpoint and is not placed again"
	TableEarlyFree      Name = "the memory of a pair is freed while a frame is in use"
)

// TableNames are all of them.
var TableNames = []Name{TableOwnOnly, TableNoLastLook, TableForgetsStirred, TableNoNext, TableEndlessAnswers, TableForgetsShort, TableEarlyFree}
