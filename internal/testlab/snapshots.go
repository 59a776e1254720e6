package testlab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/persist"
)

// snapshotter takes a replica's snapshots, each when it is due.
type snapshotter struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func newSnapshotter(r *replica, s *squall.Subgroup) *snapshotter {
	ctx, cancel := context.WithCancel(context.Background())
	t := &snapshotter{cancel, make(chan struct{})}
	go func() {
		defer close(t.done)
		for {
			select {
			case <-r.due:
			case <-ctx.Done():
				return
			}
			_, err := s.TakeSnapshot(ctx)
			switch {
			case err == nil:
			case ctx.Err() != nil || kindOf(err) == HaltedEvicted || kindOf(err) == HaltedPartitioned:
				return
			default:
				r.fail("taking a snapshot: " + err.Error())
				return
			}
		}
	}()
	return t
}

func (t *snapshotter) close() {
	t.cancel()
	<-t.done
}

// auditStates is audit for loads with snapshots: of the records behind which a snapshot stands it
// knows only what the snapshot says.
func (c *Cluster) auditStates(same bool, nodes ...squall.NodeID) (f Findings, err error) {
	for i, l := range c.opts.Loads {
		var all []history
		var most history
		for _, id := range nodes {
			h, err := readDisk(c.Disk(id), persist.LogID{Name: l.Name})
			if err == nil && h.Fault != "" {
				err = errors.New(h.Fault)
			}
			if err != nil {
				return f, fmt.Errorf("node %d: %w", id, err)
			}
			if all = append(all, h); most.Messages < h.Messages {
				most = h
			}
		}
		for _, k := range c.acknowledged(i) {
			if most.Lives[k.Life] <= k.Number {
				return f, fmt.Errorf("lost: %v, message %d of process %d, which was acknowledged", k.Version, k.Number, k.Life)
			}
			for j, id := range nodes {
				if slices.Contains(k.On, id) && all[j].Lives[k.Life] <= k.Number {
					return f, fmt.Errorf("lost: %v, message %d of process %d, was acknowledged by nodes %v, and node %d does not have it", k.Version, k.Number, k.Life, k.On, id)
				}
			}
			f.Acknowledged++
		}
		f.Records += most.Messages
		for j, h := range all {
			if f.Behind += most.Messages - h.Messages; same && h.State != most.State {
				return f, fmt.Errorf("node %d has %+v on its disk, and another one %+v", nodes[j], h.State, most.State)
			}
		}
	}
	return f, nil
}

// readDisk reads the state that a disk has, of which everything is checked before.
func readDisk(dir string, id persist.LogID) (history, error) {
	report, err := persist.Verify(context.Background(), dir, nil, nil)
	if err == nil && !report.OK() {
		err = fmt.Errorf("%s is damaged: %+v", dir, report)
	}
	if err != nil {
		return history{}, err
	}
	store, err := persist.Open(persist.StoreConfig{Dir: dir, ReadOnly: true})
	if err != nil {
		return history{}, err
	}
	defer store.Close()
	log, err := store.Log(persist.LogConfig{ID: id})
	if err != nil {
		return history{}, err
	}
	var snapshot io.ReadCloser
	if _, snapshot, err = log.OpenSnapshot(); err != nil && !errors.Is(err, persist.ErrNotFound) {
		return history{}, err
	}
	return readLog(snapshot, log.Range(squall.Version{}, squall.Version{}))
}
