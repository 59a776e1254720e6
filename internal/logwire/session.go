package logwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"sync"

	"github.com/squall-go/squall/persist"
)

// maxRecordBytes is what a record may have if a reader does not say less.
const maxRecordBytes = 1 << 30

// session is a connection on which a reader asks. It is used by one goroutine.
type session struct {
	ctx  context.Context
	conn net.Conn
	in   *reader
	out  *writer
	max  int // bytes of a record

	heard func() // optional: told of every frame but one that ends an answer

	cluster string
	pulses  sync.WaitGroup
	stop    chan struct{}
	detach  func() bool
	closing sync.Once
}

// dial opens a session that ends with its context.
func (c *Client) dial(ctx context.Context) (*session, error) {
	times := c.Times.withDefaults()
	dialing, cancel := context.WithTimeout(ctx, times.Dial)
	defer cancel()
	conn, err := c.Dial(dialing)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNobody, because(ctx, err))
	}
	s := &session{
		ctx: ctx, conn: conn, cluster: c.Cluster, max: c.MaxRecord,
		in:  &reader{conn: conn, silence: times.Silence, max: maxFrameBytes},
		out: &writer{conn: conn, stall: times.Stall}, stop: make(chan struct{}),
	}
	if s.max == 0 {
		s.max = maxRecordBytes
	}
	s.detach = context.AfterFunc(ctx, func() { conn.Close() })
	s.pulses.Go(func() { s.out.pulse(times.Pulse, s.stop) })
	return s, nil
}

func (s *session) close() {
	s.closing.Do(func() {
		close(s.stop)
		s.detach()
		s.conn.Close()
		s.pulses.Wait()
	})
}

// because puts the reason for which something was ended in front of what came of that.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// broke says that the connection failed, and not what it carries.
func (s *session) broke(err error) error {
	return fmt.Errorf("%w: %w", errBroken, because(s.ctx, err))
}

// frame is one frame of an answer. Its error says why there are no more: io.EOF if the answer is complete.
func (s *session) frame(e *end) (kind, []byte, error) {
	for {
		k, bytes, err := s.in.next()
		switch {
		case errors.Is(err, ErrCorrupt):
			return 0, nil, err
		case err != nil:
			return 0, nil, s.broke(err)
		case k != kindEnd:
			s.alive()
			if k == kindPulse && len(bytes) == 0 {
				continue
			}
			return k, bytes, nil
		}
		if err := decode(bytes, e); err != nil {
			return 0, nil, err
		}
		if e.Code != "" {
			return 0, nil, fromRemote(e.Code, e.Text)
		}
		return 0, nil, io.EOF
	}
}

func (s *session) alive() {
	if s.heard != nil {
		s.heard()
	}
}

// ask sends a request.
func (s *session) ask(q request) error {
	q.Format, q.Cluster = formatVersion, s.cluster
	if err := s.out.say(kindRequest, q); err != nil {
		return s.broke(err)
	}
	return nil
}

// values asks for what is answered by frames of JSON, of one kind.
func values[T any](s *session, q request, want kind) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if err := s.ask(q); err != nil {
			yield(none, err)
			return
		}
		var e end
		for count := uint64(0); ; count++ {
			k, bytes, err := s.frame(&e)
			if err == io.EOF && e.Count == count {
				return
			}
			var v T
			switch {
			case err == io.EOF:
				err = fmt.Errorf("%w: %d answers, announced %d", ErrCorrupt, count, e.Count)
			case err != nil:
			case k != want:
				err = fmt.Errorf("%w: a frame of kind %d in the answer to %q", ErrCorrupt, k, q.Do)
			default:
				err = decode(bytes, &v)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// value asks for one of them.
func value[T any](s *session, q request, want kind) (v T, err error) {
	count := 0
	for one, err := range values[T](s, q, want) {
		if err != nil {
			return v, err
		}
		v, count = one, count+1
	}
	if count != 1 {
		return v, fmt.Errorf("%w: %d answers to %q", ErrCorrupt, count, q.Do)
	}
	return v, nil
}

// records asks for records. If the loop over them is left early, the session is of no use any more.
func (s *session) records(q request, may asked) iter.Seq2[persist.Record, error] {
	return func(yield func(persist.Record, error) bool) {
		if err := s.ask(q); err != nil {
			yield(persist.Record{}, err)
			return
		}
		var e end
		d := decoder{asked: may, max: s.max}
		for {
			k, bytes, err := s.frame(&e)
			if err == io.EOF {
				if !d.whole() || e.Count != d.count {
					yield(persist.Record{}, fmt.Errorf("%w: %d records, announced %d", ErrCorrupt, d.count, e.Count))
				}
				return
			}
			if err == nil {
				err = d.put(k, bytes)
			}
			for ok := true; ok && err == nil; {
				var r persist.Record
				if r, ok, err = d.take(); ok && !yield(r, nil) {
					return
				}
			}
			if err != nil {
				yield(persist.Record{}, err)
				return
			}
		}
	}
}

// snapshot asks for a snapshot and returns what it stands for, and its bytes.
func (s *session) snapshot(q request) (persist.Record, *bytesOf, error) {
	if err := s.ask(q); err != nil {
		return persist.Record{}, nil, err
	}
	var e end
	k, bytes, err := s.frame(&e)
	var m mark
	switch {
	case err == io.EOF:
		err = fmt.Errorf("%w: a snapshot without a version", ErrCorrupt)
	case err == nil && k != kindMark:
		err = fmt.Errorf("%w: a frame of kind %d in front of a snapshot", ErrCorrupt, k)
	case err == nil:
		err = decode(bytes, &m)
	}
	return m.record(), &bytesOf{s: s}, err
}
