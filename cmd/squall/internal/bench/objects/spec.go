package objects

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/proc"
)

// load is what is done.
type load string

const (
	sends    load = "messages"                          // of all members, without an object
	commands load = "commands"                          // of all members
	cborLoad load = "commands in CBOR"                  // of all members
	sendOne  load = "messages, one at a time"           // of one member
	callOne  load = "commands, one at a time"           // of one member
	readOne  load = "linearizable reads, one at a time" // of one member
	reads    load = "linearizable reads"                // of one member, by many goroutines
	locals   load = "local reads"                       // of one member, by many goroutines
	puts     load = "puts"                              // of clients
	gets     load = "linearizable gets"                 // of clients
	deposits load = "deposits"                          // of clients, while a member is killed
	events   load = "events"                            // of one key, at clients of etcd that watch it
)

// nodes is how many members there are.
const nodes = 3

// spec is one case.
type spec struct {
	Load      load          `json:"load"`
	Fabric    string        `json:"fabric"`              // of the members, and of the clients: shm, tcp
	SizeBytes int           `json:"size_bytes"`          // of a message, an argument or a value
	Clients   int           `json:"clients,omitempty"`   // callers, each with one call at a time
	Processes int           `json:"processes,omitempty"` // that the clients are in
	Dials     int           `json:"dials,omitempty"`     // connections of a client process, each with a session
	Durable   bool          `json:"durable,omitempty"`   // a put is answered when it is on the disk of every member
	Dir       string        `json:"dir,omitempty"`       // for the logs
	Warmup    time.Duration `json:"warmup"`
	Duration  time.Duration `json:"duration"`
	Profile   string        `json:"profile,omitempty"` // processes write their profiles to files that begin so; empty: none
}

// run is what came out of a case.
type run struct {
	Rate   float64 `json:"rate"`    // per second
	Mean   float64 `json:"mean_us"` // of one call
	Allocs float64 `json:"allocs"`  // of all members for each command
	CPU    float64 `json:"cpu_busy"`
	Gap    float64 `json:"gap_ms,omitempty"` // the longest time in which a client got no reply
	Wrong  float64 `json:"wrong,omitempty"`  // commands that were lost or doubled
}

// sample is what a process did in the window.
type sample struct {
	Done    float64
	Elapsed time.Duration
	Mallocs float64
	Gap     time.Duration // the longest time in which a client got no reply
	Wrong   float64       // replies that do not follow from one execution of each command
}

// job is a process's configuration.
type job struct {
	Spec spec
	Node int
	Dir  string // of its log
}

// with is the spec with changes.
func (s spec) with(change func(*spec)) spec {
	change(&s)
	return s
}

// ofClients reports whether clients make the load.
func (s spec) ofClients() bool { return s.Load == puts || s.Load == gets || s.Load == deposits }

// callers is how many calls are under way at a time.
func (s spec) callers() int {
	switch s.Load {
	case sendOne, callOne, readOne:
		return 1
	case reads, locals:
		return manyReaders
	case sends, commands, cborLoad:
		return nodes * window
	}
	return s.Clients
}

func (s spec) name() string {
	text := fmt.Sprintf("%s, %s", s.Load, s.Fabric)
	if s.ofClients() {
		text = fmt.Sprintf("%s, %d clients, %s", s.Load, s.Clients, s.Fabric)
		if s.Dials > 1 {
			text += ", connections of their own"
		}
	}
	if s.Durable {
		text += ", on every disk"
	}
	return text
}

// measure starts the processes and measures once.
func (s spec) measure(ctx context.Context) (r run, err error) {
	f, err := s.start(ctx)
	if err != nil {
		return r, err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	if err := s.dial(f.Fleet); err != nil {
		return r, err
	}
	samples, busy, err := bench.Sampled[sample](f.Fleet, bench.Request{Op: opMeasure}, s.Warmup, s.Duration)
	if err != nil {
		return r, err
	}
	if s.ofClients() {
		if _, err := bench.AskSome[any](f.Fleet, f.Children()[nodes:], bench.Request{Op: opHangUp}, bench.AnswerWithin); err != nil {
			return r, err
		}
	}
	r.CPU = busy
	for i, x := range samples {
		rate := x.Done / x.Elapsed.Seconds()
		switch {
		case s.Load == sends && (i == 0 || rate < r.Rate): // the slowest member
			r.Rate = rate
		case s.Load != sends:
			r.Rate += rate
		}
	}
	if r.Rate > 0 {
		r.Mean = float64(s.callers()) / r.Rate * 1e6
		for _, x := range samples[:nodes] {
			r.Allocs += x.Mallocs / x.Elapsed.Seconds() / r.Rate
		}
	}
	return r, nil
}

// fleet is the processes of a run, with their directory.
type fleet struct {
	*bench.Fleet
	dir string
}

// start starts the members, and the processes of clients behind them.
func (s spec) start(ctx context.Context) (f fleet, err error) {
	if s.Durable {
		if f.dir, err = os.MkdirTemp(s.Dir, "squall-bench-objects-"); err != nil {
			return f, err
		}
	}
	count := nodes
	if s.ofClients() {
		count += s.Processes
	}
	f.Fleet, err = bench.Start(ctx, bench.FleetConfig{
		Workload: Workload.Name, Count: count, Env: proc.Share(count),
		Config: func(node int) any {
			j := job{Spec: s, Node: node}
			if s.Durable {
				j.Dir = fmt.Sprintf("%s/%d", f.dir, node)
			}
			return j
		},
	})
	if err != nil {
		_ = os.RemoveAll(f.dir)
	}
	return f, err
}

// dial has the members serve clients, and the clients connect.
func (s spec) dial(f *bench.Fleet) error {
	if !s.ofClients() {
		return nil
	}
	addrs, err := bench.AskSome[string](f, f.Children()[:nodes], bench.Request{Op: opServe}, bench.AnswerWithin)
	if err != nil {
		return err
	}
	_, err = bench.AskSome[any](f, f.Children()[nodes:], bench.Request{Op: opDial, Args: bench.Args(addrs)}, bench.AnswerWithin)
	return err
}

// Close ends the processes and removes their logs.
func (f fleet) Close() error {
	err := f.Fleet.Close()
	if f.dir != "" {
		_ = os.RemoveAll(f.dir) // of no use, and in the way of nothing
	}
	return err
}
