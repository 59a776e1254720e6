package dds

import (
	"github.com/squall-go/squall/dds/filter"
	"github.com/squall-go/squall/dds/internal/remote"
)

// binders are functions that make filters of expressions, by topics that this process uses with their types.
type binders map[string]binder

type binder struct {
	codec string
	bind  func(*filter.Expression, []string) (func([]byte) bool, error)
}

// filterOf returns the function that makes filters for encoded samples.
func filterOf[T any](c Codec[T]) func(*filter.Expression, []string) (func([]byte) bool, error) {
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

// know notes the type of a topic, for filters of clients.
func (p *Participant) know(topic, codec string, bind func(*filter.Expression, []string) (func([]byte) bool, error)) {
	if bind == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.binders == nil {
		p.binders = binders{}
	}
	p.binders[topic] = binder{codec, bind}
}

// bound returns the filter of a client's reader, or nil if this process cannot evaluate it: the client does, too.
func (p *Participant) bound(topic, codec string, f *remote.Filter) func([]byte) bool {
	if f == nil {
		return nil
	}
	p.mu.Lock()
	b := p.binders[topic]
	p.mu.Unlock()
	if b.bind == nil || b.codec != codec {
		return nil
	}
	e, err := filter.Parse(f.Expression)
	if err != nil {
		return nil
	}
	passes, err := b.bind(e, f.Parameters)
	if err != nil {
		return nil
	}
	return passes
}
