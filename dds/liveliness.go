package dds

import (
	"context"
	"fmt"

	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
)

// AssertLiveliness says that a writer whose LIVELINESS is manual is alive, as each of its samples does. It returns when that is in the order.
func (w *Writer[T]) AssertLiveliness(ctx context.Context) error {
	if w.p.client != nil {
		return w.p.client.ask(ctx, &call{request: remote.Request{Op: remote.OpAssert, Number: w.id.Number}})
	}
	return w.p.assert(ctx, w.id)
}

// AssertLiveliness says that all writers of this participant that are MANUAL_BY_PARTICIPANT are alive, as each sample of any of its writers does. It returns when that
// is in the order.
func (p *Participant) AssertLiveliness(ctx context.Context) error {
	if p.client != nil {
		return fmt.Errorf("dds: %w: %s", qos.ErrRefused, noParticipant)
	}
	return p.assert(ctx, space.ID{Process: p.self})
}

func (p *Participant) assert(ctx context.Context, id space.ID) error {
	return p.control(ctx, func(now int64) ([]byte, error) { return space.AppendAssert(nil, now, id) })
}

// noParticipant is why a client's writers are not MANUAL_BY_PARTICIPANT.
const noParticipant = "MANUAL_BY_PARTICIPANT: the writers of a client belong to the process of its relay; MANUAL_BY_TOPIC says the same of each of them"
