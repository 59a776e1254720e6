package dds

import (
	"context"

	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
)

// AssertLiveliness says that a writer whose LIVELINESS is manual is alive, as each of its samples does. It returns when that is in the order.
func (w *Writer[T]) AssertLiveliness(ctx context.Context) error {
	if w.p.client != nil {
		return w.p.client.assert(ctx, w.id.Number)
	}
	return w.p.assert(ctx, w.id)
}

// AssertLiveliness says that all writers of this participant that are MANUAL_BY_PARTICIPANT are alive, as each sample of any of its writers does. It returns when that
// is in the order.
func (p *Participant) AssertLiveliness(ctx context.Context) error {
	if p.client != nil {
		return p.client.assert(ctx, 0)
	}
	return p.assert(ctx, space.ID{Process: p.self})
}

func (p *Participant) assert(ctx context.Context, id space.ID) error {
	return p.control(ctx, func(now int64) ([]byte, error) { return space.AppendAssert(nil, now, id) })
}

// assert has the relay assert a writer or, with the number 0, the client.
func (c *client) assert(ctx context.Context, number uint32) error {
	return c.ask(ctx, &call{request: remote.Request{Op: remote.OpAssert, Number: number}})
}
