package remote

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/decode"
	"github.com/squall-go/squall/order"
)

// Version is that of the frames. A relay turns away a client of another one.
const Version = 2

// Kind is what a frame says.
type Kind uint8

// The kinds; the numbers are part of the format.
const (
	KindHello   Kind = 1 // of the client, first
	KindRequest Kind = 2
	KindSample  Kind = 3 // of a writer of the client
	KindPing    Kind = 4 // the client is there
	KindBye     Kind = 5 // the client ends
	KindSetEnd  Kind = 6 // the samples of a coherent set that came since the last one are the whole set

	KindWelcome Kind = 16 // of the relay, first
	KindAnswer  Kind = 17
	KindBatch   Kind = 18 // for the readers of the client; empty ones say that the relay is there
	KindAck     Kind = 19
	KindEvent   Kind = 20
)

// HeadBytes is the size of what a frame begins with: the length of its body, and its kind.
const HeadBytes = 5

// MaxBody bounds the body of a frame.
const MaxBody = 1 << 30

// ErrMalformed is returned for a frame that no process of this version sends.
var ErrMalformed = errors.New("dds: malformed frame")

// AppendFrame appends a frame, of which body appends the body.
func AppendFrame(dst []byte, k Kind, body func([]byte) []byte) []byte {
	at := len(dst)
	dst = body(append(dst, 0, 0, 0, 0, byte(k)))
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-HeadBytes))
	return dst
}

// ParseHead is the inverse for the first HeadBytes of a frame.
func ParseHead(b []byte) (k Kind, body int, err error) {
	n := binary.LittleEndian.Uint32(b)
	if n > MaxBody {
		return 0, 0, fmt.Errorf("%w: a body of %d bytes", ErrMalformed, n)
	}
	return Kind(b[4]), int(n), nil
}

// Hello is what a client says first.
type Hello struct {
	Version int      `cbor:"1,keyasint"`
	Cluster string   `cbor:"2,keyasint"`
	Space   string   `cbor:"3,keyasint"`
	Client  [16]byte `cbor:"4,keyasint"` // a secret, the same at all relays
}

// Welcome is the answer.
type Welcome struct {
	Version    int    `cbor:"1,keyasint"`
	Refused    string `cbor:"2,keyasint,omitempty"` // why the relay does not serve the client
	Persistent bool   `cbor:"3,keyasint"`           // the space has a log
	MaxBytes   int    `cbor:"4,keyasint"`           // of a sample's record
	Position   uint64 `cbor:"6,keyasint"`
	Group      string `cbor:"7,keyasint"` // the identity of the relay's group
}

// Op is what a client asks for.
type Op uint8

// The operations; the numbers are part of the format.
const (
	OpTopic    Op = 1
	OpForget   Op = 2
	OpOpen     Op = 3
	OpChange   Op = 4
	OpClose    Op = 5
	OpDescribe Op = 6
	OpAssert   Op = 7
	OpRelease  Op = 8 // readers that were opened with Hold go on
)

// Filter is a filter expression with its parameters.
type Filter struct {
	Expression string   `cbor:"1,keyasint"`
	Parameters []string `cbor:"2,keyasint"`
}

// Request is a call of a client.
type Request struct {
	Call   uint64           `cbor:"1,keyasint"`
	Op     Op               `cbor:"2,keyasint"`
	Number uint32           `cbor:"3,keyasint,omitempty"` // by which the client knows the endpoint
	Topic  *space.TopicInfo `cbor:"4,keyasint,omitempty"` // OpForget: its name only
	Reader bool             `cbor:"5,keyasint,omitempty"`
	QoS    *qos.Set         `cbor:"6,keyasint,omitempty"`
	GUID   [16]byte         `cbor:"7,keyasint"` // of a writer
	Filter *Filter          `cbor:"8,keyasint,omitempty"`
	Resume *space.Resume    `cbor:"9,keyasint,omitempty"`
	Hold   bool             `cbor:"10,keyasint,omitempty"` // the reader is told nothing before OpRelease
}

// Answer is the result of a call.
type Answer struct {
	Call      uint64               `cbor:"1,keyasint"`
	Code      Code                 `cbor:"2,keyasint"`
	Text      string               `cbor:"3,keyasint,omitempty"` // of an error
	ID        space.ID             `cbor:"4,keyasint"`           // of the endpoint that was opened
	Come      Come                 `cbor:"5,keyasint"`           // how far the samples of a writer have come that was opened
	Resume    space.Resume         `cbor:"8,keyasint"`           // how far a reader has come that was opened
	Topics    []space.TopicInfo    `cbor:"6,keyasint,omitempty"`
	Endpoints []space.EndpointInfo `cbor:"7,keyasint,omitempty"`
}

// Code says which error an answer has.
type Code uint8

// The codes; the numbers are part of the format.
const (
	OK           Code = 0
	Failed       Code = 1
	Unknown      Code = 2
	InUse        Code = 3
	Inconsistent Code = 4 // a topic
	Immutable    Code = 5
	Refused      Code = 6 // a policy
	Contradicts  Code = 7 // a policy another one
	Away         Code = 8 // the member leaves, or has halted: another one is asked
)

var codes = map[Code]error{
	Unknown: space.ErrUnknown, InUse: space.ErrInUse, Inconsistent: space.ErrInconsistentTopic, Immutable: space.ErrImmutable,
	Refused: qos.ErrRefused, Contradicts: qos.ErrInconsistent,
}

// Fail puts an error into an answer.
func (a *Answer) Fail(err error) {
	a.Code, a.Text = Failed, err.Error()
	for c := Unknown; c <= Contradicts; c++ {
		if errors.Is(err, codes[c]) {
			a.Code = c
			return
		}
	}
}

// remoteError has the text of an error of the relay, and is the error that the code names.
type remoteError struct {
	text string
	is   error
}

func (e *remoteError) Error() string { return e.text }

func (e *remoteError) Unwrap() error { return e.is }

// Err is the error of an answer, or nil.
func (a *Answer) Err() error {
	if a.Code == OK {
		return nil
	}
	return &remoteError{a.Text, codes[a.Code]}
}

// Event is an event of an endpoint of the client.
type Event struct {
	Number uint32      `cbor:"1,keyasint"`
	Event  space.Event `cbor:"2,keyasint"`
}

var (
	encoding, _ = cbor.CoreDetEncOptions().EncMode() // these options are valid
	decoding    = decode.New(cbor.DecOptions{MaxArrayElements: 1 << 20, MaxNestedLevels: 16})
)

// AppendValue appends a frame whose body is a value in CBOR.
func AppendValue(dst []byte, k Kind, v any) ([]byte, error) {
	b, err := encoding.Marshal(v)
	return AppendFrame(dst, k, func(dst []byte) []byte { return append(dst, b...) }), err
}

// ParseValue is the inverse for the body.
func ParseValue(body []byte, v any) error {
	if err := decoding.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	return nil
}

// sampleBytes is the fixed part of a sample's body: number of the writer, number of the sample,
// operation, source time, length of the key.
const sampleBytes = 4 + 8 + 1 + 8 + 4

// inSet is added to the operation of a sample of a coherent set.
const inSet = 0x80

// MaxSetBytes bounds the samples of a coherent set, as Entry.Bytes measures them: until it ends,
// all members have them.
const MaxSetBytes = 8 << 20

// AppendSample appends the frame of a sample of a writer.
func AppendSample(dst []byte, writer uint32, e *Entry) []byte {
	return AppendFrame(dst, KindSample, func(b []byte) []byte {
		b = binary.LittleEndian.AppendUint32(b, writer)
		b = binary.LittleEndian.AppendUint64(b, e.Sequence)
		operation := e.Operation
		if e.Set != 0 {
			operation |= inSet
		}
		b = append(b, operation)
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Source))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Key)))
		return append(append(b, e.Key...), e.Data...)
	})
}

// ParseSample is the inverse for the body; key and data lie in it. A sample of a coherent set is of
// the set 1.
func ParseSample(b []byte) (writer uint32, e Entry, err error) {
	if len(b) < sampleBytes {
		return 0, e, fmt.Errorf("%w: a sample of %d bytes", ErrMalformed, len(b))
	}
	writer = binary.LittleEndian.Uint32(b)
	e.Sequence = binary.LittleEndian.Uint64(b[4:])
	if e.Operation = b[12]; e.Operation >= inSet {
		e.Operation, e.Set = e.Operation-inSet, 1
	}
	e.Source = int64(binary.LittleEndian.Uint64(b[13:]))
	n := binary.LittleEndian.Uint32(b[21:])
	b = b[sampleBytes:]
	if uint64(n) > uint64(len(b)) || e.Sequence == 0 || e.Operation > uint8(space.Register) {
		return 0, e, fmt.Errorf("%w: sample %d of operation %d with a key of %d bytes in %d", ErrMalformed, e.Sequence, e.Operation, n, len(b))
	}
	e.Key, e.Data = b[:n:n], b[n:]
	return writer, e, nil
}

// Come is how far the samples of a writer have come.
type Come struct {
	Ordered uint64        `cbor:"1,keyasint"` // number of the last sample that is in the order
	Stored  uint64        `cbor:"2,keyasint"` // number of the last sample that is known to be on all disks
	At      order.Version `cbor:"3,keyasint"` // a position at which the order has the last sample: its own, or a later one
}

// ackBytes is the size of an acknowledgement: number of the writer, and what Come has.
const ackBytes = 4 + 4*8

// AppendAck appends the frame that tells how far the samples of a writer have come.
func AppendAck(dst []byte, writer uint32, c Come) []byte {
	return AppendFrame(dst, KindAck, func(b []byte) []byte {
		b = binary.LittleEndian.AppendUint32(b, writer)
		for _, n := range [...]uint64{c.Ordered, c.Stored, uint64(c.At.View), uint64(c.At.Seq)} {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
		return b
	})
}

// ParseAck is the inverse for the body.
func ParseAck(b []byte) (writer uint32, c Come, err error) {
	if len(b) != ackBytes {
		return 0, c, fmt.Errorf("%w: an acknowledgement of %d bytes", ErrMalformed, len(b))
	}
	number := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	c = Come{Ordered: number(4), Stored: number(12), At: order.Version{View: order.ViewID(number(20)), Seq: order.Seq(number(28))}}
	return binary.LittleEndian.Uint32(b), c, nil
}

// Reached is how far a reader of the client has come with a batch.
type Reached struct {
	Number uint32
	space.Reached
}

// Gate says when readers of a client that want coherent access show what they are told.
type Gate uint8

// The values; the numbers are part of the format.
const (
	GateOpen   Gate = 0
	GateBehind Gate = 1 // when they have the whole batch
	GateShut   Gate = 2 // later
)

// Batch is what the readers of a client are told.
type Batch struct {
	Gate     Gate
	Position uint64            // of the relay
	Lineage  []space.ViewStart // of the space, if it has changed; at most space.MaxLineage of them
	Reached  []Reached
	Fed      []space.Fed
}

// Sizes of the parts of a batch.
const (
	reachedBytes = 4 + 8 + 8 + 1
	fedBytes     = 4 + 1 + 1 + 8 + 8 + 8 + 4 + 8 + 8 + 8 + 4 + 4
	originBytes  = 16 + 1
	viewBytes    = 8 + 8 + 8
)

// AppendBatch appends the frame of a batch.
func AppendBatch(dst []byte, t *Batch) []byte {
	return AppendFrame(dst, KindBatch, func(b []byte) []byte {
		b = append(binary.LittleEndian.AppendUint64(append(b, byte(t.Gate)), t.Position), byte(len(t.Lineage)))
		for _, v := range t.Lineage {
			for _, n := range [...]uint64{v.View, v.After, uint64(v.At)} {
				b = binary.LittleEndian.AppendUint64(b, n)
			}
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Reached)))
		for _, r := range t.Reached {
			b = binary.LittleEndian.AppendUint32(b, r.Number)
			b = binary.LittleEndian.AppendUint64(b, r.Position)
			b = binary.LittleEndian.AppendUint64(b, r.Count)
			unlisted := byte(0)
			if r.Unlisted {
				unlisted = 1
			}
			b = append(b, unlisted)
		}
		for i := range t.Fed {
			b = appendFed(b, &t.Fed[i])
		}
		return b
	})
}

func appendFed(b []byte, f *space.Fed) []byte {
	b = binary.LittleEndian.AppendUint32(b, f.Reader)
	origin := byte(0)
	if f.Origin != nil {
		origin = 1
	}
	b = append(b, byte(f.Kind), origin)
	for _, n := range [...]uint64{f.Position, f.Writer.Node, f.Writer.Incarnation} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = binary.LittleEndian.AppendUint32(b, f.Writer.Number)
	for _, n := range [...]uint64{uint64(f.Source), uint64(f.Expires), f.Count} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Key)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Data)))
	if f.Origin != nil {
		b = append(append(b, f.Origin.GUID[:]...), byte(len(f.Origin.Side)))
		b = append(b, f.Origin.Side[:byte(len(f.Origin.Side))]...)
	}
	return append(append(b, f.Key...), f.Data...)
}

// lineage takes the gate, the position and the views, and returns what follows.
func (t *Batch) lineage(b []byte) []byte {
	t.Gate, b = Gate(b[0]), b[1:]
	t.Position, t.Lineage = binary.LittleEndian.Uint64(b), nil
	views := int(b[8])
	for b = b[9:]; views > 0; views-- {
		t.Lineage = append(t.Lineage, space.ViewStart{View: binary.LittleEndian.Uint64(b), After: binary.LittleEndian.Uint64(b[8:]), At: int64(binary.LittleEndian.Uint64(b[16:]))})
		b = b[viewBytes:]
	}
	return b
}

// parseFed reads the numbers of what a reader is fed.
func parseFed(b []byte) space.Fed {
	number := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	return space.Fed{
		Reader: binary.LittleEndian.Uint32(b), Kind: space.FedKind(b[4]), Position: number(6),
		Writer: space.ID{Process: space.Process{Node: number(14), Incarnation: number(22)}, Number: binary.LittleEndian.Uint32(b[30:])},
		Source: int64(number(34)), Expires: int64(number(42)), Count: number(50),
	}
}

// ParseBatch is the inverse for the body; data lie in it. The memory of t is used again.
func ParseBatch(b []byte, t *Batch) error {
	bad := fmt.Errorf("%w: a batch of %d bytes", ErrMalformed, len(b))
	if len(b) < 10 || len(b) < 10+int(b[9])*viewBytes+4 || Gate(b[0]) > GateShut {
		return bad
	}
	b = t.lineage(b)
	n := binary.LittleEndian.Uint32(b)
	b = b[4:]
	if uint64(n)*reachedBytes > uint64(len(b)) || !t.reached(b, int(n)) {
		return bad
	}
	b = b[n*reachedBytes:]
	t.Fed = t.Fed[:0]
	key := ""
	for len(b) > 0 {
		if len(b) < fedBytes {
			return bad
		}
		f := parseFed(b)
		keyBytes, dataBytes := uint64(binary.LittleEndian.Uint32(b[58:])), uint64(binary.LittleEndian.Uint32(b[62:]))
		hasOrigin := b[5]
		b = b[fedBytes:]
		if hasOrigin > 1 || f.Kind > space.FedAbsent {
			return bad
		}
		if hasOrigin == 1 {
			if len(b) < originBytes || len(b) < originBytes+int(b[16]) {
				return bad
			}
			f.Origin = &space.Origin{GUID: [16]byte(b), Side: string(b[originBytes : originBytes+int(b[16])])}
			b = b[originBytes+int(b[16]):]
		}
		if keyBytes+dataBytes > uint64(len(b)) {
			return bad
		}
		if key != string(b[:keyBytes]) { // mostly that of the sample before
			key = string(b[:keyBytes])
		}
		f.Key, f.Data = key, b[keyBytes:keyBytes+dataBytes:keyBytes+dataBytes]
		b = b[keyBytes+dataBytes:]
		t.Fed = append(t.Fed, f)
	}
	return nil
}

// reached reads how far so many readers are, for which there are bytes enough.
func (t *Batch) reached(b []byte, n int) bool {
	t.Reached = slices.Grow(t.Reached[:0], n)
	for range n {
		if b[20] > 1 {
			return false
		}
		at := space.Reached{Position: binary.LittleEndian.Uint64(b[4:]), Count: binary.LittleEndian.Uint64(b[12:]), Unlisted: b[20] == 1}
		t.Reached = append(t.Reached, Reached{binary.LittleEndian.Uint32(b), at})
		b = b[reachedBytes:]
	}
	return true
}
