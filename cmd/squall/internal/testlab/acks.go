package testlab

import (
	"context"
	"fmt"

	"github.com/squall-go/squall"
)

// Ack says that a message of a process is on every member's disk: it must never be lost.
type Ack struct {
	Subgroup int
	Number   uint64 // at its process
	View     squall.ViewID
	Seq      squall.Seq
}

// Version is the message's place in the log.
func (a Ack) Version() squall.Version { return squall.Version{View: a.View, Seq: a.Seq} }

const (
	// mostUnacked is how many messages of a process may be on their way to disks, if the load does not
	// say. With more, fewer writes of the disks would do for all of them, and a kill would find them
	// at fewer places.
	mostUnacked = 128
	// mostAcks is how many are told at once.
	mostAcks = 64
)

// unacked is a message of which it is not known whether it is on every disk.
type unacked struct {
	number uint64
	future *squall.Future
	told   chan<- error // gets whether it and all before it were told; nil: nobody waits for that
}

// acknowledger tells which of a load's messages are on every disk, in their order. What the test
// does not hear of is not acknowledged: so it says nothing ahead, and nothing twice.
type acknowledger struct {
	subgroup int
	newest   bool // only the newest message is told
	tell     func(News)
	pending  chan unacked
	cancel   context.CancelFunc
	done     chan struct{}
	ready    []Ack
	failed   error
}

func newAcknowledger(subgroup int, l *Load, tell func(News)) *acknowledger {
	most := l.Acks
	if most == 0 {
		most = mostUnacked
	}
	a := &acknowledger{
		subgroup: subgroup, newest: l.Newest, tell: tell, pending: make(chan unacked, most), done: make(chan struct{}),
	}
	var ctx context.Context
	ctx, a.cancel = context.WithCancel(context.Background())
	go a.run(ctx)
	return a
}

// add takes a message, and waits until fewer than the most are on their way.
func (a *acknowledger) add(ctx context.Context, m unacked) error {
	select {
	case a.pending <- m:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *acknowledger) run(ctx context.Context) {
	defer close(a.done)
	for {
		select {
		case m := <-a.pending:
			a.acknowledge(ctx, m)
		case <-ctx.Done():
			return
		}
	}
}

// acknowledge waits until a message is on every disk. What is known before is told before.
func (a *acknowledger) acknowledge(ctx context.Context, m unacked) {
	for a.newest && m.told == nil && len(a.pending) > 0 {
		m = <-a.pending
	}
	if a.failed == nil && !durable(m.future) {
		a.flush()
	}
	if a.failed == nil {
		v, err := m.future.Persisted(ctx, squall.OnEveryDisk)
		if err != nil {
			a.failed = fmt.Errorf("message %d is not known to be on every disk: %w", m.number, err)
		} else {
			a.ready = append(a.ready, Ack{a.subgroup, m.number, v.View, v.Seq})
		}
	}
	if len(a.ready) == mostAcks || len(a.pending) == 0 || m.told != nil {
		a.flush()
	}
	if m.told != nil {
		m.told <- a.failed
	}
}

// durable reports whether a message is on every disk already.
func durable(f *squall.Future) bool {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := f.Persisted(now, squall.OnEveryDisk)
	return err == nil
}

func (a *acknowledger) flush() {
	if len(a.ready) > 0 {
		a.tell(News{Kind: NewsAcked, Acked: a.ready})
		a.ready = nil
	}
}

// settle waits until a last message, and all before it, are on every disk and told.
func (a *acknowledger) settle(ctx context.Context, last unacked) error {
	told := make(chan error, 1)
	last.told = told
	if err := a.add(ctx, last); err != nil {
		return err
	}
	select {
	case err := <-told:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *acknowledger) close() {
	a.cancel()
	<-a.done
}
