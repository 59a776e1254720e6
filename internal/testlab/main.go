package testlab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/proc"
)

// command is what this program is started with to be a process of a run.
const command = "run-process"

// Main returns at once, unless this program was started to be a process of a run: then it is one,
// and ends.
func Main() { proc.Become(command, proc.Command(command, serve)) }

// process is a member of a group, in a process of its own.
type process struct {
	spec  Spec
	group *squall.Group
	log   *logWriter
	loads []*load
	meter meter

	replicas []replica // of durable loads, by subgroup
	parent   *proc.Parent
}

// openTime is how long a process tries to get into a group.
const openTime = 30 * time.Second

// serve is a process's life: it reads its Spec, opens the group, and does what it is told until its
// input ends or the group halts.
func serve(ctx context.Context, parent *proc.Parent) (err error) {
	p := &process{parent: parent}
	if err := parent.Config(&p.spec); err != nil {
		return err
	}
	if p.log, err = newLogWriter(p.spec.Log, p.spec.RunLength, p.spec.LogBytes, p.header()); err != nil {
		return err
	}
	if c := p.spec.Crash; c.Planned && !c.Open {
		c.strike()
	}
	opening, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	for range p.spec.Loads {
		p.replicas = append(p.replicas, newReplica())
	}
	if p.group, err = squall.Open(opening, p.config()); err != nil {
		p.tell(news{Kind: newsHalted, Text: kindOf(err) + ": " + err.Error()})
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
	p.tell(news{Kind: newsView, View: installed(p.group.View()), Text: "open"})
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
		h.Subgroups = append(h.Subgroups, LoggedSubgroup{l.Name, l.Async > 0 || l.Durable})
	}
	return h
}

func (p *process) config() squall.Config {
	c := p.spec.config()
	c.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c.Events = p.happened
	c.OnView = func(v *squall.View) {
		p.log.view(installed(v))
		p.tell(news{Kind: newsView, View: installed(v)})
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
			if l.Durable {
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
		sg.Log = squall.LogConfig{Engine: l.Engine, DeliverAfterPersist: l.AfterPersist}
		if r := &p.replicas[i]; l.Snapshots {
			sg.Snapshot, sg.Restore = r.snapshot, r.restore
		} else {
			sg.Log.Recover = r.recover
		}
	}
	return sg
}

// happened is told of the group's events.
func (p *process) happened(e squall.Event) {
	switch e := e.(type) {
	case squall.Listening:
		p.tell(news{Kind: newsListening, Text: e.Addr})
	case squall.LogTorn:
		p.tell(news{Kind: newsEvent, Text: tornPrefix + e.String()})
	case squall.MemberDown, squall.ConnectionRejected, squall.ConnectionsRejected, squall.Restarting:
		p.tell(news{Kind: newsEvent, Text: e.String()})
	case squall.LogCaughtUp:
		p.tell(news{Kind: newsEvent, Text: fmt.Sprintf(caughtUpFormat, e.Records, e.Cut)})
	case squall.LogDamaged:
		p.tell(news{Kind: newsEvent, Text: damagedPrefix + e.String()})
	case squall.LogRepaired:
		text := repairedPrefix
		if e.Aside != "" {
			text += asidePrefix
		}
		p.tell(news{Kind: newsEvent, Text: text + e.Damage.Error()})
	case squall.Joining:
		if e.Step == squall.JoinForgotten {
			p.tell(news{Kind: newsEvent, Text: e.String()})
		}
	}
}

// How events are told that tests look into.
const (
	caughtUpFormat = "caught up: %d records, %d cut"
	repairedPrefix = "repaired: "
	asidePrefix    = "set aside: "
	tornPrefix     = "torn: "
	damagedPrefix  = "damaged: "
)

// tell tells the test. If it is gone, so is the context, and soon this process.
func (p *process) tell(n news) { _ = p.parent.Send(n) }

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
		var r request
		switch err := p.parent.Receive(ctx, &r); {
		case p.group.Err() != nil:
			return p.halted()
		case err != nil:
			return nil // no test waits for this process any more
		}
		a := p.answer(r)
		p.tell(news{Kind: newsAnswer, Answer: &a})
		if r.Do == doLeave {
			return nil
		}
	}
}

// halted ends a process that the group goes on without.
func (p *process) halted() error {
	reason := p.group.Err()
	_, err := p.end(time.Second, reason.Error())
	p.tell(news{Kind: newsHalted, Text: kindOf(reason) + ": " + reason.Error()})
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

// What a process can be told to do.
const (
	doSend   = "send"   // begin to send
	doHold   = "hold"   // stop sending, and wait until all is delivered here
	doMark   = "mark"   // begin to measure gaps between deliveries
	doStatus = "status" // say how it is
	doUse    = "use"    // and what it holds
	doReport = "report" // say that a node failed
	doBlock  = "block"  // stay in the next upcall of a subgroup for so long
	doLeave  = "leave"
)

func (p *process) answer(r request) (a Answer) {
	var err error
	switch r.Do {
	case doSend:
		for _, l := range p.loads {
			l.start()
		}
	case doHold:
		for _, l := range p.loads {
			err = errors.Join(err, l.settle())
		}
	case doMark:
		p.meter.mark()
	case doUse:
		a.Use = use()
	case doReport:
		p.group.ReportFailure(r.ID)
	case doBlock:
		p.meter.stay(r.Subgroup, r.For)
	case doLeave:
		var left error
		left, err = p.end(r.For, "")
		err = errors.Join(left, err)
	case doStatus:
	default:
		err = fmt.Errorf("no request: %q", r.Do)
	}
	if err != nil {
		a.Err = err.Error()
	}
	return p.status(a)
}

func (p *process) status(a Answer) Answer {
	a.View, a.Rejected = p.group.View().ID, p.group.Stats().RejectedConnections
	a.Accepted = p.ended("").Accepted
	a.Delivered, a.Gap = p.meter.total.Load(), p.meter.gap()
	for i := range p.replicas {
		a.States = append(a.States, p.replicas[i].state())
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
