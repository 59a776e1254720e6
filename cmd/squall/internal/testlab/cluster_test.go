//go:build system

package testlab

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/netlab"
	"github.com/squall-go/squall/internal/proc"
)

// Options describe a cluster. The zero value is good.
type Options struct {
	Fabric    func(id squall.NodeID) squall.Fabric // nil: squall.Auto for all
	Loads     []Load                               // nil: one subgroup of small messages
	Heartbeat time.Duration                        // 0: DefaultHeartbeat
	FailAfter time.Duration                        // 0: DefaultFailAfter
	Network   *netlab.Lab                          // nil: all on this host; else node i is on host i - 1
	RunLength int                                  // see Spec; 0: DefaultRunLength
	Replay    string                               // flags that make the same run again
	Disks     map[squall.NodeID]string             // directories of nodes with a durable load; the directories of other nodes are made
}

// Defaults of Options. A heartbeat may come late on a machine that other work shares, so FailAfter
// is many of them.
const (
	DefaultHeartbeat = 50 * time.Millisecond
	DefaultFailAfter = 1500 * time.Millisecond
	DefaultRunLength = 64
	logBytes         = 256 << 20
)

// Loads.
var (
	SmallMessages  = Load{Name: "small", Bytes: 64, RingBytes: 64 << 10, Window: 1024}
	LargeMessages  = Load{Name: "large", Bytes: 10 << 10, RingBytes: 256 << 10, Window: 64}
	BulkMessages   = Load{Name: "bulk", Bytes: 2 << 20, RingBytes: 4 << 10, Window: 64}
	QueuedMessages = Load{Name: "queued", Bytes: 100, RingBytes: 64 << 10, Window: 512, Async: 64 << 10}
)

// Cluster is the processes of a run.
type Cluster struct {
	t    testing.TB
	opts Options
	dir  string
	Name string

	mu      sync.Mutex
	all     []*Process            // by life - 1
	network int                   // of the loopback addresses of nodes with disks
	harmed  map[squall.NodeID]int // by node: the life after which what its disk had was gone
	adjust  func(*Spec)           // of processes that are started; nil: nothing is adjusted
}

// KeepLogs keeps the logs of good runs, too.
var KeepLogs bool

// NewCluster prepares a run. When the test ends all processes end; if it failed their logs stay.
func NewCluster(t testing.TB, o Options) *Cluster {
	t.Helper()
	if o.Heartbeat == 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	if o.FailAfter == 0 {
		o.FailAfter = DefaultFailAfter
	}
	if o.RunLength == 0 {
		o.RunLength = DefaultRunLength
	}
	if o.Loads == nil {
		o.Loads = []Load{SmallMessages}
	}
	dir, err := os.MkdirTemp("", "squall-testlab-")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{t: t, opts: o, dir: dir, Name: t.Name(), network: 1 + rand.IntN(1<<14), harmed: map[squall.NodeID]int{}}
	t.Cleanup(c.cleanUp)
	return c
}

// cleanUp ends what still runs, and says where the logs of a failed run are.
func (c *Cluster) cleanUp() {
	for _, p := range c.Processes() {
		p.close()
	}
	if !c.t.Failed() && !KeepLogs {
		os.RemoveAll(c.dir)
		return
	}
	test, _, _ := strings.Cut(c.t.Name(), "/")
	c.t.Logf("logs are in %s; again with: go test -tags system ./internal/testlab -count=1 -v -run '^%s$' %s", c.dir, test, c.opts.Replay)
}

// Processes are all that were started, in this order.
func (c *Cluster) Processes() []*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Process(nil), c.all...)
}

// Live are the processes that are in the group, as far as is known.
func (c *Cluster) Live() (live []*Process) {
	for _, p := range c.Processes() {
		if p.live() {
			live = append(live, p)
		}
	}
	return live
}

// ids are the nodes of processes.
func ids(of []*Process) (nodes []squall.NodeID) {
	for _, p := range of {
		nodes = append(nodes, p.ID())
	}
	return nodes
}

// begin starts a process of a node.
func (c *Cluster) begin(id squall.NodeID, expect int, join ...string) (*Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	life := len(c.all) + 1
	spec := Spec{
		Life: life, Cluster: c.Name, ID: id, Listen: "127.0.0.1:0", Join: join, Expect: expect, Loads: c.opts.Loads,
		Heartbeat: c.opts.Heartbeat, FailAfter: c.opts.FailAfter,
		Log: filepath.Join(c.dir, fmt.Sprintf("process-%d-node-%d", life, id)), RunLength: c.opts.RunLength, LogBytes: logBytes,
		Within: openTime, Level: slog.LevelDebug,
	}
	if c.durable() {
		spec.Dir, spec.Listen = c.Disk(id), c.address(id)
	}
	if c.opts.Fabric != nil {
		spec.Fabric = c.opts.Fabric(id)
	}
	var host *netlab.Host
	if c.opts.Network != nil {
		host = c.opts.Network.Hosts[int(id)-1]
		spec.Listen = host.Addr + ":0"
	}
	if c.adjust != nil {
		c.adjust(&spec)
	}
	p, err := start(spec, host, proc.Share(max(1, expect)))
	if p != nil {
		c.all = append(c.all, p)
	}
	return p, err
}

// Form starts nodes 1 to n, waits until they are a group, and has them send.
func (c *Cluster) Form(n int) []*Process {
	c.t.Helper()
	first, err := c.begin(1, n)
	c.must(err)
	addr, err := first.AwaitAddr()
	c.must(err)
	for i := 2; i <= n; i++ {
		_, err := c.begin(squall.NodeID(i), n, addr)
		c.must(err)
	}
	all := c.Processes()
	c.Each(all, (*Process).AwaitOpen)
	c.Each(all, (*Process).Send)
	return all
}

// Join starts a process that joins by way of the processes that are live, and waits until it is in,
// and sends.
func (c *Cluster) Join(id squall.NodeID) (*Process, error) {
	p, err := c.Begin(id)
	if err == nil {
		err = p.AwaitOpen()
	}
	if err == nil {
		err = p.Send()
	}
	return p, err
}

// Begin starts a process that joins.
func (c *Cluster) Begin(id squall.NodeID) (*Process, error) {
	var addrs []string
	live := c.Live()
	for _, p := range live {
		if addr, err := p.AwaitAddr(); err == nil {
			addrs = append(addrs, addr)
		}
	}
	return c.begin(id, len(live)+1, addrs...)
}

// Each does something with processes, at the same time, and fails the test if one of them fails.
func (c *Cluster) Each(of []*Process, do func(*Process) error) {
	c.t.Helper()
	errs := make([]error, len(of))
	var all sync.WaitGroup
	for i, p := range of {
		all.Go(func() { errs[i] = do(p) })
	}
	all.Wait()
	c.must(errors.Join(errs...))
}

func (c *Cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// AwaitView waits until these processes are in a view of just them.
func (c *Cluster) AwaitView(of ...*Process) {
	c.t.Helper()
	nodes := ids(of)
	c.Each(of, func(p *Process) error { return p.AwaitView(append([]squall.NodeID(nil), nodes...)...) })
}

// AwaitProgress waits until each of these has delivered n more messages.
func (c *Cluster) AwaitProgress(n uint64, of ...*Process) {
	c.t.Helper()
	c.Each(of, func(p *Process) error { return p.awaitProgress(n) })
}

func (p *Process) awaitProgress(n uint64) error {
	begun, err := p.Status()
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		now, err := p.Status()
		if err != nil || now.Delivered >= begun.Delivered+n {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d (node %d) delivered %d messages in %v, in view %d",
				p.Spec.Life, p.ID(), now.Delivered-begun.Delivered, patience, now.View)
		}
	}
}

// Finish has all processes that are live stop sending, and leave when all is delivered, and checks
// the logs.
func (c *Cluster) Finish() {
	c.t.Helper()
	live := c.Live()
	c.Each(live, (*Process).Hold)
	c.Each(live, (*Process).Leave)
	c.must(c.Check())
}

// Check checks the logs as they are now.
func (c *Cluster) Check() error {
	var logs []*Log
	delivered := 0
	for _, p := range c.Processes() {
		l, err := ReadLog(p.Spec.Log)
		if errors.Is(err, errNoLog) && p.wasKilled() {
			continue // before it wrote anything
		}
		if err != nil {
			return err
		}
		logs = append(logs, l)
		for _, r := range l.Runs {
			delivered += len(r.Digests)
		}
	}
	if delivered == 0 {
		return errors.New("no process delivered anything")
	}
	c.t.Logf("%d processes delivered %d messages", len(logs), delivered)
	return Check(logs)
}
