package ripc

import (
	"context"
	"fmt"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/internal/wait"
)

// system is what carries the messages.
type system string

const (
	viaRIPC   system = "ripc"
	viaSocket system = "socket" // a connection of package net
	viaNetRPC system = "net/rpc"
	viaCopy   system = "memcpy"         // of one process
	viaWords  system = "spinning words" // two words that both processes see
)

// load is what is done with it.
type load string

const (
	roundTrips load = "round trips"        // a message there and one back, one at a time
	oneWay     load = "one way"            // messages as fast as they are received
	calls      load = "calls"              // requests with replies
	idle       load = "idle"               // clients that are connected and send nothing
	inPlace    load = "looked at in place" // long messages, one at a time
	intoWindow load = "into a window"      // the same
)

// spec is one case.
type spec struct {
	System   system
	Fabric   string // shm, tcp; of sockets unix, tcp
	Load     load
	Callers  int // goroutines that call
	Clients  int // endpoints that are idle
	Busy     int // endpoints that call, one caller each
	Size     int // bytes
	Asleep   bool
	Tail     bool   // each round trip is measured, for the slowest ones
	Beside   bool   // of a message of 1 GiB
	Domain   string // of the services' names
	Warmup   time.Duration
	Duration time.Duration
}

// run is what came out of a case.
type run struct {
	Rate   float64 `json:"rate"`     // per second
	Mean   float64 `json:"mean_us"`  // of one round trip or call
	P99    float64 `json:"p99_us"`   // of round trips, if each was measured
	Allocs float64 `json:"allocs"`   // in the measuring process, for each
	CPU    float64 `json:"cpu_busy"` // cores that the machine used
	Idle   usage   `json:"idle"`     // of the process with idle clients
}

// usage is what a process takes.
type usage struct {
	CPUPercent  float64 `json:"cpu_percent"`  // of a core
	ClientBytes float64 `json:"client_bytes"` // memory for each client: what is resident, and all of the shared memory that the process made
}

// measure starts the two processes and measures once.
func (s spec) measure(ctx context.Context) (r run, err error) {
	s.Domain = fmt.Sprintf("bench %d %d", time.Now().UnixNano(), s.Size)
	err = bench.Run(ctx, bench.FleetConfig{Workload: Workload.Name, Count: 2, Spec: s, Env: proc.Share(2)}, func(f *bench.Fleet) error {
		client, server := f.Children()[:1], f.Children()[1:]
		if _, err := bench.AskSome[any](f, server, bench.Request{Op: opServe}, bench.AnswerWithin); err != nil {
			return err
		}
		if s.Load == idle || s.Busy > 0 {
			if _, err := bench.AskSome[any](f, client, bench.Request{Op: opConnect}, bench.SettleWithin); err != nil {
				return err
			}
		}
		if s.Load == idle {
			if err := wait.Sleep(f.Context(), s.Warmup); err != nil {
				return err
			}
			all, err := bench.AskSome[usage](f, server, bench.Request{Op: opUsage}, s.Duration+bench.AnswerWithin)
			if err == nil {
				r.Idle = all[0]
			}
			return err
		}
		window := time.Now().Add(s.Warmup)
		busy := proc.WatchMachine(f.Context(), window, window.Add(s.Duration))
		all, err := bench.AskSome[run](f, client, bench.Request{Op: opMeasure}, s.Warmup+s.Duration+bench.AnswerWithin)
		if err == nil {
			r = all[0]
			r.CPU = <-busy
		}
		return err
	})
	return r, err
}

func (s spec) name() string {
	if s.Load == idle {
		return fmt.Sprintf("a server with %d idle clients, %s", s.Clients, s.Fabric)
	}
	text := fmt.Sprintf("%s over %s, %s, %d B", s.System, s.Fabric, s.Load, s.Size)
	if s.isLong() {
		text = fmt.Sprintf("%s over %s, %s, %d MiB", s.System, s.Fabric, s.Load, s.Size>>20)
	}
	if s.System == viaCopy {
		text = fmt.Sprintf("%s of %d MiB", s.System, s.Size>>20)
	}
	if s.Load == gets {
		text += fmt.Sprintf(", %d connections", s.Callers)
	}
	if s.Load == calls && s.Busy > 0 {
		text += fmt.Sprintf(", %d clients", s.Busy)
		if s.Clients > 0 {
			text += fmt.Sprintf(" among %d idle ones", s.Clients)
		}
	} else if s.Load == calls {
		text += fmt.Sprintf(", %d at a time", s.Callers)
	}
	if s.Asleep {
		text += ", asleep"
	}
	if s.Tail {
		text += ", p99"
	}
	if s.Beside {
		text += " next to 1 GiB"
	}
	return text
}

// isLong reports whether what is measured are long messages.
func (s spec) isLong() bool { return s.Load == inPlace || s.Load == intoWindow }

// SocketTrip returns the mean time, in microseconds, of round trips of messages over a socket of a
// kind, tcp or unix, between two processes.
func SocketTrip(ctx context.Context, network string, sizeBytes int, warmup, duration time.Duration) (float64, error) {
	s := spec{System: viaSocket, Fabric: network, Load: roundTrips, Size: sizeBytes, Warmup: warmup, Duration: duration}
	r, err := s.measure(ctx)
	return r.Mean, err
}
