package machine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/squall-go/squall/replicated/internal/invoke"
)

// Kind is what a record is about.
type Kind uint8

// Kinds of records.
const (
	Command     Kind = iota + 1 // a member's command
	Client                      // a client's command, which a member relays
	Open                        // a client opens a session
	Close                       // a client ends its session
	Touch                       // sessions are in use although they command nothing
	Knows                       // a member announces the operations that it can execute
	Enable                      // the leader of a view enables operations
	Digest                      // a member's digest of the application's state at a version
	Forwarded                   // a command that a handler of an object sent, which a member of both relays
	Handed                      // a destination got what handlers sent to it
	Reply                       // what a member answers to a command whose sender wants all replies
	Several                     // several records in one message
	Acknowledge                 // a client needs replies no more
	kinds
)

// headerBytes is the size of what every record begins with.
//
//	0  kind
//	1  bit 0: in a command whose sender wants the replies of all members; bits 1 to 7: 1 + the number of the shard that the record
//	   is for, or 0 in an object without shards
//	2  operation (Command, Client, Forwarded), 2 bytes
//	4  call: what the relay finds the waiting call by, 8 bytes
//	12 time of the relay's clock, 8 bytes
const headerBytes = 20

// sessionBytes is what a Client record has behind its header: session, number, acknowledged, 8
// bytes each.
const sessionBytes = 24

// Limits of what a record may say.
const (
	MaxOperations = 1 << 12         // of an object
	MaxIdentity   = 1 << 10         // bytes of a client's identity, and of the name of its account
	MaxTimeout    = 24 * 3600 * 1e9 // nanoseconds in which a session is not used; a longer timeout is one of this
)

// Limits of what sessions may take. One account may take half of what an object has for all.
const (
	MaxSessions     = 1 << 16  // of an object
	MaxKeptBytes    = 1 << 20  // of replies that a session has not acknowledged: with more only its next number is executed. A longer reply is not kept
	MaxReplies      = 1 << 20  // of an object that are not acknowledged: with as many only the next number of each session is executed
	MaxRepliesBytes = 64 << 20 // of the replies that an object keeps: further ones are not kept
	MaxEncodedBytes = 1 << 30  // of an encoded machine
)

var order = binary.LittleEndian

// errShort is the fault of a record that ends early.
var errShort = errors.New("the record ends early")

// Header is what every record begins with.
type Header struct {
	Kind      Kind
	Operation int
	Call      uint64
	Time      uint64 // nanoseconds since the Unix epoch
	Replies   bool   // the sender of the command wants the replies of all members
	Shard     int    // 1 + the number of the shard that the record is for; 0 in an object without shards
}

func (h Header) append(b []byte) []byte {
	var head [headerBytes]byte
	h.put(&head)
	return append(b, head[:]...)
}

func (h *Header) put(head *[headerBytes]byte) {
	flags := byte(h.Shard) << 1
	if h.Replies {
		flags |= 1
	}
	head[0], head[1] = byte(h.Kind), flags
	order.PutUint16(head[2:], uint16(h.Operation))
	order.PutUint64(head[4:], h.Call)
	order.PutUint64(head[12:], h.Time)
}

// CommandBytes and ClientBytes are the sizes of the records of commands without arguments.
const (
	CommandBytes = headerBytes
	ClientBytes  = headerBytes + sessionBytes
)

// PutCommand writes the record of a member's command, up to its arguments, to head.
func PutCommand(head *[CommandBytes]byte, h *Header) {
	h.Kind = Command
	h.put(head)
}

// AppendCommand appends a member's command up to its arguments.
func AppendCommand(b []byte, h Header) []byte {
	h.Kind = Command
	return h.append(b)
}

// AppendClient appends a client's command up to its arguments.
func AppendClient(b []byte, h Header, session, number, acked uint64) []byte {
	h.Kind = Client
	b = h.append(b)
	b = order.AppendUint64(b, session)
	b = order.AppendUint64(b, number)
	return order.AppendUint64(b, acked)
}

// AppendOpen appends the opening of a session that ends when it is not used for timeout
// nanoseconds.
func AppendOpen(b []byte, h Header, token invoke.Token, timeout uint64, of invoke.Owner) []byte {
	h.Kind = Open
	b = h.append(b)
	b = append(b, token[:]...)
	b = order.AppendUint64(b, timeout)
	b = order.AppendUint16(b, uint16(len(of.Account)))
	return append(append(b, of.Account...), of.Identity...)
}

// AppendClose appends the end of a session.
func AppendClose(b []byte, h Header, session uint64) []byte {
	h.Kind = Close
	return order.AppendUint64(h.append(b), session)
}

// AppendAcknowledge appends that a session needs no reply of the numbers up to acked, nor of those
// after it whose bit in ended is set: bit i, of byte i/8, stands for the number acked+1+i.
func AppendAcknowledge(b []byte, h Header, session, acked uint64, ended []byte) []byte {
	h.Kind = Acknowledge
	return append(order.AppendUint64(order.AppendUint64(h.append(b), session), acked), ended...)
}

// AppendTouch appends the record that keeps sessions from expiring.
func AppendTouch(b []byte, h Header, sessions []uint64) []byte {
	h.Kind = Touch
	b = h.append(b)
	for _, s := range sessions {
		b = order.AppendUint64(b, s)
	}
	return b
}

// AppendKnows appends the announcement of what its sender can execute.
func AppendKnows(b []byte, h Header, incarnation uint64, names []string) []byte {
	h.Kind = Knows
	return appendNames(order.AppendUint64(h.append(b), incarnation), names)
}

// AppendEnable appends the enabling of operations that all members of a view know.
func AppendEnable(b []byte, h Header, view uint64, names []string) []byte {
	h.Kind = Enable
	return appendNames(order.AppendUint64(h.append(b), view), names)
}

// AppendDigest appends a digest of the state after the count-th executed command. With a count of 0
// it is a wish that every member hashes its state at this record, and digest is the number of the
// wish at its sender.
func AppendDigest(b []byte, h Header, count, digest uint64) []byte {
	h.Kind = Digest
	return order.AppendUint64(order.AppendUint64(h.append(b), count), digest)
}

// AppendForwarded appends, up to its arguments, a command that a handler of an object sent. Before
// is the cursor of the one that is executed before it; it is zero if a record of the object said
// that all earlier ones were.
func AppendForwarded(b []byte, h Header, source string, before, at invoke.Cursor) []byte {
	h.Kind = Forwarded
	return appendCursor(appendCursor(appendName(h.append(b), source), before), at)
}

// AppendHanded appends that everything up to a cursor was handed over to a destination.
func AppendHanded(b []byte, h Header, to Destination, upTo invoke.Cursor) []byte {
	h.Kind = Handed
	return appendCursor(appendDestination(h.append(b), to), upTo)
}

func appendName(b []byte, name string) []byte { return append(append(b, byte(len(name))), name...) }

func appendNames(b []byte, names []string) []byte {
	b = order.AppendUint16(b, uint16(len(names)))
	for _, n := range names {
		b = appendName(b, n)
	}
	return b
}

// replyBytes is what a Reply record has behind its header: the node that wants it, 8 bytes, and how
// the member answered.
const replyBytes = 8 + 1

// AppendReply appends the reply of a member to the command of a node. The header has the call.
func AppendReply(b []byte, h Header, to uint64, said invoke.Answered, reply []byte) []byte {
	h.Kind = Reply
	return append(append(order.AppendUint64(h.append(b), to), byte(said)), reply...)
}

// RefuseReply makes a Reply record one with an error in place of its reply.
func RefuseReply(record []byte, text string) []byte {
	record = record[:headerBytes+replyBytes]
	record[headerBytes+8] = byte(invoke.Refused)
	return append(record, text...)
}

// ParseReply takes a Reply record apart. It reports false for any other one.
func ParseReply(data []byte) (to, call uint64, said invoke.Answered, reply []byte, ok bool) {
	var h Header
	if err := parse(data, &h); err != nil || h.Kind != Reply || len(data) < headerBytes+replyBytes {
		return 0, 0, 0, nil, false
	}
	rest := data[headerBytes:]
	said = invoke.Answered(rest[8])
	return order.Uint64(rest), h.Call, said, rest[replyBytes:], said == invoke.Returned || said == invoke.Refused
}

// reader takes a record apart. What comes from the wire or a disk is checked here.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || len(r.b) < n {
		if r.err == nil {
			r.err = errShort
		}
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return order.Uint64(b)
	}
	return 0
}

func (r *reader) uint16() int {
	if b := r.take(2); b != nil {
		return int(order.Uint16(b))
	}
	return 0
}

func (r *reader) names() (names []string) {
	n := r.uint16()
	if n > MaxOperations {
		r.err = fmt.Errorf("%d operations, at most %d are allowed", n, MaxOperations)
	}
	for i := 0; i < n && r.err == nil; i++ {
		names = append(names, r.name())
	}
	return names
}

func (r *reader) name() string {
	if b := r.take(1); b != nil {
		return string(r.take(int(b[0])))
	}
	return ""
}

// fail notes the first fault.
func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// SeveralBytes is what a message of several records has in front of them, and PartBytes what each
// has in front of it: its length.
const (
	SeveralBytes = headerBytes
	PartBytes    = 4
)

// AppendSeveral appends what several records have in front of them. Their times are 0: that of the
// header, which Stamp sets, is the time of each.
func AppendSeveral(b []byte) []byte { return Header{Kind: Several}.append(b) }

// AppendPart appends one of several records, which is head and tail together.
func AppendPart(b, head, tail []byte) []byte {
	b = order.AppendUint32(b, uint32(len(head)+len(tail)))
	return append(append(b, head...), tail...)
}

// SetCall sets the call of a record.
func SetCall(record []byte, call uint64) { order.PutUint64(record[4:], call) }

// Stamp sets the time of a record.
func Stamp(record []byte, time uint64) { order.PutUint64(record[12:], time) }

// Records are the records of one message, in their order.
type Records struct {
	Time uint64 // of all of them, if there are several; else 0
	rest []byte
	more bool // rest is one record, which has no length in front
}

// Split returns the records of a message. A message that says that it is several records, and is
// not as it should be, is one record, which no machine executes.
func Split(message []byte) Records {
	if len(message) == 0 || Kind(message[0]) != Several || !several(message) {
		return Records{rest: message, more: true}
	}
	return Records{Time: order.Uint64(message[12:]), rest: message[headerBytes:]}
}

// several reports whether a message is one record or more, with nothing between them and none of
// them several ones.
func several(message []byte) bool {
	at := headerBytes
	for at+PartBytes+headerBytes <= len(message) {
		n := int(order.Uint32(message[at:]))
		if n < headerBytes || n > len(message)-PartBytes-at || Kind(message[at+PartBytes]) == Several {
			return false
		}
		at += PartBytes + n
	}
	return at == len(message) && at > headerBytes
}

// Next returns the next record, or false if there is none.
func (r *Records) Next() (record []byte, ok bool) {
	if r.more {
		record, r.rest, r.more = r.rest, nil, false
		return record, true
	}
	if len(r.rest) == 0 {
		return nil, false
	}
	n := PartBytes + int(order.Uint32(r.rest))
	record, r.rest = r.rest[PartBytes:n:n], r.rest[n:]
	return record, true
}

// More reports whether a message of several records has records left.
func (r *Records) More() bool { return len(r.rest) > 0 && !r.more }

// Call returns what the relay of a record finds the waiting call by, or 0.
func Call(data []byte) uint64 {
	if len(data) < headerBytes {
		return 0
	}
	return order.Uint64(data[4:])
}

// ClientOf returns the number of a client's command, if a record is one.
func ClientOf(data []byte) (session, number uint64, ok bool) {
	if len(data) < ClientBytes || Kind(data[0]) != Client {
		return 0, 0, false
	}
	return order.Uint64(data[headerBytes:]), order.Uint64(data[headerBytes+8:]), true
}

// ForwardedOf returns which command of a handler a record is for, if it is for one.
func ForwardedOf(data []byte) (origin string, ok bool) {
	if len(data) < headerBytes || Kind(data[0]) != Forwarded {
		return "", false
	}
	rest := reader{b: data[headerBytes:]}
	name, _, at := rest.name(), rest.cursor(), rest.cursor()
	return fmt.Sprint(name, at), rest.err == nil
}

// parse reads a record's header into h, whatever h was before.
func parse(data []byte, h *Header) error {
	if len(data) < headerBytes {
		*h = Header{}
		return errShort
	}
	h.read(data)
	if !h.valid() {
		return fmt.Errorf("a record of the unknown kind %d", h.Kind)
	}
	return nil
}

// read reads the header of a record that is long enough to have one.
func (h *Header) read(data []byte) {
	_ = data[headerBytes-1]
	h.Kind, h.Replies, h.Shard = Kind(data[0]), data[1]&1 == 1, int(data[1]>>1)
	h.Operation, h.Call, h.Time = int(order.Uint16(data[2:])), order.Uint64(data[4:]), order.Uint64(data[12:])
}

func (h *Header) valid() bool {
	return h.Kind-1 < kinds-1 && h.Kind != Several && h.Shard <= invoke.MaxShards && (!h.Replies || h.Kind <= Client)
}
