// Package mcap writes and reads MCAP files (https://mcap.dev/spec), a container for messages of
// topics that tools of robotics open. It has what recordings need: chunks without compression, with
// their checksums and indexes.
//
// A Writer writes whole chunks: what was written before a crash can be read, up to the last Flush.
// A Reader checks each checksum, tells the place of a fault, and tells a file whose end is missing
// (ErrTorn) from one whose bytes have changed (ErrDamaged).
package mcap

import (
	"errors"
	"fmt"
	"math"
)

// magic begins and ends a file.
const magic = "\x89MCAP0\r\n"

// Kinds of records.
const (
	opHeader        = 0x01
	opFooter        = 0x02
	opSchema        = 0x03
	opChannel       = 0x04
	opMessage       = 0x05
	opChunk         = 0x06
	opMessageIndex  = 0x07
	opChunkIndex    = 0x08
	opStatistics    = 0x0b
	opMetadata      = 0x0c
	opMetadataIndex = 0x0d
	opSummaryOffset = 0x0e
	opDataEnd       = 0x0f
)

// Sizes of the parts of a file that have a fixed size.
const (
	headBytes   = 9 // of a record: its kind, and the bytes that follow
	footerBytes = 20
	chunkBytes  = 8 + 8 + 8 + 4 + 4 + 8 // of a chunk without its compression and records
)

// most is the most channels, and the most schemas, that a file can have.
const most = math.MaxUint16

// Errors of readers. They are wrapped with the place.
var (
	ErrTorn        = errors.New("the end of the file is missing")
	ErrDamaged     = errors.New("the file is damaged")
	ErrUnsupported = errors.New("the file has something that is not supported")
)

// Fault is an error of a file, with its place.
type Fault struct {
	Offset int64 // of the record
	What   string
	Kind   error // ErrTorn, ErrDamaged or ErrUnsupported
}

func (f *Fault) Error() string { return fmt.Sprintf("%v: byte %d: %s", f.Kind, f.Offset, f.What) }

// Unwrap returns the kind of the fault.
func (f *Fault) Unwrap() error { return f.Kind }

// Header is the first record of a file.
type Header struct{ Profile, Library string }

// Schema describes the messages of channels. Its ID is given by the writer, from 1.
type Schema struct {
	ID             uint16
	Name, Encoding string
	Data           []byte
}

// Channel is a stream of messages of a topic. Its ID is given by the writer, from 1.
type Channel struct {
	ID, Schema      uint16 // Schema is 0 if there is none
	Topic, Encoding string
	Metadata        map[string]string
}

// Message is one message. Its times are nanoseconds since the Unix epoch.
type Message struct {
	Channel           uint16
	Sequence          uint32
	Logged, Published uint64
	Data              []byte
}

// Metadata is a set of texts with a name.
type Metadata struct {
	Name   string
	Values map[string]string
}
