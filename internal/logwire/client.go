package logwire

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net"

	"github.com/squall-go/squall/internal/catchup"

	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// Client reads the logs of one member. Each call has a connection of its own. Its methods may be
// called from any goroutine.
type Client struct {
	Dial      func(ctx context.Context) (net.Conn, error) // a connection of kind log
	Cluster   string                                      // that the member must belong to; empty: whichever
	MaxRecord int                                         // bytes of a record; 0: 1 GiB
	Times     wire.Times

	// Group and Secret are the identity of the reader's group. The reader proves to the member that
	// it knows them, and asks nothing of a member that does not know the secret
	// (views.ErrOtherHistory). Empty: the reader is of no group.
	Group  string
	Secret views.Secret

	Lost func(why error) // optional: told once when the member of a log that is followed is gone; it is looked for until the context ends
	Back func()          // optional: called once when the member answers again
}

// Identity returns the group whose logs the member has, as it says; empty: it is of none yet, or of
// one of an earlier format.
func (c *Client) Identity(ctx context.Context) (string, error) {
	s, err := c.dial(ctx)
	if err != nil {
		return "", err
	}
	defer s.close()
	return s.group, nil
}

// List describes all logs of the member.
func (c *Client) List(ctx context.Context) (all []persist.Info, err error) {
	s, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	for i, err := range values[info](s, request{Do: doList}, kindInfo) {
		if err != nil {
			return all, err
		}
		all = append(all, i.local())
	}
	return all, nil
}

// Info describes one log.
func (c *Client) Info(ctx context.Context, id persist.LogID) (persist.Info, error) {
	s, err := c.dial(ctx)
	if err != nil {
		return persist.Info{}, err
	}
	defer s.close()
	i, err := value[info](s, request{Do: doInfo, Log: id.Name, Shard: id.Shard}, kindInfo)
	return i.local(), err
}

// Get is the record at a version.
func (c *Client) Get(ctx context.Context, id persist.LogID, v order.Version) (persist.Record, error) {
	return c.one(ctx, request{Do: doGet, Log: id.Name, Shard: id.Shard, From: pointer(v)}, bounds{from: v, to: catchup.After(v)})
}

// At is the last record whose time is not after t.
func (c *Client) At(ctx context.Context, id persist.LogID, t order.Time) (persist.Record, error) {
	return c.one(ctx, request{Do: doAt, Log: id.Name, Shard: id.Shard, Since: t}, bounds{until: t + 1})
}

// Nth is the record with a number.
func (c *Client) Nth(ctx context.Context, id persist.LogID, number uint64) (persist.Record, error) {
	return c.one(ctx, request{Do: doNth, Log: id.Name, Shard: id.Shard, Number: number}, bounds{})
}

func (c *Client) one(ctx context.Context, q request, may bounds) (one persist.Record, err error) {
	s, err := c.dial(ctx)
	if err != nil {
		return one, err
	}
	defer s.close()
	count := 0
	for r, err := range s.records(q, may) {
		if err != nil {
			return one, err
		}
		one, count = r, count+1
	}
	if count != 1 {
		return one, fmt.Errorf("%w: %d records instead of one", ErrCorrupt, count)
	}
	return one, nil
}

// Range are the records in [from, to); a zero from is the first one that is kept, a zero to the end
// as it is now. Data is the caller's own.
func (c *Client) Range(ctx context.Context, id persist.LogID, from, to order.Version) iter.Seq2[persist.Record, error] {
	return c.stream(ctx, request{Do: doRange, Log: id.Name, Shard: id.Shard, To: pointer(to)}, bounds{from: from, to: to})
}

// Between are the records with times in [from, to); a zero to is the end as it is now.
func (c *Client) Between(ctx context.Context, id persist.LogID, from, to order.Time) iter.Seq2[persist.Record, error] {
	return c.stream(ctx, request{Do: doBetween, Log: id.Name, Shard: id.Shard, Until: to}, bounds{since: from, until: to})
}

// Tail yields the records from a version on, and then each new record, until the context ends or
// the loop is left. A member that is not there at first ends it with an error; one that goes later
// is waited for, however long that takes.
func (c *Client) Tail(ctx context.Context, id persist.LogID, from order.Version) iter.Seq2[persist.Record, error] {
	return c.stream(ctx, request{Do: doTail, Log: id.Name, Shard: id.Shard}, bounds{from: from})
}

// stream goes on where a connection broke.
func (c *Client) stream(ctx context.Context, q request, may bounds) iter.Seq2[persist.Record, error] {
	return func(yield func(persist.Record, error) bool) {
		s := resumingStream{c: c, ctx: ctx, q: q, bounds: may, pause: c.Times.WithDefaults().Backoff()}
		s.run(yield)
	}
}

// Snapshot is the snapshot of a log: the record that it reaches up to, without data, and its bytes.
// The caller closes it.
func (c *Client) Snapshot(ctx context.Context, id persist.LogID) (persist.Record, io.ReadCloser, error) {
	s, err := c.dial(ctx)
	if err != nil {
		return persist.Record{}, nil, err
	}
	at, bytes, err := s.snapshot(request{Do: doSnapshot, Log: id.Name, Shard: id.Shard})
	if err != nil {
		s.close()
		return at, nil, err
	}
	return at, &snapshotReader{bytes, s.close}, nil
}
