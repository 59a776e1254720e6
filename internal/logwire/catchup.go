package logwire

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"time"

	"github.com/squall-go/squall/internal/catchup"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// Source is a member that may have what a log lacks.
type Source struct {
	Node order.NodeID
	Addr string
}

func (s Source) String() string { return fmt.Sprintf("node %d (%s)", s.Node, s.Addr) }

// CatchUpConfig describes a log that is to become its sources' one.
type CatchUpConfig struct {
	Cluster string
	Dial    func(ctx context.Context, addr string) (net.Conn, error) // a connection of kind log
	Sources []Source                                                 // in the order in which they are asked
	ID      persist.LogID
	Log     *persist.Log // nothing is appended to it meanwhile
	// Before is where it ends: a source gives what lies before it, and waits for what it does not have on its disk yet. Zero is the end of
	// the source that is asked, as it is then.
	Before order.Version
	// Keep says that nothing of the own log may be dropped: of a source whose log does not begin with it, nothing is taken (ErrOther).
	Keep bool
	// Group and Secret are those of the group that the log is of: nothing is taken from another one, nor from a source that does not know the
	// secret (views.ErrOtherHistory). Empty: the log is of no group yet.
	Group  string
	Secret views.Secret
	// MaxRecord bounds a record. 0: 1 GiB.
	MaxRecord int
	Progress  func(Progress)          // optional: told every now and then
	Failed    func(s Source, e error) // optional: told of each source that did not give all of it
	Times     wire.Times
}

// Progress says how far a catch-up is.
type Progress struct {
	Source  Source
	At      order.Version // the last record that is here
	Until   order.Version // the last one of the source
	Records uint64        // that were imported
	Bytes   uint64        // of data, and of snapshots
}

// Result is what came of a catch-up.
type Result struct {
	catchup.Result
	Source Source // that gave the last of it
	Took   time.Duration
}

// CatchUp makes a log what its source has, and durable (LW3). It goes from source to source while one of them brings it on, or is merely
// busy; what is here stays. Its error is ErrNoSource, what the own log said, or the end of the context.
func CatchUp(ctx context.Context, cfg CatchUpConfig) (Result, error) {
	c := &catchUp{cfg: cfg, ctx: ctx, start: time.Now()}
	search := wire.Search[Source]{Backoff: cfg.Times.WithDefaults().Backoff(), Rounds: 1}
	for {
		c.r.Took = time.Since(c.start)
		switch move, source, pause := search.Next(cfg.Sources); move {
		case wire.Ask:
			verdict, err := c.ask(source)
			if verdict == done || err != nil {
				c.r.Took = time.Since(c.start)
				return c.r, err
			}
			search.Came(source, verdict)
		case wire.Rest:
			if !wire.Wait(ctx, pause) {
				return c.r, wire.Because(ctx, errors.Join(c.why...))
			}
			c.why = nil
		case wire.GiveUp:
			return c.r, fmt.Errorf("log %v: %w: %w", cfg.ID, ErrNoSource, errors.Join(c.why...))
		}
	}
}

// done is the verdict about a source that gave everything.
const done = wire.Refused + 1

// catchUp is one of them.
type catchUp struct {
	cfg   CatchUpConfig
	ctx   context.Context
	start time.Time
	r     Result
	why   []error // of this round, by source

	dropped int // how often a source dropped the front of its log meanwhile
	told    time.Time
}

// ask asks a source. Its error is the end of the catch-up.
func (c *catchUp) ask(source Source) (wire.Verdict, error) {
	before := c.r
	err := c.attempt(source)
	var mine catchup.OwnError
	switch {
	case err == nil:
		c.r.Source = source
		return done, nil
	case c.ctx.Err() != nil:
		return wire.Failed, wire.Because(c.ctx, err)
	case errors.As(err, &mine):
		return wire.Failed, fmt.Errorf("log %v: %w", c.cfg.ID, mine.Unwrap())
	}
	c.why = append(c.why, fmt.Errorf("%v: %w", source, err))
	if c.cfg.Failed != nil {
		c.cfg.Failed(source, err)
	}
	switch {
	case c.r.Records > before.Records || c.r.Snapshot != before.Snapshot:
		return wire.Gained, nil
	case errors.Is(err, ErrBusy) || c.stale(err):
		return wire.Busy, nil
	}
	return wire.Failed, nil
}

// stale reports whether a source dropped the front of its log while it was read, which does not happen over and over.
func (c *catchUp) stale(err error) bool {
	if !errors.Is(err, persist.ErrTruncated) {
		return false
	}
	c.dropped++
	return c.dropped < maxTries
}

// attempt gets all of it from one source.
func (c *catchUp) attempt(source Source) error {
	remote := &remoteLog{c: c, source: source}
	defer remote.close()
	task := catchup.Task{Log: &ownLog{reader{c.cfg.Log}, c, remote}, Source: remote, Before: c.cfg.Before, Keep: c.cfg.Keep, Result: c.r.Result}
	err := task.Run()
	c.r.Result = task.Result
	return err
}

// reader is a log that can be a source.
type reader struct{ *persist.Log }

// SnapshotEnd implements catchup.Reader.
func (l reader) SnapshotEnd() (persist.Record, error) {
	at, r, err := l.OpenSnapshot()
	if err == nil {
		err = r.Close()
	}
	return at, err
}

// ownLog is the log that catches up.
type ownLog struct {
	reader
	c      *catchUp
	source *remoteLog
}

// Sync implements catchup.Log.
func (l *ownLog) Sync() error { return l.Log.Sync(l.c.ctx) }

// Import implements catchup.Log.
func (l *ownLog) Import(r persist.Record) error {
	err := l.Log.Import(l.c.ctx, r)
	if err == nil {
		l.source.tell(r)
	}
	return err
}

// remoteLog is the log of a source, in a conversation with it that begins with the first request.
type remoteLog struct {
	c      *catchUp
	source Source
	*session
	until          persist.Info
	records, bytes uint64
}

// Ready implements catchup.Source.
func (l *remoteLog) Ready(before order.Version) (persist.Info, error) {
	cfg := &l.c.cfg
	client := &Client{
		Cluster: cfg.Cluster, Group: cfg.Group, Secret: cfg.Secret, MaxRecord: cfg.MaxRecord, Times: cfg.Times,
		Dial: func(ctx context.Context) (net.Conn, error) { return cfg.Dial(ctx, l.source.Addr) },
	}
	s, err := client.dial(l.c.ctx)
	if err != nil {
		return persist.Info{}, err
	}
	l.session = s
	i, err := value[info](s, l.request(doReady, order.Version{}, before), kindInfo)
	l.until = i.local()
	return l.until, err
}

func (l *remoteLog) request(do string, from, to order.Version) request {
	return request{Do: do, Log: l.c.cfg.ID.Name, Shard: l.c.cfg.ID.Shard, From: pointer(from), To: pointer(to)}
}

// Probe implements catchup.Source.
func (l *remoteLog) Probe(v order.Version) (catchup.Mark, error) {
	return value[catchup.Mark](l.session, l.request(doProbe, v, order.Version{}), kindMark)
}

// Snapshot implements catchup.Source.
func (l *remoteLog) Snapshot() (persist.Record, catchup.Snapshot, error) {
	return l.session.snapshot(l.request(doSnapshot, order.Version{}, order.Version{}))
}

// Records implements catchup.Source.
func (l *remoteLog) Records(b catchup.Bounds) iter.Seq2[persist.Record, error] {
	return l.session.records(l.request(doRange, b.From, b.To), bounds{from: b.From, to: b.To, since: b.Since})
}

func (l *remoteLog) close() {
	if l.session != nil {
		l.session.close()
	}
}

// tellEvery is the time between two calls of Progress.
const tellEvery = 100 * time.Millisecond

func (l *remoteLog) tell(r persist.Record) {
	c := l.c
	l.records, l.bytes = l.records+1, l.bytes+uint64(len(r.Data))
	if c.cfg.Progress == nil || time.Since(c.told) < tellEvery {
		return
	}
	c.told = time.Now()
	c.cfg.Progress(Progress{Source: l.source, At: r.Version, Until: l.until.Last.Version, Records: c.r.Records + l.records, Bytes: c.r.Bytes + l.bytes})
}
