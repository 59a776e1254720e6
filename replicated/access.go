package replicated

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/squall-go/squall/replicated/internal/relay"
	"github.com/squall-go/squall/ripc"
)

// ErrDenied is returned to a client that may not do what it asks for.
var ErrDenied = errors.New("not allowed")

// Action is what a client asks for.
type Action uint8

// What a client asks for.
const (
	OpenSession Action = iota + 1 // before its first command
	CallCommand
	CallQuery
	WatchEvents
	DescribeObject // Client.Objects, which leaves out the objects that the client may not know of
	EnableObject   // Client.EnableOperations
)

func (a Action) String() string {
	switch a {
	case OpenSession:
		return "open a session"
	case CallCommand:
		return "call the command"
	case CallQuery:
		return "call the query"
	case WatchEvents:
		return "watch the events"
	case DescribeObject:
		return "have a description"
	case EnableObject:
		return "enable operations"
	}
	return fmt.Sprintf("action %d", uint8(a))
}

// Access is what a client asks for, as ServerConfig.Authorize decides it.
type Access struct {
	Peer   ripc.Peer // the client, as its connection proves: under mutual TLS its Identity
	Action Action
	Object string
	// Name is that of the command or the query, or the prefix of the events' topics. It is empty for OpenSession, DescribeObject and EnableObject.
	Name string
}

// AccessError says that a client may not do something. It is an ErrDenied.
type AccessError struct {
	Identity string // of the client
	Action   Action
	Object   string
	Name     string
	Reason   string
}

func (e *AccessError) Error() string {
	what := e.Action.String()
	if e.Name != "" {
		what = fmt.Sprintf("%s %q", what, e.Name)
	}
	return fmt.Sprintf("replicated: object %q: %q may not %s: %s", e.Object, e.Identity, what, e.Reason)
}

// Is makes it an ErrDenied.
func (e *AccessError) Is(target error) bool { return target == ErrDenied }

// On the wire an AccessError is its action, and four texts with their lengths, 4 bytes each.
func (e *AccessError) appendTo(b []byte) []byte {
	b = append(b, byte(e.Action))
	for _, s := range [...]string{e.Identity, e.Object, e.Name, e.Reason} {
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	return b
}

func parseDenied(b []byte) error {
	if len(b) == 0 {
		return errMalformed
	}
	e := &AccessError{Action: Action(b[0])}
	b = b[1:]
	for _, s := range [...]*string{&e.Identity, &e.Object, &e.Name, &e.Reason} {
		if len(b) < 4 || uint64(len(b)-4) < uint64(binary.LittleEndian.Uint32(b)) {
			return errMalformed
		}
		n := 4 + int(binary.LittleEndian.Uint32(b))
		*s, b = string(b[4:n]), b[n:]
	}
	return e
}

// allow asks the application whether a client may have what it asks for. Closing and keeping a session need nothing but
// the session.
func (d *desk) allow(m *ripc.Message, r *relay.Request) error {
	if d.authorize == nil {
		return nil
	}
	a := Access{Peer: m.Peer(), Object: d.object.sg.Name}
	switch r.Ask {
	case askOpen:
		a.Action = OpenSession
	case askCommand, askReplies:
		a.Action, a.Name = CallCommand, string(r.Name)
	case askQuery:
		a.Action, a.Name = CallQuery, string(r.Name)
	case askWatch:
		a.Action = WatchEvents
		if len(r.Rest) > watchHead {
			a.Name = string(r.Rest[watchHead:])
		}
	case askNow:
		a.Action = WatchEvents
	case askDescribe:
		a.Action = DescribeObject
	case relay.Enable:
		a.Action = EnableObject
	default:
		return nil
	}
	if err := d.authorize(a); err != nil {
		return &AccessError{Identity: a.Peer.Identity, Action: a.Action, Object: a.Object, Name: a.Name, Reason: err.Error()}
	}
	return nil
}

// owns reports whether this member knows the session of a request, and fails if it is another client's.
func (d *desk) owns(m *ripc.Message, r *relay.Request) (known bool, err error) {
	d.object.mu.RLock()
	owner, known := d.object.machine.Identity(r.Session)
	d.object.mu.RUnlock()
	if known && owner != m.Identity() {
		return true, &AccessError{
			Identity: m.Identity(), Action: OpenSession, Object: d.object.sg.Name, Reason: "the session belongs to another client",
		}
	}
	return known, nil
}
