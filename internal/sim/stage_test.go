package sim

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/order"
)

// stage is the world of a script while it is played. Everything in it takes the time that it always
// takes.
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
	evenSync  = time.Millisecond
)

// Play plays a script to its end, with every checker, and returns its trace. An error is a
// violation, or a command that cannot be done, or an expectation that is not met.
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
	w.schedule.even = true
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
	p := &Plan{Seed: 1, Initial: len(l.initial), Decls: l.decls, Tuning: l.tuning}
	ids := append(slices.Clone(l.initial), l.joiners...)
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
	for range ids {
		p.Keep.Disks = append(p.Keep.Disks, DiskPlan{Sync: evenSync})
	}
	p.Keep.After, p.States = l.after, l.states
	for _, d := range l.disks {
		p.Keep.Disks[places[d.from]].Sync = d.long
	}
	for _, d := range l.callbacks {
		for k := range l.decls {
			p.Inboxes[places[d.from]][k].Cost = d.long
		}
	}
	return p
}

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
	defer w.net.Close()
	w.plan.Faults = make([]Fault, 1) // the faults come from the script: the run is not calm
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

// unborn takes the births of processes that join later out of the schedule: a command brings them
// about.
func (st *stage) unborn() {
	s := &st.world.schedule
	for _, t := range slices.Clone(s.turns) {
		if _, ok := t.who.(*birth); ok {
			s.remove(t)
			st.world.pending--
		}
	}
}

// run lets time pass: for so long, until nothing is under way, or until a process made a move.
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
			return fmt.Errorf("still in flight: %w", or(w.unsettled(), errors.New("something that an application does")))
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
