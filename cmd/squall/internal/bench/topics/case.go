package topics

import (
	"context"
	"fmt"
	"math"
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

	// durable is no level of topics: it is a persistent subgroup without them, next to which
	// persistent is held.
	durable level = "durable"
)

var levels = []level{unordered, atomic, transient, persistent}

// client names the process that is a client of a relay. The relay is a member of its own, node 2.
type client string

const (
	relayNode = 2

	noClient     client = "none" // what the others are held against: the same members, and the relay has nothing to do
	readerClient client = "reader"
	writerClient client = "writer"
)

// spec is one case.
type spec struct {
	Trips     bool          `json:"trips,omitempty"` // pings and pongs of two processes, in place of a stream
	Fabric    string        `json:"fabric"`
	SizeBytes int           `json:"size_bytes"`
	Readers   int           `json:"readers"` // processes with a reader
	Level     level         `json:"level"`
	RingBytes int           `json:"ring_bytes,omitempty"` // of each member; 0 is the default
	Copy      bool          `json:"copy,omitempty"`       // the writer writes a sample that it has, and readers take; otherwise in place, and listeners
	Codec     string        `json:"codec,omitempty"`      // xcdr: ddsperf's own type; empty: raw
	Topics    int           `json:"topics,omitempty"`     // with a writer and readers each; one is active
	Plain     bool          `json:"plain,omitempty"`      // without batching and nulls, as the paper's baseline
	Client    client        `json:"client,omitempty"`     // which process is not a member, but a client of a relay
	History   int           `json:"history,omitempty"`    // samples that a process gets which joins late, in place of a stream
	Dir       string        `json:"dir,omitempty"`        // for the logs
	Warmup    time.Duration `json:"warmup"`
	Duration  time.Duration `json:"duration"`
}

// run is what came out of a case.
type run struct {
	Rate    float64       `json:"rate"`              // samples a second of the slowest reader
	Latency bench.Latency `json:"latency,omitzero"`  // of half a round trip
	TookMs  float64       `json:"took_ms,omitempty"` // until a process that joins late has the history
	GapMs   float64       `json:"gap_ms,omitempty"`  // the longest time without a sample at another reader meanwhile
	Lost    float64       `json:"lost,omitempty"`    // of 100 samples, at a client's reader
	Allocs  float64       `json:"allocs"`            // of all processes for each sample
	CPU     float64       `json:"cpu_busy"`
}

// sample is what a process did in the window.
type sample struct {
	bench.Usage
	Done    float64
	Lost    float64
	Latency bench.Latency
	Took    time.Duration // of the process that joins late
	Gap     time.Duration // of the reader that was there before
}

func (s spec) with(change func(*spec)) spec {
	change(&s)
	return s
}

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }

// nodes is the number of processes.
func (s spec) nodes() int {
	switch {
	case s.History > 0:
		return lateNodes
	case s.Client != "":
		return 2 + s.Readers
	}
	return 1 + s.Readers
}

// members is how many processes are members of the group from its beginning.
func (s spec) members() int {
	if s.outside() > 0 {
		return s.nodes() - 1
	}
	return s.nodes()
}

// outside is the process that is no member, or not yet; 0: there is none.
func (s spec) outside() int {
	switch {
	case s.History > 0:
		return lateNodes
	case s.Client == writerClient:
		return 1
	case s.Client == readerClient:
		return relayNode + 1
	}
	return 0
}

// reads reports whether a process has a reader of which the rate counts.
func (s spec) reads(node int) bool {
	return node > 1 && (s.Client == "" || node != relayNode)
}

func (s spec) name() string {
	if s.History > 0 {
		return fmt.Sprintf("late joiner, %s, %s, a history of %d", s.Fabric, bench.Size(s.SizeBytes), s.History)
	}
	text := fmt.Sprintf("%s, %s, %s", s.Fabric, bench.Size(s.SizeBytes), show.Counted(s.Readers, "reader", "readers"))
	if s.Trips {
		text = fmt.Sprintf("half a round trip, %s, %s", s.Fabric, bench.Size(s.SizeBytes))
	}
	for _, also := range []struct {
		is   bool
		text string
	}{
		{s.Level != atomic, ", " + string(s.Level)},
		{s.RingBytes > 0, ", rings of " + bench.Size(s.RingBytes)},
		{s.Codec != "", ", " + s.Codec},
		{s.Copy, ", written and taken"},
		{s.Topics > 1, fmt.Sprintf(", one of %d topics", s.Topics)},
		{s.Plain, ", without batching"},
	} {
		if also.is {
			text += also.text
		}
	}
	switch s.Client {
	case noClient:
		text += ", next to an idle member"
	case readerClient, writerClient:
		text += ", the " + string(s.Client) + " a client"
	}
	return text
}

// measure starts the processes and measures once.
func (s spec) measure(ctx context.Context) (r run, err error) {
	c := bench.FleetConfig{Workload: Workload.Name, Count: s.nodes(), Env: proc.Share(s.nodes()), Spec: s}
	if s.Level == persistent || s.Level == durable {
		c.Logs = s.Dir
	}
	err = bench.Run(ctx, c, func(f *bench.Fleet) error {
		if err := s.dial(f); err != nil {
			return err
		}
		if _, err := bench.Ask[any](f, bench.Request{Op: opOpen}, bench.SettleWithin); err != nil {
			return err
		}
		samples, busy, err := bench.Sampled[sample](f, bench.Request{Op: opMeasure}, s.Warmup, s.Duration)
		if err != nil {
			return err
		}
		r = s.summarize(samples)
		r.CPU = busy
		return s.hangUp(f)
	})
	return r, err
}

func (s spec) summarize(samples []sample) (r run) {
	r.Latency = samples[0].Latency
	if s.History > 0 {
		r.GapMs, r.TookMs = milliseconds(samples[1].Gap), milliseconds(samples[2].Took)
		return r
	}
	r.Rate = s.rate(samples)
	for _, x := range samples {
		r.Lost = max(r.Lost, 100*x.Lost/max(1, x.Lost+x.Done))
		if r.Rate > 0 {
			r.Allocs += x.Rate(float64(x.Mallocs)) / r.Rate
		}
	}
	return r
}

// rate is that of the slowest reader.
func (s spec) rate(all []sample) float64 {
	least := math.Inf(1)
	for i, x := range all {
		if s.reads(i + 1) {
			least = min(least, x.Rate(x.Done))
		}
	}
	return least
}

// dial has the process that is a client find the relay.
func (s spec) dial(f *bench.Fleet) error {
	node := s.outside()
	if node == 0 || s.History > 0 {
		return nil
	}
	all := f.Children()
	at, err := bench.AskSome[string](f, all[relayNode-1:relayNode], bench.Request{Op: opServe}, bench.AnswerWithin)
	if err != nil {
		return err
	}
	_, err = bench.AskSome[any](f, all[node-1:node], bench.Request{Op: opDial, Args: bench.Args(at[0])}, bench.AnswerWithin)
	return err
}

// hangUp ends the client while its relay is there.
func (s spec) hangUp(f *bench.Fleet) error {
	node := s.outside()
	if node == 0 || s.History > 0 {
		return nil
	}
	_, err := bench.AskSome[any](f, f.Children()[node-1:node], bench.Request{Op: opHangUp}, bench.AnswerWithin)
	return err
}
