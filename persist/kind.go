package persist

import "fmt"

// Engine says what a log is kept in.
type Engine uint8

// The engines: Bolt is the embedded default, WAL the one for high rates.
const (
	EngineBolt Engine = iota // raft-boltdb: one file, a B+ tree
	EngineWAL                // raft-wal: segments that are only appended to
)

func (e Engine) String() string {
	switch e {
	case EngineBolt:
		return "bolt"
	case EngineWAL:
		return "wal"
	}
	return fmt.Sprintf("engine %d", uint8(e))
}

// block is how long a block gets in a log of this engine. With every group raft-boltdb writes the
// leaf at the end of its tree again, with the up to three entries that were in it, however long
// they are: short blocks next to a long group make little of that. raft-wal writes nothing twice,
// and there a longer block is less work.
func (e Engine) block() int {
	if e == EngineBolt {
		return 512 << 10
	}
	return 1 << 20
}
