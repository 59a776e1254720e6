package logwire

import (
	"context"
	"fmt"
	"iter"
	"net"

	"github.com/squall-go/squall/internal/catchup"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// CatchUpConfig describes a log that is to become another one.
type CatchUpConfig struct {
	Cluster string
	Dial    func(ctx context.Context) (net.Conn, error) // a connection of kind log to the source
	ID      persist.LogID
	Log     *persist.Log // nothing is appended to it meanwhile
	// Before is where it ends: the source gives what lies before it, and waits for what it does not
	// have on its disk yet. Zero is the end of the source as it is then.
	Before order.Version
	// Keep says that nothing of the own log may be dropped: of a source whose log does not begin
	// with it, nothing is taken (ErrOther).
	Keep bool
	// Group and Secret are the identity of the log's group: no record is taken from another group,
	// nor from a source that does not know the secret (views.ErrOtherHistory). Empty: the log is of
	// no group yet.
	Group  string
	Secret views.Secret
	// MaxRecord bounds a record. 0: 1 GiB.
	MaxRecord int
	Times     wire.Times
}

// CatchUp makes a log what its source has, and durable (LW3). What came is here, and durable, even
// if it fails. An error of the own log is a catchup.OwnError: no other source can help.
func CatchUp(ctx context.Context, cfg CatchUpConfig) (catchup.Result, error) {
	source := &remoteLog{cfg: &cfg, ctx: ctx}
	defer source.close()
	task := catchup.Task{Log: &ownLog{reader{cfg.Log}, ctx}, Source: source, Before: cfg.Before, Keep: cfg.Keep}
	err := task.Run()
	switch {
	case err == nil:
		return task.Result, nil
	case ctx.Err() != nil:
		err = wire.Because(ctx, err)
	}
	return task.Result, fmt.Errorf("log %v: %w", cfg.ID, err)
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
	ctx context.Context
}

// Sync implements catchup.Log. It waits for the disk even after ctx has ended: the appended records
// are going to be durable, and the process has to know when they are.
func (l *ownLog) Sync() error { return l.Log.Sync(context.WithoutCancel(l.ctx)) }

// Import implements catchup.Log.
func (l *ownLog) Import(r persist.Record) error { return l.Log.Import(l.ctx, r) }

// remoteLog is the log of a source, in a conversation with it that begins with the first request.
type remoteLog struct {
	cfg *CatchUpConfig
	ctx context.Context
	*session
}

// Ready implements catchup.Source.
func (l *remoteLog) Ready(before order.Version) (persist.Info, error) {
	c := l.cfg
	client := &Client{Cluster: c.Cluster, Group: c.Group, Secret: c.Secret, MaxRecord: c.MaxRecord, Times: c.Times, Dial: c.Dial}
	s, err := client.dial(l.ctx)
	if err != nil {
		return persist.Info{}, err
	}
	l.session = s
	i, err := value[info](s, l.request(doReady, order.Version{}, before), kindInfo)
	return i.local(), err
}

func (l *remoteLog) request(do string, from, to order.Version) request {
	return request{Do: do, Log: l.cfg.ID.Name, Shard: l.cfg.ID.Shard, From: pointer(from), To: pointer(to)}
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
