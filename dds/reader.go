package dds

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"sync"

	"github.com/squall-go/squall/dds/filter"
	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/internal/wait"
)

// SampleState is a mask: whether samples were read before. 0 is any state.
type SampleState uint8

// ViewState is a mask: whether the reader saw the instance before. 0 is any state.
type ViewState uint8

// InstanceState is a mask: whether the instance has writers, or how it ended. 0 is any state.
type InstanceState uint8

// The states.
const (
	SampleRead    = SampleState(space.Read)
	SampleNotRead = SampleState(space.NotRead)

	ViewNew    = ViewState(space.New) // the first samples of an instance, or of one that came back
	ViewNotNew = ViewState(space.NotNew)

	InstanceAlive     = InstanceState(space.Alive)
	InstanceDisposed  = InstanceState(space.Disposed)
	InstanceNoWriters = InstanceState(space.NoWriters)
)

// Info is what is known of a sample besides its value.
type Info struct {
	Position uint64 // in the order of the space; the same at all readers. 0: the sample came without an order
	Writer   ID
	Origin   *Origin // of a writer that stands for one of another system
	Source   int64   // time of the writer, in nanoseconds since the Unix epoch
	Valid    bool    // the sample has a value; otherwise the state of the instance changed, and the value has its key only
	Sample   SampleState
	View     ViewState
	Instance InstanceState

	// How often the instance had come back when the sample came.
	DisposedGeneration, NoWritersGeneration int
	// SampleRank is the number of samples of the instance that follow in the same result.
	// GenerationRank is how often the instance came back between this sample and the last one of the
	// result, AbsoluteGenerationRank until now.
	SampleRank, GenerationRank, AbsoluteGenerationRank int
}

// Sample is a sample as a reader has it.
type Sample[T any] struct {
	Value T
	Info  Info
}

// Query selects samples. The zero value selects all.
type Query struct {
	Max       int // 0: all
	Samples   SampleState
	Views     ViewState
	Instances InstanceState
}

// Reader has the samples of a topic. Its methods may be called from any goroutine.
type Reader[T any] struct {
	endpoint
	topic *Topic[T]
	cache *space.Cache
	view  viewer[T] // nil: samples are decoded
	ready wait.Bell // has an element if a sample came for a call that waits

	hear    func(*space.Held) // calls the function of Listen; nil: there is none
	text    *remote.Filter    // of WhereText
	waiting int               // calls that wait. The participant's lock
	one     []space.Held      // of Next. The participant's lock

	mu   sync.Mutex
	held []space.Held // of one call at a time
}

// Option is an option of a reader.
type Option[T any] func(*Reader[T])

// Where has a reader take only samples for which f returns true. It is called with each sample,
// once, where the sample has its position; it must not block or change v. A sample that cannot be
// decoded is not filtered.
func Where[T any](f func(v *T) bool) Option[T] {
	return func(r *Reader[T]) {
		r.text = nil
		r.cache.Filter = func(data []byte) bool {
			var v T
			return r.topic.codec.Decode(data, &v) != nil || f(&v)
		}
	}
}

// WhereText is Where with a filter expression of DDS, which package filter describes: `color =
// 'RED' AND size BETWEEN 10 AND %0`. For a reader of a client the relay evaluates it, so that other
// samples are not sent, if its process uses the topic with its type.
func WhereText[T any](expression string, parameters ...string) (Option[T], error) {
	e, err := filter.Parse(expression)
	if err != nil {
		return nil, err
	}
	f, err := filter.Bind[T](e, parameters...)
	if err != nil {
		return nil, err
	}
	where := Where(f)
	return func(r *Reader[T]) {
		where(r)
		r.text = &remote.Filter{Expression: expression, Parameters: parameters}
	}, nil
}

// Listen has f called with each sample, and each change of an instance, where it has its position,
// in place of keeping it for Take and Next: nothing is copied and no goroutine is woken. The
// sample, and with Raw its bytes, are valid until f returns; the error is not nil for a sample that
// cannot be decoded: it is a DecodeError, whose data are valid as long as the sample is.
// RESOURCE_LIMITS do not matter. F must return soon. Of this participant it may only write: writers
// return ErrInCallback where they would have to wait. With the history of a durable topic, and what
// comes meanwhile, f is called by Topic.Reader, while the order goes on.
func Listen[T any](f func(s *Sample[T], err error)) Option[T] {
	return func(r *Reader[T]) {
		var s Sample[T]
		value := new(T)
		r.hear = func(h *space.Held) {
			*value = *new(T)
			f(&s, r.decoded(h, &s, value))
		}
		r.cache.Listener = r.hear
	}
}

// Reader opens a reader. It begins at the position of the order at which it is opened, or with the
// history there if it is durable.
func (t *Topic[T]) Reader(ctx context.Context, set QoS, options ...Option[T]) (*Reader[T], error) {
	r := &Reader[T]{topic: t, ready: wait.NewBell()}
	r.view, _ = t.codec.(viewer[T])
	e, err := t.open(ctx, space.EndpointInfo{Reader: true, QoS: set}, func(id space.ID) *remote.Filter {
		r.cache = t.p.Space.Expect(id)
		r.cache.Ready = r.signal
		for _, o := range options {
			o(r)
		}
		return r.text
	})
	r.endpoint = e
	if err != nil {
		return nil, err
	}
	if err := r.fill(ctx); err != nil {
		t.p.Backend.GiveUp(e.id)
		return nil, fmt.Errorf("dds: a reader of topic %q: %w", t.name, err)
	}
	return r, nil
}

// fillPiece is how many samples of a history a reader gets before other goroutines may have the
// participant's lock.
const fillPiece = 128

// fill fills the cache of a reader that was opened with the history, or has its listener hear it,
// while records are applied.
func (r *Reader[T]) fill(ctx context.Context) error {
	p := r.p
	var heard []space.Held
	for {
		p.Mu.Lock()
		more := p.Space.Fill(r.cache, fillPiece)
		heard = r.cache.Heard(heard)
		p.TellAll()
		closing := p.Closing
		if !more {
			p.Roomy()
			return nil
		}
		p.Mu.Unlock()
		switch {
		case closing:
			return ErrNotOpen
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case len(heard) == 0:
			runtime.Gosched()
		default:
			p.Hearers.Run(func() {
				for i := range heard {
					r.hear(&heard[i])
				}
			})
			clear(heard)
		}
	}
}

// signal wakes one call that waits.
func (r *Reader[T]) signal() {
	r.ready.Ring()
}

// Read returns samples and leaves them, as read. If some of them cannot be decoded, the error is a
// DecodeError with these samples, and the result has all others.
func (r *Reader[T]) Read(q Query) ([]Sample[T], error) { return r.appended(nil, q, false) }

// Take returns samples and removes them. If some of them cannot be decoded, the error is a
// DecodeError with these samples, and the result has all others.
func (r *Reader[T]) Take(q Query) ([]Sample[T], error) { return r.appended(nil, q, true) }

// AppendTake is Take, and appends to dst: a caller that uses its memory again allocates nothing.
func (r *Reader[T]) AppendTake(dst []Sample[T], q Query) ([]Sample[T], error) {
	return r.appended(dst, q, true)
}

func (r *Reader[T]) appended(dst []Sample[T], q Query, take bool) ([]Sample[T], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.p.Mu.Lock()
	r.held = r.cache.AppendSelect(r.held[:0], space.Query{
		Max: q.Max, Samples: space.SampleState(q.Samples), Views: space.ViewState(q.Views), States: space.InstanceState(q.Instances), Take: take, Now: r.now(),
	})
	r.unlock()
	defer func() { clear(r.held) }()
	var failed *DecodeError
	for i := range r.held {
		dst = append(dst, Sample[T]{})
		last := len(dst) - 1
		if err := r.decode(&r.held[i], &dst[last], nil); err != nil {
			failed = failed.add(r.topic.name, &r.held[i], &dst[last].Info, err)
			dst = dst[:last]
		}
	}
	return dst, failed.err()
}

// now is the time for a query. The clock is read only if it matters.
func (r *Reader[T]) now() int64 {
	if r.cache.Timed() {
		return core.Now()
	}
	return math.MinInt64
}

// unlock releases the participant's lock after samples were taken, perhaps. What is held up by this
// reader goes on when half of its room is free, or when the group's loop looks again, if it does.
func (r *Reader[T]) unlock() {
	if r.p.Stalled && (!r.p.Looks || !r.cache.Crowded()) {
		r.p.Roomy()
		return
	}
	r.p.Mu.Unlock()
}

// decode fills a sample; value, which is zero, is memory for it, or nil.
func (r *Reader[T]) decode(h *space.Held, s *Sample[T], value *T) (err error) {
	// Field by field, and all of them: of a literal the compiler makes a copy.
	i := &s.Info
	i.Position, i.Writer, i.Origin, i.Source, i.Valid = h.Position, idOf(h.Writer), (*Origin)(h.Origin), h.Source, h.Valid
	i.Sample, i.View, i.Instance = SampleState(h.State), ViewState(h.View), InstanceState(h.Instance)
	i.DisposedGeneration, i.NoWritersGeneration = h.DisposedGeneration, h.NoWritersGeneration
	i.SampleRank, i.GenerationRank, i.AbsoluteGenerationRank = h.SampleRank, h.GenerationRank, h.AbsoluteGenerationRank
	if h.Valid && r.view != nil {
		s.Value = r.view.view(h.Data)
		return nil
	}
	if value == nil {
		value = new(T)
	}
	switch {
	case h.Valid:
		if err = r.topic.codec.Decode(h.Data, value); err == nil {
			if e, ok := any(value).(*Encoded); ok {
				e.Key = []byte(h.Key)
			}
		}
	case r.topic.key != nil:
		err = r.topic.key.Decode([]byte(h.Key), value)
	}
	s.Value = *value
	return err
}

// decoded is decode for one sample: its error is a DecodeError.
func (r *Reader[T]) decoded(h *space.Held, s *Sample[T], value *T) error {
	if err := r.decode(h, s, value); err != nil {
		return (*DecodeError)(nil).add(r.topic.name, h, &s.Info, err)
	}
	return nil
}

// Next takes the next sample, and waits for it. Of a sample that cannot be decoded it returns the
// Info, and a DecodeError.
func (r *Reader[T]) Next(ctx context.Context) (s Sample[T], err error) {
	h, err := r.next(ctx)
	if err == nil {
		err = r.decoded(&h, &s, nil)
	}
	return s, err
}

func (r *Reader[T]) next(ctx context.Context) (h space.Held, err error) {
	p := r.p
	p.Mu.Lock()
	for !r.cache.Ended() {
		r.one = r.cache.AppendSelect(r.one[:0], space.Query{Max: 1, Take: true, Now: r.now()})
		if len(r.one) > 0 {
			h = r.one[0]
			r.one[0] = space.Held{}
			if r.waiting > 0 { // another call
				r.cache.Await()
				if !r.cache.Empty() {
					r.signal()
				}
			}
			r.unlock()
			return h, nil
		}
		r.waiting++
		r.cache.Await()
		r.unlock() // samples may have expired
		select {
		case <-r.ready:
		case <-p.Done:
			err = ErrNotOpen
		case <-p.Over:
			err = p.Cause()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		p.Mu.Lock()
		if r.waiting--; err != nil {
			p.Mu.Unlock()
			return h, err
		}
	}
	if r.waiting > 0 {
		r.signal()
	}
	p.Mu.Unlock()
	return h, fmt.Errorf("%w: the reader was closed", ErrUnknown)
}

// All takes samples in order, and waits for each, until ctx ends or the reader is closed. The error
// of ctx is not yielded. After a DecodeError it goes on with the next sample.
func (r *Reader[T]) All(ctx context.Context) iter.Seq2[Sample[T], error] {
	return func(yield func(Sample[T], error) bool) {
		for {
			s, err := r.Next(ctx)
			if err != nil && ctx.Err() != nil {
				return
			}
			var malformed *DecodeError
			if !yield(s, err) || err != nil && !errors.As(err, &malformed) {
				return
			}
		}
	}
}

// Lost is the number of samples for which a best effort reader had no space.
func (r *Reader[T]) Lost() uint64 {
	r.p.Mu.Lock()
	defer r.p.Mu.Unlock()
	return r.cache.Lost()
}

// Close ends the reader at a position of the order. From now on it blocks no writer.
func (r *Reader[T]) Close(ctx context.Context) error {
	r.p.Mu.Lock()
	r.p.Space.Detach(r.id)
	r.p.Wake()
	r.p.Roomy()
	return r.p.Backend.Shut(ctx, r.id)
}
