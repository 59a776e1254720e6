package copy

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc"
	"github.com/squall-go/squall/rdmc/schedule"
)

// receiver is what the pusher knows of one receiver.
type receiver struct {
	id   order.NodeID
	addr string
	rack string
	conn *conn // nil: it was not reached

	refused  []string
	failed   error // its own failure, or that its connection ended
	indirect error // what it says of others
}

// ask sends a request, and waits for the answer. If the request cannot be sent, there is an answer
// that says why, or none.
func (r *receiver) ask(q request) error {
	_ = r.conn.send(q)
	return r.answer()
}

// answer waits for an answer, and notes what is wrong.
func (r *receiver) answer() error {
	var a reply
	r.failed = r.conn.receive(&a)
	switch {
	case r.failed != nil:
	case a.Refused != nil:
		r.refused = a.Refused
	case a.Failed != "" && a.Indirect:
		r.indirect = errors.New(a.Failed)
	case a.Failed != "":
		r.failed = errors.New(a.Failed)
	default:
		return nil
	}
	return errBroken
}

// push is one push at the pusher.
type push struct {
	src       *source
	receivers []*receiver
	who       security
	rack      string
	force     bool
	algorithm schedule.Algorithm
	block     int
	begun     func()            // files begin to leave
	told      func(bytes int64) // that all receivers have

	node   *rdmc.Node
	broken chan error // gets why the group failed
	ending sync.Once  // the receivers are told that nothing comes of it
	ended  atomic.Bool
	took   time.Duration
}

// errBroken says that receivers, or the group, know what is wrong.
var errBroken = errors.New("the push failed")

// run pushes. The error names the receiver at fault, if one is known.
func (p *push) run(ctx context.Context) error {
	p.broken = make(chan error, 1)
	defer p.close()
	err := p.each(func(r *receiver) error { return p.dial(ctx, r) })
	if err == nil {
		stop := context.AfterFunc(ctx, func() { p.quit(context.Cause(ctx)) })
		defer stop()
		err = p.steps(ctx)
	}
	if err == nil {
		return nil
	}
	err = p.cause(ctx, err)
	p.quit(err)
	return err
}

func (p *push) steps(ctx context.Context) error {
	if err := p.each(p.offer); err != nil {
		return err
	}
	p.begun()
	start := time.Now()
	if err := p.transfer(ctx); err != nil {
		return err
	}
	for _, q := range []request{{Place: true}, {Keep: true}} {
		if err := p.each(func(r *receiver) error { return r.ask(q) }); err != nil {
			return err
		}
	}
	p.took = time.Since(start)
	return nil
}

// each does something for all receivers at the same time.
func (p *push) each(do func(*receiver) error) error {
	errs := make([]error, len(p.receivers))
	var wg sync.WaitGroup
	for i, r := range p.receivers {
		wg.Go(func() { errs[i] = do(r) })
	}
	wg.Wait()
	if errors.Join(errs...) != nil {
		return errBroken
	}
	return nil
}

// dial greets a receiver.
func (p *push) dial(ctx context.Context, r *receiver) error {
	ctx, cancel := context.WithTimeout(ctx, greetTime)
	defer cancel()
	c, err := port.Dial(ctx, r.addr, port.KindCopy, p.who.tls)
	if err != nil {
		r.failed = notThere(err)
		return r.failed
	}
	t, g, err := introduce(c, p.who.token)
	if err != nil {
		c.Close()
		r.failed = err
		return err
	}
	r.conn, r.rack = t, g.Rack
	return nil
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

// offer tells a receiver everything about the files but what is in them.
func (p *push) offer(r *receiver) error {
	_ = r.conn.send(request{Offer: &offer{ID: uint64(r.id), Entries: len(p.src.entries), Force: p.force}})
	for rest := p.src.entries; len(rest) > 0; {
		n := fitting(rest)
		_ = r.conn.send(request{Entries: rest[:n]})
		rest = rest[n:]
	}
	return r.answer()
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

// transfer sends the files, and waits until all receivers have them. Nodes of higher id dial those
// of lower id, so the pusher has the highest: it may have no address at which others can reach it.
func (p *push) transfer(ctx context.Context) (err error) {
	id := order.NodeID(len(p.receivers) + 1)
	if p.node, err = rdmc.Open(ctx, rdmc.Config{Self: rdmc.Peer{ID: id, Addr: "127.0.0.1:0"}, TLS: p.who.tls}); err != nil {
		return err
	}
	st := &start{Key: rand.Text(), Members: []member{{uint64(id), p.node.Peer().Addr, p.rack}}, Algorithm: uint8(p.algorithm), Block: p.block}
	for _, r := range p.receivers {
		st.Members = append(st.Members, member{uint64(r.id), r.addr, r.rack})
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	answered := make(chan error, 1)
	go func() {
		answered <- p.each(func(r *receiver) error {
			err := r.ask(request{Start: st})
			if p.ended.Load() && errors.Is(r.failed, errSilent) {
				r.failed = nil // it was not given the time
			}
			if err != nil {
				fail(err)
			}
			return err
		})
	}()
	if err := p.send(ctx, fail, st); err != nil {
		p.quit(err)
		<-answered
		return err
	}
	return <-answered
}

// send forms the group, and sends the archive and its digest.
func (p *push) send(ctx context.Context, fail context.CancelCauseFunc, st *start) error {
	joining, cancel := context.WithTimeoutCause(ctx, joinTime, fmt.Errorf("the receivers did not reach each other within %v", joinTime))
	defer cancel()
	group, err := p.node.Open(joining, rdmc.GroupConfig{
		Name: groupName, Key: st.Key, Members: st.peers(), Algorithm: p.algorithm, BlockBytes: p.block,
		Failed: func(err error) {
			p.broken <- err
			fail(errBroken)
		},
	})
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer group.Discard()
	var done atomic.Int64
	w := newSender(ctx, group, func(bytes int) { p.told(done.Add(int64(bytes))) })
	if err = p.src.write(w); err == nil {
		err = w.flush()
	}
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	for _, r := range p.receivers {
		_ = r.conn.send(request{Verify: w.hash.Sum(nil)}) // its answer is waited for
	}
	return group.Close(ctx)
}

// reportTime is how long the receivers are given to report what happened.
const reportTime = 2 * time.Second

// quit tells the receivers that nothing comes of the push.
func (p *push) quit(why error) {
	p.ending.Do(func() {
		p.ended.Store(true)
		line, _, _ := strings.Cut(why.Error(), "\n")
		for _, r := range p.receivers {
			if r.conn != nil {
				_ = r.conn.send(request{Quit: line})
				r.conn.HangUp(reportTime)
			}
		}
	})
}

// cause finds the receiver at fault for a failure. A receiver that reports its own failure, or
// that is gone, counts before the reports of receivers about each other.
func (p *push) cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var faults, indirect []error
	for _, r := range p.receivers {
		for _, why := range r.refused {
			faults = append(faults, fmt.Errorf("%s refused: %s", r.addr, why))
		}
		if r.failed != nil {
			faults = append(faults, fmt.Errorf("%s: %w", r.addr, r.failed))
		}
		if r.indirect != nil {
			indirect = append(indirect, fmt.Errorf("%s says: %w", r.addr, r.indirect))
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	select {
	case err = <-p.broken:
	default:
	}
	if errors.Is(err, errBroken) && len(indirect) > 0 {
		return indirect[0]
	}
	return p.named(err)
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

// close ends all connections.
func (p *push) close() {
	if p.node != nil {
		_ = p.node.Close()
	}
	_ = p.each(func(r *receiver) error {
		if r.conn != nil {
			r.conn.HangUp(hangUpTime)
			for r.conn.receive(&reply{}) == nil { // until it has hung up, too
			}
			r.conn.close()
		}
		return nil
	})
}
