package logwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/squall-go/squall/internal/catchup"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// maxRecordBytes is what a record may have if a reader does not say less.
const maxRecordBytes = 1 << 30

// session is a conversation in which a reader asks. It is used by one goroutine.
type session struct {
	ctx  context.Context
	conn *wire.Conn
	max  int // bytes of a record

	group string // of which the member says that it is; proved only to a reader of that group

	heard func() // optional: told of every frame but one that ends an answer

	stop    func() // of the pulses
	detach  func() bool
	closing sync.Once
}

// dial opens a session that ends with its context.
func (c *Client) dial(ctx context.Context) (*session, error) {
	dialing, cancel := context.WithTimeout(ctx, c.Times.WithDefaults().Dial)
	defer cancel()
	raw, err := c.Dial(dialing)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNobody, wire.Because(ctx, err))
	}
	s := &session{ctx: ctx, conn: wire.New(raw, c.Times, maxFrameBytes), max: c.MaxRecord}
	if s.max == 0 {
		s.max = maxRecordBytes
	}
	s.detach = context.AfterFunc(ctx, func() { raw.Close() })
	if s.group, err = c.greet(s.conn); err != nil {
		s.detach()
		raw.Close()
		return nil, s.because(err)
	}
	s.stop = s.conn.Pulses()
	return s, nil
}

func (s *session) close() {
	s.closing.Do(func() {
		s.detach()
		s.conn.Close()
		s.stop()
	})
}

// because distinguishes errors of the connection from errors of its content.
func (s *session) because(err error) error {
	if errors.Is(err, ErrCorrupt) || errors.As(err, new(remote)) || errors.Is(err, views.ErrOtherHistory) || errors.Is(err, ErrFormat) {
		return err
	}
	return s.broke(err)
}

// broke says that the connection failed, and not what it carries.
func (s *session) broke(err error) error {
	return fmt.Errorf("%w: %w", errBroken, wire.Because(s.ctx, err))
}

// frame is one frame of an answer. Its error says why there are no more: io.EOF if the answer is
// complete.
func (s *session) frame(e *wire.Ending) (wire.Kind, []byte, error) {
	k, bytes, err := s.conn.Frame(e, s.heard)
	var said *wire.Remote
	switch {
	case err == nil, err == io.EOF:
		return k, bytes, err
	case errors.As(err, &said):
		return 0, nil, fromRemote(said.Code, said.Text)
	}
	return 0, nil, s.because(err)
}

// ask sends a request.
func (s *session) ask(q request) error {
	if err := s.conn.Say(q); err != nil {
		return s.broke(err)
	}
	return nil
}

// values asks for what is answered by frames of JSON, of one kind.
func values[T any](s *session, q request, want wire.Kind) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if err := s.ask(q); err != nil {
			yield(none, err)
			return
		}
		var e wire.Ending
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
				err = wire.Decode(bytes, &v)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// value asks for one of them.
func value[T any](s *session, q request, want wire.Kind) (v T, err error) {
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
func (s *session) records(q request, may bounds) iter.Seq2[persist.Record, error] {
	return func(yield func(persist.Record, error) bool) {
		if err := s.ask(q); err != nil {
			yield(persist.Record{}, err)
			return
		}
		var e wire.Ending
		d := decoder{bounds: may, max: s.max}
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
func (s *session) snapshot(q request) (persist.Record, *wire.Reader, error) {
	if err := s.ask(q); err != nil {
		return persist.Record{}, nil, err
	}
	var e wire.Ending
	k, bytes, err := s.frame(&e)
	var m catchup.Mark
	switch {
	case err == io.EOF:
		err = fmt.Errorf("%w: a snapshot without a version", ErrCorrupt)
	case err == nil && k != kindMark:
		err = fmt.Errorf("%w: a frame of kind %d in front of a snapshot", ErrCorrupt, k)
	case err == nil:
		err = wire.Decode(bytes, &m)
	}
	return m.Record(), wire.NewReader(s.frame), err
}
