package member

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/replicated/internal/relay"
	"github.com/squall-go/squall/ripc"
)

// gathering is a command whose replies are awaited. It is the pending of its own record.
type gathering struct {
	o *object

	mu      sync.Mutex
	of      squall.ViewID  // in which the command has its position; 0: it has none yet
	out     invoke.Outcome // of this member
	come    []invoke.Reply // not yielded yet
	changed wait.Bell
	done    chan struct{} // the command has its position, or failed
}

// complete implements pending.
func (g *gathering) Complete(out *invoke.Outcome) {
	reply := bytes.Clone(out.Reply)
	g.mu.Lock()
	g.out, g.of = *out, out.Version.View
	g.out.Reply, g.out.Args = reply, nil
	g.mu.Unlock()
	if a, ok := answerOf(out.Status); ok && out.Err == nil {
		g.add(invoke.Reply{Member: uint64(g.o.group.ID()), Said: a, Data: reply})
	}
}

func (g *gathering) Signal() { close(g.done) }

// view returns the view in which the command has its position, or 0.
func (g *gathering) view() squall.ViewID {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of
}

// Typed implements invoke.Pending.
func (g *gathering) Typed() any { return nil }

// answerOf returns how a member answers a command that ended so, if it was executed.
func answerOf(s invoke.Status) (invoke.Answered, bool) {
	switch s {
	case invoke.Done, invoke.Again:
		return invoke.Returned, true
	case invoke.Failed, invoke.AgainFail:
		return invoke.Refused, true
	}
	return 0, false
}

func (g *gathering) add(a invoke.Reply) {
	g.mu.Lock()
	g.come = append(g.come, a)
	g.mu.Unlock()
	g.changed.Ring()
}

// take returns what came.
func (g *gathering) take() (come []invoke.Reply) {
	g.mu.Lock()
	defer g.mu.Unlock()
	come, g.come = g.come, nil
	return come
}

// answering is what a member answers commands of others with.
type answering struct {
	mu       sync.Mutex
	waiting  [][]byte              // records to send
	wake     wait.Bell             // there are some
	gathered map[uint64]*gathering // of this process, by call
	layouts  []layout              // of the last views, newest first
}

// layout is the members of the object's shard in a view.
type layout struct {
	view    squall.ViewID
	members []machine.Peer
}

// maxLayouts bounds the views that are remembered.
const maxLayouts = 1024

// viewed notes a view.
func (o *object) viewed(v *squall.View) {
	self := squall.NodeID(o.self.Load())
	var members []machine.Peer
	for _, sg := range v.Subgroups {
		if sg.Name != o.sg.Name {
			continue
		}
		var shard []machine.Peer
		for _, r := range sg.Members {
			shard = append(shard, machine.Peer{Node: uint64(v.Members[r].ID), Incarnation: v.Members[r].Incarnation})
		}
		if _, own := find(shard, o.self.Load()); own || len(members) == 0 {
			members = shard
		}
	}
	a := &o.answers
	a.mu.Lock()
	if self != 0 && o.sharded() && (len(a.layouts) == 0 || a.layouts[0].view <= v.ID) {
		if from := o.moved(shardIn(v, o.sg.Name, self)); from.number() != 0 {
			defer o.leave(from)
		}
	}
	if len(a.layouts) > 0 && a.layouts[0].view == v.ID {
		a.layouts[0].members = members
	} else if len(a.layouts) == 0 || a.layouts[0].view < v.ID {
		a.layouts = slices.Insert(a.layouts, 0, layout{v.ID, members})
		a.forget(squall.ViewID(o.delivers.Load()))
	}
	for _, g := range a.gathered {
		g.changed.Ring()
	}
	a.mu.Unlock()
}

// forget drops the views that are not needed any more. A command whose replies are awaited needs
// the views from the one in which it has its position, or, until it has one, from the one whose
// records this process delivers now. A later command gets no position before the newest view. The
// lock is held.
func (a *answering) forget(delivers squall.ViewID) {
	oldest := a.layouts[0].view
	for _, g := range a.gathered {
		oldest = min(oldest, cmp.Or(g.view(), delivers))
	}
	n := min(len(a.layouts), maxLayouts)
	for n > 1 && a.layouts[n-1].view < oldest {
		n--
	}
	clear(a.layouts[n:])
	a.layouts = a.layouts[:n]
}

// layout returns the members of a view, and of these the members that have stayed in the shard
// since. A member that has left it and come back is none of these: what it had to send to this
// shard meanwhile went to another one. It fails if more than maxLayouts views have followed.
func (a *answering) layout(view squall.ViewID) (then, since []machine.Peer, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.layouts, func(l layout) bool { return l.view == view })
	if i < 0 {
		return nil, nil, fmt.Errorf("replicated: the command was executed in view %d, and more than %d views have followed: which members had to answer is not known any more", view, maxLayouts)
	}
	then = a.layouts[i].members
	since = slices.Clone(then)
	for _, later := range a.layouts[:i] {
		since = slices.DeleteFunc(since, func(p machine.Peer) bool { return !slices.Contains(later.members, p) })
	}
	return then, since, nil
}

// answer has the reply of a command sent to the member that gathers. The lock is held.
func (o *object) answer(to squall.NodeID, call uint64, status invoke.Status, reply []byte) {
	said, ok := answerOf(status)
	if !ok {
		return
	}
	record := machine.AppendReply(nil, machine.Header{Call: call, Time: now()}, uint64(to), said, reply)
	o.answers.mu.Lock()
	o.answers.waiting = append(o.answers.waiting, record)
	o.answers.mu.Unlock()
	o.answers.wake.Ring()
}

// sendAnswers sends the replies of this member, until the group ends.
func (o *object) sendAnswers() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-o.group.Done()
		cancel()
	}()
	for {
		select {
		case <-o.answers.wake:
		case <-ctx.Done():
			return
		}
		o.answers.mu.Lock()
		all := o.answers.waiting
		o.answers.waiting = nil
		o.answers.mu.Unlock()
		for _, record := range all {
			if err := o.sub.Send(ctx, record); errors.Is(err, squall.ErrTooLarge) {
				_ = o.sub.Send(ctx, machine.RefuseReply(record, err.Error()))
			}
		}
	}
}

// gather takes a reply to a command of this process.
func (o *object) gather(sender squall.NodeID, data []byte) {
	to, call, said, reply, ok := machine.ParseReply(data)
	if !ok || to != o.self.Load() {
		return
	}
	o.answers.mu.Lock()
	g := o.answers.gathered[call]
	o.answers.mu.Unlock()
	if g != nil {
		g.add(invoke.Reply{Member: uint64(sender), Said: said, Data: bytes.Clone(reply)})
	}
}

// repliesTo has a command of a stay executed, and yields what the members answer.
func (o *object) repliesTo(ctx context.Context, s *stay, name string, args invoke.Encoder, n int, yield func(invoke.Reply) bool) error {
	if err := o.ready(); err != nil {
		return err
	}
	number, err := o.number(ctx, s, name)
	if err != nil {
		return err
	}
	g := &gathering{o: o}
	return o.gatherFrom(ctx, g, s, n, yield, func(call uint64) ([]byte, error) {
		return args.AppendTo(machine.AppendCommand(nil, machine.Header{Operation: number, Call: call, Replies: true, Shard: s.number()}))
	}, name)
}

// gatherFrom sends a command and yields its replies. A command of this process is one of its stay
// s.
func (o *object) gatherFrom(ctx context.Context, g *gathering, s *stay, n int, yield func(invoke.Reply) bool, record func(call uint64) ([]byte, error), name string) error {
	g.changed, g.done = wait.NewBell(), make(chan struct{})
	if !s.begin() {
		return o.elsewhere()
	}
	number, under, err := o.calls.add(g, s)
	if err != nil {
		s.end()
		return err
	}
	defer o.answers.expect(number, g)()
	data, err := record(number)
	if err == nil {
		err = o.post(ctx, data, nil, posted{number, s}, under <= few)
	}
	s.end()
	if err != nil && o.calls.take(number) != nil {
		return err
	}
	select {
	case <-g.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if g.out.Err != nil {
		return g.out.Err
	}
	if _, executed := answerOf(g.out.Status); !executed {
		return &invoke.Refusal{Operation: name, Status: g.out.Status, Reply: g.out.Reply}
	}
	return o.collect(ctx, g, n, yield)
}

// expect has the replies to a call come to g, until the function that it returns is called.
func (a *answering) expect(number uint64, g *gathering) func() {
	a.mu.Lock()
	a.gathered[number] = g
	a.mu.Unlock()
	return func() {
		a.mu.Lock()
		delete(a.gathered, number)
		a.mu.Unlock()
	}
}

// collect yields the replies of a command that was executed: the first n, or those of all members
// of its layout if n is 0.
func (o *object) collect(ctx context.Context, g *gathering, n int, yield func(invoke.Reply) bool) error {
	awaited, there, err := o.answers.layout(g.of)
	if err != nil {
		return err
	}
	awaited = slices.Clone(awaited)
	for count := 0; ; {
		for _, r := range g.take() {
			i := slices.IndexFunc(awaited, func(p machine.Peer) bool { return p.Node == r.Member })
			if i < 0 {
				continue
			}
			awaited = slices.Delete(awaited, i, i+1)
			count++
			if !yield(r) || n > 0 && count == n {
				return nil
			}
		}
		if len(awaited) == 0 {
			return nil
		}
		if _, there, err = o.answers.layout(g.of); err != nil {
			return err
		}
		if slices.ContainsFunc(awaited, func(p machine.Peer) bool { return !slices.Contains(there, p) }) {
			var more bool
			if awaited, more, err = o.withoutLeavers(ctx, g, awaited, there, yield); !more {
				return err
			}
			continue
		}
		select {
		case <-g.changed:
		case <-o.group.Done():
			return fmt.Errorf("replicated: object %q: %w", o.sg.Name, o.group.Err())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// withoutLeavers yields an answer without a reply for each member that is awaited, is not there any
// more, and sent none before it left. It returns those that are awaited still, and whether more
// replies are wanted.
func (o *object) withoutLeavers(ctx context.Context, g *gathering, awaited, there []machine.Peer, yield func(invoke.Reply) bool) (rest []machine.Peer, more bool, _ error) {
	if err := o.passOrder(ctx); err != nil { // what members sent before they left comes before a record that is sent now
		return nil, false, err
	}
	late := g.take()
	for _, p := range awaited {
		if slices.Contains(there, p) || slices.ContainsFunc(late, func(r invoke.Reply) bool { return r.Member == p.Node }) {
			rest = append(rest, p)
		} else if !yield(invoke.Reply{Member: p.Node}) {
			return nil, false, nil
		}
	}
	for _, r := range late {
		g.add(r)
	}
	return rest, true, nil
}

// passOrder returns when a record that it sends was applied here, and so everything that was
// ordered before it. If this process leaves its shard meanwhile, another record is sent, to the
// shard that it is in then.
func (o *object) passOrder(ctx context.Context) error {
	for {
		if err := o.passOnce(ctx); !errors.Is(err, squall.ErrLeftShard) {
			return err
		}
	}
}

func (o *object) passOnce(ctx context.Context) error {
	p := &passing{done: make(chan struct{})}
	call, under, err := o.calls.add(p, nil)
	if err != nil {
		return err
	}
	touch := machine.AppendTouch(nil, machine.Header{Call: call, Shard: o.stay.Load().number()}, nil) // which changes nothing
	err = o.post(ctx, touch, nil, posted{call: call}, under <= few)
	if err != nil && o.calls.take(call) != nil {
		return err
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// passing is the pending of a record whose place is all that counts.
type passing struct {
	err  error
	done chan struct{}
}

func (p *passing) Complete(out *invoke.Outcome) { p.err = out.Err }
func (p *passing) Signal()                      { close(p.done) }
func (p *passing) Typed() any                   { return nil }

// gatherFor gathers the replies for a client, and answers it with all of them.
func (d *desk) gatherFor(ctx context.Context, m *ripc.Message, r *client.Request, operation int) {
	head := client.Answer{Said: client.Done}
	answer := head.AppendTo(nil)
	err := d.object.gatherFrom(ctx, &gathering{o: d.object}, nil, int(r.Count), func(a invoke.Reply) bool {
		answer = client.AppendReply(answer, &a)
		return true
	}, func(call uint64) ([]byte, error) {
		return relay.AppendRecord(nil, r, machine.Header{Operation: operation, Call: call, Replies: true, Shard: d.shard}), nil
	}, string(r.Name))
	if refused := (*invoke.Refusal)(nil); errors.As(err, &refused) {
		answer = relay.AppendResult(answer[:0], 0, 0, refused.Status, 0, refused.Reply)
	} else if err != nil {
		answer = appendError(answer[:0], err)
	}
	d.answers.reply(nil, m, answer)
}
