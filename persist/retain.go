package persist

import (
	"errors"
	"time"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
)

// limits says whether there is anything to drop, ever.
func (r Retention) limits() bool { return r.Age > 0 || r.Bytes > 0 || r.Records > 0 }

// slack is the part of a limit by which a log may be over it before something is dropped: a drop is
// a transaction of the engine, and one for each group would cost as much as writing it.
const slack = 16

// full says whether it is worth looking at blocks.
func (r Retention) full(records, bytes uint64) bool {
	return r.Age > 0 || r.Records > 0 && records > r.Records+r.Records/slack ||
		r.Bytes > 0 && bytes > uint64(r.Bytes)+uint64(r.Bytes)/slack
}

// keepFrom is the number of the first record that stays. A block goes if one of the limits does not
// need it, with all before it: what is kept is at least as much as was asked for, and little more.
// Blocks that not every member's disk has stay, and so does the last one. Everything after a
// snapshot stays until there is another one: without it the snapshot would be of no use.
func (r Retention) keepFrom(b *journal.Book, now order.Time, global order.Version) (number uint64, err error) {
	end := b.End()
	h, some := b.First()
	if _, behind := b.Snapshot(); behind || !some || !r.full(end.Records-h.First, end.Bytes-h.Offset) {
		return b.Origin(), nil
	}
	if mutant.Enabled && mutant.On(mutant.DropUnshared) {
		global = end.Version
	}
	for number = h.First; h.Index < end.Block; {
		next, err := b.Header(h.Index + 1)
		if err != nil || global.Before(h.LastVersion()) || !r.spares(end, &h, &next, now) {
			return number, err
		}
		number, h = next.First, next
	}
	return number, nil
}

// spares says whether one of the limits does without a block.
func (r Retention) spares(end journal.End, h, next *journal.Header, now order.Time) bool {
	return r.Records > 0 && end.Records-next.First >= r.Records ||
		r.Bytes > 0 && end.Bytes-next.Offset >= uint64(r.Bytes) ||
		r.Age > 0 && now > order.Time(r.Age) && h.LastTime < now-order.Time(r.Age)
}

// The age of a log is looked at so often, as parts of what it may be, and not more or less often
// than this.
const (
	ageParts = 16
	ageMin   = 10 * time.Millisecond
	ageMax   = time.Minute
)

func (r Retention) pause() time.Duration { return min(max(r.Age/ageParts, ageMin), ageMax) }

// retain drops what need not be kept. The writer calls it after a group, and by its timer. From a
// log that is damaged nothing is dropped.
func (l *Log) retain() error {
	r, now := l.config.Retain, time.Now()
	if !r.limits() || l.damaged.Load() || r.Age > 0 && r.Bytes+int64(r.Records) == 0 && now.Sub(l.retained) < r.pause() {
		return nil
	}
	l.retained = now
	var number uint64
	err := l.look(func(b *journal.Book) (err error) {
		number, err = r.keepFrom(b, order.TimeOf(now), *l.global.Load())
		if number <= b.Origin() {
			number = 0
		}
		return err
	})
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrDamaged) || err == nil && number == 0 {
		return nil // the next process drops what this one does not
	}
	if err != nil {
		return err
	}
	err = l.drop(func(b *journal.Book) error { return b.DropBefore(number) })
	if l.notice(err); errors.Is(err, ErrClosed) || errors.Is(err, ErrDamaged) {
		return nil
	}
	return err
}

// rest waits until there is work, or until the age of the log is looked at again.
func (l *Log) rest() error {
	if l.config.Retain.Age <= 0 {
		<-l.work
		return nil
	}
	t := time.NewTimer(l.config.Retain.pause())
	defer t.Stop()
	select {
	case <-l.work:
		return nil
	case <-t.C:
		return l.retain()
	}
}
