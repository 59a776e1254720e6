package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
)

// expectations are what a script may say of the moment. The checkers look after everything that
// holds always.
//
//	expect view 2 of 2 3             2 and 3 are in view 2, which has these members, by rank
//	expect delivered 3 [a] at 2 3    each was given so many messages, over all views
//	expect unseen 3 [a] at 2         it left a shard before its application saw so many of its
//	                                 own messages: a caller that waits for them gets an error
//	expect halted 1 evicted          or partitioned, left, or alive
//	expect unable 2 [a], able 2 [a]  a subgroup is not provisioned there, or it is and 2 may send
//	expect logged 3 [a] at 2 3       the log of each has so many records on disk; a.1: of shard 1
//	expect shard a.1 of 2 3          these are in it, in the last view
//	expect probe ring full           the branch was taken; see Probe
var expectations = map[string]func(*stage, []string) error{
	"view": (*stage).expectView, "delivered": (*stage).expectDelivered, "halted": (*stage).expectHalted,
	"logged": (*stage).expectLogged, "unseen": (*stage).expectUnseen, "shard": (*stage).expectShard,
	"able":   func(st *stage, args []string) error { return st.expectAble(args, true) },
	"unable": func(st *stage, args []string) error { return st.expectAble(args, false) },
	"probe":  (*stage).expectProbe,
}

func (st *stage) expect(args []string) error {
	if len(args) == 0 || expectations[args[0]] == nil {
		return usage("expect view, delivered, logged, unseen, shard, halted, able, unable or probe")
	}
	return expectations[args[0]](st, args[1:])
}

func (st *stage) expectView(args []string) error {
	if len(args) < 3 || args[1] != "of" {
		return usage("expect view N of ID…")
	}
	id, err := strconv.ParseUint(args[0], 10, 32)
	if err != nil {
		return err
	}
	for _, who := range args[2:] {
		p, err := st.member(who)
		if err != nil {
			return err
		}
		v := p.seat().record.view
		var members []string
		for _, m := range v.Members {
			members = append(members, strconv.FormatUint(uint64(m.ID), 10))
		}
		if v.ID != order.ViewID(id) || !slices.Equal(members, args[2:]) {
			return fmt.Errorf("node %s is in view %d of %s", who, v.ID, strings.Join(members, " "))
		}
	}
	return nil
}

func (st *stage) expectDelivered(args []string) error {
	return st.expectCount(args, "expect delivered N [SUBGROUP] at ID…", "was given %d messages", (*process).given)
}

func (st *stage) expectUnseen(args []string) error {
	return st.expectCount(args, "expect unseen N [SUBGROUP] at ID…", "left a shard before its application saw %d messages", (*process).unseen)
}

// expectCount compares a number of messages of a declaration, at some nodes.
func (st *stage) expectCount(args []string, how, says string, count func(*process, int) int) error {
	want, of, nodes, err := st.countAt(args, how)
	if err != nil {
		return err
	}
	decl, err := st.decl(of)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if got := count(n.proc, decl); got != want {
			return fmt.Errorf("node %d "+says, n.ID, got)
		}
	}
	return nil
}

// countAt reads N [SUBGROUP] at ID….
func (st *stage) countAt(args []string, how string) (want int, of []string, nodes []*node, err error) {
	at := slices.Index(args, "at")
	if at < 1 || at > 2 || at == len(args)-1 {
		return 0, nil, nil, usage(how)
	}
	if want, err = strconv.Atoi(args[0]); err == nil {
		nodes, err = st.nodes(args[at+1:])
	}
	return want, args[1:at], nodes, err
}

func (st *stage) expectLogged(args []string) error {
	want, of, nodes, err := st.countAt(args, "expect logged N [SUBGROUP] at ID…")
	if err != nil {
		return err
	}
	id, err := st.shard(of)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		k := n.proc.keeper(id)
		if k == nil || k.log.platter().Records != uint64(want) {
			return fmt.Errorf("the log of node %d is not of %d records: %v", n.ID, want, k)
		}
	}
	return nil
}

// shard is the log that the last of some words names; without one, that of the first shard of the
// first subgroup.
func (st *stage) shard(words []string) (id shardID, err error) {
	if len(words) == 0 {
		return id, nil
	}
	name, shard, _ := strings.Cut(words[0], ".")
	if id.decl, err = st.decl([]string{name}); err == nil && shard != "" {
		id.shard, err = strconv.Atoi(shard)
	}
	if err == nil && id.shard >= st.world.plan.Decls[id.decl].ShardCount() {
		err = fmt.Errorf("there is no shard %q", words[0])
	}
	return id, err
}

func (st *stage) expectShard(args []string) error {
	if len(args) < 2 || args[1] != "of" {
		return usage("expect shard NAME.N of [ID…]")
	}
	id, err := st.shard(args[:1])
	if err != nil {
		return err
	}
	var members []string
	for _, rd := range st.world.history.last.shard(st.world, id).readers {
		members = append(members, strconv.FormatUint(uint64(rd.proc.self.ID), 10))
	}
	if !slices.Equal(members, args[2:]) {
		return fmt.Errorf("in %s are %v", args[0], members)
	}
	return nil
}

// String is for errors.
func (k *keeper) String() string {
	if k == nil {
		return "it has none"
	}
	return fmt.Sprintf("%v %d of %d on disk", k.log, k.log.platter().Records, k.log.next())
}

// given is how many messages of a declaration a process was given.
func (p *process) given(decl int) (n int) {
	for _, s := range p.seats {
		for _, g := range s.record.groups {
			if rd := g.reader(p); rd != nil && g.decl == decl {
				n += rd.at
			}
		}
	}
	return n
}

// unseen is for how many messages of a declaration the callers that wait at a process are told that
// it left the shard before.
func (p *process) unseen(decl int) (n int) {
	l := p.ledgers[decl]
	for k := range l.futures {
		_, err, told := l.futures[k].look()
		n += one(told && errors.Is(err, member.ErrLeftShard))
	}
	return n
}

func (st *stage) expectHalted(args []string) error {
	if len(args) != 2 {
		return usage("expect halted ID evicted|partitioned|left|alive")
	}
	n, err := st.node(args[0])
	if err != nil {
		return err
	}
	reason, ok := map[string]error{"evicted": viewchange.ErrEvicted, "partitioned": viewchange.ErrPartitioned, "left": member.ErrClosed, "alive": nil}[args[1]]
	if !ok || n.proc == nil || n.proc.member == nil {
		return fmt.Errorf("node %s halts as evicted, partitioned, left or alive, if it is a member", args[0])
	}
	if err := n.proc.member.Err(); !errors.Is(err, reason) {
		return fmt.Errorf("node %s halted because of: %v", args[0], err)
	}
	return nil
}

func (st *stage) expectAble(args []string, able bool) error {
	if len(args) < 1 {
		return usage("expect able|unable ID [SUBGROUP]")
	}
	p, err := st.member(args[0])
	if err != nil {
		return err
	}
	decl, err := st.decl(args[1:])
	if err != nil {
		return err
	}
	why := p.member.Outbox(st.world.plan.Decls[decl].Name).Able()
	if able && why != nil || !able && !errors.Is(why, member.ErrNotProvisioned) {
		return fmt.Errorf("whether node %s may send: %v", args[0], why)
	}
	return nil
}

func (st *stage) expectProbe(args []string) error {
	name := strings.Join(args, " ")
	k := slices.Index(probeNames[:], name)
	if k < 0 {
		return fmt.Errorf("%q is no probe", name)
	}
	if st.world.probes[k] == 0 {
		return fmt.Errorf("the run did not come to this: %s", name)
	}
	return nil
}
