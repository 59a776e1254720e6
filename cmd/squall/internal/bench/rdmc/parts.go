package rdmc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/rdmc"
)

// blocks is a member's part in a run by a schedule: a group per root.
type blocks struct {
	*member
	groups []*rdmc.Group // by place in task.Roots
	data   [][]byte
	memory *rdmc.Memory // where this root's message lies, if others may see it there
	ended  chan error   // one per message that has to come, and per one that has to leave
	free   chan error   // one when that memory is free

	mu    sync.Mutex
	start time.Time
	done  map[int]time.Time
	views []rdmc.Message
}

func newBlocks(m *member) *blocks {
	n := len(m.task.Roots)
	return &blocks{member: m, groups: make([]*rdmc.Group, n), data: make([][]byte, n), ended: make(chan error, 2*n), free: make(chan error, n), done: map[int]time.Time{}}
}

// prepare opens the groups, all at once, because each waits for all members.
func (b *blocks) prepare(ctx context.Context) error {
	for _, p := range b.peers() {
		if b.task.Sharing != notShared && (p.SHM == "" || p.Host == "") {
			return errNotShared
		}
	}
	errs := make(chan error, len(b.groups))
	for i, root := range b.task.Roots {
		if err := b.makeRoom(i, root == b.node-1); err != nil {
			return err
		}
		go func() {
			var err error
			b.groups[i], err = b.rdmc.Open(ctx, b.config(i))
			errs <- err
		}()
	}
	var all []error
	for range b.groups {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// makeRoom gets the memory of a message, and fills it at its root.
func (b *blocks) makeRoom(i int, root bool) (err error) {
	switch {
	case root && b.task.Sharing != notShared:
		if b.memory, err = b.rdmc.Alloc(b.task.Bytes); err == nil {
			b.data[i] = b.memory.Bytes()[:b.task.Bytes]
		}
	case b.task.Sharing != viewed:
		b.data[i], err = b.buffers.get(i, b.task.Bytes)
	}
	if err == nil && root {
		fill(b.data[i], b.task.seed(b.node-1))
	}
	return err
}

func (b *blocks) config(i int) rdmc.GroupConfig {
	t, root := b.task, b.task.Roots[i]
	return rdmc.GroupConfig{
		Name: fmt.Sprintf("run %d from %d", t.Number, root), Key: "bench", Members: b.peers(), Root: root,
		Algorithm: t.Algorithm, BlockBytes: t.BlockBytes,
		InPlace:   b.task.Sharing == viewed,
		Incoming:  func(rdmc.Incoming) ([]byte, error) { return b.data[i], nil },
		Completed: func(m rdmc.Message) { b.completed(i, m) },
		Aborted:   func(_ rdmc.Incoming, err error) { b.ended <- err },
		Failed:    func(err error) { b.ended <- err },
	}
}

// peers are all members, as a group has to know them. Nodes that may not share memory do not know
// that they are on one host.
func (b *blocks) peers() (all []rdmc.Peer) {
	for _, a := range b.all {
		if b.task.Sharing == notShared {
			a.Peer.Host, a.Peer.SHM = "", ""
		}
		all = append(all, a.Peer)
	}
	return all
}

// completed notes when a message is here. What is only looked at stays until it is checked.
func (b *blocks) completed(i int, m rdmc.Message) {
	at := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[b.task.Roots[i]], b.data[i] = at, m.Data
	b.views = append(b.views, m)
	if b.task.Sharing == viewed && !m.InPlace {
		b.ended <- errNotShared
		return
	}
	b.ended <- nil
}

func (b *blocks) run(ctx context.Context, at time.Time) error {
	if err := wait.Sleep(ctx, time.Until(at)); err != nil {
		return err
	}
	for i, root := range b.task.Roots {
		if root == b.node-1 {
			b.mu.Lock()
			b.start = time.Now()
			b.mu.Unlock()
			o := rdmc.Outgoing{Data: b.data[i], Filled: -1, Everywhere: func(err error) { b.ended <- err }}
			o.Sent = func(err error) { b.free <- err }
			if _, err := b.groups[i].Start(o); err != nil {
				b.free <- err
				return err
			}
		}
	}
	for range b.groups {
		select {
		case err := <-b.ended:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// finish checks what came, tells when it was there, and leaves the groups.
func (b *blocks) finish(ctx context.Context, r *report) error {
	errs := []error{b.tell(r), b.await(ctx)}
	for _, g := range b.groups {
		if g != nil {
			errs = append(errs, g.Close(ctx))
		}
	}
	if b.memory != nil {
		b.memory.Release()
	}
	return errors.Join(errs...)
}

// await waits until no receiver looks at this root's message any more: then the next run uses the
// memory again, as a program would do.
func (b *blocks) await(ctx context.Context) error {
	if b.memory == nil || b.start.IsZero() {
		return nil
	}
	select {
	case err := <-b.free:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *blocks) tell(r *report) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.Start, r.Done = b.start, b.done
	var errs []error
	for i, root := range b.task.Roots {
		if _, ok := b.done[root]; ok {
			errs = append(errs, check(b.data[i], b.task.seed(root)))
		}
	}
	for i := range b.views {
		b.views[i].Release()
	}
	return errors.Join(errs...)
}

// turns is a member's part in a run by plain TCP: the root sends the message to one receiver, waits
// for a byte that acknowledges it, and goes on to the next receiver.
type turns struct {
	*member
	conns []net.Conn // of the root: one per receiver; of a receiver: one
	data  []byte
	start time.Time
	done  time.Time
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

func (t *turns) run(ctx context.Context, at time.Time) error {
	if !t.isRoot() {
		_, err := io.ReadFull(t.conns[0], t.data)
		if err != nil {
			return err
		}
		t.done = time.Now()
		_, err = t.conns[0].Write([]byte{1})
		return err
	}
	if err := wait.Sleep(ctx, time.Until(at)); err != nil {
		return err
	}
	t.start = time.Now()
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
		r.Done = map[int]time.Time{root: t.done}
		errs = append(errs, check(t.data, t.task.seed(root)))
	}
	return errors.Join(errs...)
}

// copies is a member's part in a run in which every receiver copies the message once, in its own
// memory.
type copies struct {
	*member
	from, to []byte
	start    time.Time
	done     time.Time
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
func (c *copies) run(ctx context.Context, at time.Time) error {
	if err := wait.Sleep(ctx, time.Until(at)); err != nil {
		return err
	}
	c.start = at
	if !c.isRoot() {
		copy(c.to, c.from)
		c.done = time.Now()
	}
	return nil
}

func (c *copies) finish(_ context.Context, r *report) error {
	r.Start = c.start
	if c.isRoot() {
		return c.buffers.drop(1)
	}
	root := c.task.Roots[0]
	r.Done = map[int]time.Time{root: c.done}
	return errors.Join(check(c.to, c.task.seed(root)), c.buffers.drop(1))
}
