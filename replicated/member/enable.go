package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/ripc"
)

// DefaultEnableAfter is how long all members of an object must have a new operation before it is
// enabled. Until then an older version of the program can come back.
const DefaultEnableAfter = 10 * time.Minute

// enabling decides when an operation that all members have is enabled.
type enabling struct {
	delay time.Duration        // set before Open; less than 0: only EnableOperations enables
	since map[string]time.Time // when this member saw first that all members have an operation that is not enabled. W, R: the steward
}

// mature returns the operations that have waited long enough, and the time until the next one has;
// 0: there is none, or none will by itself. Ready are the operations that all members have and that
// are not enabled.
func (e *enabling) mature(ready []string, now time.Time) (may []string, next time.Duration) {
	since := make(map[string]time.Time, len(ready))
	for _, name := range ready {
		began, known := e.since[name]
		if !known {
			began = now
		}
		since[name] = began
		left := e.delay - now.Sub(began)
		switch {
		case e.delay < 0:
		case left <= 0:
			may = append(may, name)
		case next == 0 || left < next:
			next = left
		}
	}
	e.since = since
	return may, next
}

// EnableAfter sets how long all members must have a new operation before the leader enables it, in
// place of DefaultEnableAfter. It is called before Open. With 0 an operation is enabled as soon as
// all members have it; with less than 0 only EnableOperations enables it. The operations with which
// an object begins are enabled at once.
func (c *common) EnableAfter(delay time.Duration) { c.object.maturing.delay = delay }

// EnableOperations enables all operations that every member of this member's shard has, and returns
// their names. From then on a program that lacks one of them can be no member.
func (c *common) EnableOperations(ctx context.Context) ([]string, error) {
	return c.object.enableOperations(ctx)
}

func (o *object) enableOperations(ctx context.Context) ([]string, error) {
	for {
		names, view, err := o.enableReady(ctx)
		if err != nil || len(names) == 0 {
			return nil, err
		}
		if done, err := o.awaitEnabled(ctx, names, view); done || err != nil {
			return names, err
		}
	}
}

// enableReady sends the record that enables what all members of a view have.
func (o *object) enableReady(ctx context.Context) (names []string, in squall.ViewID, err error) {
	if err := o.ready(); err != nil {
		return nil, 0, err
	}
	view := o.group.View()
	shard := shardIn(view, o.sg.Name, o.group.ID())
	if shard == 0 {
		return nil, 0, fmt.Errorf("replicated: object %q: %w", o.sg.Name, squall.ErrNotSender)
	}
	h := machine.Header{Time: now()}
	if o.sharded() {
		h.Shard = shard
	}
	o.mu.RLock()
	of := o.machine.Shard()
	names = o.machine.Ready(peers(view, shardMembers(view, o.sg.Name, shard-1)))
	o.mu.RUnlock()
	if of != h.Shard {
		return nil, 0, o.elsewhere()
	}
	if len(names) == 0 {
		return nil, 0, nil
	}
	return names, view.ID, o.sub.Send(ctx, machine.AppendEnable(nil, h, uint64(view.ID), names))
}

// awaitEnabled waits until operations are enabled. It returns false if a view came in which the
// record that enables them does not count.
func (o *object) awaitEnabled(ctx context.Context, names []string, view squall.ViewID) (bool, error) {
	for {
		o.mu.RLock()
		changed, missing := o.enabled, false
		for _, name := range names {
			_, ok := o.numbers[name]
			missing = missing || !ok
		}
		o.mu.RUnlock()
		if !missing {
			return true, nil
		}
		if o.group.View().ID != view {
			return false, nil
		}
		select {
		case <-changed:
		case <-time.After(retry): // the view may have changed
		case <-o.group.Done():
			return false, fmt.Errorf("replicated: object %q: %w", o.sg.Name, o.group.Err())
		case <-ctx.Done():
			return false, fmt.Errorf("replicated: object %q: enabling operations: %w", o.sg.Name, context.Cause(ctx))
		}
	}
}

// missing returns the enabled operations that are not among names. It takes no lock: the caller may
// be what the loop waits for.
func (o *object) missing(names []string) (missing []string) {
	e := o.enabling.Load()
	if e == nil || len(e.Numbers) == 0 {
		return nil
	}
	has := make(map[string]bool, len(names))
	for _, name := range names {
		has[name] = true
	}
	for name := range e.Numbers {
		if !has[name] {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

// enableWithin bounds the time in which a member enables operations for a client.
const enableWithin = 5 * time.Second

// enable answers a request to enable the operations of an object.
func (g *guide) enable(ctx context.Context, b []byte, m *ripc.Message, r *client.Request) ([]byte, error) {
	for _, d := range g.desks {
		if o := d.object; o.sg.Name != string(r.Name) || len(r.Args) > 0 && o.cluster != string(r.Args) {
			continue
		}
		if err := d.allow(m, r); err != nil {
			return b, err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, enableWithin, errors.New("the order did not come in time"))
		defer cancel()
		names, err := d.object.enableOperations(ctx)
		if err != nil {
			return b, err
		}
		return (&client.Answer{Said: client.Done, Text: []byte(strings.Join(names, "\x00"))}).AppendTo(b), nil
	}
	return b, &replicated.HandlerError{Text: fmt.Sprintf("this member serves no object %q", r.Name)} // which the client does not ask another member about
}
