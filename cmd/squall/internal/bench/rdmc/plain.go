package rdmc

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
)

// turns is a member's part in a run by plain TCP: the root sends the message to one receiver, waits
// for a byte that acknowledges it, and goes on to the next receiver.
type turns struct {
	*member
	conns []net.Conn // of the root: one per receiver; of a receiver: one
	data  []byte
	start instant
	done  instant
}

func (t *turns) prepare(ctx context.Context) (err error) {
	if t.data, err = t.buffers.get(0, t.task.Bytes); err != nil {
		return err
	}
	if !t.isRoot() {
		conn, err := t.accept()
		t.conns = append(t.conns, conn)
		return err
	}
	fill(t.data, t.task.seed(t.node-1))
	for i, peer := range t.all {
		if i == t.node-1 {
			continue
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", peer.Plain)
		if err != nil {
			return err
		}
		t.conns = append(t.conns, conn)
	}
	return nil
}

func (t *turns) accept() (net.Conn, error) {
	deadline := time.Now().Add(patience)
	if err := t.plain.(*net.TCPListener).SetDeadline(deadline); err != nil {
		return nil, err
	}
	conn, err := t.plain.Accept()
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(deadline)
}

func (t *turns) run(ctx context.Context, at instant) error {
	if !t.isRoot() {
		_, err := io.ReadFull(t.conns[0], t.data)
		if err != nil {
			return err
		}
		t.done = now()
		_, err = t.conns[0].Write([]byte{1})
		return err
	}
	if err := sleepUntil(ctx, at); err != nil {
		return err
	}
	t.start = now()
	for _, conn := range t.conns {
		if _, err := conn.Write(t.data); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			return err
		}
	}
	return nil
}

func (t *turns) finish(_ context.Context, r *report) error {
	var errs []error
	for _, conn := range t.conns {
		errs = append(errs, conn.Close())
	}
	r.Start = t.start
	if !t.isRoot() {
		root := t.task.Roots[0]
		r.Done = map[int]instant{root: t.done}
		errs = append(errs, check(t.data, t.task.seed(root)))
	}
	return errors.Join(errs...)
}

// copies is a member's part in a run in which every receiver copies the message once, in its own
// memory.
type copies struct {
	*member
	from, to []byte
	start    instant
	done     instant
}

func (c *copies) prepare(context.Context) (err error) {
	if c.from, err = c.buffers.get(0, c.task.Bytes); err != nil {
		return err
	}
	if c.to, err = c.buffers.get(1, c.task.Bytes); err != nil {
		return err
	}
	fill(c.from, c.task.seed(c.task.Roots[0]))
	return nil
}

// run has the receivers start at the same instant, as the root says.
func (c *copies) run(ctx context.Context, at instant) error {
	if err := sleepUntil(ctx, at); err != nil {
		return err
	}
	c.start = at
	if !c.isRoot() {
		copy(c.to, c.from)
		c.done = now()
	}
	return nil
}

func (c *copies) finish(_ context.Context, r *report) error {
	r.Start = c.start
	if c.isRoot() {
		return c.buffers.drop(1)
	}
	root := c.task.Roots[0]
	r.Done = map[int]instant{root: c.done}
	return errors.Join(check(c.to, c.task.seed(root)), c.buffers.drop(1))
}
