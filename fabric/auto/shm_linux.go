package auto

import (
	"context"
	"errors"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/fabric/shm"
	"github.com/squall-go/squall/order"
)

// sharer is the shared-memory side of a node; its zero value offers none.
type sharer struct{ conn *shm.Connector }

func hostID() string { return shm.Host() }

func (s *sharer) listen(reject func(port.Rejection)) error {
	if hostID() == "" {
		return errors.New("cannot tell this host from others (/proc is not readable)")
	}
	var err error
	s.conn, err = shm.NewConnector(reject)
	return err
}

func (s *sharer) name() string {
	if s.conn == nil {
		return ""
	}
	return s.conn.Name()
}

func (s *sharer) close() error {
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}

func (s *sharer) ownRow(shared bool, n int) (row, func() error, error) {
	if !shared {
		return heapRow(n)
	}
	mem, fd, release, err := shm.NewRow(n)
	return row{mem, fd}, release, err
}

func (s *sharer) connect(ctx context.Context, spec *fabric.Spec, peers []order.Rank, own row, links []fabric.Link, try func(func() error)) {
	dialEach(spec.Self, peers, func(r order.Rank) {
		try(func() error {
			l, err := s.conn.Dial(ctx, spec, r, own.fd)
			return keep(links, r, l, err)
		})
	})
	if want := above(spec.Self, peers); len(want) > 0 {
		try(func() error { return s.conn.Await(ctx, spec, want, own.fd, links) })
	}
}
