package copy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc"
	"github.com/squall-go/squall/rdmc/schedule"
)

// stageOf counts how far a receiver is.
type stageOf int

const (
	offeredTo stageOf = iota
	accepted
	ready
	placed
	kept
)

// receiver is the pusher's state of one receiver.
type receiver struct {
	id    order.NodeID
	addr  string
	rack  string
	talk  *talk
	heard <-chan heard[answer]
	// silent is closed when nothing more can be heard of it.
	silent chan struct{}

	// What it said; guarded by push.mu.
	at      stageOf
	pieces  int
	refused []string
	failed  error // its own, or that its connection ended
	hearsay error // what it says of others
}

// over reports whether nothing more will come of it.
func (r *receiver) over() bool { return r.failed != nil || r.hearsay != nil || r.refused != nil }

// push is one push at the pusher.
type push struct {
	src       *source
	pieces    []piece
	receivers []*receiver
	who       security
	rack      string
	force     bool
	algorithm schedule.Algorithm
	block     int
	begun     func() // files begin to leave
	told      func(pieces int)

	mu      sync.Mutex
	changed chan struct{} // closed, and replaced, when a receiver said something
	broken  error         // why the group failed
	readers sync.WaitGroup
	node    *rdmc.Node
	group   *rdmc.Group
	digests digest // of all digests, when all is sent
	took    time.Duration
}

// run pushes. The error names the receiver at fault, if one is known.
func (p *push) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	p.changed = make(chan struct{})
	defer p.readers.Wait()
	defer cancel()
	err := p.steps(ctx)
	if err != nil {
		err = p.inquest(ctx, err)
	}
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
	if err := p.await(ctx, func(r *receiver) bool { return r.at >= accepted }); err != nil {
		return err
	}
	p.begun()
	start := time.Now()
	if err := p.transfer(ctx); err != nil {
		return err
	}
	if err := p.await(ctx, func(r *receiver) bool { return r.at >= ready }); err != nil {
		return err
	}
	if err := p.tell(ctx, call{Place: true}, placed); err != nil {
		return err
	}
	if err := p.tell(ctx, call{Keep: true}, kept); err != nil {
		return err
	}
	p.took = time.Since(start)
	return nil
}

// tell says one thing to all receivers, and waits until they did it.
func (p *push) tell(ctx context.Context, c call, done stageOf) error {
	if err := p.each(func(r *receiver) error { return r.talk.say(c) }); err != nil {
		return err
	}
	return p.await(ctx, func(r *receiver) bool { return r.at >= done })
}

// each calls do for all receivers at the same time. A receiver for which it fails counts as failed.
func (p *push) each(do func(*receiver) error) error {
	var wg sync.WaitGroup
	for _, r := range p.receivers {
		wg.Go(func() {
			if err := do(r); err != nil {
				p.heard(r, func() { r.failed = err })
			}
		})
	}
	wg.Wait()
	return p.fault()
}

// heard notes what a receiver said, and wakes the goroutines that wait for it. The first failure is
// kept.
func (p *push) heard(r *receiver, note func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !r.over() {
		note()
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// dial greets all receivers.
func (p *push) dial(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, greetTime)
	defer cancel()
	return p.each(func(r *receiver) error {
		conn, err := port.Dial(limited, r.addr, port.KindCopy, p.who.tls)
		if err != nil {
			return notThere(err)
		}
		t, g, err := introduce(conn, p.who.token)
		if err != nil {
			conn.Close()
			return err
		}
		r.talk, r.rack = t, g.Rack
		r.heard, r.silent = listen[answer](ctx, t), make(chan struct{})
		p.readers.Go(func() { p.follow(r) })
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

// follow notes what a receiver says, until its connection ends.
func (p *push) follow(r *receiver) {
	defer close(r.silent)
	for h := range r.heard {
		p.heard(r, func() { r.take(h) })
		if h.err == nil && h.value.Pieces > 0 {
			p.told(p.slowest())
		}
	}
}

// take notes one answer.
func (r *receiver) take(h heard[answer]) {
	a := h.value
	switch {
	case h.err != nil:
		if r.at < kept {
			r.failed = h.err
		}
	case a.Refused != nil:
		r.refused = a.Refused
	case a.Failed != "" && a.Hearsay:
		r.hearsay = errors.New(a.Failed)
	case a.Failed != "":
		r.failed = errors.New(a.Failed)
	case a.Pieces > 0:
		r.pieces = max(r.pieces, a.Pieces)
	case a.Accepted:
		r.at = max(r.at, accepted)
	case a.Ready:
		r.at = max(r.at, ready)
	case a.Placed:
		r.at = max(r.at, placed)
	case a.Kept:
		r.at = kept
	}
}

// slowest is how many pieces all receivers are done with.
func (p *push) slowest() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	least := len(p.pieces)
	for _, r := range p.receivers {
		least = min(least, r.pieces)
	}
	return least
}

var errBroken = errors.New("the push failed")

// fault reports errBroken as soon as a receiver failed.
func (p *push) fault() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faultLocked()
}

func (p *push) faultLocked() error {
	if p.broken != nil {
		return errBroken
	}
	for _, r := range p.receivers {
		if r.over() {
			return errBroken
		}
	}
	return nil
}

// await waits until a condition holds for all receivers, or a receiver failed.
func (p *push) await(ctx context.Context, holds func(*receiver) bool) error {
	for {
		p.mu.Lock()
		all, err, changed := true, p.faultLocked(), p.changed
		for _, r := range p.receivers {
			all = all && holds(r)
		}
		p.mu.Unlock()
		if err != nil || all {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// offer tells a receiver everything about the files but what is in them.
func (p *push) offer(r *receiver) error {
	if err := r.talk.say(call{Offer: &offer{ID: uint64(r.id), Entries: len(p.src.entries), Force: p.force}}); err != nil {
		return err
	}
	rest := p.src.entries
	for len(rest) > 0 {
		n := fitting(rest)
		if err := r.talk.say(call{Entries: rest[:n]}); err != nil {
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

// members are the nodes of the group: the pusher, which sends, and the receivers. Nodes of higher
// id dial those of lower id, so the pusher has the highest: it may have no address at which others
// can reach it.
func (p *push) members(self rdmc.Peer) []member {
	all := []member{{uint64(self.ID), self.Addr, p.rack}}
	for _, r := range p.receivers {
		all = append(all, member{uint64(r.id), r.addr, r.rack})
	}
	return all
}

// transfer sends all pieces, and the digest of their digests.
func (p *push) transfer(ctx context.Context) error {
	var err error
	id := order.NodeID(len(p.receivers) + 1)
	if p.node, err = rdmc.Listen("127.0.0.1:0", id, p.who.tls); err != nil {
		return err
	}
	members := p.members(p.node.Peer())
	key := rand.Text()
	start := call{Start: &start{Key: key, Members: members, Algorithm: uint8(p.algorithm), Block: p.block}}
	if err := p.each(func(r *receiver) error { return r.talk.say(start) }); err != nil {
		return err
	}
	if len(p.pieces) == 0 {
		return p.each(func(r *receiver) error { return r.talk.say(call{Verify: p.digests[:]}) })
	}
	if err := p.create(ctx, key, members); err != nil {
		return err
	}
	if err := p.stream(ctx); err != nil {
		return err
	}
	if err := p.each(func(r *receiver) error { return r.talk.say(call{Verify: p.digests[:]}) }); err != nil {
		return err
	}
	return p.group.Close(ctx)
}

// create forms the group. A receiver that fails meanwhile ends the wait.
func (p *push) create(ctx context.Context, key string, members []member) error {
	ctx, cancel := context.WithTimeoutCause(ctx, joinTime, fmt.Errorf("the receivers did not reach each other within %v", joinTime))
	defer cancel()
	done := make(chan error, 1)
	go func() {
		var err error
		p.group, err = p.node.Create(ctx, rdmc.GroupConfig{
			Name: groupName, Key: key, Members: peers(members), Algorithm: p.algorithm, BlockBytes: p.block, Failed: p.groupFailed,
		})
		done <- err
	}()
	go func() {
		if p.await(ctx, func(*receiver) bool { return false }) != nil {
			cancel()
		}
	}()
	return <-done
}

func (p *push) groupFailed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = err
	close(p.changed)
	p.changed = make(chan struct{})
}

// inquestTime is how long the receivers are given to report what happened.
const inquestTime = 2 * time.Second

// inquest finds the receiver at fault for a failure. A receiver that reports its own failure, or
// that is gone, counts before the reports of receivers about each other.
func (p *push) inquest(ctx context.Context, err error) error {
	if p.group != nil {
		p.group.Discard() // the receivers learn of it
	}
	if errors.Is(err, errBroken) || errors.Is(err, rdmc.ErrFailed) {
		patient, cancel := context.WithTimeout(ctx, inquestTime)
		_ = p.settled(patient)
		cancel()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var blamed []error
	for _, r := range p.receivers {
		for _, why := range r.refused {
			blamed = append(blamed, fmt.Errorf("%s refused: %s", r.addr, why))
		}
		if r.failed != nil {
			blamed = append(blamed, fmt.Errorf("%s: %w", r.addr, r.failed))
		}
	}
	switch {
	case len(blamed) > 0:
		return errors.Join(blamed...)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.broken != nil:
		return p.named(p.broken)
	case !errors.Is(err, errBroken):
		return p.named(err)
	}
	for _, r := range p.receivers {
		if r.hearsay != nil {
			return fmt.Errorf("%s says: %w", r.addr, r.hearsay)
		}
	}
	return err
}

// settled waits until every receiver has ended its part, or was never connected. It returns at once
// if there is no group yet, because then nothing more is to be learned.
func (p *push) settled(ctx context.Context) error {
	for {
		p.mu.Lock()
		all, changed := true, p.changed
		for _, r := range p.receivers {
			all = all && (r.over() || r.talk == nil)
		}
		refused := p.group == nil // nothing was begun, so what is known is all
		p.mu.Unlock()
		if all || refused {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
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

// leave ends all conversations, with the reason if there is one.
func (p *push) leave(err error) {
	if p.node != nil {
		_ = p.node.Close()
	}
	var wg sync.WaitGroup
	for _, r := range p.receivers {
		if r.talk == nil {
			continue
		}
		wg.Go(func() {
			if err != nil {
				_ = r.talk.say(call{Quit: firstLine(err)})
			}
			r.talk.partWays(r.silent)
		})
	}
	wg.Wait()
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
