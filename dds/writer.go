package dds

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
)

// Writer writes samples of a topic. Its methods may be called from any goroutine.
type Writer[T any] struct {
	endpoint
	topic *Topic[T]
	out   core.Outlet
	sizer Sizer[T] // nil: the codec is none
	raw   bool     // samples may be written in place

	mu      sync.Mutex
	value   T // of the call that encodes it
	writing core.Writing
	set     QoS
	closed  atomic.Bool
}

// Writer opens a writer. It returns when the writer is part of the space, so that everything that
// is written comes after its matches.
func (t *Topic[T]) Writer(ctx context.Context, set QoS) (*Writer[T], error) {
	return t.writer(ctx, set, nil)
}

func (t *Topic[T]) writer(ctx context.Context, set QoS, o *Origin) (*Writer[T], error) {
	e, err := t.open(ctx, space.EndpointInfo{QoS: set, Origin: (*space.Origin)(o)}, unfiltered)
	if err != nil {
		return nil, err
	}
	w := &Writer[T]{endpoint: e, topic: t, out: t.p.Backend.Outlet(e.id, t.name, set), set: set}
	w.writing.Value = (*written[T])(w)
	w.sizer, _ = t.codec.(Sizer[T])
	_, w.raw = t.codec.(viewer[T])
	return w, nil
}

// unfiltered prepares for a writer.
func unfiltered(space.ID) *remote.Filter { return nil }

// Write writes a sample. It returns when the sample has its place in the order, and waits for
// buffer space if there is none: until ctx ends, or for MaxBlocking of RELIABILITY. At a client it
// returns when the sample is in the memory from which it is sent to a relay.
func (w *Writer[T]) Write(ctx context.Context, v T) error {
	_, err := w.write(ctx, what{op: space.Write}, v, false)
	return err
}

// WriteFuture writes a sample, and returns the future of its delivery and, in a space that is
// Persistent, of its way to the disks.
func (w *Writer[T]) WriteFuture(ctx context.Context, v T) (Future, error) {
	return w.write(ctx, what{op: space.Write}, v, true)
}

// WriteIn writes a sample of a coherent set. If it fails, the sample is not in the set.
func (w *Writer[T]) WriteIn(ctx context.Context, s *CoherentSet, v T) error {
	w.mu.Lock()
	coherent := w.set.Presentation.Coherent
	w.mu.Unlock()
	if !s.enter() {
		return fmt.Errorf("%w: the coherent set has ended", ErrUnknown)
	}
	defer s.leave()
	switch {
	case !coherent:
		return fmt.Errorf("dds: topic %q: %w: the writer offers no coherent access", w.topic.name, qos.ErrInconsistent)
	case w.p != s.p:
		return fmt.Errorf("dds: topic %q: %w: the coherent set is of another participant", w.topic.name, ErrUnknown)
	}
	_, err := w.write(ctx, what{op: space.Write, set: s.number}, v, false)
	if err == nil {
		s.begin()
	}
	return err
}

// Register tells that the writer is going to write the instance of v: one that no writer is
// registered with has no owner.
func (w *Writer[T]) Register(ctx context.Context, v T) error {
	_, err := w.write(ctx, what{op: space.Register}, v, false)
	return err
}

// Dispose ends the instance of v, of which the key members count.
func (w *Writer[T]) Dispose(ctx context.Context, v T) error {
	_, err := w.write(ctx, what{op: space.Dispose}, v, false)
	return err
}

// Unregister ends this writer's part in the instance of v. Unless its policies keep what it
// unregisters, the instance is disposed of.
func (w *Writer[T]) Unregister(ctx context.Context, v T) error {
	_, err := w.write(ctx, what{op: space.Unregister}, v, false)
	return err
}

// what is what a sample is besides its value.
type what struct {
	op       space.Operation
	set      uint64 // number of its coherent set, or 0
	sequence uint64 // number at its origin, or 0
	source   int64  // … and its time there
}

// write writes a sample. The writer's lock is not held while the call waits for buffer space: the
// group's loop may write, too.
func (w *Writer[T]) write(ctx context.Context, s what, v T, future bool) (Future, error) {
	f, left, err := w.try(s, v, future)
	if left == nil {
		return f, err
	}
	if left.longest > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left.longest)
		defer cancel()
	}
	f, err = w.out.Write(ctx, &left.Unsent)
	w.mu.Lock()
	w.writing.Record = left.Record // memory for the next one
	w.mu.Unlock()
	return f, err
}

// left is a sample that waits for buffer space, and how long it may wait; 0: no limit.
type left struct {
	core.Unsent
	longest time.Duration
}

// try writes a sample if that need not wait; otherwise it returns what is left to do. If the codec
// panics, the writer can be used again.
func (w *Writer[T]) try(of what, v T, future bool) (f Future, rest *left, err error) {
	w.mu.Lock()
	defer func() {
		w.value = *new(T)
		yield := w.writing.Yield
		w.mu.Unlock()
		if yield {
			runtime.Gosched()
		}
	}()
	switch {
	case w.closed.Load():
		return nil, nil, fmt.Errorf("%w: the writer was closed", ErrUnknown)
	case of.op == space.Dispose && w.topic.key == nil:
		return nil, nil, fmt.Errorf("dds: topic %q has no keys: nothing can be disposed of", w.topic.name)
	}
	w.value = v
	s := &w.writing.Sample
	s.Operation, s.Set, s.Sequence, s.Source, s.Key = of.op, of.set, of.sequence, of.source, s.Key[:0]
	if w.topic.key != nil {
		if s.Key, err = w.topic.key.Append(s.Key, &w.value); err != nil {
			return nil, nil, fmt.Errorf("dds: topic %q: %w", w.topic.name, err)
		}
	}
	w.writing.Future, w.writing.Size = future, -1
	if of.op != space.Write {
		w.writing.Size = 0
	} else if w.sizer != nil {
		w.writing.Size = w.sizer.Size(&w.value)
	}
	if f, err = w.out.TryWrite(&w.writing); err == core.ErrNoRoom {
		rest = &left{w.writing.Unsent, w.set.Reliability.MaxBlocking}
		w.writing.Unsent = core.Unsent{}
	}
	return f, rest, err
}

// written is a writer as its outlet sees it: a value that is encoded.
type written[T any] Writer[T]

// Append implements core.Value. The lock is held.
func (w *written[T]) Append(dst []byte) ([]byte, error) {
	dst, err := w.topic.codec.Append(dst, &w.value)
	if err != nil {
		err = fmt.Errorf("dds: topic %q: %w", w.topic.name, err)
	}
	return dst, err
}

// Claim is space for a sample of bytes. The claim of the group comes first: where both are copied
// one after the other, a processor forwards what was stored in pieces that lie alike.
type Claim struct {
	claim core.Claim

	Bytes []byte // to be filled by the caller; it has what an earlier message left there
}

// Claim takes space for a sample of n bytes in the order, to be filled in place, and waits for
// buffer space until ctx ends. The sample keeps its place before later ones of this process: the
// caller should commit or abort soon. The topic must have the codec Raw.
func (w *Writer[T]) Claim(ctx context.Context, n int) (Claim, error) {
	if !w.raw {
		return Claim{}, fmt.Errorf("dds: topic %q: %w: samples in place need the codec Raw", w.topic.name, qos.ErrRefused)
	}
	if w.closed.Load() {
		return Claim{}, fmt.Errorf("%w: the writer was closed", ErrUnknown)
	}
	c, room, err := w.out.Claim(ctx, n)
	return Claim{c, room}, err
}

// Commit writes the sample.
func (c Claim) Commit() error {
	if c.claim.In == nil {
		return errNoClaim
	}
	return c.claim.In.Commit(c.claim.Room)
}

// Abort gives the space back.
func (c Claim) Abort() error {
	if c.claim.In == nil {
		return errNoClaim
	}
	return c.claim.In.Abort(c.claim.Room)
}

var errNoClaim = fmt.Errorf("%w: the claim is of no writer", ErrUnknown)

// Flush waits until everything that the writer has written is in the order and, if its topic is
// PERSISTENT, on the disk of every member.
func (w *Writer[T]) Flush(ctx context.Context) error {
	return w.out.Flush(ctx, w.topic.set.Durability == qos.Persistent)
}

// AssertLiveliness says that a writer whose LIVELINESS is manual is alive, as each of its samples
// does. It returns when that is in the order.
func (w *Writer[T]) AssertLiveliness(ctx context.Context) error { return w.p.Backend.Assert(ctx, w.id) }

// Close ends the writer at a position of the order: its instances are disposed of there, unless its
// policies keep them.
func (w *Writer[T]) Close(ctx context.Context) error {
	w.closed.Store(true)
	return w.p.Backend.Shut(ctx, w.id)
}

// Change replaces the policies of the writer at one position. Policies that readers match by cannot
// be changed, but for partitions and durations.
func (w *Writer[T]) Change(ctx context.Context, set QoS) error {
	err := w.endpoint.Change(ctx, set)
	if err == nil {
		w.out.Changed(set)
		w.mu.Lock()
		w.set = set
		w.mu.Unlock()
	}
	return err
}

// CoherentSet is a set of samples that is being written.
type CoherentSet struct {
	p      *core.Participant
	number uint64
	idle   chan struct{} // closed when the set has ended, and no call of WriteIn is in progress

	mu    sync.Mutex
	calls int  // of WriteIn, in progress: no sample of the set follows its end
	begun bool // it has a sample
	ended bool
}

// enter begins a call of WriteIn, unless the set has ended.
func (s *CoherentSet) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.calls++
	}
	return !s.ended
}

func (s *CoherentSet) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
}

func (s *CoherentSet) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls--; s.ended && s.calls == 0 {
		close(s.idle)
	}
}

// close lets no call of WriteIn begin.
func (s *CoherentSet) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended = true; s.calls == 0 {
		close(s.idle)
	}
}

// end ends the set after the calls of WriteIn that are in progress. It takes effect, or is dropped.
// If ctx ends before that has its place, the set is dropped as soon as there is room.
func (s *CoherentSet) end(ctx context.Context, drop bool) error {
	s.close()
	select {
	case <-s.idle:
	default:
		select {
		case <-s.idle:
		case <-ctx.Done():
			go s.drop(ctx)
			return context.Cause(ctx)
		}
	}
	if !s.begun {
		return nil
	}
	err := s.p.Backend.EndSet(ctx, s.number, drop)
	if err != nil && ctx.Err() != nil {
		go s.drop(ctx)
	}
	return err
}

// drop drops a set that was closed, whenever its context ended. If the set has its place after all,
// nothing happens.
func (s *CoherentSet) drop(ctx context.Context) {
	<-s.idle
	if s.begun {
		_ = s.p.Backend.EndSet(context.WithoutCancel(ctx), s.number, true)
	}
}

// Coherent calls f, which writes samples with WriteIn, of writers of this participant that offer
// coherent access. They take effect at one position, at all readers, if f returns nil. If it
// returns an error or panics, or this process fails before, none of them does. A set without
// samples takes effect at no position, and is no error: a call of WriteIn that fails adds none, and
// f decides whether the others count without it. Coherent returns
// when the set is in the order, or when ctx has ended: then the set has its place already, or is
// dropped. Calls of WriteIn on other goroutines that are in progress when f returns count: the set
// ends after them.
func (p *Participant) Coherent(ctx context.Context, f func(*CoherentSet) error) error {
	s := &CoherentSet{p: p.core, number: p.core.Backend.NewSet(), idle: make(chan struct{})}
	returned := false
	defer func() {
		if !returned { // f panics, or ends its goroutine
			s.close()
			go s.drop(ctx) // not here: a sample that f was writing may be in the way
		}
	}()
	failed := f(s)
	returned = true
	err := s.end(ctx, failed != nil)
	if failed != nil {
		return failed
	}
	return err
}
