package member

import (
	"context"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
)

// control sends a record and waits until it is applied here.
func (p *backend) control(ctx context.Context, record func(now int64) ([]byte, error)) error {
	if p.sub == nil {
		return dds.ErrNotOpen
	}
	data, err := record(core.Now())
	if err != nil {
		return err
	}
	result := make(chan error, 1)
	p.Mu.Lock()
	p.called++
	call := p.called
	p.calls[call] = result
	p.Mu.Unlock()
	defer func() {
		p.Mu.Lock()
		delete(p.calls, call)
		p.Mu.Unlock()
	}()
	space.SetCall(data, call)
	if err := p.sub.Send(ctx, data); err != nil {
		return err
	}
	select {
	case err := <-result:
		return err
	case <-p.group.Done():
		return p.Cause()
	case <-ctx.Done(): // the record takes effect nevertheless
		return context.Cause(ctx)
	}
}

// Persistent reports whether the space has a log.
func (p *backend) Persistent() bool { return p.cfg.Subgroup.Mode == squall.Persistent }

// Declare declares a topic in the order.
func (p *backend) Declare(ctx context.Context, info space.TopicInfo) error {
	return p.control(ctx, func(now int64) ([]byte, error) { return space.AppendTopic(nil, now, info) })
}

// Forget removes a topic.
func (p *backend) Forget(ctx context.Context, name string) error {
	return p.control(ctx, func(now int64) ([]byte, error) { return space.AppendForget(nil, now, name) })
}

// Describe returns the topics and endpoints of the space.
func (p *backend) Describe() ([]space.TopicInfo, []space.EndpointInfo) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return p.Space.Topics(), p.Space.Endpoints()
}

// InSpace returns id: a member's names are those of the space.
func (p *backend) InSpace(id space.ID) space.ID { return id }

// Open opens a writer or a reader at a position of the order.
func (p *backend) Open(ctx context.Context, info space.EndpointInfo, prepare func(space.ID) *remote.Filter) (space.ID, error) {
	p.Mu.Lock()
	info.ID = p.NextID()
	prepare(info.ID)
	p.Mu.Unlock()
	err := p.control(ctx, func(now int64) ([]byte, error) { return space.AppendOpen(nil, now, info) })
	if err != nil {
		p.giveUp(info.ID, ctx.Err() != nil)
		return space.ID{}, err
	}
	return info.ID, nil
}

// GiveUp forgets an endpoint that is open and that nobody is going to use.
func (p *backend) GiveUp(id space.ID) { p.giveUp(id, true) }

// giveUp forgets an endpoint that could not be opened. If its caller did not wait, the record that
// opens it may come, and one that closes it follows.
func (p *backend) giveUp(id space.ID, impatient bool) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.Space.Detach(id)
	if impatient && !p.Closing && p.sub != nil {
		p.ended.Go(func() {
			ctx, cancel := p.lifetime()
			defer cancel()
			_ = p.Shut(ctx, id) // it was never opened, or the group ends
		})
	}
}

// Change replaces the policies of an endpoint at one position.
func (p *backend) Change(ctx context.Context, id space.ID, set dds.QoS) error {
	return p.control(ctx, func(now int64) ([]byte, error) { return space.AppendChange(nil, now, id, set) })
}

// Shut ends an endpoint at a position of the order.
func (p *backend) Shut(ctx context.Context, id space.ID) error {
	return p.control(ctx, func(now int64) ([]byte, error) { return space.AppendClose(nil, now, id) })
}

// EndOrigin ends a writer and its origin.
func (p *backend) EndOrigin(ctx context.Context, id space.ID) error {
	return p.control(ctx, func(now int64) ([]byte, error) { return space.AppendOriginEnd(nil, now, id) })
}

// Matches returns how many endpoints match one of this process.
func (p *backend) Matches(id space.ID) (n int, ok bool) { return p.Space.Matches(id) }

// Assert says that a writer, or this process, is alive.
func (p *backend) Assert(ctx context.Context, id space.ID) error {
	return p.control(ctx, func(now int64) ([]byte, error) { return space.AppendAssert(nil, now, id) })
}

// NewSet returns the number of a new coherent set.
func (p *backend) NewSet() uint64 {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.set++
	return p.set
}

// EndSet ends a coherent set at a position of the order.
func (p *backend) EndSet(ctx context.Context, number uint64, drop bool) error {
	return p.control(ctx, func(now int64) ([]byte, error) { return space.AppendEnd(nil, now, p.Self, number, drop) })
}
