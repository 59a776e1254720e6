package member

import (
	"context"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/space"
)

// housekeeper sends, at the first member of the space, the roster of each view, the deadlines that
// were missed, and the leases that have ended. It runs at every member, because any of them may
// become the first.
func (p *backend) housekeeper() {
	ctx, cancel := p.lifetime()
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-p.views:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		timer.Reset(p.tend(ctx))
	}
}

// lifetime returns a context that ends with the member.
func (p *backend) lifetime() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		select {
		case <-p.Done:
		case <-p.group.Done():
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// Times between two looks of the housekeeper. A missed deadline, and the end of a lease, is ordered
// within a quarter of it.
const (
	leastLook = 2 * time.Millisecond
	mostLook  = 250 * time.Millisecond
)

// tend sends what is due, and returns when to look again.
func (p *backend) tend(ctx context.Context) time.Duration {
	p.Elapsed()
	v := p.group.View()
	p.Mu.Lock()
	roster, patience := p.Space.Roster(), p.Space.LeastPatience()
	p.Mu.Unlock()
	if first := p.sub.Members(0); v == nil || len(first) == 0 || first[0] != p.group.ID() {
		return mostLook
	}
	// Records are sent without waiting for them: what is delivered here may be held up by a reader.
	if roster < uint64(v.ID) && p.rostered != v.ID {
		p.sendRoster(ctx, v)
	}
	if patience == 0 {
		return mostLook
	}
	p.Mu.Lock()
	missed, silent := p.Space.Lapses(core.Now()), p.Space.Silences(core.Now())
	p.Mu.Unlock()
	for _, l := range missed {
		if data, err := space.AppendLapse(nil, core.Now(), l); err == nil {
			_ = p.sub.Send(ctx, data) // if it fails, the next look finds it again
		}
	}
	for _, l := range silent {
		if data, err := space.AppendSilence(nil, core.Now(), l); err == nil {
			_ = p.sub.Send(ctx, data) // as above
		}
	}
	return min(max(patience/4, leastLook), mostLook)
}

// sendRoster sends the members of a view.
func (p *backend) sendRoster(ctx context.Context, v *squall.View) {
	members := make([]space.Process, len(v.Members))
	for i, m := range v.Members {
		members[i] = space.Process{Node: uint64(m.ID), Incarnation: m.Incarnation}
	}
	data, err := space.AppendRoster(nil, core.Now(), uint64(v.ID), members)
	if err == nil && p.sub.Send(ctx, data) == nil {
		p.rostered = v.ID
	}
}
