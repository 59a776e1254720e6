package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/squall-go/squall/internal/logwire"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// library is what logs are read from.
type library interface {
	// Identity is the group whose logs these are; empty: none is known.
	Identity(ctx context.Context) (string, error)
	// List describes all logs that can be read. With an error, the logs that cannot be read are
	// missing.
	List(ctx context.Context) ([]persist.Info, error)
	Get(ctx context.Context, id persist.LogID, v order.Version) (persist.Record, error)
	Nth(ctx context.Context, id persist.LogID, number uint64) (persist.Record, error)
	At(ctx context.Context, id persist.LogID, t order.Time) (persist.Record, error)
	Range(ctx context.Context, id persist.LogID, from, to order.Version) iter.Seq2[persist.Record, error]
	Between(ctx context.Context, id persist.LogID, from, to order.Time) iter.Seq2[persist.Record, error]
	Tail(ctx context.Context, id persist.LogID, from order.Version) iter.Seq2[persist.Record, error]
	Snapshot(ctx context.Context, id persist.LogID) (persist.Record, io.ReadCloser, error)
	Close() error
}

// member is one that runs.
type member struct{ logwire.Client }

func (*member) Close() error { return nil }

// directory is that of a member that does not run.
type directory struct {
	store *persist.Store
	logs  map[persist.LogID]*persist.Log
}

func openDirectory(ctx context.Context, name string) (*directory, error) {
	s, err := persist.Open(ctx, persist.Config{Dir: name, ReadOnly: true})
	if err != nil {
		return nil, inUse(name, err, "name its HOST:PORT instead of the directory")
	}
	return &directory{store: s, logs: map[persist.LogID]*persist.Log{}}, nil
}

func (d *directory) Close() error { return d.store.Close() }

// log opens a log once.
func (d *directory) log(ctx context.Context, id persist.LogID) (*persist.Log, error) {
	if l := d.logs[id]; l != nil {
		return l, nil
	}
	l, err := d.store.Log(ctx, persist.LogConfig{ID: id})
	if err == nil {
		d.logs[id] = l
	}
	return l, err
}

func (d *directory) Identity(context.Context) (string, error) {
	m, err := restart.Load(d.store)
	if err != nil || m.View() == nil {
		return "", err
	}
	return m.View().Group, nil
}

func (d *directory) List(ctx context.Context) (all []persist.Info, err error) {
	ids, err := d.store.Logs()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, id := range ids {
		l, err := d.log(ctx, id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, l.Info())
	}
	return all, errors.Join(errs...)
}

// read reads something of a log.
func read[T any](ctx context.Context, d *directory, id persist.LogID, of func(*persist.Log) (T, error)) (t T, err error) {
	l, err := d.log(ctx, id)
	if err != nil {
		return t, err
	}
	return of(l)
}

func (d *directory) Get(ctx context.Context, id persist.LogID, v order.Version) (persist.Record, error) {
	return read(ctx, d, id, func(l *persist.Log) (persist.Record, error) { return l.Get(v) })
}

func (d *directory) Nth(ctx context.Context, id persist.LogID, number uint64) (persist.Record, error) {
	return read(ctx, d, id, func(l *persist.Log) (persist.Record, error) { return logwire.Nth(l, number) })
}

func (d *directory) At(ctx context.Context, id persist.LogID, t order.Time) (persist.Record, error) {
	return read(ctx, d, id, func(l *persist.Log) (persist.Record, error) { return l.At(t) })
}

func (d *directory) Range(ctx context.Context, id persist.LogID, from, to order.Version) iter.Seq2[persist.Record, error] {
	return d.records(ctx, id, func(l *persist.Log) iter.Seq2[persist.Record, error] {
		return l.Range(from, to)
	})
}

func (d *directory) Between(ctx context.Context, id persist.LogID, from, to order.Time) iter.Seq2[persist.Record, error] {
	return d.records(ctx, id, func(l *persist.Log) iter.Seq2[persist.Record, error] {
		return l.Between(from, to)
	})
}

// errStill says that no records come from a directory without a writer.
var errStill = errors.New("nothing is added to a directory while it is read: to follow a log, name the HOST:PORT of a member")

func (d *directory) Tail(context.Context, persist.LogID, order.Version) iter.Seq2[persist.Record, error] {
	return func(yield func(persist.Record, error) bool) { yield(persist.Record{}, errStill) }
}

// records opens a log for an iteration, which ends with its context.
func (d *directory) records(ctx context.Context, id persist.LogID, open func(*persist.Log) iter.Seq2[persist.Record, error]) iter.Seq2[persist.Record, error] {
	return func(yield func(persist.Record, error) bool) {
		l, err := d.log(ctx, id)
		if err != nil {
			yield(persist.Record{}, err)
			return
		}
		for r, err := range open(l) {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

func (d *directory) Snapshot(ctx context.Context, id persist.LogID) (at persist.Record, r io.ReadCloser, err error) {
	l, err := d.log(ctx, id)
	if err != nil {
		return at, nil, err
	}
	return l.OpenSnapshot()
}

// pick finds the log that a name means: NAME.SHARD, or NAME if that is enough, or nothing if there
// is only one.
func pick(ctx context.Context, l library, where, name string) (persist.Info, error) {
	all, err := l.List(ctx)
	if err != nil && len(all) == 0 {
		return persist.Info{}, err
	}
	var found []persist.Info
	var names []string
	for _, i := range all {
		names = append(names, i.ID.String())
		if name == i.ID.String() {
			return i, nil
		}
		if name == "" || name == i.ID.Name {
			found = append(found, i)
		}
	}
	switch {
	case len(found) == 1 && (err == nil || name != ""):
		return found[0], nil
	case err != nil:
		return persist.Info{}, err // what is meant may be what cannot be read
	case len(all) == 0:
		return persist.Info{}, fmt.Errorf("%s: has no logs", where)
	case len(found) == 0:
		return persist.Info{}, fmt.Errorf("%s: has no log %q; there are %s", where, name, strings.Join(names, ", "))
	}
	return persist.Info{}, fmt.Errorf("%s: has several logs, say which one: %s", where, strings.Join(names, ", "))
}

// noteAfter is how long a person waits for a time to be settled without being told: mostly it is
// settled at once.
const noteAfter = 500 * time.Millisecond

// settle waits until questions about times up to one have the same answer for ever, at every
// member. It waits no longer than --timeout: a time that lies ahead is not settled before it has
// come. What is in a directory stays.
func (t *target) settle(ctx context.Context, l library, id persist.LogID, at order.Time) error {
	m, runs := l.(*member)
	if !runs || at == 0 {
		return nil
	}
	asking, stop := context.WithTimeout(ctx, t.timeout)
	defer stop()
	note := time.AfterFunc(noteAfter, func() { t.note("waiting until %v is settled", at) })
	err := m.settled(asking, id, at)
	note.Stop()
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%v is not settled at %s within --timeout %v: records with times up to then may still come; ask for an earlier one, or wait longer",
		at, t.name, t.timeout)
}

// settled asks for the record at a time, of which there is rarely one: the answer is small, and
// comes when the time is settled.
func (m *member) settled(ctx context.Context, id persist.LogID, at order.Time) error {
	for _, err := range m.Between(ctx, id, at, at+1) {
		return err
	}
	return ctx.Err()
}
