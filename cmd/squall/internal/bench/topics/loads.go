package topics

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	goatomic "sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/wait"
)

// stream is a writer that writes as fast as it can, or a reader.
type stream[T any] struct {
	*member
	codec   dds.Codec[T]
	next    func(index uint64) T
	indexOf func(v *T) uint64
	writer  *dds.Writer[T]
	index   uint64 // of the next sample, of this writer or that this reader expects
	began   bool
}

func (s *stream[T]) open(ctx context.Context) error {
	if s.Node > 1 && !s.Spec.reads(s.Node) {
		return nil
	}
	topicSet, writerSet, readerSet := s.policies()
	for i := range max(1, s.Spec.Topics) {
		t, err := dds.NewTopic(ctx, s.participant, fmt.Sprint("samples ", i), s.codec, topicSet)
		if err != nil {
			return err
		}
		if s.Node == 1 {
			w, err := t.Writer(ctx, writerSet)
			if err != nil {
				return err
			}
			if i == 0 {
				s.writer = w
			}
			if _, err := w.Matched(ctx, s.Spec.Readers); err != nil {
				return err
			}
			continue
		}
		if err := s.openReader(ctx, t, readerSet, i == 0); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream[T]) openReader(ctx context.Context, t *dds.Topic[T], set dds.QoS, first bool) error {
	var options []dds.Option[T]
	if !s.Spec.Copy {
		options = append(options, dds.Listen(func(v *dds.Sample[T], err error) { s.hear(v, err) }))
	}
	r, err := t.Reader(ctx, set, options...)
	if err == nil && s.Spec.Copy && first {
		go s.take(r)
	}
	return err
}

// hear counts a sample. A sample that is missing or comes twice is a failure. Without an order,
// samples before the first one that came may be missing; a client that is slower than the writer
// loses samples.
func (s *stream[T]) hear(v *dds.Sample[T], err error) {
	if err != nil || !v.Info.Valid {
		s.Fail(errors.Join(err, fmt.Errorf("sample %d: %+v", s.index, v.Info)))
		return
	}
	index := s.indexOf(&v.Value)
	loses := s.Spec.Client == readerClient && index > s.index
	if loses && s.began {
		s.lost.Add(index - s.index)
	}
	if index != s.index && !loses && (s.began || s.Spec.Level != unordered) {
		s.Fail(fmt.Errorf("sample %d comes instead of %d", index, s.index))
	}
	s.began, s.index = true, index+1
	s.heard.Add(1)
}

// take takes samples until the participant ends.
func (s *stream[T]) take(r *dds.Reader[T]) {
	var all []dds.Sample[T]
	for {
		first, err := r.Next(context.Background())
		if err == nil {
			all, err = r.AppendTake(append(all[:0], first), dds.Query{})
		}
		if err != nil {
			if !errors.Is(err, dds.ErrNotOpen) {
				s.Fail(err)
			}
			return
		}
		for i := range all {
			s.hear(&all[i], nil)
		}
	}
}

// run writes samples until ctx ends. A sample that is written in place is written in all its bytes.
func (s *stream[T]) run(ctx context.Context) error {
	inPlace := !s.Spec.Copy && s.Spec.Codec == ""
	for ; ctx.Err() == nil; s.index++ {
		var err error
		if inPlace {
			var c dds.Claim
			if c, err = s.writer.Claim(ctx, s.Spec.SizeBytes); err == nil {
				bench.Fill(c.Bytes, s.index)
				err = c.Commit()
			}
		} else {
			err = s.writer.Write(ctx, s.next(s.index))
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return nil // and the sample was not written
		case err != nil:
			return err
		}
	}
	return nil
}

func (s *stream[T]) latency() bench.Latency { return bench.Latency{} }

// records is a process of a persistent subgroup without topics: node 1 sends.
type records struct{ *member }

func (r *records) open(context.Context) error { return nil }

func (r *records) run(ctx context.Context) error {
	sg := r.Subgroup("space")
	for index := uint64(0); ctx.Err() == nil; index++ {
		c, err := sg.Claim(ctx, r.Spec.SizeBytes)
		if err == nil {
			bench.Fill(c.Bytes, index)
			err = c.Commit()
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func (r *records) latency() bench.Latency { return bench.Latency{} }

// trips is a process that writes pings and measures the time until the pong comes, or a process
// that writes pongs. Both have listeners.
type trips struct {
	*member
	writer    *dds.Writer[[]byte]
	sent      time.Time // the ping that is in flight
	histogram *hdrhistogram.Histogram
	stop      goatomic.Bool
	stopped   chan struct{}
}

func newTrips(m *member) *trips {
	return &trips{member: m, histogram: bench.NewHistogram(), stopped: make(chan struct{})}
}

func (t *trips) open(ctx context.Context) (err error) {
	topicSet, writerSet, readerSet := t.policies()
	all := make([]*dds.Topic[[]byte], 2)
	for i, name := range []string{"ping", "pong"} {
		if all[i], err = dds.NewTopic(ctx, t.participant, name, dds.Raw(), topicSet); err != nil {
			return err
		}
	}
	if t.writer, err = all[t.Node-1].Writer(ctx, writerSet); err != nil {
		return err
	}
	if _, err = all[2-t.Node].Reader(ctx, readerSet, dds.Listen(t.hear)); err != nil {
		return err
	}
	_, err = t.writer.Matched(ctx, 1)
	return err
}

// hear answers a ping or a pong: there is one of them in flight.
func (t *trips) hear(v *dds.Sample[[]byte], err error) {
	if err == nil && !v.Info.Valid { // the other process has closed its writer
		return
	}
	t.heard.Add(1)
	if t.Node == 1 {
		_ = t.histogram.RecordValue(int64(time.Since(t.sent)) / 2) // longer ones are not recorded
		if t.stop.Load() {
			close(t.stopped)
			return
		}
		t.sent = time.Now()
	}
	if err == nil {
		err = t.writer.Write(context.Background(), v.Value)
	}
	if err != nil && !errors.Is(err, squall.ErrClosed) {
		t.Fail(err)
	}
}

func (t *trips) run(ctx context.Context) error {
	t.sent = time.Now()
	if err := t.writer.Write(ctx, make([]byte, t.Spec.SizeBytes)); err != nil {
		return err
	}
	<-ctx.Done()
	t.stop.Store(true)
	select {
	case <-t.stopped:
		return nil
	case <-time.After(10 * time.Second):
		return errors.New("a pong does not come")
	}
}

func (t *trips) latency() bench.Latency { return bench.LatencyOf(t.histogram) }

// lateNodes are the processes of a history: its writer, a reader that is there before, and the
// process that joins late, which is the last one.
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
	return dds.NewTopic(ctx, l.participant, "samples", dds.Raw(), dds.QoS{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}})
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

// measure is at the reader that was there before, and at the process that joins when the window
// begins.
func (l *late) measure(ctx context.Context, r bench.Request) (s sample, err error) {
	if err := wait.Sleep(ctx, time.Until(r.From)); err != nil {
		return s, err
	}
	if l.Node < lateNodes {
		l.longest.Store(0)
		if err := wait.Sleep(ctx, time.Until(r.To)); err != nil {
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
