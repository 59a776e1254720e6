package rdmc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/netlab"
	"github.com/squall-go/squall/internal/proc"
)

// The rest is between being ready and the start, so that every process waits. In a lab the buckets
// of the links are full again then.
const (
	rest    = 20 * time.Millisecond
	labRest = 150 * time.Millisecond
)

// fleet is the member processes of a number of nodes, each on a host of its own or all on this one.
// It stays for all runs on such hosts.
type fleet struct {
	*bench.Fleet
	nodes  int
	rate   netlab.Rate
	runs   uint64
	broken bool // a run failed, so that it is unknown what members still do
}

// start starts the processes. Without a rate they are all on this host.
func (f *fleet) start(ctx context.Context, nodes int, rate netlab.Rate) (err error) {
	*f = fleet{nodes: nodes, rate: rate, runs: f.runs, broken: true}
	f.Fleet, err = bench.Start(ctx, bench.FleetConfig{Workload: Workload.Name, Count: nodes, Env: proc.Share(nodes), Link: rate})
	f.broken = err != nil
	return err
}

// measure runs a case once, on hosts that fit.
func (f *fleet) measure(ctx context.Context, c Case) (Run, error) {
	if f.broken || f.nodes != c.Nodes || f.rate != c.Rate {
		if err := f.close(); err != nil {
			return Run{}, err
		}
		if err := f.start(ctx, c.Nodes, c.Rate); err != nil {
			return Run{}, err
		}
	}
	if c.MPI != nil {
		return c.MPI.run(ctx, f.Lab, c)
	}
	return f.run(c)
}

// run runs a case once.
func (f *fleet) run(c Case) (r Run, err error) {
	if c.Slow {
		from, to, err := c.slowLink()
		if err != nil {
			return r, err
		}
		if err := f.limit(from, to, c.Rate/2); err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, f.limit(from, to, c.Rate)) }()
	}
	f.runs++
	t := task{
		Number: f.runs, Way: c.Way, Algorithm: c.Algorithm, BlockBytes: c.BlockBytes, Bytes: c.Bytes, Sharing: c.Sharing, Roots: c.roots(),
	}
	f.broken = true
	if err := f.tell(opPrepare, t); err != nil {
		return r, err
	}
	busy := watchMachine()
	pause := rest
	if f.Lab != nil {
		pause = labRest
	}
	if err := f.tell(opGo, time.Now().Add(pause)); err != nil {
		return r, err
	}
	busyFor := busy()
	reports, err := bench.Ask[report](f.Fleet, bench.Request{Op: opReport}, 2*patience)
	if err != nil {
		return r, err
	}
	f.broken = false
	return c.summarize(reports, busyFor)
}

var errNotShared = fmt.Errorf("the nodes of this build offer no shared memory to each other: %w", bench.ErrAbsent)

// tell is a request without an answer.
func (f *fleet) tell(op string, args any) error {
	_, err := bench.Ask[any](f.Fleet, bench.Request{Op: op, Args: bench.Args(args)}, 2*patience)
	if err != nil && strings.Contains(err.Error(), errNotShared.Error()) { // a process can tell its error as text only
		return errNotShared
	}
	return err
}

// limit gives the link between two hosts a rate, both ways.
func (f *fleet) limit(a, b int, r netlab.Rate) error {
	if f.Lab == nil {
		return errors.New("on one host there are no links that could be slow")
	}
	return errors.Join(f.Lab.LimitLink(f.Lab.Hosts[a], f.Lab.Hosts[b], r), f.Lab.LimitLink(f.Lab.Hosts[b], f.Lab.Hosts[a], r))
}

// close ends the processes. What they failed with after a run that failed was told with it.
func (f *fleet) close() error {
	if f.Fleet == nil {
		return nil
	}
	if err := f.Fleet.Close(); !f.broken {
		return err
	}
	return nil
}
