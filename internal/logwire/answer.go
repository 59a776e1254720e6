package logwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"

	"github.com/squall-go/squall/internal/catchup"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// answerer answers one request about one log.
type answerer struct {
	s   *Server
	ctx context.Context // ends when the reader does
	out *wire.Conn
	log *persist.Log
	q   *request
}

func (a *answerer) info() (wire.Ending, error) {
	return wire.Ending{Count: 1}, a.out.SayAs(kindInfo, infoOf(a.log.Info()))
}

// ready waits until everything before a version is on this disk.
func (a *answerer) ready() (e wire.Ending, err error) {
	before := version(a.q.To)
	partial := a.s.cfg.Partial != nil && a.s.cfg.Partial(a.q.id())
	switch catchup.Ready(reader{a.log}, partial, before) {
	case catchup.Refuses:
		return e, fmt.Errorf("log %v: %w", a.q.id(), errPartial)
	case catchup.Waits:
		if err = a.await(before); err != nil {
			return e, err
		}
	}
	if err = a.log.Sync(a.ctx); err != nil {
		return e, err
	}
	return a.info()
}

// await waits for what is not appended yet.
func (a *answerer) await(before order.Version) error {
	_, last := a.log.Durable()
	if catchup.Reaches(last, before) {
		return nil
	}
	for r, err := range a.log.Tail(a.ctx, catchup.After(last)) {
		if err != nil {
			return err
		}
		if catchup.Reaches(r.Version, before) {
			return nil
		}
	}
	return context.Cause(a.ctx)
}

// probe looks for the record at a version, or the last one before it; what the snapshot stands for
// counts as one.
func (a *answerer) probe() (e wire.Ending, err error) {
	m, err := catchup.LastUpTo(reader{a.log}, version(a.q.From))
	if err != nil {
		return e, err
	}
	return wire.Ending{Count: 1}, a.out.SayAs(kindMark, m)
}

// one answers with a single record.
func (a *answerer) one() (e wire.Ending, err error) {
	var r persist.Record
	switch a.q.Do {
	case doGet:
		r, err = a.log.Get(version(a.q.From))
	case doNth:
		r, err = Nth(a.log, a.q.Number)
	default:
		if err = a.settle(a.q.Since); err == nil {
			r, err = a.log.At(a.q.Since)
		}
	}
	if err != nil {
		return e, err
	}
	out := newEncoder(a.out)
	if err := out.add(&r); err != nil {
		return e, err
	}
	return wire.Ending{Count: 1}, out.flush()
}

// settle waits until a question about times up to t has one answer for ever.
func (a *answerer) settle(t order.Time) error {
	if a.s.cfg.Settle == nil {
		return nil
	}
	return a.s.cfg.Settle(a.ctx, a.q.id(), t)
}

// Nth is the record with a number. Numbers grow by one with the records, and times grow strictly,
// so a bisection over times finds it.
func Nth(log *persist.Log, number uint64) (r persist.Record, err error) {
	i := log.Info()
	switch {
	case i.Count == 0 || number > i.Last.Number:
		return r, fmt.Errorf("%w: number %d of log %v, which has %d records", persist.ErrNotFound, number, i.ID, i.Count)
	case number < i.First.Number:
		return r, fmt.Errorf("number %d of log %v: %w, which is %d", number, i.ID, persist.ErrTruncated, i.First.Number)
	}
	low, high := i.First.Time, i.Last.Time
	for {
		middle := low + (high-low)/2
		if r, err = log.At(middle); err != nil || r.Number == number {
			return r, err
		}
		if r.Number > number {
			high = r.Time - 1
		} else {
			low = middle + 1
		}
		if low > high {
			return r, fmt.Errorf("log %v: %w: no record %d between times %v and %v", i.ID, persist.ErrDamaged, number, i.First.Time, i.Last.Time)
		}
	}
}

// records streams what was asked for. A frame goes out when it is full, or when nothing more is on
// disk.
func (a *answerer) records() (e wire.Ending, err error) {
	if a.q.Do == doBetween && a.q.Until > 0 && a.q.Until < math.MaxInt64 {
		if err := a.settle(a.q.Until - 1); err != nil {
			return e, err
		}
	}
	out := newEncoder(a.out)
	for r, err := range a.source() {
		if err != nil {
			return wire.Ending{Count: out.count}, errors.Join(out.flush(), err)
		}
		if err := out.add(&r); err != nil {
			return e, err
		}
		if a.q.Do == doTail && a.atEnd(r.Version) {
			if err := out.flush(); err != nil {
				return e, err
			}
		}
		if err := a.ctx.Err(); err != nil {
			return e, err
		}
	}
	return wire.Ending{Count: out.count}, out.flush()
}

// atEnd reports whether a record is the last one on disk, for now.
func (a *answerer) atEnd(v order.Version) bool {
	_, last := a.log.Durable()
	return !v.Before(last)
}

func (a *answerer) source() iter.Seq2[persist.Record, error] {
	from := version(a.q.From)
	switch a.q.Do {
	case doBetween:
		return a.log.Between(a.q.Since, a.q.Until)
	case doTail:
		return a.log.Tail(a.ctx, from)
	}
	return a.log.Range(from, version(a.q.To))
}

// snapshot streams the bytes of the snapshot behind its mark.
func (a *answerer) snapshot() (e wire.Ending, err error) {
	at, r, err := a.log.OpenSnapshot()
	if err != nil {
		return e, err
	}
	defer r.Close()
	if err := a.out.SayAs(kindMark, catchup.MarkOf(&at)); err != nil {
		return e, err
	}
	out := a.out.NewWriter(frameBytes)
	if _, err := io.Copy(out, r); err != nil {
		return e, err
	}
	return out.Finish()
}
