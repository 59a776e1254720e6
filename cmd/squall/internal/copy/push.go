package copy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc"
	"github.com/squall-go/squall/rdmc/schedule"
)

// step is how far a receiver is.
type step int

const (
	offered step = iota
	accepted
	ready
	placed
	kept
)

// receiver is what the pusher knows of one receiver. What it said belongs to the goroutine of
// push.run.
type receiver struct {
	id    order.NodeID
	addr  string
	rack  string
	conn  *conn         // nil: it was not reached
	ended chan struct{} // closed when nothing more can be read from it

	step     step
	received int // messages of the archive
	refused  []string
	failed   error // its own failure, or that its connection ended
	indirect error // what it says of others
}

// over reports whether nothing more will come of it.
func (r *receiver) over() bool { return r.failed != nil || r.indirect != nil || r.refused != nil }

// take notes one reply, or why there is none. The first failure stays.
func (r *receiver) take(a reply, err error) {
	switch {
	case r.over(), err != nil && r.step == kept:
	case err != nil:
		r.failed = err
	case a.Refused != nil:
		r.refused = a.Refused
	case a.Failed != "" && a.Indirect:
		r.indirect = errors.New(a.Failed)
	case a.Failed != "":
		r.failed = errors.New(a.Failed)
	case a.Accepted:
		r.step = max(r.step, accepted)
	case a.Ready:
		r.step = max(r.step, ready)
	case a.Placed:
		r.step = max(r.step, placed)
	case a.Kept:
		r.step = kept
	}
	r.received = max(r.received, a.Received)
}

// push is one push at the pusher. Its state belongs to the goroutine of run; other goroutines send
// it events.
type push struct {
	src       *source
	receivers []*receiver
	who       security
	rack      string
	force     bool
	algorithm schedule.Algorithm
	block     int
	begun     func()            // files begin to leave
	told      func(bytes int64) // that all receivers have extracted

	events  chan func()
	over    <-chan struct{} // closed when no events are taken any more
	broken  chan error      // gets why the group failed
	failure error           // that
	node    *rdmc.Node
	group   *rdmc.Group
	took    time.Duration
}

// run pushes. The error names the receiver at fault, if one is known.
func (p *push) run(ctx context.Context) error {
	own, cancel := context.WithCancel(ctx)
	p.events, p.broken, p.over = make(chan func()), make(chan error, 1), own.Done()
	err := p.steps(own)
	if err != nil {
		err = p.cause(ctx, err)
	}
	cancel()
	p.leave(err)
	return err
}

func (p *push) steps(ctx context.Context) error {
	if err := p.dial(ctx); err != nil {
		return err
	}
	if err := p.each(p.offer); err != nil {
		return err
	}
	if err := p.wait(ctx, p.all(accepted)); err != nil {
		return err
	}
	p.begun()
	start := time.Now()
	if err := p.transfer(ctx); err != nil {
		return err
	}
	if err := p.wait(ctx, p.all(ready)); err != nil {
		return err
	}
	if err := p.tell(ctx, request{Place: true}, placed); err != nil {
		return err
	}
	if err := p.tell(ctx, request{Keep: true}, kept); err != nil {
		return err
	}
	p.took = time.Since(start)
	return nil
}

// all reports whether all receivers are at a step.
func (p *push) all(s step) func() bool {
	return func() bool { return !slices.ContainsFunc(p.receivers, func(r *receiver) bool { return r.step < s }) }
}

// send sends a request to all receivers.
func (p *push) send(r request) error {
	return p.each(func(to *receiver) error { return to.conn.send(r) })
}

// tell sends a request to all receivers, and waits until they did it.
func (p *push) tell(ctx context.Context, r request, done step) error {
	if err := p.send(r); err != nil {
		return err
	}
	return p.wait(ctx, p.all(done))
}

// each calls do for all receivers at the same time. A receiver for which it fails counts as failed.
func (p *push) each(do func(*receiver) error) error {
	errs := make([]error, len(p.receivers))
	var wg sync.WaitGroup
	for i, r := range p.receivers {
		wg.Go(func() { errs[i] = do(r) })
	}
	wg.Wait()
	for i, r := range p.receivers {
		if errs[i] != nil {
			r.take(reply{}, errs[i])
		}
	}
	return p.fault()
}

var errBroken = errors.New("the push failed")

// fault is errBroken as soon as a receiver or the group failed.
func (p *push) fault() error {
	if p.failure != nil || slices.ContainsFunc(p.receivers, (*receiver).over) {
		return errBroken
	}
	return nil
}

// wait waits until a condition holds, or something failed.
func (p *push) wait(ctx context.Context, holds func() bool) error {
	for {
		if err := p.fault(); err != nil || holds() {
			return err
		}
		if _, _, err := p.next(ctx, nil); err != nil {
			return err
		}
	}
}

// next takes one event, or a buffer.
func (p *push) next(ctx context.Context, free <-chan []byte) (b []byte, got bool, err error) {
	select {
	case b = <-free:
		return b, true, nil
	case e := <-p.events:
		e()
	case p.failure = <-p.broken:
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	return nil, false, nil
}

// dial greets all receivers.
func (p *push) dial(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, greetTime)
	defer cancel()
	return p.each(func(r *receiver) error {
		c, err := port.Dial(limited, r.addr, port.KindCopy, p.who.tls)
		if err != nil {
			return notThere(err)
		}
		t, g, err := introduce(c, p.who.token)
		if err != nil {
			c.Close()
			return err
		}
		r.conn, r.rack, r.ended = t, g.Rack, make(chan struct{})
		go p.read(r)
		return nil
	})
}

// notThere is an error of dialing without the address, which is said already.
func notThere(err error) error {
	switch {
	case errors.Is(err, port.ErrKindRefused):
		return fmt.Errorf("no \"squall recv\" is there: %w", port.ErrKindRefused)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("it does not answer within %v", greetTime)
	}
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// read reads what a receiver says, until its connection ends.
func (p *push) read(r *receiver) {
	defer close(r.ended)
	for {
		var a reply
		err := r.conn.receive(&a)
		select {
		case p.events <- func() {
			if r.take(a, err); a.Received > 0 {
				p.told(min(p.src.total, int64(p.slowest())*messageBytes))
			}
		}:
		case <-p.over:
		}
		if err != nil {
			return
		}
	}
}

// slowest is how many messages all receivers have extracted.
func (p *push) slowest() int {
	return slices.MinFunc(p.receivers, func(a, b *receiver) int { return a.received - b.received }).received
}

// offer tells a receiver everything about the files but what is in them.
func (p *push) offer(r *receiver) error {
	if err := r.conn.send(request{Offer: &offer{ID: uint64(r.id), Entries: len(p.src.entries), Force: p.force}}); err != nil {
		return err
	}
	for rest := p.src.entries; len(rest) > 0; {
		n := fitting(rest)
		if err := r.conn.send(request{Entries: rest[:n]}); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// fitting is how many entries fit into a message, even if every character of their paths is written
// as an escape.
func fitting(entries []entry) (n int) {
	for left := wire.MaxMessageBytes - 1024; n < len(entries); n++ {
		if left -= 6*(len(entries[n].Path)+len(entries[n].To)) + 128; left < 0 && n > 0 {
			return n
		}
	}
	return n
}

// transfer forms the group and sends the archive and its digest. Nodes of higher id dial those of
// lower id, so the pusher has the highest: it may have no address at which others can reach it.
func (p *push) transfer(ctx context.Context) (err error) {
	id := order.NodeID(len(p.receivers) + 1)
	if p.node, err = rdmc.Open(ctx, rdmc.Config{Self: rdmc.Peer{ID: id, Addr: "127.0.0.1:0"}, TLS: p.who.tls}); err != nil {
		return err
	}
	st := &start{Key: rand.Text(), Members: []member{{uint64(id), p.node.Peer().Addr, p.rack}}, Algorithm: uint8(p.algorithm), Block: p.block}
	for _, r := range p.receivers {
		st.Members = append(st.Members, member{uint64(r.id), r.addr, r.rack})
	}
	if err := p.send(request{Start: st}); err != nil {
		return err
	}
	if err := p.create(ctx, st); err != nil {
		return err
	}
	digest, err := p.archive(ctx)
	if err != nil {
		return err
	}
	if err := p.send(request{Verify: digest}); err != nil {
		return err
	}
	return p.group.Close(ctx)
}

// create forms the group. A receiver that fails meanwhile ends the wait.
func (p *push) create(ctx context.Context, st *start) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, joinTime, fmt.Errorf("the receivers did not reach each other within %v", joinTime))
	created := false
	var creating sync.WaitGroup
	creating.Go(func() {
		p.group, err = p.node.Open(ctx, rdmc.GroupConfig{
			Name: groupName, Key: st.Key, Members: st.peers(), Algorithm: p.algorithm, BlockBytes: p.block, Failed: func(err error) { p.broken <- err },
		})
		select {
		case p.events <- func() { created = true }:
		case <-ctx.Done():
		}
	})
	waited := p.wait(ctx, func() bool { return created })
	cancel()
	creating.Wait()
	if waited != nil {
		return waited
	}
	return err
}

// archive sends the archive, and returns its digest.
func (p *push) archive(ctx context.Context) ([]byte, error) {
	sent := 0
	w := newMessageWriter(func(message []byte, left func(error)) error {
		if err := p.wait(ctx, func() bool { return p.slowest() >= sent-ahead }); err != nil {
			return err
		}
		sent++
		_, err := p.group.Start(rdmc.Outgoing{Data: message, Filled: -1, Sent: left})
		return err
	}, func(free <-chan []byte) ([]byte, error) {
		for {
			b, got, err := p.next(ctx, free)
			if err == nil && !got {
				err = p.fault()
			}
			if got || err != nil {
				return b, err
			}
		}
	})
	if err := p.src.write(w); err != nil {
		return nil, err
	}
	return w.end()
}

// reportTime is how long the receivers are given to report what happened.
const reportTime = 2 * time.Second

// cause finds the receiver at fault for a failure. A receiver that reports its own failure, or
// that is gone, counts before the reports of receivers about each other.
func (p *push) cause(ctx context.Context, err error) error {
	if p.group != nil {
		p.group.Discard() // the receivers learn of it
		if errors.Is(err, errBroken) || errors.Is(err, rdmc.ErrFailed) {
			p.awaitReports(ctx)
		}
	}
	var faults []error
	for _, r := range p.receivers {
		for _, why := range r.refused {
			faults = append(faults, fmt.Errorf("%s refused: %s", r.addr, why))
		}
		if r.failed != nil {
			faults = append(faults, fmt.Errorf("%s: %w", r.addr, r.failed))
		}
	}
	switch {
	case len(faults) > 0:
		return errors.Join(faults...)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.failure != nil:
		return p.named(p.failure)
	case !errors.Is(err, errBroken):
		return p.named(err)
	}
	for _, r := range p.receivers {
		if r.indirect != nil {
			return fmt.Errorf("%s says: %w", r.addr, r.indirect)
		}
	}
	return err
}

// awaitReports waits until every receiver has ended its part, for reportTime at most.
func (p *push) awaitReports(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	for slices.ContainsFunc(p.receivers, func(r *receiver) bool { return r.conn != nil && !r.over() }) {
		if _, _, err := p.next(ctx, nil); err != nil {
			return
		}
	}
}

// named puts the address in place of the number that the group knows a receiver by.
func (p *push) named(err error) error {
	var failure *rdmc.Failure
	if errors.As(err, &failure) {
		for _, r := range p.receivers {
			if r.id == failure.Node {
				return fmt.Errorf("%s: %s", r.addr, strings.TrimSpace(failure.Text))
			}
		}
	}
	return err
}

// leave ends all connections, with the reason if there is one.
func (p *push) leave(err error) {
	if p.node != nil {
		_ = p.node.Close()
	}
	var wg sync.WaitGroup
	for _, r := range p.receivers {
		if r.conn == nil {
			continue
		}
		wg.Go(func() {
			if err != nil {
				line, _, _ := strings.Cut(err.Error(), "\n")
				_ = r.conn.send(request{Quit: line})
			}
			r.conn.hangUp(r.ended)
		})
	}
	wg.Wait()
}
