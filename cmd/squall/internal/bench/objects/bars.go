package objects

import (
	"context"
	"fmt"
	"strconv"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

func rateOf(r run) float64 { return r.Rate }
func meanOf(r run) float64 { return r.Mean }

// memberBytes is the size of the members' commands and messages.
const memberBytes = 100

// set returns the cases and bars of a section.
func (o *options) set(section string) (s bench.Set[run]) {
	base, others := o.base, bench.Peers{Path: o.peers}
	member := base.with(func(s *spec) { s.SizeBytes = memberBytes })
	switch section {
	case "commands":
		commandBars(&s, member)
	case "reads":
		readBars(&s, member, o.trip)
	case "memory":
		clientBars(&s, base, others, false)
	case "disk":
		clientBars(&s, base, others, true)
	case "gets":
		getBars(&s, base, others)
	case "many":
		manyBars(&s, base)
	case "kill":
		killBars(&s, base, o.kills)
	case "etcd":
		o.etcdBars(&s)
	}
	return s
}

func caseOf(s spec) bench.Case[run] {
	return bench.Case[run]{Name: s.name(), Spec: s, Measure: s.measure}
}

// loads adds the cases of some loads, and returns their specs.
func loads(s *bench.Set[run], base spec, all ...load) (specs []spec) {
	for _, l := range all {
		of := base.with(func(s *spec) { s.Load = l })
		specs = append(specs, of)
		s.Add(caseOf(of))
	}
	return specs
}

func commandBars(s *bench.Set[run], base spec) {
	all := loads(s, base, sends, commands, cborLoad, sendOne, callOne)
	plain, raw, inCBOR, plainOne, one := all[0], all[1], all[2], all[3], all[4]
	add := func(of, limit spec, unit string, figure func(run) float64, a bench.Asked) {
		s.Judge(bench.Bar[run]{Unit: unit, Figure: of.name(), Limits: []string{limit.name()}, Of: figure, ByRound: true, Asked: a})
	}
	add(raw, plain, "/s", rateOf, bench.Asked{AtLeast: 0.6})
	add(inCBOR, plain, "/s", rateOf, bench.Asked{AtLeast: 0.12})
	// Each command is executed at every member.
	perExecution := func(r run) float64 { return r.Allocs / nodes }
	s.Judge(
		bench.Bar[run]{What: raw.name() + ": allocations of an execution", Figure: raw.name(), Of: perExecution, Asked: bench.Asked{Under: 0.01}},
		bench.Bar[run]{What: inCBOR.name() + ": allocations of an execution", Figure: inCBOR.name(), Of: perExecution, Asked: bench.Asked{AtMost: 3}})
	add(one, plainOne, "µs", meanOf, bench.Asked{AtMost: 1.3})
}

func readBars(s *bench.Set[run], base spec, measure SocketTrip) {
	tcp := base.with(func(s *spec) { s.Fabric = "tcp" })
	shmOne, tcpOne := loads(s, base, readOne)[0], loads(s, tcp, readOne)[0]
	many := loads(s, base, reads, locals)
	trip := "round trips of a socket, tcp"
	s.Add(bench.Case[run]{Name: trip, Measure: func(ctx context.Context) (run, error) {
		mean, err := measure(ctx, "tcp", 64, base.Warmup, base.Duration)
		return run{Mean: mean}, err
	}})
	s.Judge(
		bench.Bar[run]{Unit: "µs", Figure: tcpOne.name(), Limits: []string{trip}, Of: meanOf, ByRound: true, Asked: bench.Asked{AtMost: 1.5}},
		bench.Bar[run]{Unit: "µs", Figure: shmOne.name(), Of: meanOf, Asked: bench.Asked{AtMost: 1.5}},
		bench.Bar[run]{Unit: "/s", Figure: many[0].name(), Limits: []string{many[1].name()}, Of: rateOf, ByRound: true, Asked: bench.Asked{AtLeast: 0.5}})
}

// clientBars are about puts of clients, in memory or on every disk.
func clientBars(s *bench.Set[run], base spec, others bench.Peers, durable bool) {
	base.Load, base.Durable = puts, durable
	own := base.with(func(s *spec) { s.Dials = s.Clients / s.Processes })
	s.Add(caseOf(base), caseOf(own))
	s.Judge(bench.Bar[run]{Unit: "/s", Figure: own.name(), Limits: []string{base.name()}, Of: rateOf, ByRound: true})
	if durable {
		byPeer(s, others, base, "etcd", "disk", 8)
		byPeer(s, others, base, "jetstream", "disk", 5)
		return
	}
	byPeer(s, others, base, "etcd", "memory", 20)
	byPeer(s, others, base, "redis", "tcp", 1.5)
	byPeer(s, others, base, "redis", "unix", 1.2)
}

func getBars(s *bench.Set[run], base spec, others bench.Peers) {
	base.Load = gets
	s.Add(caseOf(base))
	byPeer(s, others, base, "etcd", "memory", 25)
}

// byPeer is a bar by what another system does with the same clients, as the other program measures it.
func byPeer(s *bench.Set[run], others bench.Peers, of spec, system, place string, atLeast float64) {
	limit := peerCase(others, of, system, place)
	s.Add(limit)
	s.Judge(bench.Bar[run]{Unit: "/s", Figure: of.name(), Limits: []string{limit.Name}, Of: rateOf, ByRound: true, Asked: bench.Asked{AtLeast: atLeast}})
}

// peerCase is what the other program measures.
func peerCase(others bench.Peers, of spec, system, place string, further ...string) bench.Case[run] {
	name := fmt.Sprintf("%s, %s, %s, %d clients", system, place, of.Load, of.Clients)
	return bench.Case[run]{Name: name, Measure: func(ctx context.Context) (run, error) {
		args := []string{
			"-system", system, "-place", place, "-load", string(of.Load), "-clients", strconv.Itoa(of.Clients),
			"-size", strconv.Itoa(of.SizeBytes), "-dir", of.Dir, "-secs", bench.Seconds(of.Duration),
		}
		r, err := others.Measure(ctx, append(args, further...)...)
		return run{Rate: r.Rate, Mean: r.P50Us}, err
	}}
}

// watchClients is how many clients watch one key.
const watchClients = 100

// errNoEtcd says how to get the program of examples/etcd.
var errNoEtcd = fmt.Errorf("%w: give the program of examples/etcd with --etcd BINARY", bench.ErrAbsent)

// etcdBars are about examples/etcd with the client of etcd.
func (o *options) etcdBars(s *bench.Set[run]) {
	others := bench.Peers{Path: o.peers}
	for _, x := range []struct {
		load    load
		clients int
		atLeast float64
	}{{puts, 1, 1.2}, {puts, o.base.Clients, 2}, {puts, manyClients, 2}, {gets, o.base.Clients, 1.5}, {events, watchClients, 1}} {
		of := o.base.with(func(s *spec) { s.Load, s.Clients = x.load, x.clients })
		ours, limit := peerCase(others, of, "squall", "disk", "-program", o.etcd), peerCase(others, of, "etcd", "disk")
		if o.etcd == "" {
			ours.Measure = func(context.Context) (run, error) { return run{}, errNoEtcd }
		}
		s.Add(ours, limit)
		s.Judge(bench.Bar[run]{What: "examples/etcd: " + ours.Name, Unit: "/s", Figure: ours.Name, Limits: []string{limit.Name}, Of: rateOf, ByRound: true, Asked: bench.Asked{AtLeast: x.atLeast}})
	}
}

// manyClients is the number of clients of the bar that compares many clients with the default number.
const manyClients = 1000

func manyBars(s *bench.Set[run], base spec) {
	base.Load = puts
	many := base.with(func(s *spec) { s.Clients = manyClients })
	s.Add(caseOf(base), caseOf(many))
	s.Judge(bench.Bar[run]{Unit: "/s", Figure: many.name(), Limits: []string{base.name()}, Of: rateOf, ByRound: true, Asked: bench.Asked{AtLeast: 0.8}})
}

// killClients is how many clients there are when a member is killed.
const killClients = 300

func killBars(s *bench.Set[run], base spec, kills int) {
	base.Load, base.Clients, base.Dials = deposits, killClients, max(1, killClients/base.Processes/10)
	name := fmt.Sprintf("a member is killed, %d clients, %s", base.Clients, base.Fabric)
	s.Add(bench.Case[run]{Name: name, Spec: base, Measure: func(ctx context.Context) (run, error) { return base.measureKills(ctx, kills) }})
	s.Judge(
		bench.Bar[run]{What: name + ": a client gets no reply for", Unit: "ms", Figure: name, Of: func(r run) float64 { return r.Gap }, Asked: bench.Asked{AtMost: 150}},
		bench.Bar[run]{What: name + ": commands that were lost or doubled", Figure: name, Of: func(r run) float64 { return r.Wrong }, Asked: bench.Asked{None: true}})
}
