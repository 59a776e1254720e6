package replicated

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/ripc"
)

// Event is what a handler emitted with Context.Emit.
type Event struct {
	Cursor Cursor
	Topic  string
	Data   []byte // it must not be changed
}

// Cursor is a place in the events of an object: behind one of them. It is the same at every member. The zero Cursor is
// before the first event.
type Cursor struct {
	Version squall.Version // of the command that emitted the event
	Index   uint64         // among the events of all commands of that message, from 1
}

// ErrCompacted is returned by Watch when events behind the cursor are not kept any more. To start over, read the
// state with a query and watch from Now on, which is asked for before the query.
var ErrCompacted = errors.New("the events are not kept any more")

// Emit emits an event for the object's watchers. Data is kept. The events of the last commands are kept, up to 4 MiB, and are part
// of the object's state. A query emits nothing.
func (c *Context) Emit(topic string, data []byte) {
	if c.emit != nil {
		c.emit(topic, data)
	}
}

// watchable is an object whose events can be asked for.
type watchable interface {
	// events returns events behind a cursor whose topics begin with prefix, and the cursor behind all that it looked
	// at. It waits a while if there is none, and may return none.
	events(ctx context.Context, after Cursor, prefix string) ([]Event, Cursor, error)
	// latest returns the cursor behind every event of commands that were answered before.
	latest(ctx context.Context) (Cursor, error)
}

// Watch yields the events of an object behind a cursor whose topics begin with prefix, in their order and each once,
// from an *Object or a *RemoteObject, until ctx ends. A client's watch goes on when its member fails. An error ends the
// sequence: ErrCompacted if the watcher is too far behind, or that of ctx.
func Watch(ctx context.Context, t Target, after Cursor, prefix string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		w, ok := t.(watchable)
		if !ok {
			yield(Event{}, fmt.Errorf("replicated: %T cannot be watched", t))
			return
		}
		for {
			events, next, err := w.events(ctx, after, prefix)
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
			after = next
		}
	}
}

// Now returns the cursor behind every event of commands that were answered before the call.
func Now(ctx context.Context, t Target) (Cursor, error) {
	w, ok := t.(watchable)
	if !ok {
		return Cursor{}, fmt.Errorf("replicated: %T cannot be watched", t)
	}
	return w.latest(ctx)
}

func cursorOf(c machine.Cursor) Cursor {
	return Cursor{Version: squall.Version{View: squall.ViewID(c.View), Seq: squall.Seq(c.Seq)}, Index: c.Index}
}

func (c Cursor) machine() machine.Cursor {
	return machine.Cursor{View: uint64(c.Version.View), Seq: uint64(c.Version.Seq), Index: c.Index}
}

// matching returns events behind a cursor, with up to so many bytes, and the cursor behind all that was looked at. The lock is held.
func (o *object) matching(after Cursor, prefix string, bytes int) (events []Event, next Cursor, err error) {
	all, ok := o.machine.Events(after.machine())
	if !ok {
		return nil, after, fmt.Errorf("replicated: object %q: %w", o.sg.Name, ErrCompacted)
	}
	next = after
	for i := range all {
		e := &all[i]
		if strings.HasPrefix(e.Topic, prefix) {
			size := watchedBytes + len(e.Topic) + len(e.Data)
			if bytes -= size; bytes < 0 && len(events) > 0 {
				return events, next, nil
			}
			events = append(events, Event{Cursor: cursorOf(e.Cursor), Topic: e.Topic, Data: e.Data})
		}
		next = cursorOf(e.Cursor)
	}
	return events, next, nil
}

// maxWatched bounds the bytes of events that are handed over at once.
const maxWatched = 1 << 20

// events implements watchable.
func (o *object) events(ctx context.Context, after Cursor, prefix string) ([]Event, Cursor, error) {
	s, err := o.whole()
	if err != nil {
		return nil, after, err
	}
	return o.eventsIn(ctx, s, after, prefix)
}

func (o *object) eventsIn(ctx context.Context, s *stay, after Cursor, prefix string) ([]Event, Cursor, error) {
	for {
		inside, err := o.readable(ctx, s, local)
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

// latest implements watchable.
func (o *object) latest(ctx context.Context) (Cursor, error) {
	s, err := o.whole()
	if err != nil {
		return Cursor{}, err
	}
	return o.latestIn(ctx, s)
}

func (o *object) latestIn(ctx context.Context, s *stay) (Cursor, error) {
	inside, err := o.readable(ctx, s, linearizable)
	if err != nil {
		return Cursor{}, err
	}
	defer o.unlockRead(inside)
	return cursorOf(o.machine.LastEvent()), nil
}

// emit keeps an event of the command that is executed. The lock is held.
func (o *object) emit(topic string, data []byte) {
	o.machine.Emit(uint64(o.context.Version.View), uint64(o.context.Version.Seq), topic, data)
	o.news = true
}

// On the wire an event is its cursor, the lengths of topic and data, 4 bytes each, and both.
const watchedBytes = 3*8 + 2*4

func appendCursor(b []byte, c Cursor) []byte {
	m := c.machine()
	b = binary.LittleEndian.AppendUint64(b, m.View)
	b = binary.LittleEndian.AppendUint64(b, m.Seq)
	return binary.LittleEndian.AppendUint64(b, m.Index)
}

// cutCursor cuts a cursor off a text that has one.
func cutCursor(b []byte) (Cursor, []byte) {
	return cursorOf(machine.Cursor{
		View: binary.LittleEndian.Uint64(b), Seq: binary.LittleEndian.Uint64(b[8:]), Index: binary.LittleEndian.Uint64(b[16:]),
	}), b[24:]
}

// watching is a client's question for events, which is answered when there are some, or at its end.
type watching struct {
	m      ripc.Message
	after  Cursor
	prefix string
	end    time.Time
}

// watchHead is what a question for events has before its prefix.
const watchHead = 24 + 4

// parseWatch takes a question for events apart: cursor, milliseconds to wait, prefix.
func parseWatch(m ripc.Message, body []byte) (w watching, err error) {
	if len(body) < watchHead {
		return w, errMalformed
	}
	w.m = m
	w.after, body = cutCursor(body)
	wait := time.Duration(binary.LittleEndian.Uint32(body)) * time.Millisecond
	w.end = time.Now().Add(min(wait, maxWatchWait))
	w.prefix = string(body[4:])
	return w, nil
}

// maxWatchWait bounds how long a member keeps a question for events.
const maxWatchWait = 10 * time.Second

// watch answers the questions for events that can be answered, or whose time is over, and returns the others.
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

// watched answers a question for events. It reports whether there are none; the question has moved behind what it has seen then, so that
// it misses nothing when that is dropped.
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
	answer = appendCursor(append([]byte{byte(saidDone)}, make([]byte, answerHead-1)...), next)
	for _, e := range events {
		answer = appendCursor(answer, e.Cursor)
		answer = binary.LittleEndian.AppendUint32(answer, uint32(len(e.Topic)))
		answer = binary.LittleEndian.AppendUint32(answer, uint32(len(e.Data)))
		answer = append(append(answer, e.Topic...), e.Data...)
	}
	return answer, len(events) == 0
}

// events implements watchable.
func (o *RemoteObject) events(ctx context.Context, after Cursor, prefix string) (events []Event, next Cursor, err error) {
	if o, err = o.orWhole(ctx); err != nil {
		return nil, after, err
	}
	request := appendCursor([]byte{byte(askWatch)}, after)
	request = binary.LittleEndian.AppendUint32(request, uint32(o.client.memberTimeout().Milliseconds()/2))
	err = o.client.ask(ctx, o, func(answer []byte) error {
		_, reply, err := parseAnswer("watch", answer)
		if err != nil {
			return err
		}
		events, next, err = parseEvents(reply)
		return err
	}, append(request, prefix...))
	return events, next, err
}

// parseEvents takes an answer with events apart.
func parseEvents(b []byte) (events []Event, next Cursor, err error) {
	if len(b) < 24 {
		return nil, next, errMalformed
	}
	next, b = cutCursor(b)
	for len(b) > 0 {
		if len(b) < watchedBytes {
			return nil, next, errMalformed
		}
		var e Event
		e.Cursor, b = cutCursor(b)
		topic, data := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
		if b = b[8:]; uint64(len(b)) < topic+data {
			return nil, next, errMalformed
		}
		e.Topic, e.Data = string(b[:topic]), append([]byte(nil), b[topic:topic+data]...)
		b = b[topic+data:]
		events = append(events, e)
	}
	return events, next, nil
}

// latest implements watchable.
func (o *RemoteObject) latest(ctx context.Context) (c Cursor, err error) {
	if o, err = o.orWhole(ctx); err != nil {
		return c, err
	}
	err = o.client.ask(ctx, o, func(answer []byte) error {
		_, reply, err := parseAnswer("now", answer)
		if err == nil && len(reply) != 24 {
			err = errMalformed
		}
		if err == nil {
			c, _ = cutCursor(reply)
		}
		return err
	}, []byte{byte(askNow)})
	return c, err
}
