package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Script is a scenario by hand: a paragraph that states its purpose, commands, a line of dashes,
// and the trace that they give.
//
// The first commands lay the world out, once each but for subgroup, one and delay:
//
//	members 1 2 3                    node ids of the initial members, in order of rank
//	joiners 9                        of nodes that come later
//	subgroup a min=3                 or unordered, members=1,2 senders=1 shards=2 max=2 large=4096;
//	                                 without one there is a subgroup a of all
//	subgroup a persistent after      applications see what is on every disk
//	subgroup a state                 applications have a state, which members that come in take over
//	subgroup a shards=2 policy=turns members go to the next shard one by one, and come back
//	disk 1 20ms                      how long a sync takes there, about; 1ms by default. Subgroups
//	                                 may be persistent
//	callback 1 1ms                   how long the callback of a message takes there; none by default
//	one receive                      a step sends, receives or delivers at most one message; all
//	                                 that there are by default
//	delay 1 3 2ms                    how long what 1 pushes takes to 3; 50µs by default
//
// The others happen one after the other, each at the moment at which the one before it ended. Only
// run lets time pass:
//
//	send 1 3 [a], large 1 3 [a]      3 messages; large ones, each when the one before has its place.
//	                                 A body takes 8 times a pair's delay
//	claim 1 [a], commit 1 [a]        a message that stays open in between
//	crash 1, poweroff 1              at once or, followed by "as it proposes", during that step
//	hang 1 5ms, jump 1 5ms           it does nothing for that long; its clock jumps ahead
//	cut 1 3, heal 1 3                one direction between two nodes
//	part 1 2, heal                   all links between some nodes and the rest; heal: all cuts end
//	join 9 2, leave 3, report 1 3    9 asks 2, or comes back with its disk; 1 takes 3 for failed
//	move 1                           its later processes have an address that no configuration names
//	fill 1, slow 1 5ms [a], lose 1   its disk is full; is slow for a subgroup's log; it ends, and its
//	                                 disk is replaced by an empty one
//	reset 9 1, reset 9 1 half        9's conversations with 1, or with all, break: what is in flight
//	                                 is lost; half: 1 hears nothing
//	damage 1                         it ends, and the ends of its logs cannot be read any more
//	run 2ms
//	run until 1 decides              or any other Move, halts, ends; run until quiet
//	expect …                         see expectations
type Script struct {
	Name   string
	text   string // all before the dashes
	golden string // all behind them
	layout layout
	steps  []step
}

// layout is the world that a script begins with.
type layout struct {
	initial, joiners []order.NodeID
	decls            []views.Declaration
	delays           []delay
	disks            []delay // of from
	callbacks        []delay // of from
	after            uint64  // as Keep.After
	states           uint64  // as Plan.States
	tuning           multicast.Tuning
}

type delay struct {
	from, to order.NodeID
	long     time.Duration
}

// step is one command.
type step struct {
	line  int
	words []string
}

// dashes stand between the commands and the trace.
const dashes = "----\n"

// errUsage is why a command cannot be understood.
var errUsage = errors.New("usage")

func usage(text string) error { return fmt.Errorf("%w: %s", errUsage, text) }

// ParseScript reads a script. Errors name the file and the line.
func ParseScript(name string, text []byte) (*Script, error) {
	s := &Script{Name: name}
	s.text, s.golden, _ = strings.Cut(string(text), dashes)
	if !strings.HasPrefix(s.text, "# ") {
		return nil, fmt.Errorf("%s:1: begin with a paragraph that says why, each line with \"# \"", name)
	}
	for i, line := range strings.Split(s.text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := s.add(step{i + 1, words}); err != nil {
			return nil, s.at(i+1, err)
		}
	}
	if len(s.layout.initial) == 0 {
		return nil, fmt.Errorf("%s: no members", name)
	}
	if err := s.layout.faults(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(s.layout.decls) == 0 {
		s.layout.decls = []views.Declaration{declaration("a")}
	}
	return s, nil
}

func (s *Script) at(line int, err error) error { return fmt.Errorf("%s:%d: %w", s.Name, line, err) }

// add takes a command: what lays the world out at once, the rest for later.
func (s *Script) add(c step) (err error) {
	name, args := c.words[0], c.words[1:]
	lay, ok := layers[name]
	switch {
	case !ok && doers[name] == nil:
		return fmt.Errorf("%q is no command", name)
	case !ok:
		s.steps = append(s.steps, c)
		return nil
	case len(s.steps) > 0:
		return fmt.Errorf("%s comes before the first thing that happens", name)
	}
	return lay(&s.layout, args)
}

// layers are the commands that lay the world out.
var layers = map[string]func(*layout, []string) error{
	"members":  func(l *layout, args []string) (err error) { l.initial, err = l.nodes(l.initial, args); return err },
	"joiners":  func(l *layout, args []string) (err error) { l.joiners, err = l.nodes(l.joiners, args); return err },
	"subgroup": (*layout).subgroup,
	"delay":    (*layout).delay,
	"disk":     func(l *layout, args []string) error { return l.node(&l.disks, "disk", args) },
	"callback": func(l *layout, args []string) error { return l.node(&l.callbacks, "callback", args) },
	"one":      (*layout).one,
}

func (l *layout) nodes(before []order.NodeID, args []string) ([]order.NodeID, error) {
	if len(args) == 0 || before != nil {
		return nil, usage("members ID…, joiners ID…, each once")
	}
	all := append(slices.Clone(l.initial), l.joiners...)
	for _, word := range args {
		id, err := parseID(word)
		if err != nil {
			return nil, err
		}
		if slices.Contains(all, id) {
			return nil, fmt.Errorf("node %d is there already", id)
		}
		all, before = append(all, id), append(before, id)
	}
	return before, nil
}

func declaration(name string) views.Declaration {
	return views.Declaration{Name: name, RingBytes: 4 << 10, Window: 8}
}

func (l *layout) subgroup(args []string) error {
	if len(args) == 0 {
		return usage("subgroup NAME [unordered|persistent] [members=ID,…] [senders=ID,…] [min=N] [max=N] [shards=N] [policy=turns] [after] [state] [large=BYTES]")
	}
	d := declaration(args[0])
	for _, word := range args[1:] {
		if err := l.option(&d, word); err != nil {
			return err
		}
	}
	l.decls = append(l.decls, d)
	return nil
}

// option reads a word about a subgroup.
func (l *layout) option(d *views.Declaration, word string) (err error) {
	key, value, _ := strings.Cut(word, "=")
	switch key {
	case "unordered":
		d.Mode = views.Unordered
	case "persistent":
		d.Mode = views.Persistent
	case "members":
		d.Members, err = parseIDs(strings.Split(value, ","))
	case "senders":
		d.Senders, err = parseIDs(strings.Split(value, ","))
	case "min":
		d.MinMembers, err = strconv.Atoi(value)
	case "max":
		d.MaxMembers, err = strconv.Atoi(value)
	case "shards":
		d.Shards, err = strconv.Atoi(value)
	case "after":
		l.after |= 1 << len(l.decls)
	case "state":
		l.states |= 1 << len(l.decls)
	case "policy":
		d.LayoutName = value
	case "large":
		d.MaxMessageBytes, err = strconv.Atoi(value)
		d.LargeMemoryBytes = 4 * d.MaxMessageBytes
	default:
		err = fmt.Errorf("a subgroup has no %q", key)
	}
	return err
}

func (l *layout) delay(args []string) error {
	if len(args) != 3 {
		return usage("delay FROM TO DURATION")
	}
	ids, err := parseIDs(args[:2])
	if err != nil {
		return err
	}
	long, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	l.delays = append(l.delays, delay{ids[0], ids[1], long})
	return nil
}

// node lays down how long something takes at a node.
func (l *layout) node(all *[]delay, what string, args []string) error {
	if len(args) != 2 {
		return usage(what + " ID DURATION")
	}
	id, err := parseID(args[0])
	if err != nil {
		return err
	}
	long, err := time.ParseDuration(args[1])
	*all = append(*all, delay{id, id, long})
	return err
}

func (l *layout) one(args []string) error {
	if len(args) != 1 {
		return usage("one send, one receive, one deliver")
	}
	switch args[0] {
	case "send":
		l.tuning.OneSend = true
	case "receive":
		l.tuning.OneReceive = true
	case "deliver":
		l.tuning.OneDeliver = true
	default:
		return fmt.Errorf("%q is nothing that a step does: use send, receive, deliver", args[0])
	}
	return nil
}

// faults are names of nodes that are not there.
func (l *layout) faults() error {
	all := append(slices.Clone(l.initial), l.joiners...)
	for _, d := range append(slices.Clone(l.disks), l.delays...) {
		for _, id := range []order.NodeID{d.from, d.to} {
			if !slices.Contains(all, id) {
				return fmt.Errorf("delay: there is no node %d", id)
			}
		}
	}
	return nil
}

func parseID(word string) (order.NodeID, error) {
	id, err := strconv.ParseUint(word, 10, 6)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("%q is no node id: use 1 to 63", word)
	}
	return order.NodeID(id), nil
}

func parseIDs(words []string) (ids []order.NodeID, err error) {
	for _, word := range words {
		id, err := parseID(word)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
