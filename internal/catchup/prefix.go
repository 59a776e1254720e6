package catchup

import (
	"errors"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// prefix looks for the last record that the own log and the source's one have in common, with
// nothing missing in front of it in either of them. What they share is a prefix: if a record is
// common, and both logs have as many records between it and an earlier common one, then so is all
// that lies between. So the search bisects. Times serve as its axis, since they grow strictly with
// the versions.
type prefix struct {
	log    Reader
	source persist.Info
	probe  func(order.Version) (Mark, error) // the source's record there, or the last one before it
}

// pair is a record that both logs have.
type pair struct {
	theirs Mark
	number uint64 // in the own log
}

// dense reports whether both logs have as many records between two pairs.
func (p pair) dense(o pair) bool { return p.theirs.Number-o.theirs.Number == p.number-o.number }

// find returns the common record, or a mark that says that none is known.
func (p *prefix) find() (Mark, error) {
	i := p.log.Info()
	low, err := p.lowest(i)
	if err != nil || !low.theirs.Found || i.Count == 0 {
		return low.theirs, err
	}
	last, err := p.try(i.Last.Version) // most often all of the log is common
	if err != nil {
		return Mark{}, err
	}
	if last.theirs.Found && last.dense(low) {
		return last.theirs, nil
	}
	return p.bisect(low, i.Last.Time)
}

// lowest is the first common record that is known.
func (p *prefix) lowest(i persist.Info) (low pair, err error) {
	for _, v := range []order.Version{i.Snapshot, i.First.Version, p.source.Snapshot, p.source.First.Version, i.Last.Version} {
		if v == (order.Version{}) {
			continue
		}
		found, err := p.try(v)
		if err != nil {
			return pair{}, err
		}
		if found.theirs.Found && (!low.theirs.Found || found.theirs.Version.Before(low.theirs.Version)) {
			low = found
		}
	}
	return low, nil
}

// bisect narrows down where the logs part, between a common record and a time at which they have
// parted.
func (p *prefix) bisect(low pair, parted order.Time) (Mark, error) {
	first := low
	for since := low.theirs.Time; since+1 < parted; {
		at := since + (parted-since)/2
		r, err := p.log.At(at)
		if missing(err) || err == nil && r.Time <= low.theirs.Time {
			since = at // no own record lies between
			continue
		}
		if err != nil {
			return Mark{}, own(err)
		}
		found, err := p.try(r.Version)
		switch {
		case err != nil:
			return Mark{}, err
		case !found.theirs.Found || !found.dense(first):
			parted = r.Time
		case found.theirs.Version != r.Version:
			return found.theirs, nil // the source's last one in front of r, and r is not the source's
		default:
			low, since = found, at
		}
	}
	return low.theirs, nil
}

// try asks the source for its last record up to a version, and returns that record if the own log
// contains it.
func (p *prefix) try(v order.Version) (pair, error) {
	m, err := p.probe(v)
	if err != nil || !m.Found {
		return pair{}, err
	}
	r, err := p.log.Get(m.Version)
	if err == nil {
		return matched(m, Summed(&r)), nil
	}
	if !missing(err) {
		return pair{}, own(err)
	}
	mine, err := snapshotUpTo(p.log, m.Version)
	return matched(m, mine), own(err)
}

func matched(theirs, mine Mark) pair {
	if !theirs.same(mine) {
		return pair{}
	}
	return pair{theirs, mine.Number}
}

// missing reports whether an error says that a log does not have a record.
func missing(err error) bool {
	return errors.Is(err, persist.ErrNotFound) || errors.Is(err, persist.ErrTruncated)
}
