package client

import "time"

// Carrier performs what a client decides, in the simulator.
type Carrier interface {
	Now() time.Time
	// Call sends a request on a link to a place and waits for the answer, which it gives to f. It
	// fails if there is none. Shard is 1 + the number of the shard that the link is to, or 0.
	Call(shard int, link uint64, place string, request []byte, f func(answer []byte)) error
	// Dropped says that the link is not used any more, or with a link of 0 none to the shard: calls
	// that wait on it fail.
	Dropped(shard int, link uint64)
	// Pick draws one of n.
	Pick(n int) int
	// Sleep waits.
	Sleep(time.Duration)
	// Wait waits until Changed is called.
	Wait()
	Changed()
	// Over returns why a call that began so long ago is given up, or nil.
	Over(began time.Time) error
	// Ask and Asked are told when an operation is called, and when and how that ends.
	Ask(shard int, request []byte) (call int)
	Asked(call int, answer []byte, err error)
}

// Simulation says how a simulated client is made.
type Simulation struct {
	Object         string   // its name
	Places         []string // of members
	Shards         int      // of the object, at least 1
	SessionTimeout time.Duration
	MemberTimeout  time.Duration // for which a member may leave a request without an answer
	Token          [16]byte      // of its first session
	Carrier        Carrier
}

// Simulated is a client whose carrier is simulated.
type Simulated interface {
	// Late drops members that do not answer, and returns what is to be called for sessions that are
	// idle.
	Late() (touch []func())
}
