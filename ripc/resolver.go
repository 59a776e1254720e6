package ripc

import (
	"context"
	"fmt"
)

// Place is where an endpoint is. It is what a resolver knows of a service.
type Place struct {
	Incarnation string `json:"incarnation,omitempty"` // of the endpoint; empty if any process there will do
	Host        string `json:"host,omitempty"`        // equal for processes that can share memory
	Socket      string `json:"socket,omitempty"`      // where processes of that host connect
	Addr        string `json:"addr,omitempty"`        // host:port for TCP
}

// Resolver finds out where services are. Its methods are called from several goroutines.
type Resolver interface {
	// Resolve returns the place of a service, or an ErrNoService.
	Resolve(ctx context.Context, id ID) (Place, error)
	// Publish says that a service is at a place from now on, until withdraw is called.
	Publish(ctx context.Context, id ID, at Place) (withdraw func() error, err error)
}

// Forgetter is a Resolver that keeps what it found. Forget tells it that a service was not at a
// place which it had returned.
type Forgetter interface {
	Resolver
	Forget(id ID, at Place)
}

// Static is a resolver that knows a fixed set of services. It is not changed after it is in use.
type Static map[ID]Place

// Resolve implements Resolver.
func (s Static) Resolve(_ context.Context, id ID) (Place, error) {
	if p, ok := s[id]; ok {
		return p, nil
	}
	return Place{}, fmt.Errorf("%w: %s is not in the list", ErrNoService, id)
}

// Publish implements Resolver. It does nothing: the list is fixed.
func (s Static) Publish(context.Context, ID, Place) (func() error, error) {
	return func() error { return nil }, nil
}
