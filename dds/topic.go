package dds

import (
	"context"
	"fmt"
	"reflect"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds/cdr"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
)

// Topic is a topic of a space, with samples of type T.
type Topic[T any] struct {
	p     *Participant
	name  string
	codec Codec[T]
	key   key[T] // nil: the topic has no keys
	set   QoS
}

// key encodes the keys of samples, for the names of instances.
type key[T any] interface {
	Append(dst []byte, v *T) ([]byte, error)
	Decode(src []byte, v *T) error
}

// NewTopic declares a topic, or finds it if another member has declared it alike.
func NewTopic[T any](ctx context.Context, p *Participant, name string, codec Codec[T], set QoS) (*Topic[T], error) {
	t := &Topic[T]{p: p, name: name, codec: codec, set: set}
	if c, ok := any(codec).(encodedCodec); ok {
		if c.keyed {
			t.key = any(encodedKey{}).(key[T])
		}
	} else if reflect.TypeFor[T]().Kind() == reflect.Struct {
		key, err := cdr.NewKey[T]()
		if err != nil {
			return nil, fmt.Errorf("dds: topic %q: %w", name, err)
		}
		if key.Keyed() {
			t.key = key
		}
	}
	if err := set.Validate(qos.Topic); err != nil {
		return nil, fmt.Errorf("dds: topic %q: %w", name, err)
	}
	if err := topicFits(p, set.Durability); err != nil {
		return nil, fmt.Errorf("dds: topic %q: %w", name, err)
	}
	if err := p.declare(ctx, space.TopicInfo{Name: name, Type: codec.Name(), Keyed: t.key != nil, QoS: set}); err != nil {
		return nil, fmt.Errorf("dds: topic %q: %w", name, err)
	}
	p.know(t.name, codec.Name(), filterOf(codec))
	return t, nil
}

// Name returns the topic's name.
func (t *Topic[T]) Name() string { return t.name }

// Forget removes the topic and its history from the space. It must have no writers and readers.
func (t *Topic[T]) Forget(ctx context.Context) error {
	if t.p.client != nil {
		return t.p.client.forget(ctx, t.name)
	}
	return t.p.control(ctx, func(now int64) ([]byte, error) { return space.AppendForget(nil, now, t.name) })
}

// topicFits reports what a topic asks for that the space does not have.
func topicFits(p *Participant, d qos.Durability) error {
	if d == qos.Persistent && !p.persistent() {
		return fmt.Errorf("%w: %v needs a space whose subgroup has the mode Persistent", qos.ErrRefused, d)
	}
	return nil
}

// declare declares a topic in the order.
func (p *Participant) declare(ctx context.Context, info space.TopicInfo) error {
	if p.client != nil {
		return p.client.declare(ctx, info)
	}
	return p.control(ctx, func(now int64) ([]byte, error) { return space.AppendTopic(nil, now, info) })
}

// persistent reports whether the space has a log.
func (p *Participant) persistent() bool {
	if p.client != nil {
		return p.client.persistent()
	}
	return p.cfg.Subgroup.Mode == squall.Persistent
}

// matches returns how many endpoints match one of this process. The lock is held.
func (p *Participant) matches(id space.ID) (n int, ok bool) {
	if p.client != nil {
		return p.client.matches(id)
	}
	return p.space.Matches(id)
}

// endpoint is what writers and readers have in common.
type endpoint struct {
	p  *Participant
	id space.ID
}

// open opens a writer or a reader at a position of the order.
func (t *Topic[T]) open(ctx context.Context, info space.EndpointInfo, prepare func(space.ID) *remote.Filter) (endpoint, error) {
	kind := qos.Writer
	if info.Reader {
		kind = qos.Reader
	}
	if err := info.QoS.Validate(kind); err != nil {
		return endpoint{}, fmt.Errorf("dds: a %v of topic %q: %w", kind, t.name, err)
	}
	p := t.p
	if p.client != nil {
		return p.client.open(ctx, t.name, info, prepare)
	}
	p.mu.Lock()
	p.number++
	e := endpoint{p, space.ID{Process: p.self, Number: p.number}}
	prepare(e.id)
	p.mu.Unlock()
	info.ID, info.Topic = e.id, t.name
	err := p.control(ctx, func(now int64) ([]byte, error) { return space.AppendOpen(nil, now, info) })
	if err != nil {
		p.giveUp(e, ctx.Err() != nil)
		return endpoint{}, fmt.Errorf("dds: a %v of topic %q: %w", kind, t.name, err)
	}
	return e, nil
}

// giveUp forgets an endpoint that could not be opened. If its caller did not wait, the record that opens it may come, and one that closes it
// follows.
func (p *Participant) giveUp(e endpoint, impatient bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.space.Detach(e.id)
	if impatient && !p.closing && p.sub != nil {
		p.ended.Go(func() {
			ctx, cancel := p.lifetime()
			defer cancel()
			_ = e.close(ctx) // it was never opened, or the group ends
		})
	}
}

// ID names the endpoint in events.
func (e *endpoint) ID() ID { return idOf(e.id) }

// Change replaces the policies of the endpoint at one position. Policies that matching depends on cannot be changed, but for partitions and durations.
func (e *endpoint) Change(ctx context.Context, set QoS) error {
	if e.p.client != nil {
		return e.p.client.change(ctx, e.id, set)
	}
	return e.p.control(ctx, func(now int64) ([]byte, error) { return space.AppendChange(nil, now, e.id, set) })
}

// Matched waits until at least n endpoints match this one, and returns how many do.
func (e *endpoint) Matched(ctx context.Context, n int) (int, error) {
	e.p.mu.Lock()
	defer e.p.mu.Unlock()
	for {
		matched, ok := e.p.matches(e.id)
		switch {
		case !ok:
			return 0, fmt.Errorf("%w: the endpoint was closed", ErrUnknown)
		case matched >= n:
			return matched, nil
		}
		if err := e.p.wait(ctx); err != nil {
			return matched, err
		}
	}
}

// close ends the endpoint at a position of the order.
func (e *endpoint) close(ctx context.Context) error {
	if e.p.client != nil {
		return e.p.client.shut(ctx, e.id)
	}
	return e.p.control(ctx, func(now int64) ([]byte, error) { return space.AppendClose(nil, now, e.id) })
}
