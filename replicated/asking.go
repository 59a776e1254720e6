package replicated

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/ripc"
)

// How a client asks members: one that is used, and others if that fails.

// isPatient reports whether a request may take longer than MemberTimeout: a query about the past
// may read the whole log.
func isPatient(request [][]byte) bool {
	if request[0][0] != byte(client.Query) {
		return false
	}
	r, err := client.Parse(request[0])
	return err == nil && r.Past()
}

// maxAnswers bounds the memory for answers that are no short messages: 256 MiB.
const maxAnswers = 256 << 20

// ask sends a request to a member, and to others if that fails, until ctx ends. F takes the answer,
// and returns invoke.ErrAway if another member is to be asked.
func (c *Client) ask(ctx context.Context, o *remote, f func(answer []byte) error, parts ...[]byte) error {
	var t tries
	for attempt := 1; ; attempt++ {
		if err := c.locate(ctx, o); err != nil {
			return err
		}
		err := c.askOne(ctx, o, attempt, f, parts)
		if final, err := c.judge(ctx, o, &t, attempt, err); final {
			return err
		}
		t.before = err
		if pause := c.pause(o, attempt); pause > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			case <-c.ctx.Done():
			}
		}
	}
}

// askOne sends a request to one member. The error is invoke.ErrAway if another member is to be
// asked.
func (c *Client) askOne(ctx context.Context, o *remote, attempt int, f func(answer []byte) error, parts [][]byte) error {
	l, service, to, err := c.begin(o, attempt, isPatient(parts))
	if err != nil {
		return err
	}
	m, err := c.call(ctx, o, service, to, parts)
	switch {
	case err == nil:
		data := m.Data
		if m.BodySize() > 0 { // an answer that is no short message
			data = m.Body()
		}
		err = f(data)
		m.Release()
	case errors.Is(err, ripc.ErrTooLarge):
	case c.ctx.Err() == nil && (ctx.Err() == nil || !errors.Is(err, context.Cause(ctx))):
		err = &awayError{err}
	}
	if errors.Is(err, invoke.ErrAway) {
		c.end(o, l, err)
	} else {
		c.end(o, l, nil)
	}
	return err
}

// awayError is why another member is asked.
type awayError struct{ error }

func (e *awayError) Is(target error) bool { return target == invoke.ErrAway }

func (e *awayError) Unwrap() error { return e.error }

// tries is what a client has learned of the members that it asked in vain.
type tries struct {
	before  error // why another member is asked
	final   error // of a member that fails whenever it is asked, or is of another group
	nowhere int   // members in a row that failed so, or do not know the object
}

// with adds to the error of the last member that of an earlier one that fails whenever it is asked.
func (t *tries) with(last error) error {
	if t.final == nil || t.final == last {
		return last
	}
	return fmt.Errorf("%w; another member: %w", last, t.final)
}

// judge reports whether what became of an attempt is final, and with which error.
func (c *Client) judge(ctx context.Context, o *remote, t *tries, attempt int, err error) (final bool, _ error) {
	away := errors.Is(err, invoke.ErrAway)
	final = errors.Is(err, ErrOtherGroup) || port.Final(err)
	if final {
		t.final = err
	}
	if final || errors.Is(err, ripc.ErrNoService) {
		t.nowhere++
	} else {
		t.nowhere = 0
	}
	if away && t.nowhere > 0 && c.isRound(o, t.nowhere) && ctx.Err() == nil {
		if t.final != nil {
			return true, hopeless(t.final)
		}
		if err := c.absent(ctx, o); err != nil {
			return true, err
		}
	}
	switch {
	case err == nil:
		return true, nil
	case c.ctx.Err() != nil, away && c.closing.Load() && c.isRound(o, attempt):
		return true, fmt.Errorf("replicated: %w: the client was closed", ErrUnreachable)
	case !away && ctx.Err() != nil && t.before != nil:
		return true, unreached(err, t.with(t.before))
	case !away:
		return true, err
	case ctx.Err() != nil:
		return true, fmt.Errorf("replicated: %w: %w: the last answer was: %w", ErrUnreachable, context.Cause(ctx), t.with(err))
	}
	return false, nil
}

// isRound reports whether so many attempts are whole rounds of all members.
func (c *Client) isRound(o *remote, attempts int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return o.route.IsRound(attempts)
}

// pause returns how long to wait after so many attempts.
func (c *Client) pause(o *remote, attempt int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return o.route.Pause(attempt)
}

func (c *Client) stale(r *route) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return r.Stale()
}

// locate finds the members of a shard, if they may be others than before.
func (c *Client) locate(ctx context.Context, o *remote) error {
	if o.whole == nil {
		return nil
	}
	r := o.route
	if !c.stale(r) {
		return nil
	}
	select {
	case r.locating <- struct{}{}:
		defer func() { <-r.locating }()
	case <-ctx.Done():
		return o.notLocated(ctx)
	}
	for {
		if !c.stale(r) {
			return nil
		}
		l, err := o.whole.located(ctx)
		if err != nil {
			return err
		}
		if o.shard < 0 || o.shard >= min(l.Shards, len(l.Addresses)) {
			return fmt.Errorf("replicated: object %q has no shard %d", o.whole.name, o.shard)
		}
		if c.found(o, l.Addresses[o.shard]) {
			return nil
		}
		if err := c.waitForMembers(ctx, o); err != nil {
			return err
		}
	}
}

// waitForMembers waits before the members of a shard are looked for again.
func (c *Client) waitForMembers(ctx context.Context, o *remote) error {
	select {
	case <-time.After(locatePause):
		return nil
	case <-ctx.Done():
		return o.notLocated(ctx)
	case <-c.ctx.Done():
		return fmt.Errorf("replicated: %w: the client was closed", ErrUnreachable)
	}
}

// notLocated is the error of a call that ended before a member of its shard was found.
func (o *remote) notLocated(ctx context.Context) error {
	return fmt.Errorf("replicated: %w: no member was found that serves shard %d of object %q: %w", ErrUnreachable, o.shard, o.whole.name, context.Cause(ctx))
}

// locatePause is how long a client waits for a shard that no member serves.
const locatePause = 50 * time.Millisecond

// found takes the addresses of a shard's members. It reports false if there are none.
func (c *Client) found(o *remote, addresses []string) bool {
	r := o.route
	var old *ripc.Service
	c.mu.Lock()
	r.id = c.service(o)
	ok, dropped := r.Found(addresses, mathrand.IntN)
	if ok {
		c.places.use(r.id, r.Place())
	}
	if dropped {
		old, r.service = r.service, nil
	}
	c.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
	return ok
}

// begin begins a request to the member that is used now. The service of the object is nil if the
// client does not know the group yet.
func (c *Client) begin(o *remote, attempt int, patient bool) (client.Link, *ripc.Service, *ripc.Remote, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := o.route
	if r.service == nil {
		s, err := c.endpoint.Register(c.ctx, "")
		if err != nil {
			return client.Link{}, nil, nil, fmt.Errorf("replicated: %w", err)
		}
		s.CopyMessages() // a member can change an answer while it is decoded
		if err := s.TakeLong(ripc.LongConfig{MaxBytes: maxAnswers, MaxPeerBytes: maxAnswers}); err != nil {
			return client.Link{}, nil, nil, fmt.Errorf("replicated: %w", err)
		}
		r.service = s
	}
	if o.from != r.service && (o.id != "" || c.group != "") {
		o.from, o.to = r.service, r.service.To(c.service(o))
	}
	if patient {
		return r.BeginPatient(c.now()), r.service, o.to, nil
	}
	return r.Begin(c.now(), attempt), r.service, o.to, nil
}

// end ends a request. If it failed, another member is used from now on.
func (c *Client) end(o *remote, l client.Link, failed error) {
	c.mu.Lock()
	var old *ripc.Service
	var e ClientEvent
	addr := o.route.Place()
	switch current := o.route.IsCurrent(l); {
	case o.route.End(l, failed != nil):
		e = o.route.left(addr, o.name, failed)
		old = c.dropped(o.route)
	case failed == nil && current:
		e = o.route.answered(l.Number, o.name)
	}
	c.mu.Unlock()
	if old != nil {
		_ = old.Close() // calls that wait there end, and are made again
	}
	if e != nil {
		c.event(e)
	}
}

// dropped follows the members after a link was dropped, and returns what it used. The lock is held.
func (c *Client) dropped(r *route) (old *ripc.Service) {
	old, r.service = r.service, nil
	r.Failed()
	c.places.use(r.id, r.Place())
	return old
}

// service returns the id of the service of an object. The lock is held, and the group is known.
func (c *Client) service(o *remote) ripc.ID {
	if o.id != "" {
		return o.id
	}
	return ripc.ID(client.Service(c.cfg.Cluster, c.group, o.name))
}

// call sends a request on a link. A member that does not know the service may be of another group:
// then the error is an ErrOtherGroup. To is nil if the client does not know the group yet; it asks
// for it then.
func (c *Client) call(ctx context.Context, o *remote, service *ripc.Service, to *ripc.Remote, parts [][]byte) (ripc.Message, error) {
	if to == nil {
		if err := c.identify(ctx, o, service); err != nil {
			return ripc.Message{}, err
		}
		c.mu.Lock()
		to = service.To(c.service(o))
		c.mu.Unlock()
	}
	m, err := service.Call(ctx, to, parts...)
	if request := parts[0]; errors.Is(err, ripc.ErrTooLarge) && len(request) > to.MaxMessageBytes() && to.MaxMessageBytes() > 0 {
		m, err = service.CallLong(ctx, to, nil, ripc.NewBody(request))
	}
	if err != nil && o.id == "" && errors.Is(err, ripc.ErrNoService) {
		if other := c.identify(ctx, o, service); errors.Is(other, ErrOtherGroup) {
			err = other
		}
	}
	return m, err
}

// identify asks a member which group it is of. The client keeps the first answer that it gets; a
// member that gives another one is refused.
func (c *Client) identify(ctx context.Context, o *remote, service *ripc.Service) error {
	m, err := service.Call(ctx, service.To(client.Catalog), (&client.Request{Ask: client.Group, Rest: []byte(c.cfg.Cluster)}).AppendTo(nil))
	if err != nil {
		return err
	}
	defer m.Release()
	_, text, err := parseAnswer("group", m.Data)
	switch group := string(text); {
	case err != nil:
		return err
	case group == "":
		return fmt.Errorf("%w: the member is of no cluster %q", ripc.ErrNoService, c.cfg.Cluster)
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.group == "" {
			c.group = group
		}
		if c.group != group {
			return fmt.Errorf("replicated: %w: the client calls group %s of cluster %q, and the member at %s is of group %s", ErrOtherGroup, c.group, c.cfg.Cluster, o.route.Place(), group)
		}
		return nil
	}
}
