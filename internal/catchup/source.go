package catchup

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// Mark is a record without its data, or, in an info, with what is known of it.
type Mark struct {
	Found   bool          `json:"found"`
	Version order.Version `json:"version"`
	Time    order.Time    `json:"time"`
	Sender  order.NodeID  `json:"sender"`
	Number  uint64        `json:"number"`
	Summed  bool          `json:"summed,omitempty"` // Bytes and Sum say something: the data is there
	Bytes   int           `json:"bytes,omitempty"`
	Sum     uint32        `json:"sum,omitempty"` // CRC-32C of the data
}

// MarkOf is the mark of a record whose data is not here.
func MarkOf(r *persist.Record) Mark {
	return Mark{Found: true, Version: r.Version, Time: r.Time, Sender: r.Sender, Number: r.Number}
}

// Summed is the mark of a record whose data is here.
func Summed(r *persist.Record) Mark {
	m := MarkOf(r)
	m.Summed, m.Bytes, m.Sum = true, len(r.Data), crc.Of(r.Data)
	return m
}

// Record is what a mark says of a record.
func (m *Mark) Record() persist.Record {
	return persist.Record{Version: m.Version, Time: m.Time, Sender: m.Sender, Number: m.Number}
}

// same reports whether two marks are of the same record, as far as they say. Numbers are each log's
// own.
func (m *Mark) same(o Mark) bool {
	return m.Found && o.Found && m.Version == o.Version && m.Time == o.Time && m.Sender == o.Sender &&
		(!m.Summed || !o.Summed || m.Bytes == o.Bytes && m.Sum == o.Sum)
}

// After is the position right behind a version: what lies before it is everything up to and
// including v.
func After(v order.Version) order.Version { return order.Version{View: v.View, Seq: v.Seq + 1} }

// lastBefore is the last version that can be before another one; the zero version has none.
func lastBefore(v order.Version) order.Version {
	switch {
	case v.Seq > 0:
		v.Seq--
	case v.View > 0:
		v = order.Version{View: v.View - 1, Seq: math.MaxUint64}
	}
	return v
}

// Partial reports whether a log may lack what others have: it is still to get that, or its process
// works in a group and is not in the log's shard. View is that of the process; nil: it is in none.
func Partial(lacks bool, view *views.View, self order.NodeID, id persist.LogID) bool {
	if lacks || view == nil {
		return lacks
	}
	rank, in := view.RankOf(self)
	return !slices.ContainsFunc(view.Subgroups, func(sg views.Subgroup) bool {
		return in && sg.Name == id.Name && sg.Shard == id.Shard && sg.Has(rank)
	})
}

// Readiness is how far a source is with what it was asked for.
type Readiness uint8

// What a source does with a request.
const (
	Gives   Readiness = iota + 1
	Waits             // until Reaches: what is asked for is not on its disk yet
	Refuses           // it may lack a part of it
)

// Ready finds out what a source does that is asked for all that lies before a version; zero: for
// all that it has. A log that is catching up itself is a source only of what it has up to that
// version: another process that took its end for the end would drop what is behind it (CU2), and
// two that wait for each other would wait for ever.
func Ready(log Reader, partial bool, before order.Version) Readiness {
	switch {
	case partial && !endsAt(log, before) && !(mutant.Enabled && mutant.On(mutant.PartialSource)):
		return Refuses
	case partial || before == (order.Version{}) || Reaches(log.Info().Last.Version, before):
		return Gives
	}
	return Waits
}

// endsAt reports whether a log contains the version at which another log is to end. A message has
// the same version in all logs that contain it, and each of these logs contains all messages before
// it, even if records are missing at its own end. A log whose snapshot stands for later records
// does not contain it.
func endsAt(log Reader, before order.Version) bool {
	m, err := LastUpTo(log, lastBefore(before))
	return err == nil && m.Found && After(m.Version) == before
}

// Reaches reports whether nothing that lies before a version can come behind v.
func Reaches(v, before order.Version) bool { return !After(v).Before(before) }

// LastUpTo is the mark of the last record whose version is not after v, or one that says that there
// is none. What a snapshot stands for counts as one.
func LastUpTo(log Reader, v order.Version) (m Mark, err error) {
	i := log.Info()
	var r persist.Record
	switch {
	case i.Count == 0 || v.Before(i.First.Version):
		return snapshotUpTo(log, v)
	case !v.Before(i.Last.Version):
		r, err = log.Get(i.Last.Version)
	default:
		r, err = log.Get(v)
		if errors.Is(err, persist.ErrNotFound) {
			r, err = predecessor(log, v)
		}
	}
	if err != nil {
		return m, err
	}
	return Summed(&r), nil
}

// predecessor is the last record before a version at which there is none, and behind which there is
// one.
func predecessor(log Reader, v order.Version) (persist.Record, error) {
	for next, err := range log.Range(v, order.Version{}) {
		if err != nil {
			return next, err
		}
		return log.At(next.Time - 1) // times grow strictly: nothing lies between
	}
	return persist.Record{}, fmt.Errorf("%w: nothing after %v", persist.ErrNotFound, v)
}

func snapshotUpTo(log Reader, v order.Version) (m Mark, err error) {
	at, err := log.SnapshotEnd()
	switch {
	case errors.Is(err, persist.ErrNotFound):
		return m, nil
	case err != nil || v.Before(at.Version):
		return m, err
	}
	return MarkOf(&at), nil
}
