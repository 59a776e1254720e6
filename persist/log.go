package persist

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"iter"
	"time"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/journal"
)

// Record is one delivered message in a log.
type Record = journal.Record

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

// LogID names a log in a store: that of one shard of a subgroup.
type LogID struct {
	Name  string
	Shard int
}

func (id LogID) String() string { return fmt.Sprintf("%s.%d", id.Name, id.Shard) }

// Retention says what may be dropped from the front of a log. Zero fields do not limit; the zero value keeps everything. Whole blocks are dropped,
// and never what is not globally persisted.
type Retention struct {
	Age     time.Duration
	Bytes   int64
	Records uint64
}

// LogConfig is how a log is opened.
type LogConfig struct {
	ID     LogID
	Engine Engine // of a log that is new; one that is there keeps its own
	Memory int    // bytes appended and not yet durable; more is back-pressure. 0: 16 MiB
	Retain Retention
	Sign   ed25519.PrivateKey // optional: a hash chain over all records, its head signed once per group
	Wake   func()             // the loop should look: Durable moved, or there is room again
	Failed func(error)        // once: the disk failed; nothing is acknowledged afterwards
	Repair bool               // drop what is damaged at the end, instead of refusing to open; Info says what was dropped
}

// Info describes a log as it is on disk.
type Info struct {
	ID          LogID
	Engine      Engine
	First, Last Record        // without data; the zero value if Count is 0
	Count       uint64        // records that can be read: from First to Last
	Bytes       int64         // on disk
	Oldest      order.Time    // time of First
	Global      order.Version // every member's disk has everything up to it
	Snapshot    order.Version // of the snapshot beside the log; zero: none
	Repaired    journal.Repaired
}

// Log is one log of a store.
type Log struct{}

func (l *Log) Append(r *Record) bool                                                 { panic("soon") }
func (l *Log) Appended() uint64                                                      { panic("soon") }
func (l *Log) Durable() (records uint64, last order.Version)                         { panic("soon") }
func (l *Log) Import(ctx context.Context, r Record) error                            { panic("soon") }
func (l *Log) Sync(ctx context.Context) error                                        { panic("soon") }
func (l *Log) SetGlobal(v order.Version)                                             { panic("soon") }
func (l *Log) Info() Info                                                            { panic("soon") }
func (l *Log) Get(v order.Version) (Record, error)                                   { panic("soon") }
func (l *Log) At(t order.Time) (Record, error)                                       { panic("soon") }
func (l *Log) Range(from, to order.Version) iter.Seq2[Record, error]                 { panic("soon") }
func (l *Log) Between(from, to order.Time) iter.Seq2[Record, error]                  { panic("soon") }
func (l *Log) Tail(ctx context.Context, from order.Version) iter.Seq2[Record, error] { panic("soon") }
func (l *Log) Cut(after order.Version) error                                         { panic("soon") }
