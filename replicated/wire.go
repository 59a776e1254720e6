package replicated

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/ripc"
)

// What a client asks, and a member answers, in calls of package ripc. docs/formats.md has the layout.

// ask is the kind of a request.
type ask byte

const (
	askOpen    ask = iota + 1 // token, timeout
	askCommand                // session, number, acknowledged, name, arguments
	askQuery                  // consistency, name, arguments
	askClose                  // session
	askTouch                  // session
	askWatch                  // cursor, milliseconds to wait, prefix of topics
	askNow                    // nothing
)

// said is what a reply begins with.
type said byte

const (
	saidDone      said = iota + 1 // view, seq, reply; of askOpen the session
	saidFailed                    // view, seq, the text of the handler's error
	saidEnded                     // the session is over
	saidUnknown                   // the operation is not there: a text
	saidElse                      // another error: a text
	saidAway                      // this member cannot serve: ask another one
	saidCompacted                 // events behind the cursor are not kept any more
)

const (
	commandHead = 1 + 3*8
	answerHead  = 1 + 2*8
)

var errMalformed = errors.New("malformed request")

// service returns the id of the ripc service for an object.
func service(cluster, object string) ripc.ID {
	return ripc.ID("squall object\x00" + cluster + "\x00" + object)
}

// presence returns the name under which a member's endpoint can be found by processes of its host.
func presence(addr string) ripc.ID { return ripc.ID("squall objects\x00" + addr) }

func appendName(b []byte, name string) []byte { return append(append(b, byte(len(name))), name...) }

// cutName cuts a name off the front of a request.
func cutName(b []byte) (name, rest []byte, err error) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return nil, nil, errMalformed
	}
	return b[1 : 1+int(b[0])], b[1+int(b[0]):], nil
}

// appendOutcome appends the answer to a request whose record was applied.
func appendOutcome(b []byte, o *outcome) []byte {
	kind, text := saidDone, o.reply
	switch {
	case o.err != nil:
		kind, text = saidAway, []byte(o.err.Error())
	case o.status == machine.Failed || o.status == machine.AgainFail:
		kind = saidFailed
	case o.status == machine.NotThere:
		kind = saidEnded
	case o.status == machine.Disabled:
		kind = saidUnknown
	case o.status != machine.Done && o.status != machine.Again:
		kind, text = saidElse, []byte(o.status.String())
	}
	b = append(b, byte(kind))
	b = binary.LittleEndian.AppendUint64(b, uint64(o.version.View))
	b = binary.LittleEndian.AppendUint64(b, uint64(o.version.Seq))
	if o.session != 0 {
		return binary.LittleEndian.AppendUint64(b, o.session)
	}
	return append(b, text...)
}

// appendError appends the answer to a request that failed at this member.
func appendError(b []byte, err error) []byte {
	kind := saidElse
	var failed *HandlerError
	switch {
	case errors.As(err, &failed):
		kind = saidFailed
	case errors.Is(err, ErrUnknownOperation):
		kind = saidUnknown
	case errors.Is(err, errMalformed), errors.Is(err, squall.ErrTooLarge): // every member would say the same
	default:
		kind = saidAway
	}
	b = append(b, byte(kind))
	b = append(b, make([]byte, answerHead-1)...)
	return append(b, err.Error()...)
}

// parseAnswer takes an answer apart. It returns errAway if another member is to be asked.
func parseAnswer(name string, b []byte) (v squall.Version, reply []byte, err error) {
	if len(b) < answerHead {
		return v, nil, fmt.Errorf("replicated: an answer of %d bytes", len(b))
	}
	v.View = squall.ViewID(binary.LittleEndian.Uint64(b[1:]))
	v.Seq = squall.Seq(binary.LittleEndian.Uint64(b[9:]))
	reply = b[answerHead:]
	switch said(b[0]) {
	case saidDone:
		return v, reply, nil
	case saidFailed:
		return v, nil, &HandlerError{Operation: name, Text: string(reply)}
	case saidEnded:
		return v, nil, ErrSessionEnded
	case saidCompacted:
		return v, nil, fmt.Errorf("replicated: %w", ErrCompacted)
	case saidUnknown:
		return v, nil, fmt.Errorf("replicated: %w %q: %s", ErrUnknownOperation, name, reply)
	case saidAway:
		return v, nil, fmt.Errorf("%w: %s", errAway, reply)
	}
	return v, nil, fmt.Errorf("replicated: %s: %s", name, reply)
}

// errAway says that a member cannot serve a client now.
var errAway = errors.New("the member cannot serve")
