package dds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
)

// Persistent implements core.Backend, as the other methods with capitals do.
func (c *client) Persistent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.relay.welcome.Persistent
}

// Declare declares a topic. The client declares the topic at later relays, too.
func (c *client) Declare(ctx context.Context, info space.TopicInfo) error {
	if err := c.ask(ctx, &call{request: remote.Request{Op: remote.OpTopic, Topic: &info}}); err != nil {
		return err
	}
	data, err := space.AppendTopic(nil, core.Now(), info)
	if err != nil {
		return err
	}
	c.p.Mu.Lock()
	err = c.p.Space.Apply(space.Record{Data: data})
	c.p.Mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.ContainsFunc(c.topics, func(t space.TopicInfo) bool { return t.Name == info.Name }) {
		c.topics = append(c.topics, info)
	}
	return err
}

// Forget forgets a topic.
func (c *client) Forget(ctx context.Context, name string) error {
	c.mu.Lock()
	c.topics = slices.DeleteFunc(c.topics, func(t space.TopicInfo) bool { return t.Name == name })
	c.mu.Unlock()
	err := c.ask(ctx, &call{request: remote.Request{Op: remote.OpForget, Topic: &space.TopicInfo{Name: name}}})
	if err == nil {
		var data []byte
		if data, err = space.AppendForget(nil, core.Now(), name); err == nil {
			c.p.Mu.Lock()
			err = c.p.Space.Apply(space.Record{Data: data})
			c.p.Mu.Unlock()
		}
	}
	return err
}

// Open opens a writer or a reader.
func (c *client) Open(ctx context.Context, info space.EndpointInfo, prepare func(space.ID) *remote.Filter) (space.ID, error) {
	if info.Origin != nil {
		return space.ID{}, errOrigin
	}
	p := c.p
	p.Mu.Lock()
	u := &used{id: p.NextID(), info: info}
	u.info.ID = u.id
	known, _ := p.Space.Topic(info.Topic)
	u.filter = prepare(u.id)
	p.Mu.Unlock()
	u.persist = !info.Reader && known.QoS.Durability == qos.Persistent
	u.guid = c.guid(u.id.Number)
	k := &call{request: u.request()}
	var failed error
	k.then = func(a *remote.Answer) { failed = c.opened(u, a) }
	if err := cmp.Or(c.ask(ctx, k), failed); err != nil {
		p.Mu.Lock()
		p.Space.Detach(u.id)
		p.Mu.Unlock()
		if ctx.Err() != nil { // it may be open there
			c.abandon(u)
		}
		return space.ID{}, err
	}
	return u.id, nil
}

var errOrigin = fmt.Errorf("%w: a writer that stands for another one is of a member", qos.ErrRefused)

// EndOrigin implements core.Backend. There is no such writer.
func (c *client) EndOrigin(context.Context, space.ID) error { return errOrigin }

// abandon closes an endpoint without waiting.
func (c *client) abandon(u *used) {
	c.forgetEndpoint(u)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.make(&call{request: remote.Request{Op: remote.OpClose, Number: u.id.Number}})
}

// GiveUp forgets a reader that nobody is going to use.
func (c *client) GiveUp(id space.ID) {
	c.mu.Lock()
	u := c.find(id)
	c.mu.Unlock()
	if u != nil {
		c.abandon(u)
	}
}

// opened begins with an endpoint that a relay has opened.
func (c *client) opened(u *used, a *remote.Answer) (err error) {
	if a.Code != remote.OK {
		return nil
	}
	p := c.p
	p.Mu.Lock()
	if u.info.Reader {
		u.reached = &a.Resume
		var data []byte
		if data, err = space.AppendOpen(nil, core.Now(), u.info); err == nil {
			err = p.Space.Apply(space.Record{Sender: u.id.Node, Data: data})
		}
	}
	c.byNumber[u.id.Number] = u
	p.Mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	u.there, u.open = a.ID, true
	c.all = append(c.all, u)
	return err
}

// find finds an endpoint. The lock is held.
func (c *client) find(id space.ID) *used {
	for _, u := range c.all {
		if u.id == id {
			return u
		}
	}
	return nil
}

// Matches returns how many endpoints match one of this process. The participant's lock is held.
func (c *client) Matches(id space.ID) (n int, ok bool) {
	u := c.byNumber[id.Number]
	if u == nil {
		return 0, false
	}
	return u.matched, true
}

// usable finds a writer that can write. The lock is held.
func (c *client) usable(id space.ID) (*used, error) {
	u := c.find(id)
	switch {
	case c.ctx.Err() != nil:
		return nil, ErrNotOpen
	case u == nil || u.closing:
		return nil, fmt.Errorf("%w: the writer was closed", ErrUnknown)
	}
	return u, u.failed
}

// fits reports that the record of a sample is too large for the space. The lock is held.
func (c *client) fits(key, data []byte) error {
	n := space.SampleBytes(&space.Sample{Sequence: 1, Key: key}) + len(data)
	if n > c.relay.welcome.MaxBytes {
		return fmt.Errorf("%w: a record of %d bytes; the space takes %d", ErrTooLarge, n, c.relay.welcome.MaxBytes)
	}
	return nil
}

// flush waits until everything that was written is acknowledged.
func (c *client) flush(ctx context.Context, id space.ID) error {
	goal := uint64(0)
	return c.until(ctx, func() (bool, error) {
		u := c.find(id)
		if u == nil {
			return false, fmt.Errorf("%w: the writer was closed", ErrUnknown)
		}
		if goal == 0 {
			goal = u.outbox.Last()
		}
		return u.outbox.Acknowledged() >= goal, u.failed
	})
}

// Change changes policies.
func (c *client) Change(ctx context.Context, id space.ID, set QoS) error {
	c.mu.Lock()
	u := c.find(id)
	c.mu.Unlock()
	switch {
	case u == nil:
		return fmt.Errorf("%w: it was closed", ErrUnknown)
	case u.info.Reader && !slices.Equal(set.Partitions, u.info.QoS.Partitions):
		return fmt.Errorf("%w: %v of a client's reader: it does not know which of its instances keep writers; open another reader", ErrImmutable, qos.PartitionPolicy)
	case !u.info.Reader:
		if err := c.flush(ctx, id); err != nil { // what was written before keeps its policies
			return err
		}
	}
	if err := c.ask(ctx, &call{request: remote.Request{Op: remote.OpChange, Number: id.Number, QoS: &set}}); err != nil {
		return err
	}
	var err error
	c.p.Mu.Lock()
	if u.info.Reader {
		var data []byte
		if data, err = space.AppendChange(nil, core.Now(), id, set); err == nil {
			err = c.p.Space.Apply(space.Record{Sender: id.Node, Data: data})
		}
	}
	c.p.Mu.Unlock()
	c.mu.Lock()
	u.info.QoS = set
	c.mu.Unlock()
	return err
}

// Shut closes an endpoint, a writer once its samples are in the order.
func (c *client) Shut(ctx context.Context, id space.ID) error {
	c.mu.Lock()
	u := c.find(id)
	if u != nil {
		u.closing = true
	}
	c.mu.Unlock()
	if u == nil {
		return fmt.Errorf("%w: it was closed before", ErrUnknown)
	}
	var err error
	if !u.info.Reader {
		if err = c.flush(ctx, id); err == nil && c.Persistent() { // relays send no acknowledgements to a closed writer
			err = c.stored(ctx, u, func() uint64 { return u.future })
		}
	}
	c.forgetEndpoint(u)
	return errors.Join(err, c.ask(ctx, &call{request: remote.Request{Op: remote.OpClose, Number: id.Number}}))
}

// forgetEndpoint has the client not open an endpoint at other relays any more.
func (c *client) forgetEndpoint(u *used) {
	c.mu.Lock()
	c.all = slices.DeleteFunc(c.all, func(o *used) bool { return o == u })
	c.tear(u, errSetClosed)
	c.news()
	c.mu.Unlock()
	p := c.p
	p.Mu.Lock()
	defer p.Mu.Unlock()
	delete(c.byNumber, u.id.Number)
	if !u.info.Reader {
		return
	}
	if data, err := space.AppendClose(nil, core.Now(), u.id); err == nil {
		_ = p.Space.Apply(space.Record{Sender: u.id.Node, Data: data}) // it is known here
	}
	p.Wake()
}

// Describe asks the relay for the topics and endpoints of the space.
func (c *client) Describe() ([]space.TopicInfo, []space.EndpointInfo) {
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.RelayTimeout)
	defer cancel()
	k := &call{request: remote.Request{Op: remote.OpDescribe}}
	if err := c.ask(ctx, k); err != nil {
		return nil, nil
	}
	return k.answer.Topics, k.answer.Endpoints
}

// InSpace returns the name that an endpoint has at the relay.
func (c *client) InSpace(id space.ID) space.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if u := c.find(id); u != nil {
		return u.there
	}
	return id
}

// Assert has the relay assert a writer or, with the number 0, the client.
func (c *client) Assert(ctx context.Context, id space.ID) error {
	return c.ask(ctx, &call{request: remote.Request{Op: remote.OpAssert, Number: id.Number}})
}
