// Package objects measures replicated objects and their clients: "squall bench objects".
//
// Three processes are the members of a group with one object, and further processes are its
// clients. Next to them stand messages of the same group without an object, round trips of sockets
// and, by another program, etcd, Redis and NATS JetStream with the same clients and values.
package objects

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/errs"
)

// options are the suite's own flags.
type options struct {
	base        spec
	kills       int
	peers, etcd string
	trip        SocketTrip
}

// SocketTrip measures round trips of messages over a socket of a kind between two processes, and
// returns their mean time in microseconds.
type SocketTrip func(ctx context.Context, network string, sizeBytes int, warmup, duration time.Duration) (float64, error)

// NewCommand returns the command "objects", which belongs below "bench". Trip measures what reads
// are held against.
func NewCommand(trip SocketTrip) *cobra.Command {
	o := &options{trip: trip, base: spec{Fabric: "shm", Processes: 2, Warmup: 500 * time.Millisecond, Duration: 2 * time.Second}}
	return o.suite().Command()
}

func (o *options) suite() *bench.Suite[run] {
	return &bench.Suite[run]{
		Use:   "objects",
		Short: "Measure replicated objects and their clients",
		Long: `Objects starts three processes that are the members of a group with one object: keys with values. It measures commands and reads of the members, next to
messages without an object; and puts and gets of clients, in processes of their own, of which each has one call at a time. With --peers, the same clients put and
get with etcd, Redis and NATS JetStream in the same run.`,
		Example: `  squall bench objects
  squall bench objects --only memory --clients 1000
  go -C bench build -o /tmp ./objectpeers
  go -C examples/etcd build -o /tmp/squall-etcd .
  squall bench objects --markdown --peers /tmp/objectpeers --etcd /tmp/squall-etcd   # the table of docs/benchmarks.md`,
		Runs: 3, Warmup: &o.base.Warmup, Duration: &o.base.Duration,
		Title: func() string { return "three members" }, Flags: o.flags, Check: o.check,
		Sections: []bench.Section[run]{
			{Name: "commands", Set: o.commandBars}, {Name: "reads", Set: o.readBars},
			{Name: "memory", Set: func(s *set) {
				o.clientBars(s, false, peer{"etcd", "memory", 20}, peer{"redis", "tcp", 1.5}, peer{"redis", "unix", 1.2})
			}},
			{Name: "disk", Set: func(s *set) { o.clientBars(s, true, peer{"etcd", "disk", 8}, peer{"jetstream", "disk", 5}) }},
			{Name: "gets", Set: o.getBars}, {Name: "many", Set: o.manyBars}, {Name: "kill", Set: o.killBars}, {Name: "etcd", Set: o.etcdBars},
		},
	}
}

func (o *options) flags(f *pflag.FlagSet) {
	f.IntVar(&o.base.SizeBytes, "size", 256, "bytes of a value of a client; commands of members have 100")
	f.IntVar(&o.base.Clients, "clients", 128, "clients, each with one call at a time")
	f.IntVar(&o.base.Processes, "processes", o.base.Processes, "processes that the clients are in")
	f.StringVar(&o.base.Dir, "dir", ".", "where logs are made, and removed afterwards: on the disk that is to be measured")
	f.IntVar(&o.kills, "kills", 4, "members that are killed in a run of the section kill")
	f.StringVar(&o.peers, "peers", "", "a program that measures etcd, Redis and NATS JetStream in the same run: bench/objectpeers")
	f.StringVar(&o.etcd, "etcd", "", "with --peers: the program of examples/etcd, which is measured with the client of etcd")
}

func (o *options) check(_ *pflag.FlagSet, faults *errs.Faults) {
	faults.If(o.base.SizeBytes < 1 || o.base.SizeBytes > 4096, "--size is %d: 1 to 4096 bytes", o.base.SizeBytes)
	if o.base.Processes < 1 || o.base.Processes > 64 {
		faults.Add("--processes is %d: 1 to 64", o.base.Processes)
	} else if o.base.Clients < o.base.Processes || o.base.Clients > 100_000 || o.base.Clients%o.base.Processes != 0 {
		faults.Add("--clients is %d: the same number for each process, up to 100000 in all", o.base.Clients)
	}
	faults.If(o.kills < 1 || o.kills > 1000, "--kills is %d: 1 to 1000", o.kills)
}

type (
	set       = bench.Set[run]
	benchCase = bench.Case[run]
)

func rateOf(r run) float64 { return r.Rate }
func meanOf(r run) float64 { return r.Mean }

// memberBytes is the size of the members' commands and messages.
const memberBytes = 100

func caseOf(s spec) benchCase { return benchCase{Name: s.name(), Spec: s, Measure: s.measure} }

// under is the case of a load.
func (s spec) under(l load) benchCase { return caseOf(s.with(func(s *spec) { s.Load = l })) }

// members is the base of the cases in which members make the load.
func (o *options) members() spec { return o.base.with(func(s *spec) { s.SizeBytes = memberBytes }) }

func (o *options) commandBars(s *set) {
	base := o.members()
	plain, raw, inCBOR := base.under(sends), base.under(commands), base.under(cborLoad)
	s.Compare(raw, "/s", rateOf, bench.Asked{AtLeast: 0.6}, plain)
	s.Compare(inCBOR, "/s", rateOf, bench.Asked{AtLeast: 0.12}, plain)
	// Each command is executed at every member.
	perExecution := func(r run) float64 { return r.Allocs / nodes }
	s.Alone(raw.Name+": allocations of an execution", "", raw, perExecution, bench.Asked{Under: 0.01})
	s.Alone(inCBOR.Name+": allocations of an execution", "", inCBOR, perExecution, bench.Asked{AtMost: 3})
	s.Compare(base.under(callOne), "µs", meanOf, bench.Asked{AtMost: 1.3}, base.under(sendOne))
}

func (o *options) readBars(s *set) {
	base := o.members()
	tcp := base.with(func(s *spec) { s.Fabric = "tcp" })
	trip := benchCase{Name: "round trips of a socket, tcp", Measure: func(ctx context.Context) (run, error) {
		mean, err := o.trip(ctx, "tcp", 64, base.Warmup, base.Duration)
		return run{Mean: mean}, err
	}}
	s.Compare(tcp.under(readOne), "µs", meanOf, bench.Asked{AtMost: 1.5}, trip)
	s.Compare(base.under(readOne), "µs", meanOf, bench.Asked{AtMost: 1.5})
	s.Compare(base.under(reads), "/s", rateOf, bench.Asked{AtLeast: 0.5}, base.under(locals))
}

// peer is another system, where it keeps values, and what is asked by what it does.
type peer struct {
	system, place string
	atLeast       float64
}

// against adds bars by what other systems do with the same clients, as the other program measures
// it.
func (o *options) against(s *set, of spec, peers ...peer) {
	for _, p := range peers {
		s.Compare(caseOf(of), "/s", rateOf, bench.Asked{AtLeast: p.atLeast}, o.peerCase(of, p.system, p.place))
	}
}

// clientBars are about puts of clients, in memory or on every disk.
func (o *options) clientBars(s *set, durable bool, peers ...peer) {
	base := o.base.with(func(s *spec) { s.Load, s.Durable = puts, durable })
	own := base.with(func(s *spec) { s.Dials = s.Clients / s.Processes })
	s.Compare(caseOf(own), "/s", rateOf, bench.Asked{}, caseOf(base))
	o.against(s, base, peers...)
}

func (o *options) getBars(s *set) {
	o.against(s, o.base.with(func(s *spec) { s.Load = gets }), peer{"etcd", "memory", 25})
}

// peerCase is what the other program measures.
func (o *options) peerCase(of spec, system, place string, further ...string) benchCase {
	name := fmt.Sprintf("%s, %s, %s, %d clients", system, place, of.Load, of.Clients)
	return benchCase{Name: name, Measure: func(ctx context.Context) (run, error) {
		args := []string{
			"-system", system, "-place", place, "-load", string(of.Load), "-clients", strconv.Itoa(of.Clients),
			"-size", strconv.Itoa(of.SizeBytes), "-dir", of.Dir, "-secs", bench.Seconds(of.Duration),
		}
		r, err := bench.Peers{Path: o.peers}.Measure(ctx, append(args, further...)...)
		return run{Rate: r.Rate, Mean: r.P50Us}, err
	}}
}

// errNoEtcd says how to get the program of examples/etcd.
var errNoEtcd = fmt.Errorf("%w: give the program of examples/etcd with --etcd BINARY", bench.ErrAbsent)

// Numbers of clients that watch one key, that are compared with the default number, and whose
// member is killed.
const (
	watchClients = 100
	manyClients  = 1000
	killClients  = 300
)

// etcdBars are about examples/etcd with the client of etcd.
func (o *options) etcdBars(s *set) {
	for _, x := range []struct {
		load    load
		clients int
		atLeast float64
	}{{puts, 1, 1.2}, {puts, o.base.Clients, 2}, {puts, manyClients, 2}, {gets, o.base.Clients, 1.5}, {events, watchClients, 1}} {
		of := o.base.with(func(s *spec) { s.Load, s.Clients = x.load, x.clients })
		ours, limit := o.peerCase(of, "squall", "disk", "-program", o.etcd), o.peerCase(of, "etcd", "disk")
		if o.etcd == "" {
			ours.Measure = func(context.Context) (run, error) { return run{}, errNoEtcd }
		}
		ours.Name = "examples/etcd: " + ours.Name
		s.Compare(ours, "/s", rateOf, bench.Asked{AtLeast: x.atLeast}, limit)
	}
}

func (o *options) manyBars(s *set) {
	many := o.base.with(func(s *spec) { s.Clients = manyClients })
	s.Compare(many.under(puts), "/s", rateOf, bench.Asked{AtLeast: 0.8}, o.base.under(puts))
}

func (o *options) killBars(s *set) {
	base := o.base.with(func(s *spec) { s.Load, s.Clients, s.Dials = deposits, killClients, max(1, killClients/s.Processes/10) })
	name := fmt.Sprintf("a member is killed, %d clients, %s", base.Clients, base.Fabric)
	kill := benchCase{Name: name, Spec: base, Measure: func(ctx context.Context) (run, error) { return base.measureKills(ctx, o.kills) }}
	s.Alone(name+": a client gets no reply for", "ms", kill, func(r run) float64 { return r.Gap }, bench.Asked{AtMost: 150})
	s.Alone(name+": commands that were lost or doubled", "", kill, func(r run) float64 { return r.Wrong }, bench.Asked{None: true})
}
