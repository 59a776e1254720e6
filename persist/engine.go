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
