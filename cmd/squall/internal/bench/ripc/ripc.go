// Package ripc measures messages between two processes: "squall bench ripc".
//
// One process answers, the other one measures: round trips of messages, messages one way, and
// calls, one at a time or many at once. Next to package ripc stand what the Go standard library
// offers for the same: plain sockets and net/rpc.
package ripc

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/errs"
)

// options are the suite's own flags.
type options struct {
	base  spec
	peers string
}

// NewCommand returns the command "ripc", which belongs below "bench".
func NewCommand() *cobra.Command {
	o := &options{base: spec{System: viaRIPC, Fabric: "shm", Warmup: 200 * time.Millisecond, Duration: time.Second}}
	section := func(name string, of func(s *set, base spec, others bench.Peers)) bench.Section[run] {
		return bench.Section[run]{Name: name, Set: func(s *set) { of(s, o.base, bench.Peers{Path: o.peers}) }}
	}
	return bench.Suite[run]{
		Use:   "ripc",
		Short: "Measure messages and calls between two processes",
		Long: `Ripc starts two processes on this machine. One of them answers, the other one measures round trips of messages, messages one way, and
calls, through shared memory and TCP; what a server takes with a thousand idle clients, and whether they slow busy ones down; and long messages, alone and next to short ones. Next to them are plain sockets of package net and calls of package net/rpc, measured in the same run; and
requests of HTTP, over net/http on a unix socket, over net/http on streams, and with package ripchttp.`,
		Example: `  squall bench ripc
  squall bench ripc --only one-way --size 1024
  go -C bench build -o /tmp ./rpcpeers
  squall bench ripc --markdown --peers /tmp/rpcpeers   # the table of docs/benchmarks.md`,
		Runs: 5, Warmup: &o.base.Warmup, Duration: &o.base.Duration,
		Sections: []bench.Section[run]{
			section("round-trips", roundTripBars), section("one-way", oneWayBars), section("calls", callBars), section("idle", idleBars),
			section("long", longBars), section("http", httpBars),
		},
		Title: func() string { return "two processes" },
		Flags: func(f *pflag.FlagSet) {
			f.IntVar(&o.base.Size, "size", 64, "bytes of a message")
			f.StringVar(&o.peers, "peers", "", "a program that measures gRPC, UCX and ZeroMQ in the same run: bench/rpcpeers")
		},
		Check: func(_ *pflag.FlagSet, faults *errs.Faults) {
			faults.If(o.base.Size < 1 || o.base.Size > 4096, "--size is %d: 1 to 4096 bytes", o.base.Size)
		},
	}.Command()
}

type (
	set       = bench.Set[run]
	benchCase = bench.Case[run]
)

func rateOf(r run) float64   { return r.Rate }
func meanOf(r run) float64   { return r.Mean }
func allocsOf(r run) float64 { return r.Allocs }

// with is the spec with changes.
func (s spec) with(change func(*spec)) spec {
	change(&s)
	return s
}

func caseOf(s spec) benchCase { return benchCase{Name: s.name(), Spec: s, Measure: s.measure} }

// on is the spec with a system and a fabric.
func (s spec) on(system system, fabric string) spec {
	return s.with(func(s *spec) { s.System, s.Fabric = system, fabric })
}

// Figures of others on the machine of docs/benchmarks.md, by which the bars are asked: UCX's active
// messages on posix shared memory, one way and there and back, and over TCP; calls of gRPC on a
// unix socket.
const (
	ucxTripUs    = 0.29
	wordsTripUs  = 0.12 // two words, with both processes pinned, when UCX was measured
	ucxTCPTripUs = 11.0
	ucxRate      = 17e6
	zeroMQRate   = 4.1e6
	grpcCallUs   = 99.0
	grpcRate     = 63e3
)

func roundTripBars(s *set, base spec, others bench.Peers) {
	base.Load = roundTrips
	shm, tcp := base, base.on(viaRIPC, "tcp")
	words := base.with(func(s *spec) { s.System, s.Size = viaWords, 8 })
	asleep := base.with(func(s *spec) { s.Asleep = true })
	byMessages(s, others, "UCX", shm, "µs", meanOf, ucxTripUs, bench.Asked{AtMost: 2.5})
	s.Compare(caseOf(shm), "µs", meanOf, bench.Asked{AtMost: 2.5 * ucxTripUs / wordsTripUs}, caseOf(words))
	s.Compare(caseOf(asleep), "µs", meanOf, bench.Asked{AtMost: 1}, caseOf(base.on(viaSocket, "unix")))
	s.Compare(caseOf(tcp), "µs", meanOf, bench.Asked{AtMost: 1}, caseOf(base.on(viaSocket, "tcp")))
	byMessages(s, others, "UCX", tcp, "µs", meanOf, ucxTCPTripUs, bench.Asked{AtMost: 1.2})
	nothingAllocated(s, shm, tcp)
}

func oneWayBars(s *set, base spec, others bench.Peers) {
	base.Load = oneWay
	shm, tcp := base, base.on(viaRIPC, "tcp")
	byMessages(s, others, "UCX", shm, "msgs/s", rateOf, ucxRate, bench.Asked{AtLeast: 0.6})
	byMessages(s, others, "ZeroMQ", shm, "msgs/s", rateOf, zeroMQRate, bench.Asked{AtLeast: 2.5})
	s.Compare(caseOf(tcp), "msgs/s", rateOf, bench.Asked{})
	nothingAllocated(s, shm, tcp)
}

func callBars(s *set, base spec, others bench.Peers) {
	base.Load, base.Callers = calls, 1
	shm, tcp, net := base, base.on(viaRIPC, "tcp"), base.on(viaNetRPC, "unix")
	byGRPC(s, others, shm, "µs", meanOf, grpcCallUs, bench.Asked{AtMost: 0.05})
	byGRPC(s, others, tcp, "µs", meanOf, grpcCallUs, bench.Asked{AtMost: 0.3})
	s.Compare(caseOf(shm), "µs", meanOf, bench.Asked{}, caseOf(net))
	nothingAllocated(s, shm, tcp)
	shm.Callers, tcp.Callers, net.Callers = 64, 64, 64
	byGRPC(s, others, shm, "calls/s", rateOf, grpcRate, bench.Asked{AtLeast: 10})
	byGRPC(s, others, tcp, "calls/s", rateOf, grpcRate, bench.Asked{AtLeast: 4})
	s.Compare(caseOf(shm), "calls/s", rateOf, bench.Asked{AtLeast: 6}, caseOf(net))
}

// byGRPC adds a bar by calls of gRPC: as the other program measures them, or else by what they took
// on the machine of docs/benchmarks.md.
func byGRPC(s *set, others bench.Peers, of spec, unit string, figure func(run) float64, known float64, ratio bench.Asked) {
	name := fmt.Sprintf("gRPC over unix, calls, %d B, %d at a time", of.Size, of.Callers)
	byOther(s, others, name, of, unit, figure, known, ratio, "-size", strconv.Itoa(of.Size), "-callers", strconv.Itoa(of.Callers), "-secs", bench.Seconds(of.Duration))
}

// byMessages adds a bar by messages of UCX or ZeroMQ, in the same way.
func byMessages(s *set, others bench.Peers, system string, of spec, unit string, figure func(run) float64, known float64, ratio bench.Asked) {
	fabric := of.Fabric
	if system == "ZeroMQ" {
		fabric = "unix"
	}
	name := fmt.Sprintf("%s over %s, %s, %d B", system, fabric, of.Load, of.Size)
	byOther(s, others, name, of, unit, figure, known, ratio,
		"-system", strings.ToLower(system), "-fabric", of.Fabric, "-load", string(of.Load), "-size", strconv.Itoa(of.Size), "-secs", bench.Seconds(of.Duration))
}

// byOther adds a bar that asks for a ratio by what the other program measures with arguments;
// without that program, by a known figure.
func byOther(s *set, others bench.Peers, name string, of spec, unit string, figure func(run) float64, known float64, ratio bench.Asked, args ...string) {
	if !others.Present() {
		s.Compare(caseOf(of), unit, figure, bench.Asked{AtMost: known * ratio.AtMost, AtLeast: known * ratio.AtLeast})
		return
	}
	s.Compare(caseOf(of), unit, figure, ratio, benchCase{Name: name, Measure: func(ctx context.Context) (run, error) {
		r, err := others.Measure(ctx, args...)
		return run{Rate: r.Rate, Mean: r.P50Us}, err
	}})
}

// idleClients is the number of idle clients that the bars name, and busyClients the number of
// clients that call next to them.
const (
	idleClients = 1000
	busyClients = 16
)

// settleTime is after which a server to which a thousand clients connected looks at busy ones only.
const settleTime = 2 * time.Second

func idleBars(s *set, base spec, _ bench.Peers) {
	base.Load, base.Clients = idle, idleClients
	for _, fabric := range []string{"shm", "tcp"} {
		of := caseOf(base.on(viaRIPC, fabric))
		s.Alone(of.Name+": processor", "%", of, func(r run) float64 { return r.Idle.CPUPercent }, bench.Asked{AtMost: 1})
		s.Alone(of.Name+": memory for each", "KiB", of, func(r run) float64 { return r.Idle.ClientBytes / 1024 }, bench.Asked{AtMost: 64})
	}
	for _, fabric := range []string{"shm", "tcp"} { // the server looks only at clients whose doorbell rang, however many clients there are
		alone := base.with(func(s *spec) {
			s.Fabric, s.Load, s.Clients, s.Busy, s.Callers = fabric, calls, 0, busyClients, busyClients
			s.Warmup = max(s.Warmup, settleTime)
		})
		among := alone.with(func(s *spec) { s.Clients = idleClients })
		s.Compare(caseOf(among), "calls/s", rateOf, bench.Asked{AtLeast: 0.9}, caseOf(alone))
	}
}

func p99Of(r run) float64 { return r.P99 }

func longBars(s *set, base spec, others bench.Peers) {
	long := base.with(func(s *spec) { s.Size, s.Load = longBytes, intoWindow })
	place := long.with(func(s *spec) { s.Load = inPlace })
	memory := long.with(func(s *spec) { s.System = viaCopy })
	s.Compare(caseOf(place), "µs", meanOf, bench.Asked{AtMost: 0.1}, caseOf(memory))
	s.Compare(caseOf(long), "/s", rateOf, bench.Asked{AtLeast: 0.8}, caseOf(memory))
	s.Compare(caseOf(long.on(viaRIPC, "tcp")), "/s", rateOf, bench.Asked{AtLeast: 0.95}, caseOf(long.on(viaSocket, "tcp")))
	if others.Present() {
		byMessages(s, others, "UCX", long, "/s", rateOf, 0, bench.Asked{AtLeast: 1.6})
	}
	for _, fabric := range []string{"shm", "tcp"} {
		alone := base.with(func(s *spec) { s.Load, s.Fabric, s.Tail = roundTrips, fabric, true })
		beside := alone.with(func(s *spec) { s.Beside = true })
		s.Compare(caseOf(beside), "µs", p99Of, bench.Asked{AtMost: 3}, caseOf(alone))
	}
}

// nothingAllocated asks that nothing is allocated.
func nothingAllocated(s *set, all ...spec) {
	for _, of := range all {
		s.Alone(of.name()+": allocations", "", caseOf(of), allocsOf, bench.Asked{None: true})
	}
}
