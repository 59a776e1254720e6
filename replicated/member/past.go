package member

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/ripc"
)

// history is what an object rebuilt of its past.
type history struct {
	building chan struct{} // held by what builds, or reads what was built

	// What follows is protected by building.
	stay   *stay
	copies []*pastCopy // in the order of their last use
	sweep  *time.Timer
}

// pastCopy is a copy of the object as it was behind a version.
type pastCopy struct {
	*replica
	upTo squall.Version // of the last record that was applied, or of the snapshot
}

const (
	// maxPast bounds the copies that are kept, and pastKept for how long without a query.
	maxPast  = 4
	pastKept = time.Minute
)

// queryPast runs a query of a stay about the past.
func (o *object) queryPast(ctx context.Context, s *stay, name string, at invoke.Moment, r invoke.Reading) error {
	typed := true
	err := o.readPast(ctx, s, name, at, func(c *replica, b *bound) (err error) {
		typed, err = b.read(c.state, c.reading(), r)
		return err
	})
	if !typed {
		return fmt.Errorf("replicated: object %q: the query %q has other types here", o.sg.Name, name)
	}
	return err
}

// readPast has f read the copy of a moment.
func (o *object) readPast(ctx context.Context, s *stay, name string, at invoke.Moment, f func(c *replica, b *bound) error) error {
	if b := o.bound[name]; b == nil || !b.query {
		return fmt.Errorf("replicated: object %q: %w %q", o.sg.Name, replicated.ErrUnknownOperation, name)
	}
	if err := o.ready(); err != nil {
		return err
	}
	if err := o.named(ctx, s); err != nil {
		return err
	}
	log, err := o.sub.Log()
	if err != nil {
		return fmt.Errorf("replicated: object %q has no past: its Mode must be squall.Persistent: %w", o.sg.Name, err)
	}
	v, err := final(ctx, log, at)
	if err != nil {
		if s != nil && o.stay.Load() != s {
			return o.elsewhere()
		}
		return fmt.Errorf("replicated: object %q: %w", o.sg.Name, err)
	}
	c, release, err := o.copyAt(ctx, s, log, v)
	if err != nil {
		return fmt.Errorf("replicated: object %q: %v: %w", o.sg.Name, at, err)
	}
	defer release()
	b := c.bound[name]
	o.look(func() { err = f(c.replica, b) })
	return err
}

// final waits until a moment is final, and returns the version that it stands for.
func final(ctx context.Context, log *squall.Log, at invoke.Moment) (v squall.Version, err error) {
	if !at.Timed {
		if err = log.WaitPersisted(ctx, squall.OnEveryDisk, at.Version); err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%v: %w: what comes before %v is on every member's disk; ask again later: %w",
				at, replicated.ErrNotFinal, log.Persisted(squall.OnEveryDisk), err)
		}
		return at.Version, err
	}
	record, err := log.At(ctx, at.Time)
	switch {
	case err == nil:
		return record.Version, nil
	case ctx.Err() != nil:
		return v, fmt.Errorf("%v: %w: commands with such a time may follow; ask again later: %w", at, replicated.ErrNotFinal, err)
	case errors.Is(err, squall.ErrLogTruncated), errors.Is(err, squall.ErrNotInLog):
		record, content, snapshotErr := log.OpenSnapshot()
		if errors.Is(snapshotErr, squall.ErrNotInLog) {
			if errors.Is(err, squall.ErrNotInLog) {
				return v, nil // before the first command
			}
			return v, fmt.Errorf("%v: %w: %w", at, replicated.ErrNotKept, err)
		}
		if snapshotErr != nil {
			return v, snapshotErr
		}
		_ = content.Close()
		if record.Time > at.Time {
			return v, fmt.Errorf("%v: %w: it has a snapshot of the time %v: ask for a later time, or ask another member", at, replicated.ErrNotKept, record.Time)
		}
		return record.Version, nil
	}
	return v, err
}

// copyAt returns a copy as of a version, and a function with which its caller gives the copy back.
// If ctx ends first, the copy goes on being built, for a later call. The results have no names: a
// return would overwrite the release that the building goroutine calls.
func (o *object) copyAt(ctx context.Context, s *stay, log *squall.Log, v squall.Version) (*pastCopy, func(), error) {
	h := &o.history
	select {
	case h.building <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("%w: other queries about the past are being answered: %w", replicated.ErrNotFinal, context.Cause(ctx))
	}
	release := func() { <-h.building }
	built := make(chan error)
	gone := make(chan struct{})
	go func() {
		var err error
		o.inside.commands.Run(func() { err = o.rebuild(s, log, v) })
		select {
		case built <- err: // the caller has the copies now
		case <-gone:
			release()
		}
	}()
	select {
	case err := <-built:
		if err != nil {
			release()
			return nil, nil, err
		}
	case <-ctx.Done():
		close(gone)
		return nil, nil, fmt.Errorf("%w: the state is being rebuilt; ask again later: %w", replicated.ErrNotFinal, context.Cause(ctx))
	}
	return h.copies[len(h.copies)-1], release, nil
}

// rebuild makes the last one of the copies one as of a version: from the copy of the latest version
// before it, or from the log's snapshot.
func (o *object) rebuild(s *stay, log *squall.Log, v squall.Version) error {
	h := &o.history
	if h.stay != s {
		h.copies, h.stay = nil, s
	}
	c, err := h.takeLast(v), replicated.ErrNotKept
	if c != nil {
		err = c.advance(log, v)
	}
	for attempt := 0; errors.Is(err, replicated.ErrNotKept) && attempt < 2; attempt++ { // a snapshot may be taken meanwhile
		if c, err = o.beginning(log, v); err == nil {
			err = c.advance(log, v)
		}
	}
	if err != nil {
		return err
	}
	if of := c.machine.Shard(); s != nil && of != 0 && of != s.shard { // the log belongs to a shard which this process has entered since
		return o.elsewhere()
	}
	if h.copies = append(h.copies, c); len(h.copies) > maxPast {
		h.copies[0] = nil
		h.copies = h.copies[1:]
	}
	if h.sweep == nil {
		h.sweep = time.AfterFunc(pastKept, func() {
			h.building <- struct{}{}
			h.copies = nil
			<-h.building
		})
	}
	h.sweep.Reset(pastKept)
	return nil
}

// takeLast takes the last copy that is not after v out of the list; nil: there is none.
func (h *history) takeLast(v squall.Version) (c *pastCopy) {
	best := -1
	for i, c := range h.copies {
		if !v.Before(c.upTo) && (best < 0 || h.copies[best].upTo.Before(c.upTo)) {
			best = i
		}
	}
	if best >= 0 {
		c = h.copies[best]
		h.copies = append(h.copies[:best], h.copies[best+1:]...)
	}
	return c
}

// beginning returns a copy as of the log's snapshot, or of an object that begins.
func (o *object) beginning(log *squall.Log, v squall.Version) (*pastCopy, error) {
	c := &pastCopy{replica: o.another()}
	record, content, err := log.OpenSnapshot()
	if errors.Is(err, squall.ErrNotInLog) {
		return c, c.restored(strings.NewReader(""))
	}
	if err != nil {
		return nil, err
	}
	defer content.Close()
	if c.upTo = record.Version; v.Before(c.upTo) {
		return nil, fmt.Errorf("%w: it has a snapshot of version %v: ask for a later version, or ask another member", replicated.ErrNotKept, c.upTo)
	}
	return c, c.restored(content)
}

// advance applies the records up to a version.
func (c *pastCopy) advance(log *squall.Log, v squall.Version) error {
	from := c.upTo
	if from != (squall.Version{}) {
		from.Seq++
	}
	begins := from == squall.Version{}
	for r, err := range log.Range(from, squall.Version{}) {
		if errors.Is(err, squall.ErrLogTruncated) || err == nil && begins && r.Number != 0 {
			return fmt.Errorf("%w: it begins at version %v", replicated.ErrNotKept, log.Info().First.Version)
		}
		if err != nil {
			return err
		}
		if v.Before(r.Version) {
			break
		}
		if c.replay(&r); c.failed != nil {
			return c.failed
		}
		begins, c.upTo = false, r.Version
	}
	return nil
}

// pastWait is how long a member keeps a client's query about a version or a time that is not final
// yet.
const pastWait = 500 * time.Millisecond

// answerPast answers a client's query about the past, on a goroutine of its own.
func (d *desk) answerPast(ctx context.Context, m *ripc.Message, r *client.Request) {
	ctx, cancel := context.WithTimeout(ctx, pastWait)
	defer cancel()
	o := d.object
	s, err := d.stay()
	var answer []byte
	if err == nil {
		at := invoke.Moment{Timed: r.Consistency == client.AtTime, Time: squall.Time(r.At.View)}
		if !at.Timed {
			at.Version = squall.Version{View: squall.ViewID(r.At.View), Seq: squall.Seq(r.At.Seq)}
		}
		err = o.readPast(ctx, s, string(r.Name), at, func(c *replica, b *bound) error {
			head := c.reading()
			head.Caller = Caller{Member: squall.NodeID(o.self.Load()), Identity: m.Identity()}
			answer = (&client.Answer{Said: client.Done, View: uint64(head.Version.View), Seq: uint64(head.Version.Seq)}).AppendTo(nil)
			return guarded(b.name, func() (err error) {
				answer, err = b.answer(c.state, &head, r.Args, answer)
				return err
			})
		})
	}
	if err != nil {
		answer = appendError(nil, err)
	}
	d.answers.reply(nil, m, answer)
}
