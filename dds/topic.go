package dds

import (
	"context"
	"fmt"
	"reflect"

	"github.com/squall-go/squall/dds/cdr"
	"github.com/squall-go/squall/dds/filter"
	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
)

// Topic is a topic of a space, with samples of type T.
type Topic[T any] struct {
	p     *core.Participant
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
func NewTopic[T any](ctx context.Context, s Space, name string, codec Codec[T], set QoS) (*Topic[T], error) {
	p := s.participant().core
	t := &Topic[T]{p: p, name: name, codec: codec, set: set}
	key, err := keyOf(codec)
	if err == nil {
		err = set.Validate(qos.Topic)
	}
	if err == nil && set.Service.Limits.Instances > 0 {
		err = fmt.Errorf("%w: %v: a history has a limit of all its samples, Limits.Samples, and none of instances", qos.ErrRefused, qos.DurabilityServicePolicy)
	}
	if err == nil && set.Durability == qos.Persistent && !p.Backend.Persistent() {
		err = core.NotPersistent(set.Durability)
	}
	if err == nil {
		t.key = key
		err = p.Backend.Declare(ctx, space.TopicInfo{Name: name, Type: codec.Name(), Keyed: t.key != nil, QoS: set})
	}
	if err != nil {
		return nil, fmt.Errorf("dds: topic %q: %w", name, err)
	}
	p.Know(t.name, codec.Name(), filterOf(codec))
	return t, nil
}

// keyOf returns what encodes the keys of a codec's samples, or nil.
func keyOf[T any](codec Codec[T]) (key[T], error) {
	if c, ok := any(codec).(encodedCodec); ok {
		if c.keyed {
			return any(encodedKey{}).(key[T]), nil
		}
		return nil, nil
	}
	if reflect.TypeFor[T]().Kind() != reflect.Struct {
		return nil, nil
	}
	key, err := cdr.NewKeyCodec[T]()
	if err != nil || !key.Keyed() {
		return nil, err
	}
	return key, nil
}

// filterOf returns the function that makes filters for encoded samples.
func filterOf[T any](c Codec[T]) core.Binder {
	if _, ok := any(c).(encodedCodec); ok {
		return nil
	}
	return func(e *filter.Expression, parameters []string) (func([]byte) bool, error) {
		f, err := filter.Bind[T](e, parameters...)
		if err != nil {
			return nil, err
		}
		return func(data []byte) bool {
			var v T
			return c.Decode(data, &v) != nil || f(&v)
		}, nil
	}
}

// Name returns the topic's name.
func (t *Topic[T]) Name() string { return t.name }

// Forget removes the topic and its history from the space. It must have no writers and readers.
func (t *Topic[T]) Forget(ctx context.Context) error { return t.p.Backend.Forget(ctx, t.name) }

// endpoint is what writers and readers have in common.
type endpoint struct {
	p  *core.Participant
	id space.ID
}

// open opens a writer or a reader at a position of the order.
func (t *Topic[T]) open(ctx context.Context, info space.EndpointInfo, prepare func(space.ID) *remote.Filter) (endpoint, error) {
	kind := qos.Writer
	if info.Reader {
		kind = qos.Reader
	}
	info.Topic = t.name
	err := info.QoS.Validate(kind)
	var id space.ID
	if err == nil {
		id, err = t.p.Backend.Open(ctx, info, prepare)
	}
	if err != nil {
		return endpoint{}, fmt.Errorf("dds: a %v of topic %q: %w", kind, t.name, err)
	}
	return endpoint{t.p, id}, nil
}

// ID names the endpoint in events.
func (e *endpoint) ID() ID { return idOf(e.id) }

// Change replaces the policies of the endpoint at one position. Policies that matching depends on
// cannot be changed, but for partitions and durations.
func (e *endpoint) Change(ctx context.Context, set QoS) error {
	return e.p.Backend.Change(ctx, e.id, set)
}

// Matched waits until at least n endpoints match this one, and returns how many do.
func (e *endpoint) Matched(ctx context.Context, n int) (int, error) {
	e.p.Mu.Lock()
	defer e.p.Mu.Unlock()
	for {
		matched, ok := e.p.Backend.Matches(e.id)
		switch {
		case !ok:
			return 0, fmt.Errorf("%w: the endpoint was closed", ErrUnknown)
		case matched >= n:
			return matched, nil
		}
		if err := e.p.Wait(ctx); err != nil {
			return matched, err
		}
	}
}
