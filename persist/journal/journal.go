package journal

import (
	"github.com/hashicorp/raft"

	"github.com/squall-go/squall/order"
)

// Config of a journal.
type Config struct {
	Memory int    // bytes appended and not yet durable; more is back-pressure. 0: 16 MiB
	Block  int    // bytes of a block at most. 0: MaxBlockBytes
	After  End    // where the log ends already
	Chain  *Chain // of a signed log; nil: not signed
}

// Journal is the part of a log that was appended and is not durable.
type Journal struct{}

func New(c Config) *Journal { panic("soon") }

// Append takes a record: false if there is no room now. It sets r.Time and r.Number.
func (j *Journal) Append(r *Record) bool { panic("soon") }

// AppendAt takes a record of another member's log, with the time it has there.
func (j *Journal) AppendAt(r Record) bool { panic("soon") }

// Next is the next group to write: all that accumulated.
func (j *Journal) Next() []*raft.Log { panic("soon") }

// Written says that the group is durable, or that the disk failed.
func (j *Journal) Written(err error) { panic("soon") }

// Appended is how many records were appended since the log was opened.
func (j *Journal) Appended() uint64 { panic("soon") }

// Durable is how many of them are durable, and the version of the last one.
func (j *Journal) Durable() (records uint64, last order.Version) { panic("soon") }

// End is where the durable log ends.
func (j *Journal) End() End { panic("soon") }
