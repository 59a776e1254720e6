package testlab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/rdma"
	"github.com/squall-go/squall/internal/proc"
)

// Command is the name of the program that is a process of a run.
const Command = "run-process"

// Program is a process of a run. A program that starts processes has it.
var Program = proc.Program{Name: Command, Run: serve}

// process is a member of a group, in a process of its own.
type process struct {
	spec  Spec
	group *squall.Group
	log   *logWriter
	loads []*load
	meter meter

	timing   *timing    // nil: no load is timed
	replicas []*replica // by subgroup
	parent   *proc.Parent
}

// open opens the group with all loads.
func (p *process) open(ctx context.Context) (err error) {
	if p.spec.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.spec.Within)
		defer cancel()
	}
	for i, l := range p.spec.Loads {
		p.replicas = append(p.replicas, newReplica(&p.spec.Loads[i], p.tell))
		if l.Timed {
			p.timing = newTiming(p.spec.ID, l.Total, p.tell)
		}
	}
	c := p.config()
	if err = rdma.Use(&c); err != nil {
		return err
	}
	if p.group, err = squall.Open(ctx, c); err != nil {
		p.tell(News{Kind: NewsHalted, Text: kindOf(err) + ": " + err.Error()})
		return errors.Join(err, p.log.end(p.ended(err.Error())))
	}
	if c := p.spec.Crash; c.Planned && c.Open {
		c.strike()
	}
	for i, l := range p.spec.Loads {
		s, err := p.group.Subgroup(l.Name)
		if err != nil {
			return err
		}
		p.loads = append(p.loads, newLoad(p, s, i))
	}
	return nil
}

// serve is a process's life: it reads its Spec, opens the group, and does what it is told until its
// input ends or the group halts.
func serve(ctx context.Context, parent *proc.Parent) (err error) {
	p := &process{parent: parent}
	if err := parent.Config(&p.spec); err != nil {
		return err
	}
	if p.spec.Log != "" {
		if p.log, err = newLogWriter(p.spec.Log, p.spec.RunLength, p.spec.LogBytes, p.header()); err != nil {
			return err
		}
	}
	if c := p.spec.Crash; c.Planned && !c.Open {
		c.strike()
	}
	if err := p.open(ctx); err != nil {
		return err
	}
	p.tell(News{Kind: NewsView, View: installed(p.group.View()), Text: "open"})
	if p.spec.Sends {
		p.start()
	}
	return p.obey(ctx)
}

// strike ends this process when it is time, as kill -9 does.
func (c Crash) strike() {
	end := func() {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
	}
	if c.After == 0 {
		end()
	}
	time.AfterFunc(c.After, end)
}

func (p *process) header() Header {
	h := Header{Life: p.spec.Life, ID: p.spec.ID}
	for _, l := range p.spec.Loads {
		h.Subgroups = append(h.Subgroups, LoggedSubgroup{l.Name, l.Async > 0 || l.Durable, l.content()})
	}
	return h
}

func (p *process) config() squall.Config {
	c := p.spec.Config()
	c.Events = p.happened
	c.OnView = func(v *squall.View) {
		p.log.view(installed(v))
		p.tell(News{Kind: NewsView, View: installed(v)})
	}
	for i, l := range p.spec.Loads {
		c.Subgroups = append(c.Subgroups, p.subgroup(i, l))
	}
	return c
}

func (p *process) subgroup(i int, l Load) squall.SubgroupConfig {
	sg := squall.SubgroupConfig{
		Name: l.Name, RingBytes: l.RingBytes, Window: l.Window, AsyncQueueBytes: l.Async, MaxMessageBytes: l.maxMessage(),
		DeliverBatch: func(batch []squall.Message) {
			if l.Timed {
				p.timing.deliver(batch)
			}
			if l.Durable || l.Stateful {
				p.replicas[i].deliver(batch)
			}
			if batch[0].Replayed() { // all of them are
				return
			}
			p.meter.delivered(len(batch))
			p.log.deliver(i, batch)
			p.meter.block(i)
		},
	}
	if l.Durable {
		sg.Mode = squall.Persistent
		sg.Log = squall.LogConfig{Engine: Engines[l.Engine], DeliverAfterPersist: l.AfterPersist}
	}
	switch r := p.replicas[i]; {
	case l.Snapshots, l.Stateful:
		sg.Snapshot, sg.Restore = r.snapshot, r.restore
	case l.Durable:
		sg.Log.Recover = func(log *squall.Log) error { return p.recover(r, log) }
	}
	return sg
}

func (p *process) recover(r *replica, log *squall.Log) error {
	start := time.Now()
	err := r.recover(log)
	if err == nil {
		p.tell(News{Kind: NewsRestored, Restored: &Restored{p.spec.ID, r.restored(), time.Since(start)}})
	}
	return err
}

// happened takes an event of the group.
func (p *process) happened(e squall.Event) {
	switch e := e.(type) {
	case squall.Listening:
		p.tell(News{Kind: NewsListening, Text: e.Addr})
	case squall.StateRestored:
		i := slices.IndexFunc(p.spec.Loads, func(l Load) bool { return l.Name == e.Subgroup })
		p.tell(News{Kind: NewsRestored, Restored: &Restored{e.Source, p.replicas[i].restored(), e.Took + e.CatchUp}})
	case squall.LogTorn:
		p.tell(News{Kind: NewsEvent, Text: tornPrefix + e.String()})
	case squall.MemberDown, squall.ConnectionRejected, squall.ConnectionsRejected, squall.Restarting:
		p.tell(News{Kind: NewsEvent, Text: e.String()})
	case squall.LogCaughtUp:
		p.tell(News{Kind: NewsEvent, Text: fmt.Sprintf(caughtUpFormat, e.Records, e.Cut)})
	case squall.LogDamaged:
		p.tell(News{Kind: NewsEvent, Text: damagedPrefix + e.String()})
	case squall.LogRepaired:
		text := repairedPrefix
		if e.Aside != "" {
			text += asidePrefix
		}
		p.tell(News{Kind: NewsEvent, Text: text + e.Damage.Error()})
	case squall.Joining:
		if e.Step == squall.JoinForgotten {
			p.tell(News{Kind: NewsEvent, Text: e.String()})
		}
	}
}

// Beginnings and formats of the events that tests look for.
const (
	caughtUpFormat = "caught up: %d records, %d cut"
	repairedPrefix = "repaired: "
	asidePrefix    = "set aside: "
	tornPrefix     = "torn: "
	damagedPrefix  = "damaged: "
)

// tell tells the test. If it is gone, so is the context, and soon this process.
func (p *process) tell(n News) { _ = p.parent.Send(n) }

// obey answers requests until there are no more, the group halts, or this process leaves.
func (p *process) obey(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.group.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		var r Request
		switch err := p.parent.Receive(ctx, &r); {
		case p.group.Err() != nil:
			return p.halted()
		case err != nil:
			return nil // no test waits for this process any more
		}
		switch r.Do {
		case DoHold: // the parent may want to know more if that takes long
			go p.answer(r)
		case DoLeave:
			p.answer(r)
			return nil
		default:
			p.answer(r)
		}
	}
}

// halted ends a process that the group goes on without.
func (p *process) halted() error {
	reason := p.group.Err()
	_, err := p.end(time.Second, reason.Error())
	a := p.status(Answer{})
	p.tell(News{Kind: NewsHalted, Text: a.Kind + ": " + a.Halted, Answer: &a})
	return err
}

// Why a process halted, as the first word of Process.Halted.
const (
	HaltedEvicted      = "evicted"
	HaltedPartitioned  = "partitioned"
	HaltedDiskFull     = "disk full"
	HaltedReadOnly     = "read-only"
	HaltedInUse        = "in use"
	HaltedOtherCluster = "other cluster"
	HaltedOtherNode    = "other node"
	HaltedNewerFormat  = "newer format"
	HaltedDamaged      = "damaged"
	HaltedOther        = "other"
)

// kinds are the halts, and ways not to get into a group, that have a name.
var kinds = []struct {
	err  error
	kind string
}{
	{squall.ErrEvicted, HaltedEvicted},
	{squall.ErrPartitioned, HaltedPartitioned},
	{squall.ErrDiskFull, HaltedDiskFull},
	{squall.ErrReadOnlyDisk, HaltedReadOnly},
	{squall.ErrInUse, HaltedInUse},
	{squall.ErrOtherCluster, HaltedOtherCluster},
	{squall.ErrOtherNode, HaltedOtherNode},
	{squall.ErrNewerFormat, HaltedNewerFormat},
	{squall.ErrLogDamaged, HaltedDamaged},
}

func kindOf(reason error) string {
	for _, k := range kinds {
		if errors.Is(reason, k.err) {
			return k.kind
		}
	}
	return HaltedOther
}

// end leaves the group, and ends the log. The reason is empty if the process leaves by itself.
func (p *process) end(within time.Duration, reason string) (left, err error) {
	for _, l := range p.loads {
		l.close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if left = p.group.Close(ctx); left != nil && reason == "" {
		reason = left.Error()
	}
	return left, p.log.end(p.ended(reason))
}

func (p *process) ended(reason string) End {
	e := End{Reason: reason}
	for range p.spec.Loads {
		e.Accepted, e.Begun = append(e.Accepted, 0), append(e.Begun, 0)
	}
	for i, l := range p.loads {
		e.Accepted[i], e.Begun[i] = l.accepted.Load(), l.begun.Load()
	}
	return e
}

// start has all loads send.
func (p *process) start() {
	for _, l := range p.loads {
		l.start()
	}
}

// settleTime is how long a message may be under way.
const settleTime = 20 * time.Second

// answer does what a request says, and tells how that went.
func (p *process) answer(r Request) {
	a := Answer{Do: r.Do}
	var err error
	switch r.Do {
	case DoSend:
		p.timing.begin()
		p.start()
	case DoProbe:
		a.Timing, err = p.timing.probe(r, p.group, p.loads[0])
	case DoHold:
		for _, l := range p.loads {
			err = errors.Join(err, l.settle(cmp.Or(r.For, settleTime)))
		}
	case DoMark:
		p.meter.mark()
	case DoUse:
		a.Use = use()
	case DoReport:
		p.group.ReportFailure(r.ID)
	case DoBlock:
		p.meter.stay(r.Subgroup, r.For)
	case DoLeave:
		left, ended := p.end(r.For, "")
		err = errors.Join(left, ended)
	case DoStatus:
	default:
		err = fmt.Errorf("no request: %q", r.Do)
	}
	if err != nil {
		a.Err = err.Error()
	}
	a = p.status(a)
	p.tell(News{Kind: NewsAnswer, Answer: &a})
}

func (p *process) status(a Answer) Answer {
	a.View, a.Rejected = p.group.View().ID, p.group.Stats().RejectedConnections
	a.Accepted = p.ended("").Accepted
	a.Delivered, a.Gap, a.Longest = p.meter.total.Load(), p.meter.gap(), p.meter.between()
	for i, r := range p.replicas {
		if p.spec.Loads[i].Timed {
			p.timing.describe(&a)
		} else {
			r.describe(&a)
		}
	}
	if reason := p.group.Err(); reason != nil && !errors.Is(reason, squall.ErrClosed) {
		a.Kind, a.Halted = kindOf(reason), reason.Error()
	}
	return a
}

// use counts what this process holds.
func use() Use {
	var stacks strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
	u := Use{Goroutines: runtime.NumGoroutine(), Stacks: stacks.String()}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.Descriptors = len(fds)
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		u.Mappings = strings.Count(string(maps), "squall-")
	}
	return u
}
