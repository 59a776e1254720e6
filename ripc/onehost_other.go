//go:build !linux

package ripc

import (
	"context"
	"errors"
	"fmt"
)

// OneHost finds services on this host. It needs Linux: elsewhere it finds none, and services are
// registered with it in vain.
func OneHost(domain string) Resolver { return oneHost{domain} }

type oneHost struct{ domain string }

// Resolve implements Resolver.
func (o oneHost) Resolve(_ context.Context, id ID) (Place, error) {
	return Place{}, fmt.Errorf("%w: %s: finding services on one host needs Linux: %w", ErrNoService, id, errors.ErrUnsupported)
}

// Publish implements Resolver.
func (o oneHost) Publish(context.Context, ID, Place) (func() error, error) {
	return func() error { return nil }, nil
}
