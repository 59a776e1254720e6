package member

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
)

// outlet sends the samples of a writer of this process.
type outlet struct {
	p     *backend
	id    space.ID
	topic string
	loose atomic.Bool // samples go without an order

	mu    sync.Mutex
	known map[string]struct{} // keys that a writer without an order has registered
}

// Outlet returns where the samples of a writer go.
func (p *backend) Outlet(id space.ID, topic string, set qos.Set) core.Outlet {
	o := &outlet{p: p, id: id, topic: topic}
	o.Changed(set)
	return o
}

// Changed implements core.Outlet.
func (o *outlet) Changed(set qos.Set) { o.loose.Store(o.p.loose != nil && space.Loose(&set)) }

// TryWrite implements core.Outlet: it encodes the sample in its place in the ring, if its size is
// known.
func (o *outlet) TryWrite(w *core.Writing) (core.Future, error) {
	p, s, sub := o.p, &w.Sample, o.p.sub
	t := p.SampleTime()
	s.Writer, w.Yield = o.id, false
	if s.Sequence == 0 {
		s.Source = t
	}
	if s.Sequence == 0 && o.loose.Load() { // a sample of an origin has its number in the order
		first := o.first(s, t)
		if s.Operation == space.Write {
			sub = p.loose
		}
		if first != nil {
			if err := p.sub.TrySend(first); err != nil {
				return nil, o.leave(w, t, sub, first, err)
			}
		}
	}
	n := space.SampleBytes(s) + w.Size
	if w.Size < 0 {
		var err error
		if w.Record, err = record(w.Record[:0], t, w); err != nil {
			return nil, err
		}
		n = len(w.Record)
	}
	claim, err := sub.TryClaim(n)
	if err != nil {
		return nil, o.leave(w, t, sub, nil, err)
	}
	if w.Size < 0 {
		copy(claim.Bytes, w.Record)
	} else if err := o.encode(claim, t, w); err != nil {
		return nil, err
	}
	w.Yield = p.keeper.pace(n)
	return finish(claim, w.Future)
}

// encode encodes a record in its place. If the codec fails or panics, the place is given back.
func (o *outlet) encode(claim squall.Claim, t int64, w *core.Writing) (err error) {
	encoded, room := false, claim.Bytes
	defer func() {
		if !encoded {
			err = errors.Join(err, claim.Abort())
		}
	}()
	b, err := record(room[:0:len(room)], t, w)
	if err == nil && len(b) != len(room) {
		err = fmt.Errorf("dds: topic %q: the codec says that a record has %d bytes, and makes %d", o.topic, len(room), len(b))
	}
	if err == nil && &b[0] != &room[0] { // the codec has taken other memory, with more space
		copy(room, b)
	}
	encoded = err == nil
	return err
}

// leave leaves a sample that could not be claimed, and what is to be sent before it, for Write, if
// it may wait.
func (o *outlet) leave(w *core.Writing, t int64, sub *squall.Subgroup, first []byte, why error) error {
	if !waits(why) {
		return why
	}
	b, err := record(w.Record[:0], t, w)
	if err != nil {
		return err
	}
	w.Record, w.Unsent = nil, core.Unsent{Future: w.Future, Record: b, First: first, Loose: sub == o.p.loose}
	return core.ErrNoRoom
}

// waits reports whether a message that could not be claimed can be sent nevertheless, by a call
// that may wait.
func waits(err error) bool {
	return errors.Is(err, squall.ErrWindowFull) || errors.Is(err, squall.ErrTooLarge)
}

// first returns a record that registers the instance of the first sample that goes without an
// order, so that the instance ends with its writer; otherwise nil.
func (o *outlet) first(s *space.Sample, now int64) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, known := o.known[string(s.Key)]
	switch {
	case s.Operation == space.Unregister:
		delete(o.known, string(s.Key))
	case s.Operation == space.Write && !known:
		if o.known == nil {
			o.known = map[string]struct{}{}
		}
		o.known[string(s.Key)] = struct{}{}
		return space.AppendSample(nil, now, &space.Sample{Writer: o.id, Operation: space.Register, Source: now, Key: s.Key})
	}
	return nil
}

// record appends the record of a sample.
func record(dst []byte, now int64, w *core.Writing) ([]byte, error) {
	dst = space.AppendSample(dst, now, &w.Sample)
	if w.Sample.Operation != space.Write {
		return dst, nil
	}
	return w.Value.Append(dst)
}

func finish(claim squall.Claim, future bool) (core.Future, error) {
	if !future {
		return nil, claim.Commit()
	}
	f, err := claim.CommitFuture()
	if err != nil { // and no interface with a nil in it
		return nil, err
	}
	return f, nil
}

// Write implements core.Outlet.
func (o *outlet) Write(ctx context.Context, u *core.Unsent) (core.Future, error) {
	p, sub := o.p, o.p.sub
	if u.First != nil {
		if err := p.send(ctx, sub, u.First); err != nil {
			return nil, err
		}
	}
	if u.Loose {
		sub = p.loose
	}
	if !u.Future {
		return nil, p.send(ctx, sub, u.Record)
	}
	if err := p.MayWait(); err != nil {
		return nil, err
	}
	f, err := sub.SendFuture(ctx, u.Record)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// send sends a record, and waits for buffer space if it has to and may.
func (p *backend) send(ctx context.Context, sub *squall.Subgroup, record []byte) error {
	err := sub.TrySend(record)
	if err == nil || !waits(err) {
		return err
	}
	if err := p.MayWait(); err != nil {
		return err
	}
	return sub.Send(ctx, record)
}

// Claim implements core.Outlet.
func (o *outlet) Claim(ctx context.Context, n int) (core.Claim, []byte, error) {
	p, r := o.p, &o.p.ring
	t := p.SampleTime()
	s := space.Sample{Writer: o.id, Operation: space.Write, Source: t}
	head := space.SampleBytes(&s)
	if p.keeper.pace(head + n) {
		runtime.Gosched()
	}
	if o.loose.Load() {
		r = &p.looseRing
		if first := o.first(&s, t); first != nil {
			if err := p.send(ctx, p.sub, first); err != nil {
				return core.Claim{}, nil, err
			}
		}
	}
	room, err := r.rooms.TryClaim(head + n)
	if errors.Is(err, squall.ErrWindowFull) {
		if err = p.MayWait(); err == nil {
			room, err = r.rooms.Claim(ctx, head+n)
		}
	}
	if err != nil {
		return core.Claim{}, nil, err
	}
	space.AppendSample(room.Bytes[:0], t, &s)
	return core.Claim{Room: room, In: r.in}, room.Bytes[head:], nil
}

// Flush implements core.Outlet. It sends a record without an effect, behind the samples of this
// process.
func (o *outlet) Flush(ctx context.Context, stored bool) error {
	p := o.p
	err := p.control(ctx, func(now int64) ([]byte, error) { return space.AppendLapse(nil, now, space.Lapse{Writer: o.id}) })
	if err != nil || !stored {
		return err
	}
	p.Mu.Lock()
	version := p.version
	p.Mu.Unlock()
	log, err := p.sub.Log()
	if err != nil {
		return err
	}
	return log.WaitPersisted(ctx, dds.OnEveryDisk, version)
}
