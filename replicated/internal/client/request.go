package client

import (
	"encoding/binary"
	"errors"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// Ask is the kind of a request. docs/formats.md has the layout of each.
type Ask byte

// Kinds of requests.
const (
	Open        Ask = iota + 1 // token, timeout
	Command                    // session, number, acknowledged, name, arguments
	Query                      // consistency, of the past a moment, name, arguments
	Close                      // session
	Touch                      // session
	Watch                      // cursor, milliseconds to wait, prefix of topics
	Now                        // nothing
	Replies                    // as Command, and how many replies are wanted
	Describe                   // nothing
	Locate                     // nothing: which members have which shard
	Forward                    // proof, what a handler sent: cursors of the one before it and of its own, source, name, arguments
	Enable                     // name of the object, and as arguments its cluster or nothing: enable what all members have
	Group                      // name of the cluster
	Acknowledge                // session, acknowledged, bits of later numbers whose replies are not needed any more
)

// ErrMalformed says that a request cannot be read.
var ErrMalformed = errors.New("malformed request")

// Request is what a client asks of a member. It refers to the bytes that it was parsed from.
type Request struct {
	Ask         Ask
	Session     uint64
	Number      uint64 // of a command in its session
	Acked       uint64
	Token       invoke.Token
	Timeout     uint64                     // of a session, in nanoseconds
	Owner       invoke.Owner               // the client that opens a session; the member knows it, the request does not say it
	Consistency byte                       // of a query
	At          struct{ View, Seq uint64 } // of a query about the past: the version; or the time, in place of View
	Count       uint16                     // of replies that are wanted; 0: of all members
	Name        []byte                     // of the operation
	Args        []byte
	Rest        []byte // of Watch and Group, of Acknowledge the bits, and of Forward what comes before the name
}

var order = binary.LittleEndian

func (r *Request) open(b []byte) error {
	if len(b) != invoke.TokenBytes+8 {
		return ErrMalformed
	}
	r.Token, r.Timeout = invoke.Token(b[:invoke.TokenBytes]), order.Uint64(b[invoke.TokenBytes:])
	if r.Timeout == 0 {
		return ErrMalformed
	}
	return nil
}

func (r *Request) command(b []byte) error {
	if len(b) < 3*8 {
		return ErrMalformed
	}
	r.Session, r.Number, r.Acked = order.Uint64(b), order.Uint64(b[8:]), order.Uint64(b[16:])
	return r.operation(b[3*8:])
}

// Parse takes a request apart.
func Parse(data []byte) (r Request, err error) {
	if len(data) == 0 {
		return r, ErrMalformed
	}
	r.Ask = Ask(data[0])
	b := data[1:]
	switch r.Ask {
	case Open:
		return r, r.open(b)
	case Replies:
		if len(b) < 2 {
			return r, ErrMalformed
		}
		r.Count = order.Uint16(b)
		return r, r.command(b[2:])
	case Command:
		return r, r.command(b)
	case Query:
		return r, r.query(b)
	case Close, Touch:
		if len(b) != 8 {
			return r, ErrMalformed
		}
		r.Session = order.Uint64(b)
	case Acknowledge:
		if len(b) < 2*8 || len(b) > 2*8+invoke.EndedBytes {
			return r, ErrMalformed
		}
		r.Session, r.Acked, r.Rest = order.Uint64(b), order.Uint64(b[8:]), b[2*8:]
	case Forward:
		return r, r.forward(b)
	case Watch, Group:
		r.Rest = b
	case Now:
	case Enable:
		return r, r.operation(b)
	case Describe, Locate:
		if len(b) != 0 {
			return r, ErrMalformed
		}
	default:
		return r, ErrMalformed
	}
	return r, nil
}

// query takes what follows the kind of a Query apart.
func (r *Request) query(b []byte) error {
	if len(b) == 0 {
		return ErrMalformed
	}
	r.Consistency, b = b[0], b[1:]
	if r.Past() {
		if len(b) < 2*8 {
			return ErrMalformed
		}
		r.At.View, r.At.Seq, b = order.Uint64(b), order.Uint64(b[8:]), b[2*8:]
	}
	return r.operation(b)
}

// forward takes what follows the kind of a Forward apart.
func (r *Request) forward(b []byte) error {
	n := ForwardBytes
	if len(b) < n || len(b) < n+int(b[n-1]) {
		return ErrMalformed
	}
	n += int(b[n-1])
	r.Rest = b[:n]
	return r.operation(b[n:])
}

// operation takes a name and arguments apart.
func (r *Request) operation(b []byte) error {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return ErrMalformed
	}
	r.Name, r.Args = b[1:1+int(b[0])], b[1+int(b[0]):]
	return nil
}

// AppendTo appends the request as a client sends it.
func (r *Request) AppendTo(b []byte) []byte {
	b = append(b, byte(r.Ask))
	switch r.Ask {
	case Open:
		b = order.AppendUint64(append(b, r.Token[:]...), r.Timeout)
	case Replies:
		b = order.AppendUint16(b, r.Count)
		fallthrough
	case Command:
		for _, v := range [...]uint64{r.Session, r.Number, r.Acked} {
			b = order.AppendUint64(b, v)
		}
	case Query:
		b = append(b, r.Consistency)
		if r.Past() {
			b = order.AppendUint64(order.AppendUint64(b, r.At.View), r.At.Seq)
		}
	case Close, Touch:
		b = order.AppendUint64(b, r.Session)
	case Acknowledge:
		b = append(order.AppendUint64(order.AppendUint64(b, r.Session), r.Acked), r.Rest...)
	case Watch, Forward, Group:
		b = append(b, r.Rest...)
	}
	if r.Ask == Command || r.Ask == Query || r.Ask == Replies || r.Ask == Forward || r.Ask == Enable {
		b = append(append(append(b, byte(len(r.Name))), r.Name...), r.Args...)
	}
	return b
}

// SetAcked sets the acknowledged number of a Command or Replies request that is sent again.
func SetAcked(request []byte, acked uint64) {
	at := 1 + 2*8
	if Ask(request[0]) == Replies {
		at += 2
	}
	order.PutUint64(request[at:], acked)
}

// What a query about the past has in place of an invoke.Consistency.
const (
	AtVersion = 2
	AtTime    = 3
)

// Past reports whether the request is a query about the past.
func (r *Request) Past() bool {
	return r.Ask == Query && (r.Consistency == AtVersion || r.Consistency == AtTime)
}

// ProofBytes is the size of the proof that a request comes from a member of the group.
const ProofBytes = 32

// ForwardBytes is what a Forward request has before the name of its source: proof, two cursors,
// length of the name.
const ForwardBytes = ProofBytes + 2*cursorBytes + 1

const cursorBytes = 3 * 8

// AppendForward appends what Rest of a Forward request is, but for its proof, for which it leaves
// space: which object's handler sent the command, when, and when it sent the one before.
func AppendForward(b []byte, source string, before, at invoke.Cursor) []byte {
	b = append(b, make([]byte, ProofBytes)...)
	for _, v := range [...]uint64{before.View, before.Seq, before.Index, at.View, at.Seq, at.Index} {
		b = order.AppendUint64(b, v)
	}
	return append(append(b, byte(len(source))), source...)
}

// Proof returns the proof of a Forward request to a service, and what it proves: everything else
// that the request says, and to which service.
func (r *Request) Proof(service string) (proof, text []byte) {
	text = append(order.AppendUint32(nil, uint32(len(service))), service...)
	if mutant.Enabled && mutant.On(mutant.ProofWithoutService) {
		text = nil
	}
	text = append(append(text, r.Rest[ProofBytes:]...), byte(len(r.Name)))
	return r.Rest[:ProofBytes], append(append(text, r.Name...), r.Args...)
}

// Forwarded takes Rest of a Forward request apart.
func (r *Request) Forwarded() (source string, before, at invoke.Cursor) {
	b := r.Rest[ProofBytes:]
	return string(b[2*cursorBytes+1:]), cursor(b), cursor(b[cursorBytes:])
}

func cursor(b []byte) invoke.Cursor {
	return invoke.Cursor{View: order.Uint64(b), Seq: order.Uint64(b[8:]), Index: order.Uint64(b[16:])}
}
