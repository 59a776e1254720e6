package demo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/proc"
	"github.com/squall-go/squall/persist"
)

// durableOptions are those of a run with --durable.
type durableOptions struct {
	Nodes    int
	Fabric   squall.Fabric
	FabricAs string // as it was asked for
	Engine   squall.LogEngine
	Lines    [][]byte
	Size     int    // bytes of a message; 0 is the line's own and a header
	Host     string // a loopback address
	Duration time.Duration
	Timeout  time.Duration // beyond Duration
	Dir      string        // has a directory for each node
	Story    io.Writer     // is told what happens, as it does; nil: nobody
	Log      io.Writer     // gets what members log; nil: nobody
}

// durableSubgroup is what the logs are of.
const durableSubgroup = "durable"

// comeback is the parent's side of a demo with --durable.
type comeback struct {
	durableOptions
	story   *story
	members []*keeping // by number - 1: the first lives, and then the second ones
	newest  squall.ViewID

	acked   uint64        // messages that were acknowledged before all were killed
	onDisks uint64        // messages that were on every disk when that was read last
	restart time.Duration // from the first start to all in a view

	ctx     context.Context // of the members
	events  chan keeperEvent
	over    chan struct{} // nobody takes events any more
	readers sync.WaitGroup
}

// keeping is what the parent knows of a member process.
type keeping struct {
	number    int
	id        squall.NodeID
	child     *proc.Child
	addr      string
	view      *viewReport
	recovered *uint64 // messages that its log told of
	acked     uint64
	waits     string
	killed    bool
	ended     bool
	stopped   *uint64
	account   *account
}

func (k *keeping) who() string { return fmt.Sprintf("node %d (process %d)", k.id, k.number) }

// keeperEvent is something that a member says, or its end: then err is how it ended, io.EOF if well.
type keeperEvent struct {
	k *keeping
	subjectReport
	err error
}

// runComeback does a whole run. It returns what is known also with an error. Whatever happens, no process is left when it returns.
func runComeback(ctx context.Context, o durableOptions) (*DurableResult, error) {
	r := &comeback{durableOptions: o, story: newStory(o.Story), events: make(chan keeperEvent), over: make(chan struct{})}
	if r.Story != nil {
		fmt.Fprintln(r.Story, r.title())
	}
	members, cancel := context.WithCancel(ctx)
	r.ctx = members
	defer r.readers.Wait()
	defer cancel()
	defer close(r.over)
	defer r.story.end()
	ctx, stop := context.WithTimeoutCause(ctx, r.Duration+r.Timeout, errTooLong)
	defer stop()
	phases := []func(context.Context) error{
		r.form, r.load, r.killAll, r.readDisks, r.comeBack, r.load, r.silence, r.finish, r.leave, r.readDisks,
	}
	for _, phase := range phases {
		if err := phase(ctx); err != nil {
			return r.result(err), err
		}
	}
	err := r.verdict()
	return r.result(err), err
}

func (r *comeback) title() string {
	if r.Nodes == 1 {
		return fmt.Sprintf("1 node, fabric %s; it keeps what it delivers in a log, engine %v", r.FabricAs, r.Engine)
	}
	return fmt.Sprintf("%d nodes, fabric %s; each keeps what it delivers in a log of its own, engine %v", r.Nodes, r.FabricAs, r.Engine)
}

// loop takes what members say until something holds.
func (r *comeback) loop(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for !done() {
		select {
		case e := <-r.events:
			if err := r.hear(e); err != nil {
				return err
			}
		case <-tick.C:
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, errTooLong) {
				return err
			}
			return r.late()
		}
	}
	return nil
}

// late says how far the members are.
func (r *comeback) late() error {
	var states []string
	for _, k := range r.present() {
		state := fmt.Sprintf("has %d messages acknowledged", k.acked)
		if k.waits != "" && k.view == nil {
			state = "waits for " + k.waits
		}
		states = append(states, k.who()+" "+state)
	}
	return fmt.Errorf("%w, %v and %v: %s", errTooLong, r.Duration, r.Timeout, strings.Join(states, ", "))
}

// hear takes what a member says.
func (r *comeback) hear(e keeperEvent) error {
	k := e.k
	switch {
	case e.err != nil:
		return r.ended(k, e.err)
	case e.Fault != "":
		return fmt.Errorf("%w: %s: %s", ErrDisagree, k.who(), e.Fault)
	case e.Listening != "":
		k.addr = e.Listening
	case e.View != nil:
		r.installed(k, e.View)
	case e.Waiting != "":
		if k.waits != e.Waiting {
			k.waits = e.Waiting
			r.story.tell(Happening{What: whatWaits, Node: k.id, Process: k.number, Detail: e.Waiting})
		}
	case e.Restored != nil:
		k.recovered = &e.Restored.Messages
		if r.acked > 0 {
			r.story.tell(Happening{What: whatRecovered, Node: k.id, Process: k.number, Count: e.Restored.Messages, TookNs: int64(e.Restored.Took)})
		}
	case e.Acked > 0:
		k.acked = e.Acked
	case e.Stopped != nil:
		k.stopped = e.Stopped
	case e.Account != nil:
		k.account = e.Account
	}
	return nil
}

func (r *comeback) ended(k *keeping, err error) error {
	k.ended = true
	switch {
	case k.killed, k.account != nil && err == io.EOF:
		return nil
	case err == io.EOF:
		return fmt.Errorf("%s ended before it was told to", k.who())
	}
	return fmt.Errorf("%s: %w", k.who(), err)
}

func (r *comeback) installed(k *keeping, v *viewReport) {
	k.view = v
	if v.ID <= r.newest {
		return
	}
	if r.newest == 0 {
		r.story.start = time.Now()
	}
	r.newest = v.ID
	if k.account == nil { // at the end all leave, one after the other
		r.story.tell(Happening{What: whatView, View: v.ID, Nodes: v.Nodes})
	}
}

// present are the members that were not killed.
func (r *comeback) present() (list []*keeping) {
	for _, k := range r.members {
		if !k.killed {
			list = append(list, k)
		}
	}
	return list
}

func (r *comeback) all(holds func(*keeping) bool) bool {
	return !slices.ContainsFunc(r.present(), func(k *keeping) bool { return !holds(k) })
}

// form starts the first members: one that founds the group, and then the others.
func (r *comeback) form(ctx context.Context) error {
	founder, err := r.start(1, net.JoinHostPort(r.Host, "0"))
	if err != nil {
		return err
	}
	if err := r.loop(ctx, func() bool { return founder.addr != "" }); err != nil {
		return err
	}
	for id := 2; id <= r.Nodes; id++ {
		if _, err := r.start(squall.NodeID(id), net.JoinHostPort(r.Host, "0"), founder.addr); err != nil {
			return err
		}
	}
	return r.together(ctx)
}

// together waits until all members are in one view, and have what their logs tell.
func (r *comeback) together(ctx context.Context) error {
	return r.loop(ctx, func() bool {
		return r.all(func(k *keeping) bool {
			return k.view != nil && k.view.ID == r.newest && len(k.view.Nodes) == r.Nodes && k.recovered != nil
		})
	})
}

// start starts a process of a node.
func (r *comeback) start(id squall.NodeID, listen string, join ...string) (*keeping, error) {
	k := &keeping{number: len(r.members) + 1, id: id}
	c := subjectConfig{
		ID: id, Process: k.number, Cluster: "squall-durable-demo", Subgroup: durableSubgroup, Dir: nodeDir(r.Dir, id), Listen: listen, Join: join, Expect: r.Nodes,
		Fabric: r.Fabric, Engine: r.Engine, Lines: r.Lines, Size: r.Size, Verbose: r.Log != nil,
	}
	o := proc.Options{ID: int(id), Log: r.Log, Env: proc.Share(r.Nodes)}
	var err error
	if k.child, err = proc.Start(r.ctx, "demo "+keeperCommand, c, o); err != nil {
		return nil, err
	}
	r.members = append(r.members, k)
	r.readers.Go(func() { r.read(k) })
	return k, nil
}

// read makes events of what a member says, up to its end.
func (r *comeback) read(k *keeping) {
	defer func() {
		k.child.CloseInput()
		k.child.Wait()
	}()
	for {
		e := keeperEvent{k: k}
		e.err = k.child.Receive(r.ctx, &e.subjectReport)
		select {
		case r.events <- e:
		case <-r.over:
			return
		}
		if e.err != nil {
			return
		}
	}
}

// load lets the members send for half of the time, and until each of them was acknowledged something.
func (r *comeback) load(ctx context.Context) error {
	until := time.Now().Add(r.Duration / 2)
	return r.loop(ctx, func() bool {
		return time.Now().After(until) && r.all(func(k *keeping) bool { return k.acked > 0 })
	})
}

// killAll kills everybody at once, so that no view of fewer members comes to be. What they had said until then counts.
func (r *comeback) killAll(ctx context.Context) error {
	killed := r.present()
	var children []*proc.Child
	for _, k := range killed {
		k.killed = true
		children = append(children, k.child)
	}
	proc.CutPower(children...)
	if err := r.loop(ctx, func() bool {
		return !slices.ContainsFunc(killed, func(k *keeping) bool { return !k.ended })
	}); err != nil {
		return err
	}
	for _, k := range killed {
		r.acked += k.acked
	}
	r.story.tell(Happening{What: whatAllKilled, Count: r.acked})
	return nil
}

// readDisks reads what the members' logs have, while none of them runs, and looks whether everything that was acknowledged is there.
func (r *comeback) readDisks(context.Context) error {
	var most uint64
	for id := squall.NodeID(1); int(id) <= r.Nodes; id++ {
		n, by, err := readLog(nodeDir(r.Dir, id))
		if err != nil {
			return fmt.Errorf("the log of node %d: %w", id, err)
		}
		for _, k := range r.members {
			if by[uint64(k.number)] < k.acked {
				return fmt.Errorf("%w: of %d acknowledged messages of %s, the log of node %d has %d", ErrLost, k.acked, k.who(), id, by[uint64(k.number)])
			}
		}
		most = max(most, n)
	}
	same, err := r.compareDisks()
	if err != nil {
		return err
	}
	r.onDisks = same
	r.story.tell(Happening{What: whatDisks, Count: same, More: most - same})
	return nil
}

// readLog counts the messages in a node's log, all of them and by process. A process's messages are there in their order.
func readLog(dir string) (n uint64, by map[uint64]uint64, err error) {
	s, err := persist.Open(persist.StoreConfig{Dir: dir, ReadOnly: true})
	if err != nil {
		return 0, nil, err
	}
	defer s.Close()
	l, err := s.Log(persist.LogConfig{ID: persist.LogID{Name: durableSubgroup}})
	if err != nil {
		return 0, nil, err
	}
	by = map[uint64]uint64{}
	for r, err := range l.Range(squall.Version{}, squall.Version{}) {
		if err != nil {
			return n, by, err
		}
		if len(r.Data) < headerBytes {
			return n, by, fmt.Errorf("version %v has %d bytes, less than any message", r.Version, len(r.Data))
		}
		process := binary.LittleEndian.Uint64(r.Data)
		if number := binary.LittleEndian.Uint64(r.Data[8:]); number != by[process] {
			return n, by, fmt.Errorf("version %v is message %d of process %d, and message %d is due", r.Version, number, process, by[process])
		}
		by[process]++
		n++
	}
	return n, by, nil
}

// compareDisks is how many messages all logs have, which must be the same ones.
func (r *comeback) compareDisks() (same uint64, err error) {
	var dirs []string
	for id := squall.NodeID(1); int(id) <= r.Nodes; id++ {
		dirs = append(dirs, nodeDir(r.Dir, id))
	}
	all, err := persist.CompareLogs(dirs...)
	for _, c := range all {
		if same += c.Records; c.Differ != "" {
			err = errors.Join(err, fmt.Errorf("%w: %s", ErrDisagree, c.Differ))
		}
	}
	return same, err
}

// comeBack starts all nodes again, in another order, where they were.
func (r *comeback) comeBack(ctx context.Context) error {
	begin := time.Now()
	first := slices.Clone(r.members)
	var join []string
	for _, k := range first {
		join = append(join, k.addr)
	}
	for _, k := range slices.Backward(first) {
		again, err := r.start(k.id, k.addr, join...)
		if err != nil {
			return err
		}
		r.story.tell(Happening{What: whatStarted, Node: k.id, Process: again.number, Again: true})
		// Each waits for the others, and says so, but for the last ones: they find enough of them.
		if err := r.loop(ctx, func() bool { return again.waits != "" || again.view != nil }); err != nil {
			return err
		}
	}
	err := r.together(ctx)
	r.restart = time.Since(begin)
	return err
}

// tell tells all members to do something. If one is gone, its reader says so, and knows more.
func (r *comeback) tell(do order) error {
	for _, k := range r.present() {
		var exit *proc.Exit
		if err := k.child.Send(do); err != nil && err != io.EOF && !errors.As(err, &exit) {
			return err
		}
	}
	return nil
}

// silence has all members stop sending.
func (r *comeback) silence(ctx context.Context) error {
	r.story.tell(Happening{What: whatQuiet})
	if err := r.tell(order{Stop: true}); err != nil {
		return err
	}
	return r.loop(ctx, func() bool { return r.all(func(k *keeping) bool { return k.stopped != nil }) })
}

// finish waits until all members have delivered what was sent, and before they were killed acknowledged.
func (r *comeback) finish(ctx context.Context) error {
	sent := make([]uint64, len(r.members)+1)
	for _, k := range r.members {
		sent[k.number] = k.acked
		if k.stopped != nil {
			sent[k.number] = *k.stopped
		}
	}
	if err := r.tell(order{Finish: sent}); err != nil {
		return err
	}
	return r.loop(ctx, func() bool { return r.all(func(k *keeping) bool { return k.account != nil }) })
}

// leave ends all members.
func (r *comeback) leave(ctx context.Context) error {
	if err := r.tell(order{Leave: true}); err != nil {
		return err
	}
	return r.loop(ctx, func() bool { return r.all(func(k *keeping) bool { return k.ended }) })
}
