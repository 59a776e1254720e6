package topics

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/proc"
)

// level is a level of storage, as in section 4.6 of the Spindle paper.
type level string

const (
	unordered  level = "unordered"  // BEST_EFFORT, VOLATILE
	atomic     level = "atomic"     // RELIABLE, VOLATILE
	transient  level = "transient"  // the last samples are kept by all members
	persistent level = "persistent" // every sample is in the log of every member
)

var levels = []level{unordered, atomic, transient, persistent}

// spec is one case.
type spec struct {
	Trips     bool          `json:"trips,omitempty"` // pings and pongs of two processes, in place of a stream
	Fabric    string        `json:"fabric"`
	SizeBytes int           `json:"size_bytes"`
	Readers   int           `json:"readers"` // processes with a reader
	Level     level         `json:"level"`
	Copy      bool          `json:"copy,omitempty"`   // the writer writes a sample that it has, and readers take; otherwise in place, and listeners
	Codec     string        `json:"codec,omitempty"`  // xcdr: ddsperf's own type; empty: raw
	Topics    int           `json:"topics,omitempty"` // with a writer and readers each; one is active
	Plain     bool          `json:"plain,omitempty"`  // without batching and nulls, as the paper's baseline
	Dir       string        `json:"dir,omitempty"`    // for the logs
	Warmup    time.Duration `json:"warmup"`
	Duration  time.Duration `json:"duration"`
	Profile   string        `json:"profile,omitempty"` // processes write their profiles to files that begin so; empty: none
}

// run is what came out of a case.
type run struct {
	Rate    float64       `json:"rate"`             // samples a second of the slowest reader
	Latency bench.Latency `json:"latency,omitzero"` // of half a round trip
	Allocs  float64       `json:"allocs"`           // of all processes for each sample
	CPU     float64       `json:"cpu_busy"`
}

// sample is what a process did in the window.
type sample struct {
	Done    float64
	Elapsed time.Duration
	Mallocs float64
	Latency bench.Latency
}

// job is a process's configuration.
type job struct {
	Spec spec
	Node int
	Dir  string // of its log
}

func (s spec) with(change func(*spec)) spec {
	change(&s)
	return s
}

func (s spec) nodes() int { return 1 + s.Readers }

func (s spec) name() string {
	text := fmt.Sprintf("%s, %s, %s", s.Fabric, bench.Size(s.SizeBytes), show.Counted(s.Readers, "reader", "readers"))
	if s.Trips {
		text = fmt.Sprintf("half a round trip, %s, %s", s.Fabric, bench.Size(s.SizeBytes))
	}
	if s.Level != atomic {
		text += ", " + string(s.Level)
	}
	if s.Codec != "" {
		text += ", " + s.Codec
	}
	if s.Copy {
		text += ", written and taken"
	}
	if s.Topics > 1 {
		text += fmt.Sprintf(", one of %d topics", s.Topics)
	}
	if s.Plain {
		text += ", without batching"
	}
	return text
}

// measure starts the processes and measures once.
func (s spec) measure(ctx context.Context) (r run, err error) {
	dir := ""
	if s.Level == persistent {
		if dir, err = os.MkdirTemp(s.Dir, "squall-bench-dds-"); err != nil {
			return r, err
		}
		defer os.RemoveAll(dir)
	}
	f, err := bench.Start(ctx, bench.FleetConfig{
		Workload: Workload.Name, Count: s.nodes(), Env: proc.Share(s.nodes()),
		Config: func(node int) any {
			j := job{Spec: s, Node: node}
			if dir != "" {
				j.Dir = fmt.Sprintf("%s/%d", dir, node)
			}
			return j
		},
	})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := bench.Ask[any](f, bench.Request{Op: opOpen}, bench.AnswerWithin); err != nil {
		return r, err
	}
	samples, busy, err := bench.Sampled[sample](f, bench.Request{Op: opMeasure}, s.Warmup, s.Duration)
	if err != nil {
		return r, err
	}
	r.CPU, r.Latency = busy, samples[0].Latency
	for i, x := range samples[1:] {
		if rate := x.Done / x.Elapsed.Seconds(); i == 0 || rate < r.Rate {
			r.Rate = rate
		}
	}
	if r.Rate > 0 {
		for _, x := range samples {
			r.Allocs += x.Mallocs / x.Elapsed.Seconds() / r.Rate
		}
	}
	return r, nil
}
