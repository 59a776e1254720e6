package dds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/ripc"
)

// batchBytes bounds the samples of a writer that are sent at once.
const batchBytes = 256 << 10

// Pauses between attempts to reach a relay, after all of them have failed.
const (
	leastPause = 5 * time.Millisecond
	mostPause  = 500 * time.Millisecond
)

// run keeps a connection to one of the relays.
func (c *client) run() {
	relays := max(len(c.cfg.Addresses), len(c.cfg.Services))
	pause := wait.Backoff{First: leastPause, Longest: mostPause}
	for i, failures, finals := 0, 0, 0; c.ctx.Err() == nil; i++ {
		met, err := c.use(i % relays)
		if c.ctx.Err() != nil {
			return
		}
		if met {
			c.tell(RelayChanged{c.name(i % relays), err})
			pause.Reset()
			failures, finals = 0, 0
			continue
		}
		if finals++; !c.isFinal(err) {
			finals = 0
		}
		c.missed(fmt.Errorf("the last attempt, at %s: %w", c.name(i%relays), err), finals >= relays)
		if failures++; failures%relays == 0 {
			_ = pause.Wait(c.ctx) // the loop looks whether the client goes on
		}
	}
}

// isFinal reports whether a relay that failed in this way fails whenever it is asked, until a
// configuration changes. A relay that is about to end may know the space no more: after a relay has
// taken the client, others are waited for.
func (c *client) isFinal(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return port.Final(err) || errors.Is(err, ErrOtherGroup) || !c.relay.met && errors.Is(err, errRefused)
}

// errRefused is why a process that was reached does not serve the client.
var errRefused = errors.New("it does not serve this client")

// missed notes that no relay was reached. Final says that each one fails whenever it is asked.
func (c *client) missed(why error, final bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if log := c.cfg.Logger; log != nil && c.relay.failed == nil { // since a relay was used
		log.Warn("a relay was not reached", "space", c.p.Name, "error", why)
	}
	c.relay.failed, c.relay.refused = why, nil
	if !final {
		return
	}
	c.relay.refused = why
	for n, k := range c.calls.waiting {
		delete(c.calls.waiting, n)
		k.result <- why
	}
	c.news()
}

func (c *client) name(i int) string {
	if c.at == nil {
		return string(c.cfg.Services[i])
	}
	return c.cfg.Addresses[i]
}

// tell tells the application which relay is used, or why there is none.
func (c *client) tell(e RelayChanged) {
	if log := c.cfg.Logger; log != nil && e.Err == nil {
		log.Info("the client uses a relay", "space", c.p.Name, "relay", e.Relay)
	} else if log != nil {
		log.Warn("the client has lost its relay", "space", c.p.Name, "relay", e.Relay, "error", e.Err)
	}
	if c.events != nil {
		c.events(e)
	}
}

// use connects to a relay, and serves the connection until it fails. It reports whether the relay
// took the client.
func (c *client) use(i int) (met bool, err error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.RelayTimeout)
	defer cancel()
	service, err := c.endpoint.Register(ctx, "") // of one connection: its relay is looked for again
	if err != nil {
		return false, err
	}
	defer service.Close()
	id := ripc.ID(core.Service(c.cfg.Cluster, c.p.Name))
	if c.at == nil {
		id = c.cfg.Services[i]
	} else {
		c.at.mu.Lock()
		c.at.addr = c.cfg.Addresses[i]
		c.at.mu.Unlock()
	}
	conn, err := service.Dial(ctx, id)
	if errors.Is(err, ripc.ErrNoService) && c.at != nil {
		err = fmt.Errorf("%w: space %q of cluster %q is not there: %w", errRefused, c.p.Name, c.cfg.Cluster, err)
	}
	if err != nil {
		return false, err
	}
	stop := context.AfterFunc(c.ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	in := &core.Frames{Conn: conn, Timeout: c.cfg.RelayTimeout}
	welcome, err := c.greet(conn, in)
	if err != nil {
		return false, err
	}
	l := &link{conn: conn, wake: wait.NewBell()}
	if err := c.begin(l, welcome); err != nil {
		return false, err
	}
	c.tell(RelayChanged{Relay: c.name(i)})
	var sending sync.WaitGroup
	ended, end := context.WithCancel(c.ctx)
	sending.Go(func() {
		if err := c.send(ended, l); err != nil {
			_ = conn.Close() // receive fails
		}
	})
	c.p.Hearers.Run(func() { err = c.receive(in) })
	end()
	c.end(l)
	_ = conn.Close()
	sending.Wait()
	return true, err
}

// greet says who the client is, and returns the relay's answer.
func (c *client) greet(conn io.Writer, in *core.Frames) (welcome remote.Welcome, err error) {
	hello, err := remote.AppendValue(nil, remote.KindHello, remote.Hello{Version: remote.Version, Cluster: c.cfg.Cluster, Space: c.p.Name, Client: c.guid(0)})
	if err == nil {
		_, err = conn.Write(hello)
	}
	if err != nil {
		return welcome, err
	}
	kind, body, err := in.Next()
	if err != nil {
		return welcome, err
	}
	if err = remote.ParseValue(body, &welcome); err != nil || kind != remote.KindWelcome {
		return welcome, cmp.Or(err, remote.ErrMalformed)
	}
	if welcome.Refused != "" {
		return welcome, fmt.Errorf("%w: %.300s", errRefused, welcome.Refused)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.relay.group == "" {
		c.relay.group = welcome.Group
	}
	if c.relay.group != welcome.Group {
		err = fmt.Errorf("%w: the client uses group %s of cluster %q, and the relay is of group %.100s", ErrOtherGroup, c.relay.group, c.cfg.Cluster, welcome.Group)
	}
	return welcome, err
}

// begin has everything declared and opened at a relay that the client uses, and the requests sent
// that have no answer.
func (c *client) begin(l *link, welcome remote.Welcome) error {
	p := c.p
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for _, u := range c.byNumber {
		u.matched = 0
		p.Space.Interrupt(u.id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.relay.link, c.relay.welcome, c.relay.met, c.relay.failed, c.relay.refused = l, welcome, true, nil, nil
	waiting := slices.Sorted(maps.Keys(c.calls.waiting))
	for i := range c.topics {
		c.make(&call{again: true, request: remote.Request{Op: remote.OpTopic, Topic: &c.topics[i]}})
	}
	c.held = false
	for _, u := range c.all {
		r := u.request()
		if u.reached != nil {
			at := *u.reached
			r.Resume, r.Hold = &at, u.info.QoS.Presentation.Coherent
			c.held = c.held || r.Hold
		}
		c.make(&call{again: true, request: r, then: func(a *remote.Answer) { c.reopened(u, a) }})
	}
	if c.held { // readers that want coherent access go on together
		c.make(&call{again: true, request: remote.Request{Op: remote.OpRelease}, then: func(*remote.Answer) { c.released() }})
	}
	for _, n := range waiting {
		if err := c.post(c.calls.waiting[n]); err != nil {
			return err
		}
	}
	c.news()
	return nil
}

// request opens an endpoint.
func (u *used) request() remote.Request {
	return remote.Request{
		Op: remote.OpOpen, Number: u.id.Number, Topic: &space.TopicInfo{Name: u.info.Topic}, Reader: u.info.Reader, QoS: &u.info.QoS, GUID: u.guid, Filter: u.filter,
	}
}

// reopened goes on with an endpoint at another relay.
func (c *client) reopened(u *used, a *remote.Answer) {
	err := a.Err()
	c.mu.Lock()
	if err == nil && !u.info.Reader {
		err = u.outbox.Resume(a.Come.Ordered, u.acknowledged(a.Come), time.Since(c.relay.lost), space.OriginMemory)
	}
	err = cmp.Or(u.torn, err)
	u.there, u.open, u.failed = a.ID, err == nil, err
	if err == nil {
		u.ordered = 0 // the group may have lost the end of its log
		u.come(a.Come)
		c.settleSets()
	} else {
		u.fail(err)
		c.tear(u, err)
	}
	c.news()
	if c.relay.link != nil {
		c.relay.link.rouse()
	}
	c.mu.Unlock()
	if !u.info.Reader {
		return
	}
	c.p.Mu.Lock()
	defer c.p.Mu.Unlock()
	switch {
	case err != nil:
		c.p.Space.Detach(u.id)
	case u.reached.Born != a.Resume.Born || u.reached.Position > a.Resume.Position: // the reader begins anew, or goes back to where the space has lost records
		u.reached = &a.Resume
	}
}

// released notes that the relay goes on with the readers that want coherent access, and knows how
// far each of them is.
func (c *client) released() {
	c.p.Mu.Lock()
	defer c.p.Mu.Unlock()
	c.held = false
}

// end forgets a connection.
func (c *client) end(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.relay.link, c.relay.lost = nil, time.Now()
	time.AfterFunc(c.cfg.RelayTimeout, func() { // close gives up
		c.mu.Lock()
		defer c.mu.Unlock()
		c.news()
	})
	for _, u := range c.all {
		u.open = false
	}
	for _, s := range c.sets.whole {
		s.sent = false
	}
	for n, k := range c.calls.waiting {
		if k.again {
			delete(c.calls.waiting, n)
		}
	}
	c.news()
}

// make gives a request a number and sends it, if there is a relay. The lock is held.
func (c *client) make(k *call) {
	c.calls.last++
	k.request.Call = c.calls.last
	k.result = make(chan error, 1)
	if c.relay.refused != nil {
		k.result <- c.relay.refused
		return
	}
	c.calls.waiting[c.calls.last] = k
	if err := c.post(k); err != nil {
		delete(c.calls.waiting, c.calls.last)
		k.result <- err
	}
}

// post sends a request, if there is a relay. The lock is held.
func (c *client) post(k *call) (err error) {
	if l := c.relay.link; l != nil {
		l.out, err = remote.AppendValue(l.out, remote.KindRequest, k.request)
		l.rouse()
	}
	return err
}

// ask makes a request, at another relay if one fails meanwhile, until ctx ends.
func (c *client) ask(ctx context.Context, k *call) error {
	c.mu.Lock()
	c.make(k)
	c.mu.Unlock()
	select {
	case err := <-k.result:
		return err
	case <-c.ctx.Done():
		return ErrNotOpen
	case <-ctx.Done(): // the request takes effect nevertheless, perhaps
		c.mu.Lock()
		delete(c.calls.waiting, k.request.Call)
		c.mu.Unlock()
		return context.Cause(ctx)
	}
}

// send sends requests and samples to a relay.
func (c *client) send(ctx context.Context, l *link) error {
	beat := time.NewTicker(core.Heartbeat)
	defer beat.Stop()
	var out []byte
	for {
		c.mu.Lock()
		out, l.out = l.out, out[:0]
		for _, u := range c.all {
			if !u.open {
				continue
			}
			entries := u.outbox.Next(batchBytes)
			for i := range entries {
				out = remote.AppendSample(out, u.id.Number, &entries[i])
			}
		}
		out = c.appendSets(out)
		c.mu.Unlock()
		if len(out) == 0 {
			select {
			case <-l.wake:
				continue
			case <-beat.C:
				out = remote.AppendFrame(out, remote.KindPing, func(b []byte) []byte { return b })
			case <-ctx.Done():
				return nil
			}
		}
		if _, err := l.conn.Write(out); err != nil {
			return err
		}
	}
}

// receive takes what a relay sends.
func (c *client) receive(in *core.Frames) error {
	var batch remote.Batch
	for {
		kind, body, err := in.Next()
		if err != nil {
			return err
		}
		switch kind {
		case remote.KindBatch:
			if err = remote.ParseBatch(body, &batch); err == nil {
				err = c.feed(&batch)
			}
		case remote.KindAck:
			var number uint32
			var come remote.Come
			if number, come, err = remote.ParseAck(body); err == nil {
				c.acknowledged(number, come)
			}
		case remote.KindAnswer:
			var a remote.Answer
			if err = remote.ParseValue(body, &a); err == nil {
				c.answered(&a)
			}
		case remote.KindEvent:
			var e remote.Event
			if err = remote.ParseValue(body, &e); err == nil {
				c.happened(&e)
			}
		default:
			err = fmt.Errorf("%w: kind %d", remote.ErrMalformed, kind)
		}
		if err != nil {
			return err
		}
	}
}

func (c *client) acknowledged(number uint32, come remote.Come) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if u := c.writer(number); u != nil {
		u.come(come)
		c.settleSets()
		c.news()
	}
}

// writer finds a writer. The lock is held.
func (c *client) writer(number uint32) *used {
	for _, u := range c.all {
		if u.id.Number == number && !u.info.Reader {
			return u
		}
	}
	return nil
}

func (c *client) answered(a *remote.Answer) {
	c.mu.Lock()
	k := c.calls.waiting[a.Call]
	delete(c.calls.waiting, a.Call)
	c.mu.Unlock()
	if k == nil {
		return
	}
	if k.then != nil {
		k.then(a)
	}
	k.answer = *a
	k.result <- a.Err()
}

// happened tells of an event of an endpoint.
func (c *client) happened(e *remote.Event) {
	p := c.p
	p.Mu.Lock()
	defer p.Mu.Unlock()
	u := c.byNumber[e.Number]
	if u == nil {
		return
	}
	e.Event.Endpoint = u.id
	switch e.Event.Kind {
	case space.Matched, space.Unmatched:
		u.matched = e.Event.Current
	}
	p.Happened(e.Event)
	p.Wake()
	p.TellAll()
}

// feed gives a batch to the readers. If one of them has no room, it waits: then the relay is not
// read from, and does not wait for the client.
func (c *client) feed(b *remote.Batch) error {
	p := c.p
	t := core.Now()
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if b.Gate != remote.GateOpen {
		p.Space.Gate(true)
	}
	for i := range b.Fed {
		f := &b.Fed[i]
		u := c.byNumber[f.Reader]
		if u == nil {
			continue
		}
		for p.Space.FeedFull(u.id, f) && (i == 0 || f.Position == 0 || b.Fed[i-1].Position != f.Position) { // a set comes as a whole
			p.Stalled = true
			p.Wake()
			p.TellAll()
			p.Mu.Unlock()
			select {
			case <-c.room:
			case <-c.ctx.Done():
			}
			p.Mu.Lock()
			if c.ctx.Err() != nil {
				return ErrNotOpen
			}
		}
		p.Space.Feed(t, u.id, f)
	}
	if b.Gate != remote.GateShut && !c.held {
		p.Space.Gate(false)
	}
	if b.Lineage != nil {
		c.lineage = b.Lineage
	}
	for _, r := range b.Reached {
		if u := c.byNumber[r.Number]; u != nil && u.reached != nil {
			u.reached.Reached, u.reached.Lineage = r.Reached, c.lineage
		}
	}
	p.Space.Advance(b.Position)
	p.Wake()
	p.TellAll()
	return nil
}

// Roomy wakes what waits for a reader that was full.
func (c *client) Roomy() {
	c.room.Ring()
}
