package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// doers are the commands that do something.
var doers = map[string]func(*stage, []string) error{
	"send":  func(st *stage, args []string) error { return st.send(args, 0) },
	"large": func(st *stage, args []string) error { return st.send(args, 1) }, "claim": (*stage).claim, "commit": (*stage).commit,
	"crash":    func(st *stage, args []string) error { return st.crash(Crash, args) },
	"poweroff": func(st *stage, args []string) error { return st.crash(PowerOff, args) },
	"hang":     func(st *stage, args []string) error { return st.stall(Hang, args) },
	"jump":     func(st *stage, args []string) error { return st.stall(ClockJump, args) },
	"cut":      (*stage).cut, "heal": (*stage).heal, "part": (*stage).part,
	"fill":   func(st *stage, args []string) error { return st.spoil(FullDisk, args) },
	"lose":   func(st *stage, args []string) error { return st.spoil(LostDisk, args) },
	"damage": func(st *stage, args []string) error { return st.spoil(DamagedLogs, args) },
	"slow":   (*stage).slow, "reset": (*stage).reset,
	"move": (*stage).move, "join": (*stage).join, "leave": (*stage).leave, "report": (*stage).report,
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
		world: w, plan: App{Messages: messages, Burst: messages, MaxBytes: steadyBytes, Gap: evenStep, FutureIn: 1}, dice: dice{rand.New(steady{})},
		proc: p, ledger: p.ledgers[decl], name: w.plan.Decls[decl].Name, left: messages, unable: never, begun: w.now, burst: w.now,
	}, nil
}

// send has one in so many of some messages be large; 0: none.
func (st *stage) send(args []string, largeIn int) error {
	if len(args) < 2 {
		return usage("send ID N [SUBGROUP], large ID N [SUBGROUP]")
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 1 {
		return fmt.Errorf("%q is no number of messages", args[1])
	}
	a, err := st.app(args[0], args[2:], n)
	if err != nil {
		return err
	}
	a.plan.LargeIn = largeIn
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

func (st *stage) stall(kind FaultKind, args []string) error {
	if len(args) != 2 {
		return usage("hang ID DURATION, jump ID DURATION")
	}
	p, err := st.living(args[0])
	if err != nil {
		return err
	}
	long, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	st.strike(Fault{Kind: kind, Node: p.node.place, For: long})
	return nil
}

func (st *stage) spoil(kind FaultKind, args []string) error {
	if len(args) != 1 {
		return usage("fill ID, lose ID, damage ID")
	}
	p, err := st.living(args[0])
	if err == nil {
		st.strike(Fault{Kind: kind, Node: p.node.place})
	}
	return err
}

func (st *stage) slow(args []string) error {
	if len(args) < 2 {
		return usage("slow ID DURATION [SUBGROUP]")
	}
	p, err := st.living(args[0])
	if err != nil {
		return err
	}
	long, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	decl, err := st.decl(args[2:])
	if err == nil {
		st.strike(Fault{Kind: SlowDisk, Node: p.node.place, Peer: decl, For: long})
	}
	return err
}

// reset breaks the conversations of a node with others, or with all.
func (st *stage) reset(args []string) error {
	half := 0
	if len(args) > 1 && args[len(args)-1] == "half" {
		args, half = args[:len(args)-1], 1
	}
	nodes, err := st.nodes(args)
	if err != nil || len(nodes) == 0 {
		return or(err, usage("reset ID [PEER…] [half]"))
	}
	if _, err := st.living(args[0]); err != nil {
		return err
	}
	f := Fault{Kind: Reset, Node: nodes[0].place, InStep: half}
	for _, n := range nodes[1:] {
		f.Set |= 1 << n.place
	}
	if len(nodes) == 1 {
		f.Set = 1<<len(st.world.nodes) - 1
	}
	st.strike(f)
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

// move gives a node another address. The configurations of the others name the one before.
func (st *stage) move(args []string) error {
	nodes, err := st.nodes(args)
	if err != nil || len(nodes) != 1 {
		return or(err, usage("move ID"))
	}
	if n := nodes[0]; n.proc != nil && !n.proc.over {
		return fmt.Errorf("node %d has a process, which keeps its address", n.ID)
	}
	nodes[0].moved, nodes[0].addr = nodes[0].moved+1, ""
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

func or(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
