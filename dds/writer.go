package dds

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
)

// Writer writes samples of a topic. Its methods may be called from any goroutine.
type Writer[T any] struct {
	endpoint
	topic *Topic[T]

	mu     sync.Mutex
	value  T // of the call that encodes it
	key    []byte
	record []byte
	set    QoS
	closed atomic.Bool
}

// Writer opens a writer. It returns when the writer is part of the space, so that everything that is written comes behind its matches.
func (t *Topic[T]) Writer(ctx context.Context, set QoS) (*Writer[T], error) {
	e, err := t.open(ctx, space.EndpointInfo{QoS: set}, func(space.ID) {})
	if err != nil {
		return nil, err
	}
	return &Writer[T]{endpoint: e, topic: t, set: set}, nil
}

// Write writes a sample. It returns when the sample has its room in the order, and waits for room if there is none: until ctx ends, or
// for MaxBlocking of RELIABILITY.
func (w *Writer[T]) Write(ctx context.Context, v T) error {
	return w.write(ctx, space.Write, 0, v)
}

// WriteFuture writes a sample, and returns the future of its delivery and, in a space that is Persistent, of its way to the disks.
func (w *Writer[T]) WriteFuture(ctx context.Context, v T) (f *squall.Future, err error) {
	err = w.encoded(space.Sample{}, v, func(record []byte) error {
		f, err = w.p.sub.SendFuture(ctx, record)
		return err
	})
	return f, err
}

// WriteIn writes a sample of a coherent set.
func (w *Writer[T]) WriteIn(ctx context.Context, s *Set, v T) error {
	return w.write(ctx, space.Write, s.number, v)
}

// Register tells that the writer is going to write the instance of v: one that no writer is registered with has no owner.
func (w *Writer[T]) Register(ctx context.Context, v T) error {
	return w.write(ctx, space.Register, 0, v)
}

// Dispose ends the instance of v, of which the key members count.
func (w *Writer[T]) Dispose(ctx context.Context, v T) error {
	return w.write(ctx, space.Dispose, 0, v)
}

// Unregister ends this writer's part in the instance of v. Unless its policies keep what it unregisters, the instance is disposed of.
func (w *Writer[T]) Unregister(ctx context.Context, v T) error {
	return w.write(ctx, space.Unregister, 0, v)
}

func (w *Writer[T]) write(ctx context.Context, op space.Operation, set uint64, v T) error {
	w.mu.Lock()
	longest := w.set.Reliability.MaxBlocking
	w.mu.Unlock()
	if longest > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, longest)
		defer cancel()
	}
	return w.encoded(space.Sample{Operation: op, Set: set}, v, func(record []byte) error { return w.p.sub.Send(ctx, record) })
}

// encoded calls send with the record of a sample, which lies in memory of the writer.
func (w *Writer[T]) encoded(s space.Sample, v T, send func([]byte) error) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed.Load():
		return fmt.Errorf("%w: the writer was closed", ErrUnknown)
	case s.Operation == space.Dispose && w.topic.key == nil:
		return fmt.Errorf("dds: topic %q has no keys: nothing can be disposed of", w.topic.name)
	case s.Set != 0 && !w.set.Presentation.Coherent:
		return fmt.Errorf("dds: topic %q: %w: the writer offers no coherent access", w.topic.name, qos.ErrInconsistent)
	}
	w.value = v
	defer func() { w.value = *new(T) }()
	w.key = w.key[:0]
	if w.topic.key != nil {
		if w.key, err = w.topic.key.Append(w.key, &w.value); err != nil {
			return fmt.Errorf("dds: topic %q: %w", w.topic.name, err)
		}
	}
	t := now()
	s.Writer, s.Key = w.id, w.key
	if s.Sequence == 0 {
		s.Source = t
	}
	w.record = space.AppendSample(w.record[:0], t, &s)
	if s.Operation == space.Write {
		if w.record, err = w.topic.codec.Append(w.record, &w.value); err != nil {
			return fmt.Errorf("dds: topic %q: %w", w.topic.name, err)
		}
	}
	return send(w.record)
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
type Set struct{ number uint64 }

// Coherent calls f, which writes samples with WriteIn, of writers of this participant that offer coherent access. They take effect at
// one position, at all readers, if f returns nil. If it returns an error, or this process fails before, none of them does.
func (p *Participant) Coherent(ctx context.Context, f func(*Set) error) error {
	p.mu.Lock()
	p.set++
	s := &Set{p.set}
	p.mu.Unlock()
	failed := f(s)
	err := p.control(ctx, func(now int64) ([]byte, error) { return space.AppendEnd(nil, now, p.self, s.number, failed != nil) })
	if failed != nil {
		return failed
	}
	return err
}
