package ripc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/squall-go/squall/fabric/port"
)

// ports are the sockets at which other endpoints dial this one.
type ports struct {
	tcp      *port.Port    // nil without TCP
	local    *localPort    // nil without shared memory
	greeting *gate         // for processes that are greeted over TCP
	refused  atomic.Uint64 // processes that were turned away
}

// place is where the sockets are.
func (p *ports) place() (at Place) {
	if p.local != nil {
		at.Host, at.Socket = p.local.host, p.local.name
	}
	if p.tcp != nil {
		at.Addr = p.tcp.Addr()
	}
	return at
}

// isHere reports whether a place can be reached over shared memory.
func (p *ports) isHere(at Place) bool {
	return p.local != nil && at.Socket != "" && at.Host == p.local.host
}

func (p *ports) close() (err error) {
	if p.local != nil {
		err = p.local.close()
	}
	if p.tcp != nil {
		err = errors.Join(err, p.tcp.Close())
	}
	return err
}

// listen opens the sockets.
func (e *Endpoint) listen(ctx context.Context) (err error) {
	if e.cfg.Transport != TransportTCP {
		e.ports.local, err = listenLocal(e)
		if err != nil && (e.cfg.Transport == TransportSHM || !errors.Is(err, errors.ErrUnsupported)) {
			return err
		}
	}
	if e.cfg.Listen == "" || e.cfg.Transport == TransportSHM {
		return nil
	}
	e.ports.tcp, err = port.Open(ctx, port.Config{
		Addr: e.cfg.Listen, Advertise: e.cfg.Advertise, TLS: e.cfg.TLS,
		OnReject: func(r port.Rejection) { e.cfg.OnReject(fmt.Errorf("ripc: %s: %w", r.Remote, r.Err)) },
	})
	if err == nil {
		e.ports.tcp.Handle(port.KindServices, e.acceptTCP)
	}
	return err
}
