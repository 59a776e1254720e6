package benchrdmc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/proc"
	"github.com/squall-go/squall/internal/testlab/netlab"
	"github.com/squall-go/squall/rdmc"
)

// Times that a run may take beside the transfer.
const (
	startWithin = 30 * time.Second
	// rest is between being ready and the start: the buckets of the links are full again then, and everybody waits.
	rest = 150 * time.Millisecond
)

// fleet is the member processes of a number of nodes, each on a host of its own or all on this one.
type fleet struct {
	nodes    int
	rate     netlab.Rate
	lab      *netlab.Lab // nil: all here
	children []*proc.Child
	peers    []rdmc.Peer
	plain    []string
	runs     uint64
	broken   bool // a run failed, so that nobody knows what members still do
}

// startFleet starts the processes. Without a rate they are all on this host.
func startFleet(ctx context.Context, nodes int, rate netlab.Rate) (f *fleet, err error) {
	f = &fleet{nodes: nodes, rate: rate}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if rate > 0 {
		if f.lab, err = netlab.New(netlab.Config{Hosts: nodes, Rate: rate}); err != nil {
			return f, err
		}
	}
	for node := 1; node <= nodes; node++ {
		j, env := job{Node: node, Addr: "127.0.0.1"}, proc.Share(nodes)
		if f.lab != nil {
			h := f.lab.Hosts[node-1]
			j.Addr, env = h.Addr, append(env, hostVariable+"="+h.Path())
		}
		c, err := proc.Start(ctx, "bench "+memberName, j, proc.Options{ID: node, Role: "node", Env: env})
		if err != nil {
			return f, err
		}
		f.children = append(f.children, c)
	}
	return f, f.meet(ctx)
}

// meet learns where the members listen.
func (f *fleet) meet(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, errors.New("the nodes did not start in time"))
	defer cancel()
	for _, c := range f.children {
		var g greeting
		if err := c.Receive(ctx, &g); err != nil {
			return err
		}
		f.peers, f.plain = append(f.peers, g.Peer), append(f.plain, g.Plain)
	}
	return nil
}

// run runs a case once.
func (f *fleet) run(ctx context.Context, c Case) (r Run, err error) {
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
	t, err := f.task(c)
	if err != nil {
		return r, err
	}
	f.broken = true
	if _, err := f.ask(ctx, request{Op: opPrepare, Task: t}); err != nil {
		return r, err
	}
	busy := watchMachine()
	if _, err := f.ask(ctx, request{Op: opGo, At: now().add(rest)}); err != nil {
		return r, err
	}
	busyFor := busy()
	reports, err := f.ask(ctx, request{Op: opReport})
	if err != nil {
		return r, err
	}
	f.broken = false
	return c.summarize(reports, busyFor)
}

var errNotShared = errors.New("the nodes of this build offer no shared memory to each other")

// task tells the members what a case is. Nodes that may not share memory do not know that they are on one host.
func (f *fleet) task(c Case) (*task, error) {
	f.runs++
	t := &task{
		Number: f.runs, Way: c.Way, Algorithm: c.Algorithm, BlockBytes: c.BlockBytes, Bytes: c.Bytes, Sharing: c.Sharing, Plain: f.plain, Roots: c.roots(),
	}
	for _, p := range f.peers {
		if c.Sharing != notShared && (p.Shm == "" || p.Host == "") {
			return nil, errNotShared
		}
		if c.Sharing == notShared {
			p.Host, p.Shm = "", ""
		}
		t.Peers = append(t.Peers, p)
	}
	return t, nil
}

// limit gives the link between two hosts a rate, both ways.
func (f *fleet) limit(a, b int, r netlab.Rate) error {
	if f.lab == nil {
		return errors.New("on one host there are no links that could be slow")
	}
	return errors.Join(f.lab.LimitLink(f.lab.Hosts[a], f.lab.Hosts[b], r), f.lab.LimitLink(f.lab.Hosts[b], f.lab.Hosts[a], r))
}

// ask sends a request to all members and takes their answers. What they say failed is told in one error.
func (f *fleet) ask(ctx context.Context, r request) ([]report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience+startWithin, fmt.Errorf("no answer to %q within %v", r.Op, patience+startWithin))
	defer cancel()
	for _, c := range f.children {
		if err := c.Send(r); err != nil {
			return nil, err
		}
	}
	reports, errs := make([]report, len(f.children)), []error(nil)
	for i, c := range f.children {
		if err := c.Receive(ctx, &reports[i]); err != nil {
			return nil, errors.Join(append(errs, err)...)
		}
		if text := reports[i].Err; text != "" {
			errs = append(errs, fmt.Errorf("node %d, told to %s: %s", i+1, r.Op, text))
		}
	}
	return reports, errors.Join(errs...)
}

// fits reports whether a case can run on this fleet.
func (f *fleet) fits(c Case) bool {
	return f != nil && !f.broken && f.nodes == c.Nodes && f.rate == c.Rate
}

// close ends the processes and the lab.
func (f *fleet) close() error {
	if f == nil {
		return nil
	}
	for _, c := range f.children {
		c.CloseInput()
	}
	timer := time.AfterFunc(3*time.Second, func() {
		for _, c := range f.children {
			c.Kill()
		}
	})
	defer timer.Stop()
	for _, c := range f.children {
		_ = c.Wait() // it ended because it was told to
	}
	f.children, f.broken = nil, true
	if f.lab != nil {
		return f.lab.Close()
	}
	return nil
}
