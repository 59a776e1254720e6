package dds

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/extension"
)

// outlet gives the samples of a client's writer to relays.
type outlet struct {
	c     *client
	id    space.ID
	topic string
	waits atomic.Int64 // MaxBlocking of the writer, for a claim; Writer bounds the other calls
}

// Outlet implements core.Backend.
func (c *client) Outlet(id space.ID, topic string, set qos.Set) core.Outlet {
	o := &outlet{c: c, id: id, topic: topic}
	o.Changed(set)
	return o
}

// fault says of which topic an error is.
func (o *outlet) fault(err error) error {
	if err == nil || err == core.ErrNoRoom {
		return err
	}
	return fmt.Errorf("dds: topic %q: %w", o.topic, err)
}

// TryWrite implements core.Outlet.
func (o *outlet) TryWrite(w *core.Writing) (f core.Future, err error) {
	e := remote.Entry{Operation: uint8(w.Sample.Operation), Source: core.Now(), Key: slices.Clone(w.Sample.Key)}
	if w.Sample.Operation == space.Write {
		if e.Data, err = w.Value.Append(make([]byte, 0, max(w.Size, 0))); err != nil {
			return nil, err
		}
	}
	c := o.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.Sample.Set != 0 {
		return nil, o.fault(c.add(w.Sample.Set, o.id, e))
	}
	f, err = c.put(o.id, &e, w.Future)
	if err == core.ErrNoRoom {
		w.Unsent.Entry, w.Unsent.Future = e, w.Future
	}
	return f, o.fault(err)
}

// Write implements core.Outlet.
func (o *outlet) Write(ctx context.Context, u *core.Unsent) (f core.Future, err error) {
	err = o.c.until(ctx, func() (bool, error) {
		var err error
		if f, err = o.c.put(o.id, &u.Entry, u.Future); err == core.ErrNoRoom {
			return false, o.c.p.MayWait()
		}
		return err == nil, err
	})
	return f, o.fault(err)
}

// put puts a writer's sample where it is sent from. It fails with ErrNoRoom if there is no room.
// The client's lock is held.
func (c *client) put(id space.ID, e *remote.Entry, wanted bool) (core.Future, error) {
	u, err := c.usable(id)
	if err == nil {
		err = c.fits(e.Key, e.Data)
	}
	if err != nil {
		return nil, err
	}
	if u.outbox.Bytes() > 0 && u.outbox.Bytes()+e.Bytes() > c.cfg.OutboxBytes {
		return nil, core.ErrNoRoom
	}
	u.outbox.Put(*e)
	if c.relay.link != nil && u.open {
		c.relay.link.rouse()
	}
	if !wanted {
		return nil, nil
	}
	f := &future{c: c, of: u, sequence: u.outbox.Last(), done: make(chan struct{})}
	u.future, u.futures = f.sequence, append(u.futures, f)
	return f, nil
}

// Claim implements core.Outlet: a client has no room in the order, and the sample is written when
// it is committed.
func (o *outlet) Claim(ctx context.Context, n int) (core.Claim, []byte, error) {
	room := make([]byte, n)
	return core.Claim{Room: extension.Room{Bytes: room}, In: &claimed{o, ctx}}, room, nil
}

// claimed commits a claim of a client.
type claimed struct {
	o   *outlet
	ctx context.Context
}

// Commit implements core.Committer.
func (c *claimed) Commit(r extension.Room) error {
	e := remote.Entry{Operation: uint8(space.Write), Source: core.Now(), Data: r.Bytes}
	ctx := c.ctx
	if longest := time.Duration(c.o.waits.Load()); longest > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, longest)
		defer cancel()
	}
	_, err := c.o.Write(ctx, &core.Unsent{Entry: e})
	return err
}

// Abort implements core.Committer.
func (c *claimed) Abort(extension.Room) error { return nil }

// Flush implements core.Outlet. What is acknowledged to the writer of a PERSISTENT topic is stored.
func (o *outlet) Flush(ctx context.Context, _ bool) error { return o.c.flush(ctx, o.id) }

// Changed implements core.Outlet.
func (o *outlet) Changed(set qos.Set) { o.waits.Store(int64(set.Reliability.MaxBlocking)) }
