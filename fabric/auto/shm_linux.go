package auto

import (
	"context"
	"errors"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/shm"
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

func (s *sharer) absent() {
	if s.conn != nil {
		s.conn.Absent()
	}
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

func (s *sharer) connect(c *connecting, peers []order.Rank, own row) {
	c.dial(peers, func(ctx context.Context, r order.Rank) (fabric.Link, error) {
		return linkOrNil(s.conn.Dial(ctx, c.spec, r, own.fd))
	})
	c.await(peers, func(ctx context.Context, wants func(order.Rank) bool, up func(order.Rank, fabric.Link, error)) {
		s.conn.Await(ctx, c.spec, wants, own.fd, func(r order.Rank, l fabric.Link) { up(r, l, nil) })
	})
}
