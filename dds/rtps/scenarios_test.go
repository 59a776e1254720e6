package rtps_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/qos"
)

// A scenario is a file of steps, which TestScenarios performs in each of the ways that the file
// names: with the state of the topics alone, in virtual time (sim), in groups of processes over
// shared memory (shm), and in two spaces with a gateway each between them (gateway). A line is a
// step; what is behind a # is a comment.
//
//	ways sim shm gateway      the first step
//	topic POLICIES            of which everything else is
//	join NODE                 a process joins; 1 and 2 are there
//	end NODE                  a process fails
//	writer NAME NODE POLICIES
//	reader NAME NODE POLICIES [where EXPRESSION]
//	close NAME
//	write NAME KEY:NUMBER …   samples
//	dispose NAME KEY, unregister NAME KEY
//	set NAME KEY:NUMBER …     samples of a coherent set
//	drop NAME KEY:NUMBER …    … which is given up
//	begin NAME KEY:NUMBER …   … which is left open
//	wait DURATION
//	matched NAME NUMBER       so many endpoints match it
//	refuse WRITER READER POLICY …   the policies by which they do not match
//	take NAME KEY:NUMBER …    what a reader gets, and nothing else: KEY:disposed and KEY:no-writers for instances
type performer interface {
	topic(set dds.QoS)
	join(node int)
	end(node int)
	writer(name string, node int, set dds.QoS)
	reader(name string, node int, set dds.QoS, where string)
	close(name string)
	change(name string, o operation, samples ...keyedSeq)
	wait(d time.Duration)
	matched(name string, n int)
	refused(writer, reader string) []qos.Verdict
	take(name string, n int) []string // n elements, or more
}

// operation is what a writer does.
type operation string

const (
	opWrite      operation = "write"
	opDispose    operation = "dispose"
	opUnregister operation = "unregister"
	opSet        operation = "set"
	opDrop       operation = "drop"
	opBegin      operation = "begin"
)

// errGivenUp ends a set that is dropped.
var errGivenUp = errors.New("the set is given up")

// sampleText shows what a reader has taken.
func sampleText(key, seq uint32, valid bool, state dds.InstanceState) string {
	switch {
	case valid:
		return fmt.Sprintf("%d:%d", key, seq)
	case state == dds.InstanceDisposed:
		return fmt.Sprintf("%d:disposed", key)
	}
	return fmt.Sprintf("%d:no-writers", key)
}

// policy sets a policy by a word of a scenario.
func policy(set *dds.QoS, word string) error {
	name, value, _ := strings.Cut(word, "=")
	history := func() (h qos.History, err error) {
		if value == "all" {
			return qos.KeepAll(), nil
		}
		n, err := strconv.Atoi(value)
		return qos.KeepLast(n), err
	}
	one := func(of map[string]func()) error {
		f := of[value]
		if f == nil {
			return fmt.Errorf("%s is %q", name, value)
		}
		f()
		return nil
	}
	var err error
	switch name {
	case "durability":
		return one(map[string]func(){
			"volatile": func() { set.Durability = qos.Volatile }, "transient-local": func() { set.Durability = qos.TransientLocal }, "transient": func() { set.Durability = qos.Transient },
		})
	case "reliability":
		return one(map[string]func(){"best-effort": func() { set.Reliability.Kind = qos.BestEffort }, "reliable": func() { set.Reliability.Kind = qos.Reliable }})
	case "ownership":
		return one(map[string]func(){"exclusive": func() { set.Ownership = qos.Exclusive }})
	case "order":
		return one(map[string]func(){"source": func() { set.Order = qos.BySource }})
	case "coherent":
		set.Presentation.Coherent = true
		return one(map[string]func(){
			"instance": func() { set.Presentation.Access = qos.InstanceScope }, "topic": func() { set.Presentation.Access = qos.TopicScope }, "group": func() { set.Presentation.Access = qos.GroupScope },
		})
	case "keep-unregistered":
		set.KeepUnregistered = true
	case "history":
		set.History, err = history()
	case "service":
		set.Service.History, err = history()
	case "strength":
		var n int
		n, err = strconv.Atoi(value)
		set.Strength = int32(n)
	case "partition":
		set.Partitions = strings.Split(value, ",")
	case "deadline":
		set.Deadline, err = time.ParseDuration(value)
	case "lifespan":
		set.Lifespan, err = time.ParseDuration(value)
	case "separation":
		set.Separation, err = time.ParseDuration(value)
	default:
		err = fmt.Errorf("there is no policy %q", name)
	}
	return err
}

func policies(words []string) (set dds.QoS, err error) {
	for _, w := range words {
		if err := policy(&set, w); err != nil {
			return set, err
		}
	}
	return set, nil
}

func samples(words []string) (all []keyedSeq, err error) {
	for _, w := range words {
		key, seq, _ := strings.Cut(w, ":")
		k, err := strconv.ParseUint(key, 10, 32)
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseUint(seq, 10, 32)
		if err != nil && seq != "" {
			return nil, err
		}
		all = append(all, keyedSeq{Keyval: uint32(k), Seq: uint32(n)})
	}
	return all, nil
}

// step performs one line. An error is one of the line.
func step(t *testing.T, p performer, words []string) error {
	t.Helper()
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	number := func(i int) (int, error) { return strconv.Atoi(arg(i)) }
	switch words[0] {
	case "topic":
		set, err := policies(words[1:])
		if err == nil {
			p.topic(set)
		}
		return err
	case "join", "end":
		node, err := number(1)
		switch {
		case err != nil:
			return err
		case words[0] == "join":
			p.join(node)
		default:
			p.end(node)
		}
	case "writer", "reader":
		node, err := number(2)
		if err != nil {
			return err
		}
		where := ""
		if i := slices.Index(words, "where"); i > 0 {
			words, where = words[:i], strings.Join(words[i+1:], " ")
		}
		set, err := policies(words[3:])
		switch {
		case err != nil:
			return err
		case words[0] == "writer":
			p.writer(arg(1), node, set)
		default:
			p.reader(arg(1), node, set, where)
		}
	case "close":
		p.close(arg(1))
	case string(opWrite), string(opDispose), string(opUnregister), string(opSet), string(opDrop), string(opBegin):
		all, err := samples(words[2:])
		if err != nil {
			return err
		}
		p.change(arg(1), operation(words[0]), all...)
	case "wait":
		d, err := time.ParseDuration(arg(1))
		if err != nil {
			return err
		}
		p.wait(d)
	case "matched":
		n, err := number(2)
		if err != nil {
			return err
		}
		p.matched(arg(1), n)
	case "refuse":
		var got []string
		for _, v := range p.refused(arg(1), arg(2)) {
			if !v.Compatible {
				got = append(got, v.Policy.String())
			}
		}
		if want := words[3:]; !slices.Equal(got, want) || len(want) == 0 {
			t.Fatalf("%s: refused for %v", strings.Join(words, " "), got)
		}
	case "take":
		want := words[2:]
		if got := p.take(arg(1), len(want)); !slices.Equal(got, want) {
			t.Fatalf("%s: it has %q", strings.Join(words, " "), got)
		}
	default:
		return fmt.Errorf("there is no step %q", words[0])
	}
	return nil
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("../testdata/scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: no scenarios", err)
	}
	ways := map[string]func(t *testing.T) performer{"sim": newSimulated, "shm": newGrouped, "gateway": newBridged}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var steps [][]string // with the number of the line
		for i, line := range strings.Split(string(b), "\n") {
			line, _, _ = strings.Cut(line, "#")
			if words := strings.Fields(line); len(words) > 0 {
				steps = append(steps, append([]string{strconv.Itoa(i + 1)}, words...))
			}
		}
		if len(steps) < 2 || steps[0][1] != "ways" {
			t.Fatalf("%s does not begin with its ways", file)
		}
		for _, way := range steps[0][2:] {
			if ways[way] == nil {
				t.Fatalf("%s: there is no way %q", file, way)
			}
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+way, func(t *testing.T) {
				t.Parallel()
				p := ways[way](t)
				for _, s := range steps[1:] {
					t.Logf("%s:%s: %s", filepath.Base(file), s[0], strings.Join(s[1:], " "))
					if err := step(t, p, s[1:]); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}
