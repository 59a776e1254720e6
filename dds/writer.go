package dds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
)

// Writer writes samples of a topic. Its methods may be called from any goroutine.
type Writer[T any] struct {
	endpoint
	topic *Topic[T]
	sizer Sizer[T] // nil: the codec is none
	raw   bool     // samples may be written in place

	mu     sync.Mutex
	value  T // of the call that encodes it
	key    []byte
	record []byte
	bytes  int // of the last record
	set    QoS
	known  map[string]struct{} // keys that a writer without an order has registered
	closed atomic.Bool
}

// Writer opens a writer. It returns when the writer is part of the space, so that everything that is written comes behind its matches.
func (t *Topic[T]) Writer(ctx context.Context, set QoS) (*Writer[T], error) {
	e, err := t.open(ctx, space.EndpointInfo{QoS: set}, unfiltered)
	if err != nil {
		return nil, err
	}
	return newWriter(t, e, set), nil
}

// unfiltered prepares for a writer.
func unfiltered(space.ID) *remote.Filter { return nil }

func newWriter[T any](t *Topic[T], e endpoint, set QoS) *Writer[T] {
	w := &Writer[T]{endpoint: e, topic: t, set: set}
	w.sizer, _ = t.codec.(Sizer[T])
	_, w.raw = t.codec.(viewer[T])
	return w
}

// Write writes a sample. It returns when the sample has its room in the order, and waits for buffer space if there is none: until ctx ends, or
// for MaxBlocking of RELIABILITY.
func (w *Writer[T]) Write(ctx context.Context, v T) error {
	_, err := w.write(ctx, space.Sample{}, v, false)
	return err
}

// WriteFuture writes a sample, and returns the future of its delivery and, in a space that is Persistent, of its way to the disks.
func (w *Writer[T]) WriteFuture(ctx context.Context, v T) (Future, error) {
	if c := w.p.client; c != nil {
		f := &future{c: c, done: make(chan struct{})}
		if err := w.writeRemote(ctx, space.Sample{}, v, f); err != nil {
			return nil, err
		}
		return f, nil
	}
	f, err := w.write(ctx, space.Sample{}, v, true)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// WriteIn writes a sample of a coherent set.
func (w *Writer[T]) WriteIn(ctx context.Context, s *Set, v T) error {
	w.mu.Lock()
	coherent := w.set.Presentation.Coherent
	w.mu.Unlock()
	switch {
	case s.ended.Load():
		return fmt.Errorf("%w: the coherent set has ended", ErrUnknown)
	case !coherent:
		return fmt.Errorf("dds: topic %q: %w: the writer offers no coherent access", w.topic.name, qos.ErrInconsistent)
	case (w.p.client == nil) != (s.remote == nil):
		return fmt.Errorf("dds: topic %q: %w: the coherent set is of another participant", w.topic.name, ErrUnknown)
	case w.p.client != nil:
		return w.addRemote(s.remote, v)
	}
	s.begun.Store(true)
	_, err := w.write(ctx, space.Sample{Set: s.number}, v, false)
	return err
}

// Register tells that the writer is going to write the instance of v: one that no writer is registered with has no owner.
func (w *Writer[T]) Register(ctx context.Context, v T) error {
	_, err := w.write(ctx, space.Sample{Operation: space.Register}, v, false)
	return err
}

// Dispose ends the instance of v, of which the key members count.
func (w *Writer[T]) Dispose(ctx context.Context, v T) error {
	_, err := w.write(ctx, space.Sample{Operation: space.Dispose}, v, false)
	return err
}

// Unregister ends this writer's part in the instance of v. Unless its policies keep what it unregisters, the instance is disposed of.
func (w *Writer[T]) Unregister(ctx context.Context, v T) error {
	_, err := w.write(ctx, space.Sample{Operation: space.Unregister}, v, false)
	return err
}

// write sends the record of a sample. The writer's lock is not held while the call waits for buffer space: the group's loop may write, too.
func (w *Writer[T]) write(ctx context.Context, s space.Sample, v T, future bool) (*squall.Future, error) {
	if w.p.client != nil {
		return nil, w.writeRemote(ctx, s, v, nil)
	}
	if w.p.loose != nil && s.Operation != space.Register && s.Sequence == 0 {
		if err := w.introduce(ctx, &s, v); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	f, err := w.encoded(s, v, future)
	if err == nil || !errors.Is(err, squall.ErrWindowFull) && !errors.Is(err, squall.ErrTooLarge) {
		n := w.bytes
		w.mu.Unlock()
		w.p.keeper.pace(n)
		return f, err
	}
	longest, record, sub := w.set.Reliability.MaxBlocking, w.record, w.route(&s)
	w.record = nil
	w.mu.Unlock()
	if longest > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, longest)
		defer cancel()
	}
	if err = w.p.mayWait(); err != nil {
		f = nil
	} else if future {
		f, err = sub.SendFuture(ctx, record)
	} else {
		err = sub.Send(ctx, record)
	}
	w.mu.Lock()
	w.record = record // memory for the next one
	w.mu.Unlock()
	return f, err
}

// route is where a sample goes. One of an origin has its number in the order. The lock is held.
func (w *Writer[T]) route(s *space.Sample) *squall.Subgroup {
	if w.p.loose != nil && s.Sequence == 0 && s.Operation == space.Write && space.Loose(&w.set) {
		return w.p.loose
	}
	return w.p.sub
}

// introduce registers the instance of the first sample that goes without an order, so that the instance ends with its writer.
func (w *Writer[T]) introduce(ctx context.Context, s *space.Sample, v T) (err error) {
	w.mu.Lock()
	if !space.Loose(&w.set) {
		w.mu.Unlock()
		return nil
	}
	w.value, w.key = v, w.key[:0]
	if w.topic.key != nil {
		w.key, err = w.topic.key.Append(w.key, &w.value)
	}
	w.forget()
	_, known := w.known[string(w.key)]
	switch {
	case s.Operation == space.Unregister:
		delete(w.known, string(w.key))
	case s.Operation == space.Write && !known && err == nil:
		if w.known == nil {
			w.known = map[string]struct{}{}
		}
		w.known[string(w.key)] = struct{}{}
		w.mu.Unlock()
		_, err = w.write(ctx, space.Sample{Operation: space.Register}, v, false)
		return err
	}
	w.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("dds: topic %q: %w", w.topic.name, err)
	}
	return err
}

// encoded sends the record of a sample if there is room. If not, it leaves it in w.record. The lock is held.
func (w *Writer[T]) encoded(s space.Sample, v T, future bool) (f *squall.Future, err error) {
	switch {
	case w.closed.Load():
		return nil, fmt.Errorf("%w: the writer was closed", ErrUnknown)
	case s.Operation == space.Dispose && w.topic.key == nil:
		return nil, fmt.Errorf("dds: topic %q has no keys: nothing can be disposed of", w.topic.name)
	}
	w.value = v
	defer w.forget()
	w.key = w.key[:0]
	if w.topic.key != nil {
		if w.key, err = w.topic.key.Append(w.key, &w.value); err != nil {
			return nil, fmt.Errorf("dds: topic %q: %w", w.topic.name, err)
		}
	}
	t := w.p.sampleTime()
	s.Writer, s.Key = w.id, w.key
	if s.Sequence == 0 {
		s.Source = t
	}
	n := -1
	if s.Operation != space.Write {
		n = 0
	} else if w.sizer != nil {
		n = w.sizer.Size(&w.value)
	}
	if n >= 0 {
		w.bytes = space.SampleBytes(&s) + n
		claim, err := w.route(&s).TryClaim(w.bytes)
		if err == nil {
			return w.commit(claim, t, &s, future)
		} else if !errors.Is(err, squall.ErrWindowFull) && !errors.Is(err, squall.ErrTooLarge) {
			return nil, err
		}
		w.record, err = w.appendTo(w.record[:0], t, &s)
		return nil, cmp.Or(err, squall.ErrWindowFull)
	}
	if w.record, err = w.appendTo(w.record[:0], t, &s); err != nil {
		return nil, err
	}
	w.bytes = len(w.record)
	claim, err := w.route(&s).TryClaim(w.bytes)
	if err != nil {
		return nil, err
	}
	copy(claim.Bytes, w.record)
	return finish(claim, future)
}

// forget ends the use of a value.
func (w *Writer[T]) forget() { w.value = *new(T) }

func (w *Writer[T]) appendTo(dst []byte, now int64, s *space.Sample) ([]byte, error) {
	dst = space.AppendSample(dst, now, s)
	if s.Operation != space.Write {
		return dst, nil
	}
	dst, err := w.topic.codec.Append(dst, &w.value)
	if err != nil {
		err = fmt.Errorf("dds: topic %q: %w", w.topic.name, err)
	}
	return dst, err
}

// commit encodes a record in its place.
func (w *Writer[T]) commit(claim squall.Claim, now int64, s *space.Sample, future bool) (*squall.Future, error) {
	record, err := w.appendTo(claim.Bytes[:0:len(claim.Bytes)], now, s)
	if err == nil && len(record) != len(claim.Bytes) {
		err = fmt.Errorf("dds: topic %q: the codec says that a record has %d bytes, and makes %d", w.topic.name, len(claim.Bytes), len(record))
	}
	if err != nil {
		return nil, errors.Join(err, claim.Abort())
	}
	return finish(claim, future)
}

func finish(claim squall.Claim, future bool) (*squall.Future, error) {
	if future {
		return claim.CommitFuture()
	}
	return nil, claim.Commit()
}

// Claim is room for a sample of bytes. The claim of the group comes first: where both are copied one after the other, a processor forwards what was stored
// in pieces that lie alike.
type Claim struct {
	claim  squall.Claim
	commit func([]byte) error // of a client

	Bytes []byte // to be filled by the caller; it has what an earlier message left there
}

// Claim takes room for a sample of n bytes in the order, to be filled in place, and waits for buffer space until ctx ends. The sample keeps its place before
// later ones of this process: the caller should commit or abort soon. The topic must have the codec Raw.
func (w *Writer[T]) Claim(ctx context.Context, n int) (Claim, error) {
	if !w.raw {
		return Claim{}, fmt.Errorf("dds: topic %q: %w: samples in place need the codec Raw", w.topic.name, qos.ErrRefused)
	}
	if w.closed.Load() {
		return Claim{}, fmt.Errorf("%w: the writer was closed", ErrUnknown)
	}
	if w.p.client != nil {
		return Claim{Bytes: make([]byte, n), commit: func(b []byte) error { return w.putRemote(ctx, space.Write, nil, b, nil) }}, nil
	}
	t := w.p.sampleTime()
	s := space.Sample{Writer: w.id, Operation: space.Write, Source: t}
	head := space.SampleBytes(&s)
	w.p.keeper.pace(head + n)
	sub := w.p.sub
	if w.p.loose != nil {
		w.mu.Lock()
		sub = w.route(&s)
		w.mu.Unlock()
		var none T
		if err := w.introduce(ctx, &s, none); err != nil {
			return Claim{}, err
		}
	}
	c, err := sub.TryClaim(head + n)
	if errors.Is(err, squall.ErrWindowFull) {
		if err = w.p.mayWait(); err == nil {
			c, err = sub.Claim(ctx, head+n)
		}
	}
	if err != nil {
		return Claim{}, err
	}
	space.AppendSample(c.Bytes[:0], t, &s)
	return Claim{Bytes: c.Bytes[head:], claim: c}, nil
}

// Commit writes the sample.
func (c Claim) Commit() error {
	if c.commit != nil {
		return c.commit(c.Bytes)
	}
	return c.claim.Commit()
}

// Abort gives the room back.
func (c Claim) Abort() error {
	if c.commit != nil {
		return nil
	}
	return c.claim.Abort()
}

// Close ends the writer at a position of the order: its instances are disposed of there, unless its policies keep them.
func (w *Writer[T]) Close(ctx context.Context) error {
	w.closed.Store(true)
	return w.close(ctx)
}

// Change replaces the policies of the writer at one position. Policies that readers match by cannot be changed, but for partitions and durations.
func (w *Writer[T]) Change(ctx context.Context, set QoS) error {
	err := w.endpoint.Change(ctx, set)
	if err == nil {
		w.mu.Lock()
		w.set = set
		w.mu.Unlock()
	}
	return err
}

// Set is a coherent set that is being written.
type Set struct {
	number       uint64
	remote       *clientSet // of a client
	begun, ended atomic.Bool
}

// Coherent calls f, which writes samples with WriteIn, of writers of this participant that offer coherent access. They take effect at
// one position, at all readers, if f returns nil. If it returns an error, or this process fails before, none of them does. Coherent returns when the set is in the order.
func (p *Participant) Coherent(ctx context.Context, f func(*Set) error) error {
	if p.client != nil {
		s := &Set{remote: &clientSet{}}
		err := f(s)
		s.ended.Store(true)
		if err != nil {
			return err
		}
		return p.client.commit(ctx, s.remote)
	}
	p.mu.Lock()
	p.set++
	s := &Set{number: p.set}
	p.mu.Unlock()
	failed := f(s)
	s.ended.Store(true)
	if !s.begun.Load() {
		return failed
	}
	err := p.control(ctx, func(now int64) ([]byte, error) { return space.AppendEnd(nil, now, p.self, s.number, failed != nil) })
	if failed != nil {
		return failed
	}
	return err
}
