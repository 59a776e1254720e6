package journal

import (
	"errors"
	"fmt"

	"github.com/squall-go/squall/order"
)

// Record is one delivered message in a log.
type Record struct {
	Version order.Version // its place in the total order; grows within a log
	Time    order.Time    // of the log's hybrid clock; grows strictly within a log
	Sender  order.NodeID
	Number  uint64 // 0, 1, 2 … over the life of the log; set when it is read or appended
	Data    []byte
	// Release is looked at by Append only. If it is not nil, Data is not copied but kept until it
	// is on disk; then Release is called once, by the caller of Journal.Written.
	Release func()
}

func (r Record) String() string {
	return fmt.Sprintf("record %d: version %v at %v, %d bytes of node %d", r.Number, r.Version, r.Time, len(r.Data), r.Sender)
}

// Entry is one of a Store: a block.
type Entry struct {
	Index uint64
	Data  []byte
}

// Store holds a log: entries with consecutive indexes, and a few named values next to
// them. Both must be durable when their calls return, and StoreLogs and DeleteRange all or nothing.
type Store interface {
	FirstIndex() (uint64, error) // 0: there is none
	LastIndex() (uint64, error)
	GetLog(index uint64, e *Entry) error // ErrNoEntry if there is none. What e.Data had is not written to
	StoreLogs(entries []*Entry) error    // keeps nothing of them
	DeleteRange(first, last uint64) error
	Set(key, value []byte) error
	Get(key []byte) ([]byte, error) // nil if there is none
}

// What is wrong with a log, or with a question to it.
var (
	ErrDamaged   = errors.New("the log is damaged")
	ErrTruncated = errors.New("after the first record of the log")
	ErrNotFound  = errors.New("no such record")
	// ErrNoEntry is a Store's.
	ErrNoEntry     = errors.New("no such entry")
	ErrNewerFormat = errors.New("written in a newer format")
	// ErrUnknown is returned for a change that the store did not take: it may have been made or
	// not, and may be made when the log is opened again.
	ErrUnknown = errors.New("it is not known what is stored")
)

// Damage is an error that says where a log is damaged. It is an ErrDamaged.
type Damage struct {
	Log     string        // its name, if known
	Block   uint64        // index of the entry in the store
	Record  uint64        // number of the first record that cannot be read
	Version order.Version // of that record, or of the last good one before it; zero: not known
	What    string        // what is wrong with it
}

func (d *Damage) Error() string {
	near := ""
	if d.Version != (order.Version{}) {
		near = fmt.Sprintf(" (near version %v)", d.Version)
	}
	return fmt.Sprintf("%v: %s: block %d, record %d%s: %s", ErrDamaged, d.Log, d.Block, d.Record, near, d.What)
}

func (d *Damage) Unwrap() error { return ErrDamaged }

// End is where a log ends: behind its last record.
type End struct {
	Block   uint64        // index of the last block; 0: there was never one
	Bytes   uint64        // of all blocks before this place, over the life of the log
	Records uint64        // how many records there are before this place, over the life of the log
	Version order.Version // of the last record
	Time    order.Time    // of the last record
	Head    Head          // of all records, if the log is signed
}

// Repaired says what was dropped as a log was opened: a write that did not end, or what is behind
// damage.
type Repaired struct {
	Blocks  int    // at least so many; 0: nothing was dropped
	Record  uint64 // the number of the first record that was
	Version order.Version
}

// isDamage tells what can be cut away from what cannot: a disk that does not answer.
func isDamage(err error) bool {
	var d *Damage
	return errors.As(err, &d)
}
