package client

import (
	"bytes"

	"github.com/squall-go/squall/replicated/internal/invoke"
)

// replyHead is the size of a reply without its data.
const replyHead = 8 + 1 + 4

// AppendReply appends the number of the member, 8 bytes, how it answered, 1 byte, the length of the
// reply, 4 bytes, and the reply.
func AppendReply(b []byte, r *invoke.Reply) []byte {
	b = append(order.AppendUint64(b, r.Member), byte(r.Said))
	return append(order.AppendUint32(b, uint32(len(r.Data))), r.Data...)
}

// ParseReplies takes an answer with replies apart. The replies do not refer to it.
func ParseReplies(b []byte) (all []invoke.Reply, err error) {
	for len(b) > 0 {
		if len(b) < replyHead || uint64(len(b)-replyHead) < uint64(order.Uint32(b[9:])) {
			return nil, ErrMalformed
		}
		n := replyHead + int(order.Uint32(b[9:]))
		all = append(all, invoke.Reply{Member: order.Uint64(b), Said: invoke.Answered(b[8]), Data: bytes.Clone(b[replyHead:n])})
		b = b[n:]
	}
	return all, nil
}

// Refused is what a client may not do, and why.
type Refused struct {
	Action                         byte
	Identity, Object, Name, Reason string
}

// AppendTo appends the action, and four texts with their lengths, 4 bytes each.
func (e *Refused) AppendTo(b []byte) []byte {
	b = append(b, e.Action)
	for _, s := range [...]string{e.Identity, e.Object, e.Name, e.Reason} {
		b = append(order.AppendUint32(b, uint32(len(s))), s...)
	}
	return b
}

// ParseRefused takes the text of an answer that is Denied apart.
func ParseRefused(b []byte) (e Refused, err error) {
	if len(b) == 0 {
		return e, ErrMalformed
	}
	e.Action, b = b[0], b[1:]
	for _, s := range [...]*string{&e.Identity, &e.Object, &e.Name, &e.Reason} {
		if len(b) < 4 || uint64(len(b)-4) < uint64(order.Uint32(b)) {
			return e, ErrMalformed
		}
		n := 4 + int(order.Uint32(b))
		*s, b = string(b[4:n]), b[n:]
	}
	return e, nil
}
