package squalltest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/squall-go/squall/internal/sim"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
)

// Client is a client outside the group, in virtual time. It has one session with the object.
type Client struct {
	run    *run
	number int
	rand   *rand.Rand
	core   client.Simulated
	object *replicated.RemoteObject

	lanes    int // that are not done
	release  func()
	timeout  time.Duration
	patience time.Duration // of a call
	requests []*request    // without an answer
	peers    map[link]*copyAt
	parked   []*lane // until the session changes
	over     error   // no call is answered any more
}

// Number returns the client's number, from 0.
func (c *Client) Number() int { return c.number }

// Object returns the object, to call operations on. The methods Go of operations fail; Client.Go is
// for calls at the same time.
func (c *Client) Object() *replicated.RemoteObject { return c.object }

// Context returns a context for calls. A call ends by itself when no member has answered for long:
// with replicated.ErrUnreachable.
func (c *Client) Context() context.Context { return context.Background() }

// Rand returns the client's random numbers, which follow from the seed.
func (c *Client) Rand() *rand.Rand { return c.rand }

// Sleep waits in virtual time.
func (c *Client) Sleep(d time.Duration) {
	l := c.run.current
	c.run.world.Rest(d, func() { c.run.resume(l) })
	c.run.park()
}

// Fail ends the run, and the test, with an error.
func (c *Client) Fail(err error) { c.run.world.Fail(fmt.Errorf("client %d: %w", c.number, err)) }

// Go runs f concurrently with the caller, with the same session. The client is done when all of
// them have returned.
func (c *Client) Go(f func()) {
	c.lanes++
	c.run.begin(func() {
		defer c.laneDone()
		f()
	})
}

// laneDone is the end of a lane. A client that is done sends nothing more.
func (c *Client) laneDone() {
	if c.lanes--; c.lanes == 0 {
		c.over = errDone
		c.release()
	}
}

// begin begins a lane.
func (r *run) begin(f func()) {
	l := &lane{}
	l.next, l.stop = iter.Pull(func(yield func(struct{}) bool) {
		l.yield = yield
		defer func() {
			if what := recover(); what != nil && what != any(errStopped) {
				panic(what)
			}
		}()
		f()
	})
	r.lanes = append(r.lanes, l)
	r.world.After(0, func() { r.resume(l) })
}

// lane is a part of a workload that waits by itself.
type lane struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

var errStopped = errors.New("the run has ended")

// resume lets a lane go on until it waits. The world calls it, never a lane.
func (r *run) resume(l *lane) {
	r.current = l
	l.next()
	r.current = nil
}

// park waits until the lane is resumed.
func (r *run) park() {
	l := r.current
	if !l.yield(struct{}{}) {
		panic(errStopped)
	}
	r.current = l
}

// stop ends the lanes that wait.
func (r *run) stop() {
	for _, l := range r.lanes {
		l.stop()
	}
}

// attempts is how long several attempts of a call take, between which a client pauses, however
// quick the members are.
const attempts = 400 * time.Millisecond

// newClient begins a client.
func (r *run) newClient(number int) {
	p := r.world.Plan()
	c := &Client{run: r, number: number, rand: r.world.Dice(100 + uint64(number)), release: r.world.Hold(), patience: p.Patience()/3 + attempts, peers: map[link]*copyAt{}}
	var places []string
	for _, at := range c.rand.Perm(r.world.Nodes()) {
		places = append(places, strconv.Itoa(at))
	}
	c.timeout = p.FailAfter()/4 + time.Duration(c.rand.Int64N(int64(2*p.FailAfter())))
	session := time.Duration(1+c.rand.IntN(1<<c.rand.IntN(8))) * p.FailAfter()
	c.object = new(replicated.RemoteObject)
	c.core = c.object.Simulate(client.Simulation{
		Object: r.declared.Name, Places: places, Shards: r.declared.Shards, SessionTimeout: session, MemberTimeout: c.timeout,
		Token: [16]byte{1: byte(number + 1), 4: byte(number + 1)}, Carrier: carrier{c},
	})
	r.clients = append(r.clients, c)
	c.Go(func() {
		c.Sleep(time.Duration(c.rand.Int64N(int64(p.FailAfter()))))
		r.work(c)
	})
	r.world.After(c.timeout/4, c.tick)
}

// tick drops a member that does not answer, and touches the session.
func (c *Client) tick() {
	if c.lanes == 0 {
		return
	}
	for _, touch := range c.core.Late() {
		c.run.begin(touch)
	}
	c.run.world.After(c.timeout/4+1, c.tick)
}

// link is the way to one member: of a shard, which is 1 + its number, or to any member.
type link struct {
	shard  int
	number uint64
}

// request is on its way.
type request struct {
	link  link
	lane  *lane
	over  bool
	err   error
	reply []byte
}

// end has the lane of a request go on.
func (c *Client) end(q *request, answer []byte, err error) {
	if q.over {
		return
	}
	q.over, q.reply, q.err = true, answer, err
	c.run.resume(q.lane)
}

var (
	errBroken  = errors.New("the connection broke")
	errDropped = errors.New("the member does not answer")
	errNobody  = errors.New("no member has answered for long")
	errDone    = errors.New("the client is done")
)

// carrier is what the object of a Client needs, and a workload does not.
type carrier struct{ *Client }

// Now implements client.Carrier.
func (c carrier) Now() time.Time { return time.Unix(1_700_000_000, 0).Add(c.run.world.Now()) }

// Call implements client.Carrier.
func (c carrier) Call(shard int, number uint64, place string, data []byte, f func(answer []byte)) error {
	r := c.run
	at, err := strconv.Atoi(place)
	if err != nil || c.lanes == 0 {
		return cmp.Or(err, errDone)
	}
	r.attempts++
	q := &request{link: link{shard, number}, lane: r.current}
	c.requests = append(c.requests, q)
	c.deliver(r.hop(), q, at, data)
	r.park()
	for i := range c.requests {
		if c.requests[i] == q {
			c.requests = append(c.requests[:i], c.requests[i+1:]...)
			break
		}
	}
	if q.err == nil {
		f(q.reply)
	}
	return q.err
}

// deliver has a request arrive after a while. The run does not end before that, even if the client
// is done: the member may send something.
func (c *Client) deliver(after time.Duration, q *request, place int, data []byte) {
	arrived := c.run.world.Hold()
	c.run.world.After(after, func() {
		c.arrive(q, place, data)
		arrived()
	})
}

// arrive is when a request comes to where a member is, or was.
func (c *Client) arrive(q *request, place int, data []byte) {
	r := c.run
	h, ok := r.world.Host(place)
	switch {
	case !ok && r.random.IntN(4) > 0: // its host refuses the connection
		c.breaks(q.link)
		return
	case !ok: // it hears of nothing, until a process that does not know the connection breaks it
		c.peers[q.link] = nil
		return
	case h.Hangs() > 0:
		c.deliver(h.Hangs()+1, q, place, data)
		return
	}
	at := h.Copy().(*copyAt)
	if peer, known := c.peers[q.link]; known && peer != at { // the process before has ended
		c.breaks(q.link)
		return
	}
	c.peers[q.link] = at
	at.copy.Take(q.link.shard, bytes.Clone(data), func(answer []byte) {
		answer = bytes.Clone(answer)
		if at.gone || r.breakIn > 0 && r.random.IntN(r.breakIn) == 0 { // the answer does not arrive
			if !at.gone || r.random.IntN(4) > 0 {
				c.breaks(q.link)
			}
			return
		}
		r.world.After(r.hop(), func() { c.end(q, answer, nil) })
	})
}

// breaks ends the connection under a link: requests on it are not answered any more.
func (c *Client) breaks(l link) {
	for _, q := range c.requests {
		if q.link == l {
			c.run.world.After(c.run.hop(), func() { c.end(q, nil, errBroken) })
		}
	}
}

// Dropped implements client.Carrier.
func (c carrier) Dropped(shard int, number uint64) {
	for _, q := range c.requests {
		if q.link == (link{shard, number}) || number == 0 && q.link.shard == shard {
			c.run.world.After(0, func() { c.end(q, nil, errDropped) })
		}
	}
}

// Pick implements client.Carrier.
func (c carrier) Pick(n int) int { return c.rand.IntN(n) }

// Wait implements client.Carrier.
func (c carrier) Wait() {
	c.parked = append(c.parked, c.run.current)
	c.run.park()
}

// Changed implements client.Carrier.
func (c carrier) Changed() {
	for _, l := range c.parked {
		c.run.world.After(0, func() { c.run.resume(l) })
	}
	c.parked = nil
}

// Over implements client.Carrier.
func (c carrier) Over(began time.Time) error {
	if c.over == nil && c.Now().Sub(began) > c.patience {
		c.over = errNobody
		if c.run.works(c.patience) {
			c.Fail(errNobody)
		}
	}
	return c.over
}

var _ sim.Application = (*run)(nil)
