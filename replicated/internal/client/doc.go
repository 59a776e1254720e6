// Package client decides what a client of replicated objects does: which member it asks, which
// number a command has, and which replies it acknowledges. It also has what clients and members say
// to each other, as bytes: Request and Answer. It is pure: package replicated performs what it
// decides with connections and goroutines, and package squalltest in virtual time.
//
// Life of a command: begun (it has a number of a session that is open) → asked, of one member after
// the other with the same number, as long as members fail → ended (it was answered, or its caller
// gave it up).
//
// Life of a link, which is the way to one member: begun (with the first request) → used → dropped
// (a request failed, or took too long). The next request goes to the next member.
//
// How another member is found: package replicated calls Begin for a request, sends it, and calls
// End. A request that failed drops the link there (Client.end). A member that says nothing is found
// by a timer, which calls Late (Client.dropLate). Either way the next member is the current one,
// the connection of the dropped link is closed, and so the other requests that wait on it fail and
// begin again, commands with the numbers that they have (Client.ask). For an object in shards
// Client.locate first asks which members the shard has now.
//
// Why a command is executed once: the object's state has, for each session, the reply of each
// number that was executed and is not acknowledged. A number that comes again gets that reply
// (Machine.client in package machine).
//
// Invariants:
//
//	RC1  a number of a session stands for one command
//	RC2  a number is acknowledged only when it has ended, and all numbers before it have
//	RC3  at most MaxOutstanding numbers of a session are begun and not acknowledged
//	RC4  no request begins on a link that was dropped
//	RC5  after a link of a shard was dropped, nothing is asked of the shard before a member has said where it is
//	RC6  a link is dropped when one request on it with a deadline (Begin, not BeginPatient) is
//	     late, whatever else is answered
//	RC7  a command that the object refused because it keeps too many replies is sent again when all
//	     numbers before it have ended; others are sent again in their order, two when a number ends,
//	     and one more when the object knows that it has ended
package client
