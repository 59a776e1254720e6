package relay

import (
	"encoding/binary"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// Confirms reports whether the request is answered only after a confirmation: the member has
// executed by then what any member had when the request came.
func Confirms(r *client.Request) bool {
	if mutant.Enabled && mutant.On(mutant.ReadUnconfirmed) {
		return false
	}
	return r.Ask == client.Now || r.Ask == client.Query && r.Consistency == byte(invoke.Linearizable)
}

// Ordered reports whether a record is ordered for the request.
func Ordered(r *client.Request) bool {
	return r.Ask == client.Open || r.Ask == client.Command || r.Ask == client.Replies || r.Ask == client.Close || r.Ask == client.Forward || r.Ask == client.Acknowledge
}

// AppendRecord appends the record of a request that is ordered. The header has the call, the time
// and, of a command, the number of the operation.
func AppendRecord(b []byte, r *client.Request, h machine.Header) []byte {
	switch r.Ask {
	case client.Open:
		return machine.AppendOpen(b, h, r.Token, r.Timeout, r.Owner)
	case client.Close:
		return machine.AppendClose(b, h, r.Session)
	case client.Acknowledge:
		return machine.AppendAcknowledge(b, h, r.Session, r.Acked, r.Rest)
	case client.Forward:
		source, before, at := r.Forwarded()
		return append(machine.AppendForwarded(b, h, source, before, at), r.Args...)
	}
	return append(machine.AppendClient(b, h, r.Session, r.Number, r.Acked), r.Args...)
}

// AppendResult appends the answer to a request whose record was applied at a place of the order.
// Session is that of a record that opened one.
func AppendResult(b []byte, view, seq uint64, status invoke.Status, session uint64, reply []byte) []byte {
	a := client.Answer{Said: client.Done, View: view, Seq: seq, Text: reply}
	switch status {
	case invoke.Done, invoke.Again:
	case invoke.Failed, invoke.AgainFail:
		a.Said = client.Failed
	case invoke.NotThere:
		a.Said = client.Ended
	case invoke.Disabled:
		a.Said = client.Unknown
	case invoke.Elsewhere:
		a.Said, a.Text = client.Away, []byte(status.String())
	case invoke.NotKept:
		a.Said = client.Cut
	case invoke.Crowded:
		a.Said = client.Crowded
	case invoke.Full:
		a.Said = client.Full
	default:
		a.Said, a.Text = client.Else, []byte(status.String())
	}
	b = a.AppendTo(b)
	if a.Said == client.Done && session != 0 {
		return binary.LittleEndian.AppendUint64(b[:len(b)-len(reply)], session)
	}
	return b
}
