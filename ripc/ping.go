package ripc

import (
	"context"
	"fmt"
	"time"

	"github.com/squall-go/squall/ripc/internal/pair"
)

// Ping asks the endpoint with the service for a sign of life, and returns how long that took. The
// service is not asked.
func (r *Remote) Ping(ctx context.Context) (time.Duration, error) {
	if err := r.Connect(ctx); err != nil {
		return 0, err
	}
	e := r.service.e
	e.lock()
	defer e.unlock()
	to := r.route.Load()
	if to == nil || to.peer.ended() {
		return 0, fmt.Errorf("ripc: %s: %w", r.id, ErrNotConnected)
	}
	w, p := e.waiter(), to.peer
	defer e.giveBack(w)
	w.goal, w.peer, w.service, w.channel, w.answered = goalAnswer, p, r.service, 0, false
	began := time.Now()
	id := p.calls.Begin(w)
	defer p.calls.End(id)
	if accepted, err := p.putOrWait(ctx, nil, pair.Ping, id, nil, w); err != nil {
		return 0, err
	} else if !accepted {
		return 0, fmt.Errorf("ripc: %s: %w", r.id, ErrNotConnected)
	}
	if !e.glance(w, nil) {
		if err := e.wait(ctx, w); err != nil && !w.answered {
			return 0, fmt.Errorf("ripc: %s: %w", r.id, err)
		}
	}
	if w.err != nil {
		return 0, w.err
	}
	took := time.Since(began)
	p.free(w.frame)
	return took, nil
}
