package core

import (
	"github.com/squall-go/squall/dds/filter"
	"github.com/squall-go/squall/dds/internal/remote"
)

// binders are functions that make filters of expressions, by topics that this process uses with
// their types.
type binders map[string]binder

// Binder makes a filter for encoded samples.
type Binder func(*filter.Expression, []string) (func([]byte) bool, error)

type binder struct {
	codec string
	bind  Binder
}

// Know notes the type of a topic, for filters of clients.
func (p *Participant) Know(topic, codec string, bind Binder) {
	if bind == nil {
		return
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.binders == nil {
		p.binders = binders{}
	}
	p.binders[topic] = binder{codec, bind}
}

// Bound returns the filter of a client's reader, or nil if this process cannot evaluate it: the
// client does, too.
func (p *Participant) Bound(topic, codec string, f *remote.Filter) func([]byte) bool {
	if f == nil {
		return nil
	}
	p.Mu.Lock()
	b := p.binders[topic]
	p.Mu.Unlock()
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
