package logwire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

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
	Once    bool                                                     // each of them is asked once, even if one is merely busy
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
	Source   Source        // that gave the last of it
	Last     order.Version // of the log, with its snapshot; zero: it is empty
	Common   order.Version // up to which the own log was the source's; zero: there was nothing, or it was of no use
	Cut      uint64        // own records that the sources do not have, and that are gone
	Snapshot order.Version // of the snapshot that was installed; zero: none was
	Records  uint64        // that were imported
	Bytes    uint64        // of data, and of snapshots
	Took     time.Duration
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

	source Source
	until  persist.Info // of the source
	told   time.Time
}

// failure is what the own log said: no source can help.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// own marks an error as one of the own log.
func own(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// ask asks a source. Its error is the end of the catch-up.
func (c *catchUp) ask(source Source) (wire.Verdict, error) {
	before := c.r
	c.source = source
	err := c.attempt()
	var mine failure
	switch {
	case err == nil:
		c.r.Source = source
		return done, nil
	case c.ctx.Err() != nil:
		return wire.Failed, wire.Because(c.ctx, err)
	case errors.As(err, &mine):
		return wire.Failed, fmt.Errorf("log %v: %w", c.cfg.ID, mine.error)
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
func (c *catchUp) attempt() (err error) {
	if err := c.cfg.Log.Sync(c.ctx); err != nil { // reads see what is durable only
		return own(err)
	}
	client := &Client{
		Cluster: c.cfg.Cluster, Group: c.cfg.Group, Secret: c.cfg.Secret, MaxRecord: c.cfg.MaxRecord, Times: c.cfg.Times,
		Dial: func(ctx context.Context) (net.Conn, error) { return c.cfg.Dial(ctx, c.source.Addr) },
	}
	s, err := client.dial(c.ctx)
	if err != nil {
		return err
	}
	defer s.close()
	i, err := value[info](s, c.request(doReady, order.Version{}, c.cfg.Before), kindInfo)
	if err != nil {
		return err
	}
	c.until = i.local()
	from, err := c.align(s)
	if err != nil {
		return err
	}
	if err := c.fill(s, from); err != nil {
		return err
	}
	return own(c.cfg.Log.Sync(c.ctx))
}

func (c *catchUp) request(do string, from, to order.Version) request {
	return request{Do: do, Log: c.cfg.ID.Name, Shard: c.cfg.ID.Shard, From: pointer(from), To: pointer(to)}
}

// align makes the own log a part of the source's one, of which nothing in front of its end is missing, and returns where it goes on.
func (c *catchUp) align(s *session) (from bounds, err error) {
	p := &prefix{log: c.cfg.Log, source: c.until, probe: func(v order.Version) (mark, error) {
		if end := c.cfg.Before; end != (order.Version{}) && !v.Before(end) { // nothing there is common, even if both have it
			v = lastBefore(end)
		}
		return value[mark](s, c.request(doProbe, v, order.Version{}), kindMark)
	}}
	common, err := p.find()
	if err != nil {
		return from, err
	}
	mine := c.cfg.Log.Info()
	drops := mine.Count > 0 && (!common.Found || common.Version.Before(mine.Last.Version)) || !common.Found && mine.Snapshot != order.Version{}
	if drops && c.cfg.Keep {
		return from, fmt.Errorf("%w: they have version %v in common, and this one goes on to %v", ErrOther, common.Version, mine.Last.Version)
	}
	if !common.Found {
		return c.anew(s, mine)
	}
	c.r.Common, c.r.Last = common.Version, common.Version
	if drops {
		err = c.cut(common.Version, mine.Count)
	}
	return behind(common.Version, common.Time), err
}

// behind are the records behind one.
func behind(v order.Version, t order.Time) bounds { return bounds{from: After(v), since: t + 1} }

// cut drops the own records behind a version.
func (c *catchUp) cut(after order.Version, had uint64) error {
	if err := c.cfg.Log.Cut(after); err != nil {
		return own(err)
	}
	c.r.Cut += had - c.cfg.Log.Info().Count
	return nil
}

// anew drops the own log, of which nothing can be shown to be the source's, and begins with the source's snapshot or with the first record
// that it keeps.
func (c *catchUp) anew(s *session, mine persist.Info) (from bounds, err error) {
	c.r.Common, c.r.Last = order.Version{}, order.Version{}
	if c.until.Snapshot != (order.Version{}) {
		c.r.Cut += mine.Count
		return c.install(s)
	}
	if mine.Snapshot != (order.Version{}) {
		return from, fmt.Errorf("%w: it is of %v, and the source begins with %v", ErrGap, mine.Snapshot, c.until.First.Version)
	}
	if mine.Count > 0 {
		if err := c.cut(order.Version{}, mine.Count); err != nil {
			return from, err
		}
	}
	return bounds{from: c.until.First.Version}, nil
}

// install puts the source's snapshot in place of the own log.
func (c *catchUp) install(s *session) (from bounds, err error) {
	at, bytes, err := s.snapshot(c.request(doSnapshot, order.Version{}, order.Version{}))
	if err != nil {
		return from, err
	}
	err = c.cfg.Log.Install(at, bytes)
	c.r.Bytes += bytes.Total()
	if theirs := bytes.Finish(); theirs != nil {
		return from, theirs // whatever the own log made of it
	}
	if err != nil {
		return from, own(err)
	}
	c.r.Snapshot, c.r.Last = at.Version, at.Version
	return behind(at.Version, at.Time), nil
}

// fill imports what the source has from a version on.
func (c *catchUp) fill(s *session, may bounds) error {
	may.to = c.cfg.Before
	if may.to == (order.Version{}) {
		may.to = After(c.until.Last.Version)
	}
	if c.until.Count == 0 || !may.from.Before(may.to) {
		return nil
	}
	for r, err := range s.records(c.request(doRange, may.from, may.to), may) {
		if err != nil {
			return err
		}
		if err := c.cfg.Log.Import(c.ctx, r); err != nil {
			return own(err)
		}
		c.r.Records, c.r.Bytes, c.r.Last = c.r.Records+1, c.r.Bytes+uint64(len(r.Data)), r.Version
		c.tell()
	}
	if last := c.until.Last.Version; last.Before(may.to) && c.r.Last.Before(last) {
		return fmt.Errorf("%w: it ended with %v, and announced %v", ErrShort, c.r.Last, last)
	}
	return nil
}

// tellEvery is the time between two calls of Progress.
const tellEvery = 100 * time.Millisecond

func (c *catchUp) tell() {
	if c.cfg.Progress == nil || time.Since(c.told) < tellEvery {
		return
	}
	c.told = time.Now()
	c.cfg.Progress(Progress{Source: c.source, At: c.r.Last, Until: c.until.Last.Version, Records: c.r.Records, Bytes: c.r.Bytes})
}
