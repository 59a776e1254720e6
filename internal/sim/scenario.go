package sim

import (
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/squall-go/squall/fabric/simnet"
	"github.com/squall-go/squall/order"
)

// stage is the world of a script while it is played. Everything in it takes the time that it always takes.
type stage struct {
	world  *world
	script *Script
	apps   []*app // with a claim that is open
	sets   map[order.NodeID]*node
	ahead  []ambush
	line   int                  // of the command at hand
	seen   func(*process, Move) // what run waits for
}

// ambush is a crash that waits for a move.
type ambush struct {
	line  int
	node  *node
	move  Move
	fault Fault
}

const (
	evenStep  = 10 * time.Microsecond
	evenDelay = 50 * time.Microsecond
)

// Play plays a script to its end, with every checker, and returns its trace. An error is a violation, or a command that cannot be
// done, or an expectation that is not met.
func (s *Script) Play() (trace string, err error) { return s.play(Options{}) }

func (s *Script) play(o Options) (trace string, err error) {
	var out bytes.Buffer
	o.Trace = &out
	st := s.stage(o)
	defer func() {
		if crash := recover(); crash != nil {
			st.world.panicked(crash)
			trace, err = out.String(), st.world.result.Err
		}
	}()
	err = st.play()
	return out.String(), err
}

// With returns the text of the script with another trace.
func (s *Script) With(trace string) string { return s.text + dashes + trace }

// Golden is the trace that the script should give.
func (s *Script) Golden() string { return s.golden }

func (s *Script) stage(o Options) *stage {
	w := newWorld(s.plan(), o)
	w.trace.brief = true
	w.schedule.random = rand.New(&inTurn{})
	st := &stage{world: w, script: s, sets: map[order.NodeID]*node{}}
	w.onMove = st.moved
	return st
}

// moved is told of every move of every process, in the middle of its step.
func (st *stage) moved(p *process, m Move) {
	if st.seen != nil {
		st.seen(p, m)
	}
	for i, a := range st.ahead {
		if a.node == p.node && a.move == m {
			st.ahead = slices.Delete(st.ahead, i, i+1)
			st.strike(a.fault)
			return
		}
	}
}

// plan is the plan of a script: nothing in it is drawn.
func (s *Script) plan() *Plan {
	l := &s.layout
	p := &Plan{Seed: 1, Founders: len(l.founders), Decls: l.decls}
	ids := append(slices.Clone(l.founders), l.joiners...)
	places := map[order.NodeID]int{}
	for i, id := range ids {
		places[id] = i
		p.Nodes = append(p.Nodes, Node{ID: id, Pace: Pace{Step: evenStep, Even: true}})
		p.Net.Kinds = append(p.Net.Kinds, make([]simnet.Kind, len(ids)))
		p.Net.Delays = append(p.Net.Delays, slices.Repeat([]simnet.Delay{{Base: evenDelay}}, len(ids)))
		p.Inboxes = append(p.Inboxes, make([]Inbox, len(l.decls)))
		for k := range l.decls {
			p.Apps = append(p.Apps, App{Node: i, Decl: k})
		}
	}
	for _, d := range l.delays {
		p.Net.Delays[places[d.from]][places[d.to]].Base = d.long
	}
	return p
}

// inTurn has who comes to the schedule first act first.
type inTurn struct{ n uint64 }

// Uint64 implements rand.Source.
func (t *inTurn) Uint64() uint64 { t.n++; return t.n }

// steady always draws the largest number: applications send whole bursts, of messages of 16 bytes.
type steady struct{}

// Uint64 implements rand.Source.
func (steady) Uint64() uint64 { return math.MaxUint64 }

const steadyBytes = 64

func (st *stage) play() error {
	w := st.world
	if err := w.layOut(Options{}); err != nil {
		return err
	}
	w.plan.Faults = make([]Fault, 1) // those of the script: it is not calm
	for _, n := range w.nodes {
		st.sets[n.ID] = n
	}
	st.unborn()
	for _, c := range st.script.steps {
		st.line = c.line
		err := doers[c.words[0]](st, c.words[1:])
		if err == nil {
			err = w.result.Err
		}
		if err != nil {
			return st.script.at(c.line, err)
		}
	}
	if len(st.ahead) > 0 {
		return st.script.at(st.ahead[0].line, fmt.Errorf("node %d never %v", st.ahead[0].node.ID, st.ahead[0].move))
	}
	w.stir()
	w.live()
	for _, c := range w.checkers {
		w.judge(c.name(), c.end(w))
	}
	return w.result.Err
}

// unborn takes the births of those that join later out of the schedule: a command brings them about.
func (st *stage) unborn() {
	s := &st.world.schedule
	for _, t := range slices.Clone(s.turns) {
		if _, ok := t.who.(*birth); ok {
			heap.Remove(&s.turns, t.place)
			st.world.pending--
		}
	}
}

// doers are the commands that do something.
var doers = map[string]func(*stage, []string) error{
	"send": (*stage).send, "claim": (*stage).claim, "commit": (*stage).commit,
	"crash":    func(st *stage, args []string) error { return st.crash(Crash, args) },
	"poweroff": func(st *stage, args []string) error { return st.crash(PowerOff, args) },
	"hang":     (*stage).hang, "cut": (*stage).cut, "heal": (*stage).heal, "part": (*stage).part,
	"join": (*stage).join, "leave": (*stage).leave, "report": (*stage).report,
	"run": (*stage).run, "expect": (*stage).expect,
}

// node is the place that a word names.
func (st *stage) node(word string) (*node, error) {
	id, err := parseID(word)
	if err != nil {
		return nil, err
	}
	if st.sets[id] == nil {
		return nil, fmt.Errorf("there is no node %d", id)
	}
	return st.sets[id], nil
}

func (st *stage) nodes(words []string) (nodes []*node, err error) {
	for _, word := range words {
		n, err := st.node(word)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// living is the process that a word names.
func (st *stage) living(word string) (*process, error) {
	n, err := st.node(word)
	switch {
	case err != nil:
		return nil, err
	case n.proc == nil || n.proc.over:
		return nil, fmt.Errorf("node %d has no process", n.ID)
	}
	return n.proc, nil
}

// member is the process that a word names, which is a member.
func (st *stage) member(word string) (*process, error) {
	p, err := st.living(word)
	if err == nil && p.member == nil {
		err = fmt.Errorf("node %d has not joined", p.self.ID)
	}
	return p, err
}

// decl is the declaration that the last of some words names; without one, the first.
func (st *stage) decl(words []string) (int, error) {
	if len(words) == 0 {
		return 0, nil
	}
	for k, d := range st.world.plan.Decls {
		if d.Name == words[0] {
			return k, nil
		}
	}
	return 0, fmt.Errorf("there is no subgroup %q", words[0])
}

func (st *stage) app(who string, group []string, messages int) (*app, error) {
	w := st.world
	p, err := st.member(who)
	if err != nil {
		return nil, err
	}
	decl, err := st.decl(group)
	if err != nil {
		return nil, err
	}
	w.busyApps++
	w.lastStart = w.now
	return &app{
		world: w, plan: App{Messages: messages, Burst: messages, MaxBytes: steadyBytes, Gap: evenStep}, dice: dice{rand.New(steady{})},
		proc: p, ledger: p.ledgers[decl], name: w.plan.Decls[decl].Name, left: messages, unable: never, begun: w.now, burst: w.now,
	}, nil
}

func (st *stage) send(args []string) error {
	if len(args) < 2 {
		return usage("send ID N [SUBGROUP]")
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 1 {
		return fmt.Errorf("%q is no number of messages", args[1])
	}
	a, err := st.app(args[0], args[2:], n)
	if err != nil {
		return err
	}
	st.world.schedule.add(st.world.now, a)
	return nil
}

// claim leaves a claim open until it is committed.
func (st *stage) claim(args []string) error {
	if len(args) < 1 {
		return usage("claim ID [SUBGROUP]")
	}
	a, err := st.app(args[0], args[1:], 1)
	if err != nil {
		return err
	}
	a.plan.HoldIn, a.plan.Hold = 1, time.Hour
	if !a.claim(st.world.now) {
		return fmt.Errorf("node %s may not send in %q now", args[0], a.name)
	}
	st.apps = append(st.apps, a)
	return nil
}

func (st *stage) commit(args []string) error {
	if len(args) < 1 {
		return usage("commit ID [SUBGROUP]")
	}
	p, err := st.living(args[0])
	if err != nil {
		return err
	}
	decl, err := st.decl(args[1:])
	if err != nil {
		return err
	}
	i := slices.IndexFunc(st.apps, func(a *app) bool { return a.proc == p && a.ledger.decl == decl })
	if i < 0 {
		return fmt.Errorf("node %s has no open claim", args[0])
	}
	a := st.apps[i]
	st.apps = slices.Delete(st.apps, i, i+1)
	a.settle(a.held[0], st.world.now)
	a.done()
	return nil
}

// strike has something go wrong now, and end by itself if it does.
func (st *stage) strike(plan Fault) {
	w := st.world
	w.pending++
	f := &fault{world: w, plan: plan}
	if next := f.strike(); next != never {
		f.turn = w.schedule.add(next, f)
	}
}

func (st *stage) crash(kind FaultKind, args []string) error {
	if len(args) != 1 && (len(args) != 4 || args[1] != "as" || args[2] != "it") {
		return usage("crash ID, poweroff ID, or either with: as it MOVE")
	}
	p, err := st.living(args[0])
	if err != nil {
		return err
	}
	f := Fault{Kind: kind, Node: p.node.place}
	if len(args) == 1 {
		st.strike(f)
		return nil
	}
	move, err := moveNamed(args[3])
	f.InStep = 1
	st.ahead = append(st.ahead, ambush{st.line, p.node, move, f})
	return err
}

func (st *stage) hang(args []string) error {
	if len(args) != 2 {
		return usage("hang ID DURATION")
	}
	p, err := st.living(args[0])
	if err != nil {
		return err
	}
	long, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	st.strike(Fault{Kind: Hang, Node: p.node.place, For: long})
	return nil
}

func (st *stage) cut(args []string) error {
	pair, err := st.nodes(args)
	if err != nil || len(pair) != 2 || pair[0] == pair[1] {
		return or(err, usage("cut FROM TO"))
	}
	st.strike(Fault{Kind: OneWayCut, Node: pair[0].place, Peer: pair[1].place})
	return nil
}

func or(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

func (st *stage) part(args []string) error {
	side, err := st.nodes(args)
	if err != nil || len(side) == 0 {
		return or(err, usage("part ID…"))
	}
	f := Fault{Kind: Partition}
	for _, n := range side {
		f.Set |= 1 << n.place
	}
	st.strike(f)
	return nil
}

// heal mends one direction, or everything.
func (st *stage) heal(args []string) error {
	w := st.world
	pair, err := st.nodes(args)
	if err != nil || len(pair) != 0 && len(pair) != 2 {
		return or(err, usage("heal [FROM TO]"))
	}
	for a, n := range w.nodes {
		for b := range w.nodes {
			if n.cuts>>b&1 != 0 && (len(pair) == 0 || pair[0].place == a && pair[1].place == b) {
				w.heal(a, b)
			}
		}
	}
	w.calm = w.now
	w.stir()
	return nil
}

func (st *stage) join(args []string) error {
	w := st.world
	nodes, err := st.nodes(args)
	if err != nil || len(nodes) < 2 {
		return or(err, usage("join ID ASKED…"))
	}
	n := nodes[0]
	if n.proc != nil && !n.proc.over {
		return fmt.Errorf("node %d has a process already", n.ID)
	}
	n.Ask = nil
	for _, asked := range nodes[1:] {
		n.Ask = append(n.Ask, asked.place)
	}
	w.pending++
	(&birth{world: w, node: n}).act(w.now)
	return nil
}

func (st *stage) leave(args []string) error {
	if len(args) != 1 {
		return usage("leave ID")
	}
	p, err := st.member(args[0])
	if err != nil {
		return err
	}
	st.strike(Fault{Kind: Leave, Node: p.node.place})
	return nil
}

func (st *stage) report(args []string) error {
	pair, err := st.nodes(args)
	if err != nil || len(pair) != 2 {
		return or(err, usage("report ID FAILED"))
	}
	if _, err := st.member(args[0]); err != nil {
		return err
	}
	st.strike(Fault{Kind: Accuse, Node: pair[0].place, Peer: pair[1].place})
	return nil
}

// run lets time pass: for so long, until nothing is under way, or until somebody made a move.
func (st *stage) run(args []string) error {
	w := st.world
	switch {
	case len(args) == 1:
		long, err := time.ParseDuration(args[0])
		if err != nil {
			return err
		}
		end := w.now + long
		for w.result.Err == nil && w.schedule.next(end, w.clock) {
		}
		w.clock(end)
		return nil
	case len(args) == 2 && args[0] == "until" && args[1] == "quiet":
		w.stir()
		return st.until(w.done, func() error {
			return fmt.Errorf("still under way: %w", or(w.unsettled(), errors.New("something that an application does")))
		})
	case len(args) == 3 && args[0] == "until":
		return st.untilMove(args[1], args[2])
	}
	return usage("run DURATION, run until quiet, run until ID MOVE")
}

// until steps the world until something holds, or too long.
func (st *stage) until(holds func() bool, not func() error) error {
	w := st.world
	for limit := w.now + 2*w.plan.Patience(); w.result.Err == nil && !holds(); {
		if !w.schedule.next(limit, w.clock) {
			return not()
		}
	}
	return nil
}

func (st *stage) untilMove(who, what string) error {
	n, err := st.node(who)
	if err != nil {
		return err
	}
	happened := false
	holds := func() bool { return happened }
	switch what {
	case "halts":
		holds = func() bool { return n.proc != nil && n.proc.told }
	case "ends":
		holds = func() bool { return n.proc != nil && n.proc.over }
	default:
		m, err := moveNamed(what)
		if err != nil {
			return err
		}
		st.seen = func(p *process, made Move) { happened = happened || p.node == n && made == m }
	}
	defer func() { st.seen = nil }()
	return st.until(holds, func() error { return fmt.Errorf("node %s never %s", who, what) })
}

func moveNamed(name string) (Move, error) {
	var names []string
	for m := Suspects; m < moves; m++ {
		if m.String() == name {
			return m, nil
		}
		names = append(names, m.String())
	}
	return NoMove, fmt.Errorf("%q is no move: use %s", name, strings.Join(names, ", "))
}
