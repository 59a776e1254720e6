package member

import (
	"context"
	"fmt"
	"time"

	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/ripc"
)

// Emit emits an event for the object's watchers. Data is kept. The events of the last commands are
// kept, up to 4 MiB, and are part of the object's state. A query emits nothing.
func (c *Context) Emit(topic string, data []byte) {
	if c.emit != nil {
		c.emit(topic, data)
	}
}

// maxWatched bounds the bytes of events that are handed over at once.
const maxWatched = 1 << 20

// events returns events of a stay, as invoke.Target says.
func (o *object) events(ctx context.Context, s *stay, after invoke.Cursor, prefix string) ([]invoke.Event, invoke.Cursor, error) {
	for {
		inside, err := o.readable(ctx, s, invoke.Local)
		if err != nil {
			return nil, after, err
		}
		events, next, err := o.matching(after, prefix, maxWatched)
		emitted := o.emitted
		o.unlockRead(inside)
		if err != nil || len(events) > 0 {
			return events, next, err
		}
		after = next
		select {
		case <-emitted:
		case <-o.group.Done():
			return nil, after, fmt.Errorf("replicated: object %q: %w", o.sg.Name, o.group.Err())
		case <-ctx.Done():
			return nil, after, context.Cause(ctx)
		}
	}
}

// latest returns the cursor behind every event of commands of a stay that were answered before.
func (o *object) latest(ctx context.Context, s *stay) (invoke.Cursor, error) {
	inside, err := o.readable(ctx, s, invoke.Linearizable)
	if err != nil {
		return invoke.Cursor{}, err
	}
	defer o.unlockRead(inside)
	return o.machine.LastEvent(), nil
}

// watching is a client's question for events, which is answered when there are some, or at its end.
type watching struct {
	m      ripc.Message
	after  invoke.Cursor
	prefix string
	end    time.Time
}

// parseWatch takes a question for events apart.
func parseWatch(m ripc.Message, body []byte) (w watching, err error) {
	w.m = m
	var milliseconds uint32
	w.after, milliseconds, w.prefix, err = client.ParseWatch(body)
	w.end = time.Now().Add(min(time.Duration(milliseconds)*time.Millisecond, maxWatchWait))
	return w, err
}

// maxWatchWait bounds how long a member keeps a question for events.
const maxWatchWait = 10 * time.Second

// watch answers the questions for events that can be answered, or whose time is over, and returns
// the others.
func (d *desk) watch(all []watching) []watching {
	now := time.Now()
	left := all[:0]
	for _, w := range all {
		answer, none := d.watched(&w)
		if none && now.Before(w.end) {
			left = append(left, w)
			continue
		}
		d.answers.reply(nil, &w.m, answer)
	}
	clear(all[len(left):])
	return left
}

// watched answers a question for events. It reports whether there are none; the question has moved
// behind what it has seen then, so that it misses nothing when that is dropped.
func (d *desk) watched(w *watching) (answer []byte, none bool) {
	o := d.object
	o.mu.RLock()
	defer o.mu.RUnlock()
	events, next, err := o.matching(w.after, w.prefix, d.most)
	if !o.hasShard(d.shard) {
		err = o.elsewhere()
	}
	if o.failed != nil {
		err = o.failed
	}
	if err != nil {
		return appendError(nil, err), false
	}
	w.after = next
	answer = client.AppendCursor((&client.Answer{Said: client.Done}).AppendTo(nil), next)
	for i := range events {
		answer = client.AppendEvent(answer, &events[i])
	}
	return answer, len(events) == 0
}
