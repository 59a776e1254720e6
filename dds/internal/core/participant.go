package core

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/internal/callers"
	"github.com/squall-go/squall/internal/errs"
)

// ErrNotOpen is dds.ErrNotOpen.
var ErrNotOpen = errors.New("dds: the participant is not open")

// Public returns the *dds.Participant of p, whose Events is a func(dds.Event). Package dds sets it,
// for package member.
var Public func(p *Participant, events any) any

// Participant is a process's part in a space of topics. The fields up to Mu are constant once the
// process is a member or a client.
type Participant struct {
	Backend Backend
	Name    string // of the space
	// Tell tells the application of an event; nil: nobody. No lock is held.
	Tell func(*space.Event)
	// Taken reports whether an event is of an endpoint that this process has for another one, and
	// takes the event then; nil: it has none. The lock is held.
	Taken func(*space.Event) bool
	// Looks says that what waits for a reader with space looks itself again, some time later: Roomy
	// need not be called for each sample that is taken.
	Looks bool
	// Over is closed when the group is over, for the reason that Cause returns. Nil: it is not known.
	Over  <-chan struct{}
	Cause func() error
	// Done is closed by End.
	Done chan struct{}
	// Hearers are the goroutines that call listeners, other than the group's loop.
	Hearers callers.Set

	Mu      sync.Mutex
	Space   space.Space
	Self    space.Process
	Closing bool
	Stalled bool          // a reader had no space for the next record
	changed chan struct{} // closed when records were applied while a call waits, and made anew
	waits   int           // calls that wait
	number  uint32        // of the last endpoint of this process
	events  events
	binders binders

	samples sampleTime
}

// events are passed to Tell, in order: one goroutine at a time calls it.
type events struct {
	untold  []space.Event // within a batch
	telling bool
}

// New returns the part of a process that is about to be a member or a client of a space.
func New(name string) *Participant {
	p := &Participant{Name: name, changed: make(chan struct{}), Done: make(chan struct{})}
	p.Space.Told = p.Happened
	return p
}

// NextID returns the name of a new endpoint. The lock is held.
func (p *Participant) NextID() space.ID {
	p.number++
	return space.ID{Process: p.Self, Number: p.number}
}

// End ends everything that waits, for ever. The lock is held, and released.
func (p *Participant) End() {
	if !p.Closing {
		p.Closing = true
		close(p.Done)
	}
	p.Wake()
	p.Roomy()
}

// Roomy ends a section under the lock that made space in a reader.
func (p *Participant) Roomy() {
	resume := p.Stalled
	p.Stalled = false
	p.Mu.Unlock()
	if resume {
		p.Backend.Roomy()
	}
}

// Wait waits until something changes. The lock is held, and released meanwhile.
func (p *Participant) Wait(ctx context.Context) error { return p.WaitUntil(ctx, nil) }

// WaitUntil is Wait, and returns when something comes on at, too.
func (p *Participant) WaitUntil(ctx context.Context, at <-chan time.Time) error {
	changed := p.changed
	p.waits++
	p.Mu.Unlock()
	defer p.Mu.Lock()
	select {
	case <-changed:
	case <-at:
	case <-p.Done:
		return ErrNotOpen
	case <-p.Over:
		return p.Cause()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// Wake wakes all calls that wait. The lock is held.
func (p *Participant) Wake() {
	if p.waits > 0 {
		p.waits = 0
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// MayWait returns ErrInCallback if the caller, which is about to wait for buffer space, is a
// listener: what it would wait for may wait for the listener.
func (p *Participant) MayWait() error {
	if p.Hearers.HasCaller() {
		return errs.ErrInCallback
	}
	return nil
}

// Happened notes an event, for TellAll. The lock is held.
func (p *Participant) Happened(e space.Event) { p.events.untold = append(p.events.untold, e) }

// TellAll calls Tell for what happened to endpoints of this process. The lock is held, and released
// meanwhile: what happens then, the goroutine that tells already tells, too, so that the events
// come one after the other and in order.
func (p *Participant) TellAll() {
	if p.events.telling {
		return
	}
	p.events.telling = true
	for len(p.events.untold) > 0 {
		p.tell()
	}
	p.events.telling = false
}

// tell is TellAll for what has happened until now.
func (p *Participant) tell() {
	told := p.events.untold[:0]
	for i := range p.events.untold {
		if e := &p.events.untold[i]; e.Endpoint.Process == p.Self && (p.Taken == nil || !p.Taken(e)) {
			told = append(told, *e)
		}
	}
	p.events.untold = nil
	if p.Tell == nil || len(told) == 0 {
		return
	}
	p.Mu.Unlock()
	defer p.Mu.Lock()
	for i := range told {
		p.Tell(&told[i])
	}
}
