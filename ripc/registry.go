package ripc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// registry has the services of an endpoint. The endpoint's mu guards it.
type registry struct {
	byID map[ID]*Service // that are not closed
	all  []*Service      // that are not closed, or still handle messages, by number
	last uint32          // number of the last one
}

func (r *registry) enter(s *Service) {
	r.byID[s.id] = s
	r.all, r.last = append(r.all, s), s.number
}

// byNumber is the service with a number, or nil.
func (r *registry) byNumber(n uint32) *Service {
	i, found := slices.BinarySearchFunc(r.all, n, func(s *Service, n uint32) int { return cmp.Compare(s.number, n) })
	if !found {
		return nil
	}
	return r.all[i]
}

// leaving finds a service that has given its name back and still has streams.
func (r *registry) leaving(id ID, number uint32) *Service {
	for _, s := range slices.Backward(r.all) {
		if (s.id == id && number == 0 || s.number == number) && !s.ended {
			return s
		}
	}
	return nil
}

// forget removes a service that is closed and handles nothing any more.
func (r *registry) forget(s *Service) {
	if i := slices.Index(r.all, s); i >= 0 {
		r.all = slices.Delete(r.all, i, i+1)
	}
}

// Register makes a service of this endpoint. A service with an empty id cannot be found by name:
// only the services that it sends to can address it. Register publishes any other id at the
// resolver, which may refuse it.
func (e *Endpoint) Register(ctx context.Context, id ID) (*Service, error) {
	return e.register(ctx, id, e.cfg.Resolver.Publish)
}

// register makes a service and publishes it.
func (e *Endpoint) register(ctx context.Context, id ID, publish func(context.Context, ID, Place) (func() error, error)) (*Service, error) {
	if len(id) > maxID {
		return nil, fmt.Errorf("ripc: an id of %d bytes, the limit is %d", len(id), maxID)
	}
	s, err := e.enter(id)
	if err != nil || id == "" {
		return s, err
	}
	withdraw, err := publish(ctx, id, e.Place())
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("ripc: registering %s: %w", id, err)
	}
	e.lock()
	late := s.closed
	s.withdraw = withdraw
	e.unlock()
	if late {
		return nil, errors.Join(fmt.Errorf("ripc: %s: %w", id, ErrClosed), withdraw())
	}
	return s, nil
}

// enter puts a service on the list.
func (e *Endpoint) enter(id ID) (*Service, error) {
	e.lock()
	defer e.unlock()
	number := e.services.last + 1
	if id == "" {
		id = ID(fmt.Sprintf("%s/%d", e.incarnation, number))
	}
	switch {
	case e.closing:
		return nil, fmt.Errorf("ripc: %w", ErrClosed)
	case e.services.byID[id] != nil:
		return nil, fmt.Errorf("ripc: %s is registered here already", id)
	case len(e.services.byID) >= MaxServices:
		return nil, fmt.Errorf("ripc: %w: %d services", ErrLimit, MaxServices)
	}
	s := &Service{e: e, id: id, number: number, remotes: remotes{byID: map[ID][]*Remote{}}}
	s.open, s.shut = context.WithCancelCause(context.Background())
	if e.cfg.Long.MaxBytes > 0 || e.cfg.Long.Allocate != nil {
		s.long.follow(e.cfg.Long)
	}
	e.services.enter(s)
	return s, nil
}
