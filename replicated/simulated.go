package replicated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// Simulate is for package squalltest: it makes the object that of a simulated client.
func (t *remoteTarget) Simulate(s client.Simulation) client.Simulated {
	route := client.NewRoute(s.Places, s.MemberTimeout)
	c := &simulatedClient{
		carrier: s.Carrier, routes: map[int]*client.Route{0: &route}, sharded: s.Shards, timeout: s.SessionTimeout, patient: s.MemberTimeout,
	}
	t.remote = c.add(&remote{client: c, name: s.Object}, s.Token)
	return c
}

// simulatedClient is a client whose carrier is simulated.
type simulatedClient struct {
	carrier client.Carrier
	routes  map[int]*client.Route // by 1 + the number of a shard; 0: to any member
	sharded int                   // in how many shards the object is, at least 1
	timeout time.Duration         // of a session
	patient time.Duration         // for which a member may leave a request without an answer
	objects []*remote
}

func (c *simulatedClient) add(o *remote, token invoke.Token) *remote {
	c.objects = append(c.objects, o)
	o.timeout = c.timeout
	o.session.Session = client.NewSession(c.timeout, token)
	o.newToken = func() invoke.Token { // the simulator's clients do not guess
		token[0]++
		return token
	}
	return o
}

// number is 1 + the number of a shard, or 0.
func (o *remote) number() int {
	if o.whole == nil {
		return 0
	}
	return 1 + o.shard
}

// Late implements client.Simulated.
func (c *simulatedClient) Late() (touch []func()) {
	for shard := range 1 + c.sharded {
		if r := c.routes[shard]; r != nil {
			if link, late := r.Late(c.carrier.Now()); late {
				r.Failed()
				c.carrier.Dropped(shard, link)
			}
		}
	}
	for _, o := range c.objects {
		if o.idle() {
			touch = append(touch, func() { o.touch(context.Background()) })
		}
	}
	return touch
}

func (c *simulatedClient) now() time.Time { return c.carrier.Now() }

// ask implements asker.
func (c *simulatedClient) ask(ctx context.Context, o *remote, f func(answer []byte) error, parts ...[]byte) (err error) {
	request, shard := bytes.Join(parts, nil), o.number()
	call, began := c.carrier.Ask(shard, request), c.carrier.Now()
	var last []byte
	defer func() { c.carrier.Asked(call, last, err) }()
	for attempt := 1; ; attempt++ {
		r := c.routes[shard]
		if o.whole != nil && r.Stale() {
			if ok, err := c.locate(ctx, o, r, began); err != nil {
				return err
			} else if !ok {
				c.carrier.Sleep(locatePause)
				continue
			}
		}
		l := r.Begin(c.carrier.Now(), attempt)
		err := c.carrier.Call(shard, l.Number, r.Place(), request, func(answer []byte) { last = answer })
		if err == nil {
			err = f(last)
		} else {
			err = fmt.Errorf("%w: %w", invoke.ErrAway, err)
		}
		away := errors.Is(err, invoke.ErrAway)
		if r.End(l, away) {
			r.Failed()
			c.carrier.Dropped(shard, l.Number)
		}
		if !away {
			return err
		}
		if over := c.carrier.Over(began); over != nil {
			return fmt.Errorf("replicated: %w: %w: the last answer was: %w", ErrUnreachable, over, err)
		}
		if pause := r.Pause(attempt); pause > 0 {
			c.carrier.Sleep(pause)
		}
	}
}

// locate asks where the shard of an object is, and reports whether there is a member to ask.
func (c *simulatedClient) locate(ctx context.Context, o *remote, r *client.Route, began time.Time) (bool, error) {
	l, err := o.whole.located(ctx)
	if err != nil {
		return false, err
	}
	ok, dropped := r.Found(l.Addresses[o.shard], c.carrier.Pick)
	if over := c.carrier.Over(began); !ok && over != nil {
		return false, fmt.Errorf("replicated: %w: %w", ErrUnreachable, over)
	}
	if dropped {
		c.carrier.Dropped(o.number(), 0)
	}
	return ok, nil
}

// wait implements asker. No other goroutine runs while the lock is given up.
func (c *simulatedClient) wait(_ context.Context, o *remote) {
	o.unlocked(c.carrier.Wait)
}

// changed implements asker.
func (c *simulatedClient) changed(*remote) { c.carrier.Changed() }

// rest implements asker.
func (c *simulatedClient) rest(_ context.Context, d time.Duration) { c.carrier.Sleep(d) }

// memberTimeout implements asker.
func (c *simulatedClient) memberTimeout() time.Duration { return c.patient }

var errGo = errors.New("replicated: a simulated client calls Go: use Client.Go of package squalltest")

// shards implements asker.
func (c *simulatedClient) shards(context.Context, *remote) (int, error) { return c.sharded, nil }

// shard implements asker.
func (c *simulatedClient) shard(of *remote, n int) *remote {
	if c.sharded == 1 {
		return of
	}
	for _, o := range c.objects {
		if o.whole == of && o.shard == n {
			return o
		}
	}
	r := client.NewRoute(nil, c.patient)
	c.routes[1+n] = &r
	token := of.session.Token()
	token[5] = byte(1 + n)
	return c.add(&remote{client: c, name: client.ShardName(of.name, n), whole: of, shard: n}, token)
}

// event implements asker.
func (c *simulatedClient) event(ClientEvent) {}

// spawn implements asker.
func (c *simulatedClient) spawn(func()) error { return errGo }
