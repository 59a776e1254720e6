package directory

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/directory/internal/registry"
)

// publisher keeps the services of a process in the directory.
type publisher struct {
	key         ed25519.PrivateKey // nil: the identity of the process speaks
	member      bool               // reserved names are the members'
	lease, hold time.Duration
	say         func(context.Context, []*registry.Record) (reply, error)
	lost        func(ripc.ID, error) // a service is not this process's any more

	mu     sync.Mutex
	realm  string
	time   registry.Time // of the directory, and when that was
	at     time.Time
	number uint64
	live   map[publication]bool // whether the service is shared
}

// publication is a service at an endpoint.
type publication struct {
	name  string
	place registry.Place
}

// learn takes in the directory's time.
func (p *publisher) learn(r reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.realm, p.time, p.at = r.Realm, r.Time, time.Now()
}

// record makes a record of a service. Its number comes from the clock, so that the numbers of a
// process that is started again are greater. A service that is withdrawn has no renewal any more:
// its number would be greater than that of the withdrawal.
func (p *publisher) record(a registry.Action, of publication, shared bool, behind uint64) *registry.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, lives := p.live[of]; a == registry.Renew && !lives {
		return nil
	}
	p.number = max(p.number+1, uint64(time.Now().UnixNano()), behind+1)
	r := &registry.Record{
		Realm: p.realm, Action: a, Name: of.name, Place: of.place, Shared: shared, Number: p.number,
		Until: p.time + millis(time.Since(p.at)+p.lease), Hold: millis(p.hold),
	}
	if p.key != nil && !(p.member && strings.HasPrefix(of.name, registry.Reserved)) {
		r.Sign(p.key)
	}
	return r
}

func millis(d time.Duration) registry.Time { return registry.Time(d.Milliseconds()) }

// attempts is how often something is said that comes too early or too late.
const attempts = 5

// tell says something about a service until it is heard.
func (p *publisher) tell(ctx context.Context, a registry.Action, of publication, shared bool) (err error) {
	behind := uint64(0)
	for range attempts {
		r := p.record(a, of, shared, behind)
		if r == nil {
			return nil
		}
		answer, serr := p.say(ctx, []*registry.Record{r})
		if serr != nil {
			return serr
		}
		p.learn(answer)
		if err = p.judge(r, answer.Results[0]); err == nil {
			return nil
		}
		if !errors.Is(err, registry.ErrStale) && !errors.Is(err, registry.ErrRealm) && !errors.Is(err, registry.ErrEnded) {
			return err
		}
		behind = answer.Results[0].Last
	}
	return err
}

// judge is the error of a record. One that was heard before, so that it is stale when it comes
// again, has none.
func (p *publisher) judge(r *registry.Record, said result) error {
	err := said.err()
	if errors.Is(err, registry.ErrStale) && said.Last == r.Number {
		return nil
	}
	return err
}

// publish enters a service, and keeps it in the directory until withdraw is called.
func (p *publisher) publish(ctx context.Context, id ripc.ID, at ripc.Place, shared bool) (withdraw func() error, err error) {
	of := publication{string(id), registry.Place(at)}
	if err := p.tell(ctx, registry.Claim, of, shared); err != nil {
		return nil, fmt.Errorf("%w: %w", ripc.ErrRefused, err)
	}
	p.mu.Lock()
	p.live[of] = shared
	p.mu.Unlock()
	return func() error {
		p.mu.Lock()
		_, there := p.live[of]
		delete(p.live, of)
		p.mu.Unlock()
		if !there {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), withdrawTime)
		defer cancel()
		_ = p.tell(ctx, registry.Withdraw, of, shared) // else the lease ends
		return nil
	}, nil
}

// withdrawTime bounds how long a service that is closed tries to tell that.
const withdrawTime = 2 * time.Second

// renew renews all leases again and again, until ctx ends.
func (p *publisher) renew(ctx context.Context) {
	tick := time.NewTicker(p.lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		p.mu.Lock()
		all := make(map[publication]bool, len(p.live))
		for of, shared := range p.live {
			all[of] = shared
		}
		p.mu.Unlock()
		var batch []*registry.Record
		for of, shared := range all {
			if r := p.record(registry.Renew, of, shared, 0); r != nil {
				batch = append(batch, r)
			}
			if len(batch) == maxRecords {
				p.renewAll(ctx, batch)
				batch = nil
			}
		}
		if len(batch) > 0 {
			p.renewAll(ctx, batch)
		}
	}
}

// renewAll renews some leases. One that is not renewed now may be in the next round; one that
// another process has is given up.
func (p *publisher) renewAll(ctx context.Context, batch []*registry.Record) {
	ctx, cancel := context.WithTimeout(ctx, p.lease)
	defer cancel()
	answer, err := p.say(ctx, batch)
	if err != nil {
		return
	}
	p.learn(answer)
	for k, r := range batch {
		of := publication{r.Name, r.Place}
		err := p.judge(r, answer.Results[k])
		switch {
		case err == nil:
			continue
		case errors.Is(err, registry.ErrStale), errors.Is(err, registry.ErrRealm), errors.Is(err, registry.ErrEnded):
			if err = p.tell(ctx, registry.Renew, of, r.Shared); err == nil || ctx.Err() != nil {
				continue
			}
		}
		p.mu.Lock()
		_, there := p.live[of]
		delete(p.live, of)
		p.mu.Unlock()
		if there {
			p.lost(ripc.ID(r.Name), err)
		}
	}
}
