package topics

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	goatomic "sync/atomic"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/backoff"
)

// lateNodes are the processes of a history: its writer, a reader that is there before, and the process that joins late, which is the last one.
const lateNodes = 3

// lateEvery is between two samples that the writer writes while the process joins.
const lateEvery = 500 * time.Microsecond

// late is a process of a topic with a history, which another process gets that joins late.
type late struct {
	*member
	writer        *dds.Writer[[]byte]
	index         uint64         // of the next sample
	last, longest goatomic.Int64 // the time of the last sample, and the longest one between two, in nanoseconds
}

// open writes the history, or opens the reader that is there before.
func (l *late) open(ctx context.Context) error {
	if l.Node == lateNodes {
		return nil
	}
	t, err := l.topic(ctx)
	if err != nil {
		return err
	}
	if l.Node > 1 {
		_, err = t.Reader(ctx, dds.QoS{History: qos.KeepAll()}, dds.Listen(l.hear))
		return err
	}
	if l.writer, err = t.Writer(ctx, dds.QoS{Durability: qos.Transient}); err != nil {
		return err
	}
	for range l.Spec.History {
		if err := l.write(ctx); err != nil {
			return err
		}
	}
	return l.writer.Flush(ctx)
}

func (l *late) topic(ctx context.Context) (*dds.Topic[[]byte], error) {
	return dds.NewTopic(ctx, l.participant, "samples", dds.Raw(), dds.QoS{Durability: qos.Transient, Service: qos.Service{History: qos.KeepAll()}})
}

func (l *late) write(ctx context.Context) error {
	b := make([]byte, l.Spec.SizeBytes)
	binary.LittleEndian.PutUint64(b, l.index)
	l.index++
	return l.writer.Write(ctx, b)
}

// hear measures the time since the last sample.
func (l *late) hear(*dds.Sample[[]byte], error) {
	at := time.Now().UnixNano()
	if since := at - l.last.Swap(at); since < at { // not the first one
		l.longest.Store(max(l.longest.Load(), since))
	}
}

// run writes samples slowly until ctx ends.
func (l *late) run(ctx context.Context) error {
	pause := time.NewTicker(lateEvery)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
		if err := l.write(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (l *late) latency() bench.Latency { return bench.Latency{} }

// measure is at the reader that was there before, and at the process that joins when the window begins.
func (l *late) measure(ctx context.Context, r bench.Request) (s sample, err error) {
	if err := backoff.Sleep(ctx, time.Until(r.From)); err != nil {
		return s, err
	}
	if l.Node < lateNodes {
		l.longest.Store(0)
		if err := backoff.Sleep(ctx, time.Until(r.To)); err != nil {
			return s, err
		}
		s.Gap = time.Duration(max(l.longest.Load(), time.Now().UnixNano()-l.last.Load()))
		return s, l.Failure()
	}
	began := time.Now()
	if err := l.join(ctx); err != nil {
		return s, err
	}
	if s.Took = time.Since(began); time.Now().After(r.To) {
		return s, fmt.Errorf("the history was there after %v, after the end of the window: give a longer --duration", s.Took)
	}
	return s, l.Failure()
}

// join joins the group, and takes the whole history.
func (l *late) join(ctx context.Context) error {
	if err := l.Group.Connect(ctx, l.addrs); err != nil {
		return err
	}
	t, err := l.topic(ctx)
	if err != nil {
		return err
	}
	reader, err := t.Reader(ctx, dds.QoS{Durability: qos.Transient, History: qos.KeepAll()})
	if err != nil {
		return err
	}
	var got []dds.Sample[[]byte]
	for l.index < uint64(l.Spec.History) {
		first, err := reader.Next(ctx)
		if err == nil {
			got, err = reader.AppendTake(append(got[:0], first), dds.Query{Max: 4096})
		}
		if err != nil {
			return errors.Join(err, fmt.Errorf("after %d samples of the history", l.index))
		}
		for i := range got {
			if index := binary.LittleEndian.Uint64(got[i].Value); index != l.index {
				return fmt.Errorf("sample %d comes instead of %d", index, l.index)
			}
			l.index++
		}
	}
	return nil
}
