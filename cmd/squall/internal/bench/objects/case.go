package objects

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/internal/wait"
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
	bench.Usage
	Done  float64
	Gap   time.Duration // the longest time in which a client got no reply
	Wrong float64       // replies that do not follow from one execution of each command
}

// with is the spec with changes.
func (s spec) with(change func(*spec)) spec {
	change(&s)
	return s
}

// ofClients reports whether clients make the load.
func (s spec) ofClients() bool { return s.Load == puts || s.Load == gets || s.Load == deposits }

// callers is how many calls are in flight at a time.
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
	err = s.run(ctx, func(f *bench.Fleet) error {
		samples, busy, err := bench.Sampled[sample](f, bench.Request{Op: opMeasure}, s.Warmup, s.Duration)
		if err != nil {
			return err
		}
		r = s.summarize(samples)
		r.CPU = busy
		return nil
	})
	return r, err
}

func (s spec) summarize(samples []sample) (r run) {
	for i, x := range samples {
		rate := x.Rate(x.Done)
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
			r.Allocs += x.Rate(float64(x.Mallocs)) / r.Rate
		}
	}
	return r
}

// run starts the members, and the processes of clients after them, which connect, and ends them.
func (s spec) run(ctx context.Context, do func(f *bench.Fleet) error) error {
	c := bench.FleetConfig{Workload: Workload.Name, Count: nodes, Spec: s}
	if s.ofClients() {
		c.Count += s.Processes
	}
	if s.Durable {
		c.Logs = s.Dir
	}
	c.Env = proc.Share(c.Count)
	return bench.Run(ctx, c, func(f *bench.Fleet) error {
		if !s.ofClients() {
			return do(f)
		}
		members, clients := f.Children()[:nodes], f.Children()[nodes:]
		addrs, err := bench.AskSome[string](f, members, bench.Request{Op: opServe}, bench.AnswerWithin)
		if err != nil {
			return err
		}
		if _, err := bench.AskSome[any](f, clients, bench.Request{Op: opDial, Args: bench.Args(addrs)}, bench.AnswerWithin); err != nil {
			return err
		}
		if err := do(f); err != nil {
			return err
		}
		_, err = bench.AskSome[any](f, clients, bench.Request{Op: opHangUp}, bench.AnswerWithin)
		return err
	})
}

// measureKills kills one member of each of some groups, and returns the median of the longest times
// without a reply.
func (s spec) measureKills(ctx context.Context, kills int) (r run, err error) {
	var gaps bench.Values
	for range kills {
		once, err := s.measureKill(ctx)
		if err != nil {
			return r, err
		}
		gaps = append(gaps, once.Gap)
		r.Wrong += once.Wrong
		r.Rate = once.Rate
	}
	r.Gap = gaps.Median()
	return r, nil
}

// measureKill kills a member in the middle of the window.
func (s spec) measureKill(ctx context.Context) (r run, err error) {
	err = s.run(ctx, func(f *bench.Fleet) error {
		from := time.Now().Add(s.Warmup)
		to := from.Add(s.Duration)
		killed := make(chan error, 1)
		go func() {
			err := wait.Sleep(ctx, time.Until(from.Add(s.Duration/2)))
			f.Kill(f.Children()[nodes-1])
			killed <- err
		}()
		samples, err := bench.AskSome[sample](f, f.Children()[nodes:], bench.Request{Op: opMeasure, From: from, To: to}, time.Until(to)+bench.SettleWithin)
		for _, x := range samples {
			r.Gap = max(r.Gap, float64(x.Gap)/float64(time.Millisecond))
			r.Rate += x.Rate(x.Done)
			r.Wrong += x.Wrong
		}
		return errors.Join(err, <-killed)
	})
	return r, err
}

// deposit has each caller deposit one cent at a time in an account of its own, so that every reply
// says how often its commands were executed.
func (c *clients) deposit(ctx context.Context, r bench.Request) (any, error) {
	type account struct {
		name  string
		sum   int64
		wrong float64
		last  time.Time
		gap   time.Duration
	}
	all := make([]account, c.callers())
	l := begin(len(all), func(i int) (int, error) {
		a := &all[i]
		if a.name == "" {
			a.name = fmt.Sprintf("account %d of %d", i, c.Node)
		}
		sum, err := countCBOR.Call(ctx, c.dialled[i%len(c.dialled)].Object(storeName), amount{a.name, 1})
		if err != nil {
			return 0, err
		}
		if a.sum++; sum != a.sum {
			a.wrong++
			a.sum = sum
		}
		now := time.Now()
		if !a.last.IsZero() && a.last.After(r.From) {
			a.gap = max(a.gap, now.Sub(a.last))
		}
		a.last = now
		return 1, nil
	})
	s, err := l.observe(ctx, r, l.done)
	for _, a := range all {
		s.Gap = max(s.Gap, a.gap)
		s.Wrong += a.wrong
	}
	return s, err
}
