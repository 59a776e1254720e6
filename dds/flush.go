package dds

import (
	"context"
	"fmt"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
)

// Flush waits until everything that the writer has written is in the order and, if its topic is PERSISTENT, on the disk of every member.
func (w *Writer[T]) Flush(ctx context.Context) error {
	p := w.p
	if p.client != nil {
		return p.client.flush(ctx, w.id)
	}
	// A record without an effect, behind the samples of this process.
	err := p.control(ctx, func(now int64) ([]byte, error) { return space.AppendLapse(nil, now, space.Lapse{Writer: w.id}) })
	if err != nil || w.topic.set.Durability != qos.Persistent {
		return err
	}
	p.mu.Lock()
	version := p.version
	p.mu.Unlock()
	log, err := p.sub.Log()
	if err != nil {
		return err
	}
	return log.WaitPersisted(ctx, squall.OnEveryDisk, version)
}

// writeRemote writes a sample of a client. F is its future, or nil.
func (w *Writer[T]) writeRemote(ctx context.Context, s space.Sample, v T, f *future) error {
	if s.Operation == space.Dispose && w.topic.key == nil {
		return fmt.Errorf("dds: topic %q has no keys: nothing can be disposed of", w.topic.name)
	}
	key, data, err := w.encodedRemote(s.Operation, &v)
	if err != nil {
		return err
	}
	return w.putRemote(ctx, s.Operation, key, data, f)
}

// encodedRemote encodes a sample of a client.
func (w *Writer[T]) encodedRemote(op space.Operation, v *T) (key, data []byte, err error) {
	if w.topic.key != nil {
		key, err = w.topic.key.Append(nil, v)
	}
	if op == space.Write && err == nil {
		if w.sizer != nil {
			data = make([]byte, 0, w.sizer.Size(v))
		}
		data, err = w.topic.codec.Append(data, v)
	}
	if err != nil {
		err = fmt.Errorf("dds: topic %q: %w", w.topic.name, err)
	}
	return key, data, err
}

// addRemote adds a sample to a coherent set of a client.
func (w *Writer[T]) addRemote(s *clientSet, v T) error {
	if w.closed.Load() {
		return fmt.Errorf("%w: the writer was closed", ErrUnknown)
	}
	key, data, err := w.encodedRemote(space.Write, &v)
	if err == nil {
		if err = w.p.client.add(s, w.id, key, data); err != nil {
			err = fmt.Errorf("dds: topic %q: %w", w.topic.name, err)
		}
	}
	return err
}

// putRemote gives a sample of a client to its relay, as soon as there is one. The memory belongs to the client from now on.
func (w *Writer[T]) putRemote(ctx context.Context, op space.Operation, key, data []byte, f *future) error {
	if w.closed.Load() {
		return fmt.Errorf("%w: the writer was closed", ErrUnknown)
	}
	w.mu.Lock()
	longest := w.set.Reliability.MaxBlocking
	w.mu.Unlock()
	if longest > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, longest)
		defer cancel()
	}
	if err := w.p.client.put(ctx, w.id, op, key, data, f); err != nil {
		return fmt.Errorf("dds: topic %q: %w", w.topic.name, err)
	}
	return nil
}
