package squall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/persist"
)

// takeOver has the application take over what is in the log of the shard: with Recover, or with
// Restore and Deliver.
func (r *receiver) takeOver(ctx context.Context) shard.Result {
	id := shardID(r.subgroup())
	r.log.replaying.Lock()
	defer r.log.replaying.Unlock()
	var err error
	if f := r.config().Log.Recover; f != nil {
		err = f(r.group().durable.handle(id, r.log))
	} else if err = r.restoreSnapshot(); err == nil {
		err = r.replay(ctx)
	}
	if errors.Is(err, persist.ErrDamaged) {
		err = r.group().durable.condemn(id, err)
	}
	switch {
	case err == nil:
		return shard.Result{}
	case ctx.Err() != nil:
		return shard.Result{Outcome: shard.Failed, Err: err}
	}
	return fatal(fmt.Errorf("subgroup %q: recovering from its log: %w", id.Name, err))
}

// restoreSnapshot has the application restore the log's snapshot, or nothing.
func (r *receiver) restoreSnapshot() error {
	_, snapshot, err := r.log.log.OpenSnapshot()
	if errors.Is(err, persist.ErrNotFound) {
		return r.config().Restore(strings.NewReader(""))
	}
	if err != nil {
		return err
	}
	in := &checked{Reader: snapshot}
	err = r.config().Restore(in)
	if err == nil {
		_, err = io.Copy(io.Discard, in) // damage is found at the end at the latest
	}
	return errors.Join(or(in.err, err), snapshot.Close())
}

// checked remembers the error of a reader, which the application may have hidden.
type checked struct {
	io.Reader
	err error
}

func (c *checked) Read(p []byte) (n int, err error) {
	if n, err = c.Reader.Read(p); err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// replayRun is how many records are delivered at a time.
const replayRun = 128

// replay delivers the records of the log after its snapshot.
func (r *receiver) replay(ctx context.Context) error {
	run := make([]multicast.Message, 0, replayRun)
	for record, err := range r.log.log.Range(Version{}, Version{}) {
		if err = or(err, context.Cause(ctx)); err != nil {
			return err
		}
		run = append(run, multicast.Replayed(record.Version, record.Time, record.Sender, record.Data))
		if len(run) == replayRun {
			r.deliver(run)
			run = run[:0]
		}
	}
	if len(run) > 0 {
		r.deliver(run)
	}
	return nil
}

// deliver calls the application, beside the loop.
func (r *receiver) deliver(run []multicast.Message) { r.group().apps[r.stays.declaration].call(run) }

// TakeSnapshot captures the application's state with SubgroupConfig.Snapshot, waits until every
// message in that state is on every member's disk, and keeps the state next to the log; the records
// up to there are dropped from this process's log. It returns the version after which the state
// was captured. An empty log gets no snapshot: the version is zero then.
//
// Messages are delivered meanwhile. In a callback TakeSnapshot returns ErrInCallback. If this
// process leaves the shard before the state is on every disk, it returns ErrLeftShard. If the state
// cannot be written, it returns the error of the function that writes it, and the log is as it was.
// The subgroup must be Persistent (otherwise TakeSnapshot returns ErrNotPersistent) and have
// Snapshot.
func (s *Subgroup) TakeSnapshot(ctx context.Context) (Version, error) {
	switch {
	case s.decl.Mode != Persistent:
		return Version{}, fmt.Errorf("subgroup %q: %w", s.decl.Name, ErrNotPersistent)
	case s.snapshots == nil:
		return Version{}, fmt.Errorf("subgroup %q: %w", s.decl.Name, errNoSnapshot)
	}
	if err := s.group.upcalls.ends(); err != nil {
		return Version{}, err
	}
	return s.takeSnapshot(ctx, func(w io.Writer) io.Writer { return w })
}

// takeSnapshot is TakeSnapshot. The state is written to what to returns.
func (s *Subgroup) takeSnapshot(ctx context.Context, to func(io.Writer) io.Writer) (Version, error) {
	select {
	case s.snapshots <- struct{}{}:
		defer func() { <-s.snapshots }()
	case <-ctx.Done():
		return Version{}, context.Cause(ctx)
	}
	c, err := s.capture(ctx)
	if err != nil || c.at == (Version{}) {
		return Version{}, err
	}
	if err := c.log.recorder.Frontier.Wait(ctx, member.Everywhere, c.at); err != nil {
		return Version{}, err
	}
	c.log.replaying.Lock()
	defer c.log.replaying.Unlock()
	switch err := c.log.log.Snapshot(c.at, func(w io.Writer) error { return c.write(to(w)) }); {
	case errors.Is(err, persist.ErrNotFound): // the log is empty
		return Version{}, nil
	case err != nil:
		return Version{}, err
	}
	return c.log.log.Info().Snapshot, nil
}

// errNoSnapshot is returned where a snapshot is to be taken of a subgroup without Snapshot.
var errNoSnapshot = errors.New("SubgroupConfig.Snapshot is not set, so there is no state to capture")

// errNilSnapshot is returned where Snapshot returned no function.
var errNilSnapshot = errors.New("SubgroupConfig.Snapshot returned nil instead of a function")

// captured is a state of the application.
type captured struct {
	at    Version // the last one that may be in it; zero: there is none
	write func(io.Writer) error
	log   *shardLog
	moved bool // the process entered another shard, and the state was replaced
	err   error
}

// capture captures the state between two upcalls, once the application has the state of the shard.
func (s *Subgroup) capture(ctx context.Context) (captured, error) {
	for {
		r := s.state.Load()
		if r == nil {
			return captured{}, fmt.Errorf("subgroup %q: %w: this process is in no shard of it", s.decl.Name, ErrNotPersistent)
		}
		got := make(chan captured, 1)
		select {
		case <-r.here:
			s.group.member.Call(func() { r.capture(got) })
		case <-s.group.halted:
			return captured{}, s.group.Err()
		case <-ctx.Done():
			return captured{}, context.Cause(ctx)
		}
		select {
		case c := <-got:
			if !c.moved {
				return c, c.err
			}
		case <-s.group.halted:
			return captured{}, s.group.Err()
		case <-ctx.Done():
			return captured{}, context.Cause(ctx)
		}
	}
}

// capture captures the state after the upcalls of everything that the application was given so
// far. Loop.
func (r *receiver) capture(got chan<- captured) {
	switch {
	case r.stays.own != r:
		got <- captured{moved: true}
	case !r.Passes():
		got <- captured{err: ErrLeftShard}
	default:
		at := r.log.recorder.Given()
		r.group().apps[r.stays.declaration].mark(func() { got <- captured{at: at, write: r.config().Snapshot(), log: r.log} })
	}
}
