package member

import (
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/ripc"
)

// Access is what a client asks for, as ServerConfig.Authorize decides it.
type Access struct {
	Peer   ripc.Peer // the client, as its connection proves: under mutual TLS its Identity
	Action replicated.Action
	Object string
	// Name is that of the command or the query, or the prefix of the events' topics. It is empty for
	// OpenSession, DescribeObject and EnableObject.
	Name string
}

// allow asks the application whether a client may have what it asks for. Closing and keeping a
// session need nothing but the session.
func (d *desk) allow(m *ripc.Message, r *client.Request) error {
	if d.authorize == nil {
		return nil
	}
	a := Access{Peer: m.Peer(), Object: d.object.sg.Name}
	switch r.Ask {
	case client.Open:
		a.Action = replicated.OpenSession
	case client.Command, client.Replies:
		a.Action, a.Name = replicated.CallCommand, string(r.Name)
	case client.Query:
		a.Action, a.Name = replicated.CallQuery, string(r.Name)
	case client.Watch:
		a.Action = replicated.WatchEvents
		if len(r.Rest) > client.WatchHead {
			a.Name = string(r.Rest[client.WatchHead:])
		}
	case client.Now:
		a.Action = replicated.WatchEvents
	case client.Describe:
		a.Action = replicated.DescribeObject
	case client.Enable:
		a.Action = replicated.EnableObject
	default:
		return nil
	}
	if err := d.authorize(a); err != nil {
		return &replicated.AccessError{Identity: a.Peer.Identity, Action: a.Action, Object: a.Object, Name: a.Name, Reason: err.Error()}
	}
	return nil
}

// owns reports whether this member knows the session of a request, and fails if it is another
// client's.
func (d *desk) owns(m *ripc.Message, r *client.Request) (known bool, err error) {
	d.object.mu.RLock()
	owner, known := d.object.machine.Identity(r.Session)
	d.object.mu.RUnlock()
	if known && owner != m.Identity() {
		return true, &replicated.AccessError{
			Identity: m.Identity(), Action: replicated.OpenSession, Object: d.object.sg.Name, Reason: "the session belongs to another client",
		}
	}
	return known, nil
}
