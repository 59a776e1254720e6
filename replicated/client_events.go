package replicated

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/ripc"
)

// ClientEvent is something that happened to a client: a value of one of the types of this package
// that are documented as events of clients, to be told apart by a type switch. String describes it
// in one line.
type ClientEvent interface {
	fmt.Stringer
	level() slog.Level
}

// MemberConnected is an event of a client: a member has answered it for the first time since the
// client chose it.
type MemberConnected struct {
	Addr   string // of the member's server
	Object string // that was called
}

func (e MemberConnected) String() string {
	return fmt.Sprintf("connected to the member at %s for object %q", e.Addr, e.Object)
}
func (MemberConnected) level() slog.Level { return slog.LevelInfo }

// MemberLost is an event of a client: it goes on with another member. Until a member has answered
// again there is one such event for each address, however often the client tries.
type MemberLost struct {
	Addr   string // of the member's server
	Object string // that was called
	Err    error  // why; ErrMemberTimeout if a call got no answer in time
}

func (e MemberLost) String() string {
	return fmt.Sprintf("left the member at %s, which was used for object %q: %v", e.Addr, e.Object, e.Err)
}
func (MemberLost) level() slog.Level { return slog.LevelWarn }

// SessionOpened is an event of a client: it has a session with an object.
type SessionOpened struct {
	Object  string
	Session uint64
}

func (e SessionOpened) String() string {
	return fmt.Sprintf("opened session %x with object %q", e.Session, e.Object)
}
func (SessionOpened) level() slog.Level { return slog.LevelDebug }

// SessionLost is an event of a client: its session has expired at the members, or was closed there.
// The next command opens another one.
type SessionLost struct {
	Object  string
	Session uint64
}

func (e SessionLost) String() string {
	return fmt.Sprintf("session %x with object %q has ended", e.Session, e.Object)
}
func (SessionLost) level() slog.Level { return slog.LevelWarn }

// CallRefused is an event of a client: the members do not let it do something. The call has the
// same error.
type CallRefused struct {
	Object string
	Err    error // an *AccessError
}

func (e CallRefused) String() string {
	return fmt.Sprintf("a call of object %q was refused: %v", e.Object, e.Err)
}
func (CallRefused) level() slog.Level { return slog.LevelWarn }

// ErrMemberTimeout is why a client leaves a member that did not answer a call within
// ClientConfig.MemberTimeout.
var ErrMemberTimeout = errors.New("a call got no answer within MemberTimeout")

// event implements asker: it logs an event, and gives it to the application. The caller holds no
// lock.
func (c *Client) event(e ClientEvent) {
	if c.cfg.Logger != nil {
		c.cfg.Logger.Log(context.Background(), e.level(), e.String(), "cluster", c.cfg.Cluster)
	}
	if c.cfg.Events != nil {
		c.cfg.Events(e)
	}
}

// answered notes that a member has answered on a link. It returns the event if there is one. The
// lock is held.
func (r *route) answered(link uint64, object string) (e ClientEvent) {
	if r.connected == link {
		return nil
	}
	r.connected = link
	clear(r.failed)
	return MemberConnected{Addr: r.Place(), Object: object}
}

// left notes that the member at an address is left. It returns the event if there is one. The lock
// is held.
func (r *route) left(addr, object string, why error) (e ClientEvent) {
	if r.failed[addr] {
		return nil
	}
	if r.failed == nil {
		r.failed = map[string]bool{}
	}
	r.failed[addr] = true
	return MemberLost{Addr: addr, Object: object, Err: why}
}

// absent asks a member which objects it serves, after none knew the object's service. It returns an
// error if the object is not among them: the member names its objects only when all are served.
func (c *Client) absent(ctx context.Context, o *remote) error {
	if o.whole != nil || o.id == client.Catalog {
		return nil
	}
	l, service, _, err := c.begin(o, 1, false)
	if err != nil {
		return nil
	}
	m, err := service.Call(ctx, service.To(client.Catalog), []byte{byte(client.Describe)})
	c.end(o, l, err)
	if err != nil {
		return nil
	}
	defer m.Release()
	data := m.Data
	if m.BodySize() > 0 {
		data = m.Body()
	}
	var all []ObjectInfo
	_, text, err := parseAnswer("objects", data)
	if err == nil {
		err = invoke.DecodeCBOR(text, &all, "description", "objects")
	}
	if err != nil && !errors.As(err, new(*AccessError)) {
		return nil
	}
	var names []string
	for _, i := range all {
		if i.Cluster == c.cfg.Cluster && i.Name == o.name {
			return nil
		}
		names = append(names, i.Cluster+"/"+i.Name)
	}
	return fmt.Errorf("replicated: %w: %q of cluster %q: the members serve %q", ErrNoObject, o.name, c.cfg.Cluster, names)
}

// hopeless is the error of a call for which no member can be reached until a configuration changes.
func hopeless(why error) error {
	if errors.Is(why, ErrOtherGroup) {
		return why
	}
	return fmt.Errorf("replicated: %w: %w", ErrUnreachable, why)
}

// unreached is the error of a call whose context ended while no member could be reached.
func unreached(cause, last error) error {
	if errors.Is(last, ripc.ErrUnreachable) || errors.Is(last, ripc.ErrNoService) || errors.Is(last, ripc.ErrRefused) || errors.Is(last, ripc.ErrClosed) || errors.Is(last, ripc.ErrPeerGone) {
		return fmt.Errorf("replicated: %w: %w: the attempt before: %w", ErrUnreachable, cause, last)
	}
	return fmt.Errorf("%w; the attempt before: %w", cause, last)
}
