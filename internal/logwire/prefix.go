package logwire

import (
	"errors"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// prefix looks for the last record that the own log and the source's one have in common. What they share is a prefix: one common record
// says that all in front of it are. So the search bisects. Times serve as its axis, since they grow strictly with the versions.
type prefix struct {
	log    *persist.Log
	source persist.Info
	probe  func(order.Version) (mark, error) // the source's record there, or the last one before it
}

// find returns the common record, or a mark that says that none is known.
func (p *prefix) find() (mark, error) {
	i := p.log.Info()
	if i.Count > 0 { // most often all of it is
		if m, err := p.try(i.Last.Version); m.Found || err != nil {
			return m, err
		}
	}
	var low mark
	for _, v := range []order.Version{i.Snapshot, i.First.Version, p.source.Snapshot, p.source.First.Version} {
		if v == (order.Version{}) {
			continue
		}
		m, err := p.try(v)
		if err != nil {
			return mark{}, err
		}
		if m.Found && low.Version.Before(m.Version) {
			low = m
		}
	}
	if !low.Found || i.Count == 0 {
		return low, nil
	}
	return p.bisect(low, i.Last.Time)
}

// bisect narrows down where the logs part, between a common record and a time at which they have parted.
func (p *prefix) bisect(low mark, parted order.Time) (mark, error) {
	for since := low.Time; since+1 < parted; {
		at := since + (parted-since)/2
		r, err := p.log.At(at)
		if missing(err) || err == nil && r.Time <= low.Time {
			since = at // no own record lies between
			continue
		}
		if err != nil {
			return mark{}, own(err)
		}
		m, err := p.try(r.Version)
		switch {
		case err != nil:
			return mark{}, err
		case !m.Found:
			parted = r.Time
		case m.Version != r.Version:
			return m, nil // the source's last one in front of r, and r is not the source's
		default:
			low, since = m, at
		}
	}
	return low, nil
}

// try asks the source for its last record up to a version, and returns it if the own log has it.
func (p *prefix) try(v order.Version) (mark, error) {
	m, err := p.probe(v)
	if err != nil || !m.Found {
		return mark{}, err
	}
	r, err := p.log.Get(m.Version)
	if err == nil {
		return either(m.same(summed(&r)), m), nil
	}
	if !missing(err) {
		return mark{}, own(err)
	}
	mine, err := snapshotUpTo(p.log, m.Version)
	return either(m.same(mine), m), own(err)
}

func either(common bool, m mark) mark {
	if common {
		return m
	}
	return mark{}
}

// missing reports whether an error says that a log does not have a record.
func missing(err error) bool {
	return errors.Is(err, persist.ErrNotFound) || errors.Is(err, persist.ErrTruncated)
}
