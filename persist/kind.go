package persist

import "fmt"

// Engine says what a log is kept in.
type Engine uint8

// The engines: Bolt is the embedded default, WAL the one for high rates.
const (
	Bolt Engine = iota // raft-boltdb: one file, a B+ tree
	WAL                // raft-wal: segments that are only appended to
)

func (e Engine) String() string {
	switch e {
	case Bolt:
		return "bolt"
	case WAL:
		return "wal"
	}
	return fmt.Sprintf("engine %d", uint8(e))
}

// block is how long a block gets in a log of this engine. With every group raft-boltdb writes the leaf at the end of its tree again, with the up to three
// entries that were in it, however long they are: short blocks next to a long group make little of that. raft-wal writes nothing
// twice, and there a longer block is less work.
func (e Engine) block() int {
	if e == Bolt {
		return 512 << 10
	}
	return 1 << 20
}
