package persist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
)

// Comparison is what CompareLogs found about one log.
type Comparison struct {
	Log     LogID         `json:"log"`
	Dirs    []string      `json:"dirs"`             // the directories that have the log
	Records uint64        `json:"records"`          // that are the same everywhere, from the latest beginning of any to the earliest end
	From    order.Version `json:"from"`             // of the first of them
	To      order.Version `json:"to"`               // of the last of them
	Differ  string        `json:"differ,omitempty"` // where, and what stands there; empty: nowhere
}

// CompareLogs reads the logs of several members' directories side by side, record by record. Where
// all of them have records, these must be the same: version, time, sender and data. A log may begin
// later than another one, or end earlier. No process may have the directories open.
func CompareLogs(ctx context.Context, dirs ...string) (all []Comparison, err error) {
	stores := make([]*Store, 0, len(dirs))
	defer func() {
		for _, s := range stores {
			err = errors.Join(err, s.Close())
		}
	}()
	by := map[LogID][]*Store{}
	var ids []LogID
	for _, dir := range dirs {
		s, err := Open(ctx, Config{Dir: dir, ReadOnly: true})
		if err != nil {
			return nil, err
		}
		stores = append(stores, s)
		here, err := s.Logs()
		if err != nil {
			return nil, err
		}
		for _, id := range here {
			if by[id] == nil {
				ids = append(ids, id)
			}
			by[id] = append(by[id], s)
		}
	}
	slices.SortFunc(ids, compareIDs)
	for _, id := range ids {
		c, err := compareLog(ctx, id, by[id])
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	return all, nil
}

// side is one member's log while it is compared.
type side struct {
	dir   string
	store engine.Log
	next  func() (journal.Record, error, bool)
	stop  func()
	at    journal.Record // the next one to be compared
	some  bool           // there is one
}

func openSide(ctx context.Context, s *Store, id LogID) (*side, error) {
	c := LogConfig{ID: id}
	dir, err := s.place(&c)
	if err != nil {
		return nil, err
	}
	e, err := engine.Open(engine.Opening{Context: ctx, ReadOnly: true}, c.driver, dir)
	if err != nil {
		return nil, err
	}
	b, err := journal.ReadBook(e, dir)
	if err == nil {
		err = settleSnapshot(b, dir)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	x := &side{dir: filepath.Clean(s.config.Dir), store: e}
	x.next, x.stop = iter.Pull2(b.Records(b.Origin()))
	return x, nil
}

func (x *side) close() error {
	x.stop()
	return x.store.Close()
}

func (x *side) advance() (err error) {
	x.at, err, x.some = x.next()
	return err
}

func compareLog(ctx context.Context, id LogID, stores []*Store) (c Comparison, err error) {
	c.Log = id
	var sides []*side
	defer func() {
		for _, x := range sides {
			err = errors.Join(err, x.close())
		}
	}()
	for _, s := range stores {
		x, err := openSide(ctx, s, id)
		if err != nil {
			return c, err
		}
		sides = append(sides, x)
		c.Dirs = append(c.Dirs, x.dir)
	}
	return c, c.run(ctx, sides)
}

// run goes through the records that all sides should have.
func (c *Comparison) run(ctx context.Context, sides []*side) error {
	if err := c.begin(sides); err != nil {
		return err
	}
	for c.Differ == "" && !slices.ContainsFunc(sides, func(x *side) bool { return !x.some }) {
		for _, x := range sides[1:] {
			if what := differ(sides[0].at, x.at); what != "" {
				c.Differ = fmt.Sprintf("%s has %v, %s has %v: %s", sides[0].dir, sides[0].at, x.dir, x.at, what)
				return nil
			}
		}
		v := sides[0].at.Version
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.Records == 0 {
			c.From = v
		}
		c.Records, c.To = c.Records+1, v
		for _, x := range sides {
			if err := x.advance(); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin takes each side to the first record that all of them may have: the latest first one.
func (c *Comparison) begin(sides []*side) error {
	var from order.Version
	for _, x := range sides {
		if err := x.advance(); err != nil {
			return err
		}
		if x.some && from.Before(x.at.Version) {
			from = x.at.Version
		}
	}
	for _, x := range sides {
		for x.some && x.at.Version.Before(from) {
			if err := x.advance(); err != nil {
				return err
			}
		}
	}
	return nil
}

// differ says in what two records differ.
func differ(a, b journal.Record) string {
	switch {
	case a.Version != b.Version:
		return "one of them lacks a record"
	case a.Time != b.Time:
		return "the times differ"
	case a.Sender != b.Sender:
		return "the senders differ"
	case !bytes.Equal(a.Data, b.Data):
		return "the data differ"
	}
	return ""
}
