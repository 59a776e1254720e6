package space

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/fxamacker/cbor/v2"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/decode"
)

// Process is one run of a program at a node.
type Process struct{ Node, Incarnation uint64 }

// ID names a writer or a reader.
type ID struct {
	Process
	Number uint32 // chosen by the process, never again
}

// less is the order in which equally strong writers come.
func (a ID) less(b ID) bool {
	switch {
	case a.Node != b.Node:
		return a.Node < b.Node
	case a.Incarnation != b.Incarnation:
		return a.Incarnation < b.Incarnation
	}
	return a.Number < b.Number
}

// Record is one ordered message of the space.
type Record struct {
	View   uint64 // in which it has its position
	Sender uint64 // node that sent it
	Data   []byte
	Stays  bool // the data stay as they are until Repay
}

// ErrMalformed is returned for a record that no member of this version sends.
var ErrMalformed = errors.New("dds: malformed record")

// What a record says. The numbers are part of the format.
const (
	recordTopic  byte = 1
	recordOpen   byte = 2
	recordChange byte = 3
	recordClose  byte = 4
	recordSample byte = 5
	recordEnd    byte = 6 // of a coherent set
	recordRoster byte = 7
	recordLapse  byte = 8
	recordForget byte = 9
	recordGone   byte = 10 // of a client that is not there any more
	recordAssert byte = 11
	recordSilent byte = 12
	recordClient byte = 13 // asserts that a client is alive
	recordOrigin byte = 14 // closes a writer whose origin has ended
)

// A record begins with its kind and the time of its sender. Samples have a fixed layout behind it.
// Everything else has the number of the sender's call and CBOR.
const (
	headBytes = 1 + 8
	callBytes = 8
)

func head(dst []byte, kind byte, now int64) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, kind), uint64(now))
}

// TopicInfo declares a topic. A topic that is declared again must be the same.
type TopicInfo struct {
	Name  string  `cbor:"1,keyasint"`
	Type  string  `cbor:"2,keyasint"` // of its samples: name and encoding
	Keyed bool    `cbor:"3,keyasint"`
	QoS   qos.Set `cbor:"4,keyasint"`
}

// EndpointInfo declares a writer or a reader.
type EndpointInfo struct {
	ID     ID      `cbor:"1,keyasint"`
	Topic  string  `cbor:"2,keyasint"`
	Reader bool    `cbor:"3,keyasint"`
	QoS    qos.Set `cbor:"4,keyasint"`
	Origin *Origin `cbor:"5,keyasint,omitempty"` // of a writer whose samples a gateway carries
	Client []byte  `cbor:"6,keyasint,omitempty"` // name of the client that a writer belongs to, at whichever relay; none: it belongs to its process
}

type rosterInfo struct {
	View    uint64    `cbor:"1,keyasint"`
	Members []Process `cbor:"2,keyasint"`
}

// Lapse is a deadline that a writer missed: it has written Writes samples of the instance, and no
// more in time.
type Lapse struct {
	Writer ID     `cbor:"1,keyasint"`
	Key    []byte `cbor:"2,keyasint"`
	Writes uint64 `cbor:"3,keyasint"`
}

type endInfo struct {
	Process Process `cbor:"1,keyasint"`
	Set     uint64  `cbor:"2,keyasint"`
	Drop    bool    `cbor:"3,keyasint"`
}

var (
	encoding, _ = cbor.CoreDetEncOptions().EncMode() // these options are valid
	decoding    = decode.New(cbor.DecOptions{MaxArrayElements: 1 << 20, MaxNestedLevels: 16})

	// decodingState is for a state, which is as large as the space: before it makes a list, the
	// decoder has seen the bytes of all elements.
	decodingState, _ = cbor.DecOptions{MaxArrayElements: math.MaxInt32, MaxNestedLevels: 16}.DecMode()
)

func described(dst []byte, kind byte, now int64, what any) ([]byte, error) {
	b, err := encoding.Marshal(what)
	return append(binary.LittleEndian.AppendUint64(head(dst, kind, now), 0), b...), err
}

// SetCall puts the number of a call, by which the sender recognises its record, into a record that
// is no sample.
func SetCall(record []byte, call uint64) {
	binary.LittleEndian.PutUint64(record[headBytes:], call)
}

// Call returns the number of the call, and 0 if the record has none.
func Call(record []byte) uint64 {
	if len(record) < headBytes+callBytes || record[0] == recordSample {
		return 0
	}
	return binary.LittleEndian.Uint64(record[headBytes:])
}

// IsSample reports whether a record is a sample, and changes no topic, writer or reader.
func IsSample(record []byte) bool { return len(record) > 0 && record[0] == recordSample }

// AppendTopic appends a record that declares a topic.
func AppendTopic(dst []byte, now int64, t TopicInfo) ([]byte, error) {
	return described(dst, recordTopic, now, t)
}

// AppendForget appends a record that removes a topic without writers and readers, and its history.
func AppendForget(dst []byte, now int64, name string) ([]byte, error) {
	return described(dst, recordForget, now, name)
}

// AppendOpen appends a record that opens a writer or a reader.
func AppendOpen(dst []byte, now int64, e EndpointInfo) ([]byte, error) {
	return described(dst, recordOpen, now, e)
}

// AppendChange appends a record that changes policies of a writer or a reader.
func AppendChange(dst []byte, now int64, id ID, set qos.Set) ([]byte, error) {
	return described(dst, recordChange, now, EndpointInfo{ID: id, QoS: set})
}

// AppendClose appends a record that closes a writer or a reader.
func AppendClose(dst []byte, now int64, id ID) ([]byte, error) {
	return described(dst, recordClose, now, id)
}

// AppendOriginEnd appends a record that closes a writer that stands for an origin, and ends the
// origin: a writer with that GUID numbers its samples anew.
func AppendOriginEnd(dst []byte, now int64, id ID) ([]byte, error) {
	return described(dst, recordOrigin, now, id)
}

// AppendGone appends a record that closes a writer or a reader of a client that the sender has
// lost: its instances end as the instances of a failed process do.
func AppendGone(dst []byte, now int64, id ID) ([]byte, error) {
	return described(dst, recordGone, now, id)
}

// AppendAssert appends a record that asserts that a writer is alive or, with the number 0, all of
// its process that are MANUAL_BY_PARTICIPANT.
func AppendAssert(dst []byte, now int64, id ID) ([]byte, error) {
	return described(dst, recordAssert, now, id)
}

// AppendClient appends a record that asserts that all writers of a client that are
// MANUAL_BY_PARTICIPANT are alive.
func AppendClient(dst []byte, now int64, client []byte) ([]byte, error) {
	return described(dst, recordClient, now, client)
}

// AppendSilence appends a record of a lease that has ended. It has no effect if the writer was
// asserted since.
func AppendSilence(dst []byte, now int64, l Silence) ([]byte, error) {
	return described(dst, recordSilent, now, l)
}

// AppendEnd appends a record that ends a coherent set: it takes effect, or is dropped.
func AppendEnd(dst []byte, now int64, of Process, set uint64, drop bool) ([]byte, error) {
	return described(dst, recordEnd, now, endInfo{of, set, drop})
}

// AppendRoster appends a record that says which processes the members of a view are. Endpoints that
// others opened, in that view or an earlier one, end.
func AppendRoster(dst []byte, now int64, view uint64, members []Process) ([]byte, error) {
	return described(dst, recordRoster, now, rosterInfo{view, members})
}

// AppendLapse appends a record of a missed deadline. It has no effect if the writer has written
// since.
func AppendLapse(dst []byte, now int64, l Lapse) ([]byte, error) {
	return described(dst, recordLapse, now, l)
}

// Operation is what a sample does to its instance.
type Operation uint8

// The operations; the numbers are part of the format.
const (
	Write      Operation = 0
	Dispose    Operation = 1
	Unregister Operation = 2
	Register   Operation = 3
)

// Sample is what a writer writes.
type Sample struct {
	Writer    ID
	Operation Operation
	Set       uint64 // coherent set of the writer's process; 0: none
	Source    int64  // time of the writer
	Sequence  uint64 // number of the sample at the origin of its writer; 0: the writer has no origin
	Key       []byte
	Data      []byte
}

// sampleBytes is the fixed part behind the head: incarnation, number, operation, set, source time,
// length of the key.
const sampleBytes = headBytes + 8 + 4 + 1 + 8 + 8 + 4

// sequenceFollows is added to the operation of a sample of an origin, whose number stands between
// the fixed part and the key.
const sequenceFollows = 0x80

// SampleBytes is the size of what AppendSample appends.
func SampleBytes(s *Sample) int {
	n := sampleBytes + len(s.Key)
	if s.Sequence != 0 {
		n += 8
	}
	return n
}

// AppendSample appends the record of a sample without its data, which follow it: the caller encodes
// them in place.
func AppendSample(dst []byte, now int64, s *Sample) []byte {
	dst = head(dst, recordSample, now)
	dst = binary.LittleEndian.AppendUint64(dst, s.Writer.Incarnation)
	dst = binary.LittleEndian.AppendUint32(dst, s.Writer.Number)
	operation := byte(s.Operation)
	if s.Sequence != 0 {
		operation |= sequenceFollows
	}
	dst = append(dst, operation)
	dst = binary.LittleEndian.AppendUint64(dst, s.Set)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(s.Source))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s.Key)))
	if s.Sequence != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, s.Sequence)
	}
	return append(dst, s.Key...)
}

// writerOf is the writer of a sample's record that is long enough.
func writerOf(r *Record) ID {
	b := r.Data[headBytes:]
	return ID{Process{r.Sender, binary.LittleEndian.Uint64(b)}, binary.LittleEndian.Uint32(b[8:])}
}

// parseSample is the inverse; key and data lie in the record.
func parseSample(r *Record, s *Sample) error {
	b := r.Data
	if len(b) < sampleBytes {
		return fmt.Errorf("%w: a sample of %d bytes", ErrMalformed, len(b))
	}
	b = b[headBytes:]
	s.Writer = writerOf(r)
	s.Operation = Operation(b[12] &^ sequenceFollows)
	carried := b[12]&sequenceFollows != 0
	s.Set = binary.LittleEndian.Uint64(b[13:])
	s.Source = int64(binary.LittleEndian.Uint64(b[21:]))
	n := binary.LittleEndian.Uint32(b[29:])
	b = b[33:]
	s.Sequence = 0
	if carried {
		if len(b) < 8 || binary.LittleEndian.Uint64(b) == 0 {
			return fmt.Errorf("%w: a sample of an origin without a number", ErrMalformed)
		}
		s.Sequence = binary.LittleEndian.Uint64(b)
		b = b[8:]
	}
	if uint64(n) > uint64(len(b)) || s.Operation > Register {
		return fmt.Errorf("%w: a sample of operation %d with a key of %d bytes in %d", ErrMalformed, s.Operation, n, len(b))
	}
	s.Key, s.Data = b[:n:n], b[n:]
	return nil
}
