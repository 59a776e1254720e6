//go:build !linux

package ripc

import (
	"context"
	"errors"
)

// localPort is where processes of this host connect. It needs Linux.
type localPort struct{ host, name string }

func listenLocal(*Endpoint) (*localPort, error) { return nil, errors.ErrUnsupported }

func (p *localPort) close() error { return nil }

func (p *localPort) dial(context.Context, Place) (*peer, error) { return nil, errors.ErrUnsupported }
