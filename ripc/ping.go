package ripc

import (
	"context"
	"fmt"
	"time"

	"github.com/squall-go/squall/ripc/internal/pair"
)

// Ping asks the endpoint with the service for a sign of life, and returns how long that took. The service is not asked.
func (r *Remote) Ping(ctx context.Context) (time.Duration, error) {
	if err := r.Connect(ctx); err != nil {
		return 0, err
	}
	e := r.service.e
	e.lock()
	defer e.unlock()
	to := r.route.Load()
	if to == nil || to.peer.ended {
		return 0, fmt.Errorf("ripc: %s: %w", r.id, ErrNotConnected)
	}
	w, p := e.waiter(), to.peer
	defer e.giveBack(w)
	w.goal, w.peer, w.channel, w.answered = goalAnswer, p, 0, false
	began := time.Now()
	id := p.calls.Begin(w)
	defer p.calls.End(id)
	for {
		status, over := p.putHeld(pair.Ping, 0, id, nil, w)
		if status == pair.Accepted {
			break
		}
		if over || p.ended {
			return 0, fmt.Errorf("ripc: %s: %w", r.id, ErrNotConnected)
		}
		if err := e.awaitRoom(ctx, p, nil, pair.Ping, 0); err != nil {
			return 0, err
		}
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
