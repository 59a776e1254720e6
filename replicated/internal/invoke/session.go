package invoke

// Token stands for a session before it has a number.
type Token [TokenBytes]byte

// Owner is the client that opens a session.
type Owner struct {
	Account  string // the party whose clients share limits: an identity, a host or a process
	Identity string // what its certificate proves; or empty
}

// Limits of what a caller may ask for.
const (
	MaxName        = 255                // bytes of the name of an operation
	MaxShards      = 1 << 6             // of an object
	TokenBytes     = 16                 // of a session's token
	MaxOutstanding = 1 << 10            // numbers of a session above the acknowledged one
	EndedBytes     = MaxOutstanding / 8 // at most, of the numbers that an acknowledgement names
)
