package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// recordBytes is the size of the records in a log that is opened.
const recordBytes = 1 << 10

// reopen fills a log, has the system forget what it has of it in memory, and measures until its
// first and last record are read.
func reopen(ctx context.Context, s Spec) (r Run, err error) {
	dir, err := os.MkdirTemp(s.Dir, "squall-bench-log-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	start := time.Now()
	if err := withLog(ctx, dir, s, func(l *logUnderTest) error { return l.fill(ctx, s.Records) }); err != nil {
		return r, err
	}
	r.FillRate = float64(s.Records*recordBytes) / time.Since(start).Seconds()
	if err := forget(dir); err != nil {
		return r, err
	}
	start = time.Now()
	err = withLog(ctx, dir, s, func(l *logUnderTest) error {
		defer func() { r.OpenMs = float64(time.Since(start)) / 1e6 }()
		return l.ends(s.Records)
	})
	return r, err
}

// logUnderTest is a log that this process has open alone.
type logUnderTest struct {
	log  *persist.Log
	room chan struct{} // rung when it may have room
}

func withLog(ctx context.Context, dir string, s Spec, do func(l *logUnderTest) error) error {
	store, err := persist.Open(ctx, persist.Config{Dir: dir, Cluster: bench.Cluster, Node: 1})
	if err != nil {
		return err
	}
	l := &logUnderTest{room: make(chan struct{}, 1)}
	l.log, err = store.Log(ctx, persist.LogConfig{ID: persist.LogID{Name: logged}, Engine: engines[s.Engine], Wake: l.wake})
	if err == nil {
		err = do(l)
	}
	return errors.Join(err, store.Close())
}

func (l *logUnderTest) wake() {
	select {
	case l.room <- struct{}{}:
	default: // rung already
	}
}

// version is that of a record's number.
func version(number int) order.Version { return order.Version{View: 1, Seq: order.Seq(number)} }

// fill appends records, as fast as the disk takes them.
func (l *logUnderTest) fill(ctx context.Context, records int) error {
	data := make([]byte, recordBytes)
	for number := range records {
		bench.Fill(data, uint64(number))
		r := persist.Record{Version: version(number), Sender: 1, Data: data}
		for !l.log.Append(&r) {
			if err := l.log.Err(); err != nil {
				return err
			}
			select {
			case <-l.room:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return l.log.Sync(ctx)
}

// ends reads the first and the last record.
func (l *logUnderTest) ends(records int) error {
	for _, number := range []int{0, records - 1} {
		r, err := l.log.Get(version(number))
		if err != nil {
			return err
		}
		if r.Number != uint64(number) || len(r.Data) != recordBytes {
			return fmt.Errorf("%w: record %d is number %d, of %d bytes", errCount, number, r.Number, len(r.Data))
		}
	}
	return nil
}
