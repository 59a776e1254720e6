package dds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
)

func (c *client) persistent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.welcome.Persistent
}

// declare declares a topic. The client declares the topic at later relays, too.
func (c *client) declare(ctx context.Context, info space.TopicInfo) error {
	if err := c.ask(ctx, &call{request: remote.Request{Op: remote.OpTopic, Topic: &info}}); err != nil {
		return err
	}
	data, err := space.AppendTopic(nil, now(), info)
	if err != nil {
		return err
	}
	c.p.mu.Lock()
	err = c.p.space.Apply(space.Record{Data: data})
	c.p.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.ContainsFunc(c.topics, func(t space.TopicInfo) bool { return t.Name == info.Name }) {
		c.topics = append(c.topics, info)
	}
	return err
}

func (c *client) forget(ctx context.Context, name string) error {
	c.mu.Lock()
	c.topics = slices.DeleteFunc(c.topics, func(t space.TopicInfo) bool { return t.Name == name })
	c.mu.Unlock()
	err := c.ask(ctx, &call{request: remote.Request{Op: remote.OpForget, Topic: &space.TopicInfo{Name: name}}})
	if err == nil {
		var data []byte
		if data, err = space.AppendForget(nil, now(), name); err == nil {
			c.p.mu.Lock()
			err = c.p.space.Apply(space.Record{Data: data})
			c.p.mu.Unlock()
		}
	}
	return err
}

// open opens a writer or a reader.
func (c *client) open(ctx context.Context, topic string, info space.EndpointInfo, prepare func(space.ID) *remote.Filter) (endpoint, error) {
	p := c.p
	p.mu.Lock()
	p.number++
	u := &used{id: space.ID{Process: p.self, Number: p.number}, info: info}
	u.info.ID, u.info.Topic = u.id, topic
	known, _ := p.space.Topic(topic)
	u.filter = prepare(u.id)
	p.mu.Unlock()
	u.persist = !info.Reader && known.QoS.Durability == qos.Persistent
	u.guid = c.guid(u.id.Number)
	k := &call{request: u.request()}
	var failed error
	k.then = func(a *remote.Answer) { failed = c.opened(u, a) }
	if err := cmp.Or(c.ask(ctx, k), failed); err != nil {
		p.mu.Lock()
		p.space.Detach(u.id)
		p.mu.Unlock()
		if ctx.Err() != nil { // it may be open there
			c.forgetEndpoint(u)
			c.mu.Lock()
			c.make(&call{request: remote.Request{Op: remote.OpClose, Number: u.id.Number}})
			c.mu.Unlock()
		}
		return endpoint{}, fmt.Errorf("dds: topic %q: %w", topic, err)
	}
	return endpoint{p, u.id}, nil
}

// opened begins with an endpoint that a relay has opened.
func (c *client) opened(u *used, a *remote.Answer) (err error) {
	if a.Code != remote.OK {
		return nil
	}
	p := c.p
	p.mu.Lock()
	if u.info.Reader {
		u.reached = &a.Resume
		var data []byte
		if data, err = space.AppendOpen(nil, now(), u.info); err == nil {
			err = p.space.Apply(space.Record{Sender: u.id.Node, Data: data})
		}
	}
	c.byNumber[u.id.Number] = u
	p.mu.Unlock()
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

// matches returns how many endpoints match one of this process. The participant's lock is held.
func (c *client) matches(id space.ID) (n int, ok bool) {
	u := c.byNumber[id.Number]
	if u == nil {
		return 0, false
	}
	return u.matched, true
}

// put gives a writer's sample to the relays, as soon as it has room. F is its future, or nil.
func (c *client) put(ctx context.Context, id space.ID, op space.Operation, key, data []byte, f *future) error {
	e := remote.Entry{Operation: uint8(op), Source: c.p.sampleTime(), Key: key, Data: data}
	return c.until(ctx, func() (bool, error) {
		u, err := c.usable(id)
		if err == nil {
			err = c.fits(key, data)
		}
		if err == nil && u.outbox.Bytes() > 0 && u.outbox.Bytes()+e.Bytes() > c.cfg.OutboxBytes {
			return false, c.p.mayWait()
		}
		if err != nil {
			return false, err
		}
		u.outbox.Put(e)
		if f != nil {
			f.of, f.sequence, u.future = u, u.outbox.Last(), u.outbox.Last()
			u.futures = append(u.futures, f)
		}
		if c.link != nil && u.open {
			c.link.rouse()
		}
		return true, nil
	})
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
	if n > c.welcome.MaxBytes {
		return fmt.Errorf("%w: a record of %d bytes; the space takes %d", ErrTooLarge, n, c.welcome.MaxBytes)
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

// change changes policies.
func (c *client) change(ctx context.Context, id space.ID, set QoS) error {
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
	c.p.mu.Lock()
	if u.info.Reader {
		var data []byte
		if data, err = space.AppendChange(nil, now(), id, set); err == nil {
			err = c.p.space.Apply(space.Record{Sender: id.Node, Data: data})
		}
	}
	c.p.mu.Unlock()
	c.mu.Lock()
	u.info.QoS = set
	c.mu.Unlock()
	return err
}

// shut closes an endpoint, a writer once its samples are in the order.
func (c *client) shut(ctx context.Context, id space.ID) error {
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
		if err = c.flush(ctx, id); err == nil && c.persistent() { // relays send no acknowledgements to a closed writer
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
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(c.byNumber, u.id.Number)
	if !u.info.Reader {
		return
	}
	if data, err := space.AppendClose(nil, now(), u.id); err == nil {
		_ = p.space.Apply(space.Record{Sender: u.id.Node, Data: data}) // it is known here
	}
	p.wake()
}

// describe asks the relay for the topics and endpoints of the space.
func (c *client) describe() remote.Answer {
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.RelayTimeout)
	defer cancel()
	k := &call{request: remote.Request{Op: remote.OpDescribe}}
	if err := c.ask(ctx, k); err != nil {
		return remote.Answer{}
	}
	return k.answer
}

// explain explains whether a writer and a reader match: of this client, by their ids here, or of others.
func (c *client) explain(writer, reader ID) ([]qos.Verdict, error) {
	there := func(id ID) space.ID {
		c.mu.Lock()
		defer c.mu.Unlock()
		if u := c.find(id.internal()); u != nil {
			return u.there
		}
		return id.internal()
	}
	all := c.describe().Endpoints
	find := func(id space.ID) (space.EndpointInfo, bool) {
		i := slices.IndexFunc(all, func(e space.EndpointInfo) bool { return e.ID == id })
		if i < 0 {
			return space.EndpointInfo{}, false
		}
		return all[i], true
	}
	w, ok := find(there(writer))
	r, found := find(there(reader))
	return explain(writer, reader, &w, &r, ok, found)
}
