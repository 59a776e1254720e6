package squall_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// replica is a map that is the same at all members, with a digest of everything that was ever
// applied.
type replica struct {
	busy  atomic.Bool
	wrong atomic.Pointer[string]

	mu      sync.Mutex
	state   contents
	digests map[squall.Version]uint64 // what it was after each message
	last    time.Time
	gap     time.Duration // the longest time between two messages
}

// contents is what is handed over.
type contents struct {
	Values  map[uint32]uint32
	Digest  uint64
	Count   int
	ballast []byte // what makes it large
}

func (c contents) write(w io.Writer) error {
	if err := gob.NewEncoder(w).Encode(c); err != nil {
		return err
	}
	if err := binary.Write(w, binary.LittleEndian, int64(len(c.ballast))); err != nil {
		return err
	}
	_, err := w.Write(c.ballast)
	return err
}

func (c *contents) read(r io.Reader) error {
	in := bufio.NewReader(r) // which gob does not read beyond its value
	if err := gob.NewDecoder(in).Decode(c); err != nil {
		return err
	}
	var n int64
	if err := binary.Read(in, binary.LittleEndian, &n); err != nil {
		return err
	}
	c.ballast = make([]byte, n)
	for rest := c.ballast; len(rest) > 0; {
		k, err := in.Read(rest[:min(len(rest), 64<<10)])
		if err != nil {
			return err
		}
		rest = rest[k:]
	}
	return nil
}

func newReplica() *replica {
	return &replica{state: contents{Values: map[uint32]uint32{}}, digests: map[squall.Version]uint64{}}
}

// alone notes when two of the application's functions run at a time.
func (r *replica) alone(what string) func() {
	if !r.busy.CompareAndSwap(false, true) {
		r.wrong.Store(&what)
	}
	return func() { r.busy.Store(false) }
}

func (r *replica) deliver(m squall.Message) {
	defer r.alone("an callback ran next to another")()
	r.mu.Lock()
	defer r.mu.Unlock()
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, []uint64{r.state.Digest, uint64(m.Sender)})
	h.Write(m.Data)
	r.state.Digest = h.Sum64()
	r.state.Count++
	r.state.Values[binary.LittleEndian.Uint32(m.Data)%1000] = uint32(r.state.Count)
	r.digests[squall.Version{View: m.View, Seq: m.Seq}] = r.state.Digest
	now := time.Now()
	if !r.last.IsZero() {
		r.gap = max(r.gap, now.Sub(r.last))
	}
	r.last = now
}

func (r *replica) snapshot() func(io.Writer) error {
	defer r.alone("Snapshot ran next to an callback")()
	r.mu.Lock()
	defer r.mu.Unlock()
	copied := r.state
	copied.Values = maps.Clone(copied.Values)
	return copied.write
}

func (r *replica) restore(in io.Reader) error {
	defer r.alone("Restore ran next to an callback")()
	got := contents{Values: map[uint32]uint32{}}
	if err := got.read(in); err != nil && err != io.EOF { // nothing: the shard begins
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = got
	clear(r.digests) // of a state that it gave up
	return nil
}

func (r *replica) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Count
}

// agree waits until all replicas applied n messages, and compares their digests after every message
// that they have in common.
func agree(t *testing.T, n int, replicas ...*replica) {
	t.Helper()
	for i, r := range replicas {
		eventually(t, fmt.Sprintf("replica %d: %d messages", i+1, n), func() bool { return r.count() >= n })
	}
	first := replicas[0]
	for i, r := range replicas {
		if what := r.wrong.Load(); what != nil {
			t.Errorf("replica %d: %s", i+1, *what)
		}
		common := 0
		for version, digest := range r.digests {
			if want, ok := first.digests[version]; ok {
				if common++; digest != want {
					t.Fatalf("replica %d has digest %x at %v, the first one %x", i+1, digest, version, want)
				}
			}
		}
		if common == 0 || r.state.Digest != first.state.Digest || r.state.Count != n || !maps.Equal(r.state.Values, first.state.Values) {
			t.Errorf("replica %d: %d versions in common, digest %x after %d messages, the first one %x", i+1, common, r.state.Digest, r.state.Count, first.state.Digest)
		}
	}
}

// replicated declares the subgroup of a replica.
func replicated(r *replica, change func(*squall.SubgroupConfig)) []squall.SubgroupConfig {
	sg := squall.SubgroupConfig{Name: "map", Deliver: r.deliver, Snapshot: r.snapshot, Restore: r.restore, RingBytes: 64 << 10, Window: 256}
	if change != nil {
		change(&sg)
	}
	return []squall.SubgroupConfig{sg}
}

// joins opens one more member of a group, and closes it when the test ends.
func joins(t *testing.T, id squall.NodeID, through *squall.Group, configure func(*squall.Config)) *squall.Group {
	t.Helper()
	cfg := squall.Config{Cluster: t.Name(), ID: id, Listen: "127.0.0.1:0", Join: []string{through.Addr()}, InitialMembers: len(through.View().Members), Logger: quiet}
	configure(&cfg)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	g, err := squall.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		g.Close(ctx)
	})
	return g
}

// load has members send until it is stopped, and says how many messages that were.
type load struct {
	senders sync.WaitGroup
	stop    atomic.Bool
	sent    atomic.Int64
}

func (l *load) start(t *testing.T, pause time.Duration, groups ...*squall.Group) {
	for _, g := range groups {
		l.senders.Go(func() {
			data := make([]byte, 64)
			for k := uint32(0); !l.stop.Load(); k++ {
				binary.LittleEndian.PutUint32(data, k)
				if err := must(g.Subgroup("map")).Send(context.Background(), data); err != nil {
					if !l.stop.Load() && !errors.Is(err, squall.ErrClosed) {
						t.Errorf("node %d: %v", g.ID(), err)
					}
					return
				}
				l.sent.Add(1)
				if pause > 0 {
					time.Sleep(pause)
				}
			}
		})
	}
}

func (l *load) end() int {
	l.stop.Store(true)
	l.senders.Wait()
	return int(l.sent.Load())
}

func awaitRestored(t *testing.T, g *squall.Group) {
	t.Helper()
	select {
	case <-must(g.Subgroup("map")).Restored():
	case <-g.Done():
		t.Fatalf("node %d halted: %v", g.ID(), g.Err())
	case <-time.After(20 * time.Second):
		t.Fatalf("node %d is not restored", g.ID())
	}
}

func TestAMemberThatJoinsUnderLoadGetsTheState(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*squall.SubgroupConfig){
		"on the loop": nil,
		"async":       func(sg *squall.SubgroupConfig) { sg.AsyncQueueBytes = 64 << 10 },
	} {
		t.Run(name, func(t *testing.T) {
			replicas := []*replica{newReplica(), newReplica(), newReplica(), newReplica(), newReplica()}
			groups := cluster(t, 3, func(i int, c *squall.Config) { c.Subgroups = replicated(replicas[i], change) })
			<-must(groups[0].Subgroup("map")).Restored() // a member of the first view needs no state
			var l load
			l.start(t, 20*time.Microsecond, groups...)
			eventually(t, "some load", func() bool { return l.sent.Load() > 500 })
			for i := 3; i < 5; i++ {
				g := joins(t, squall.NodeID(i+1), groups[0], func(c *squall.Config) { c.Subgroups = replicated(replicas[i], change) })
				l.start(t, 20*time.Microsecond, g)
				awaitRestored(t, g)
				groups = append(groups, g)
			}
			more := l.sent.Load() + 500
			eventually(t, "some more load", func() bool { return l.sent.Load() > more })
			agree(t, l.end(), replicas...)
		})
	}
}

// untilItFails waits for the end of a stream.
func untilItFails(w io.Writer) error {
	for {
		if _, err := w.Write(nil); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// A source that is gone half-way is replaced by another one.
func TestTheSourceOfAStateMayDie(t *testing.T) {
	t.Parallel()
	replicas := []*replica{newReplica(), newReplica(), newReplica(), newReplica()}
	slow := make(chan squall.NodeID, 1)
	var first atomic.Bool
	groups := cluster(t, 3, func(i int, c *squall.Config) {
		c.Subgroups = replicated(replicas[i], func(sg *squall.SubgroupConfig) {
			sg.Snapshot = func() func(io.Writer) error {
				write := replicas[i].snapshot()
				return func(w io.Writer) error {
					if !first.CompareAndSwap(false, true) {
						return write(w)
					}
					slow <- squall.NodeID(i + 1) // the first one that is asked never comes to an end
					var whole bytes.Buffer
					_ = write(&whole)
					_, err := w.Write(whole.Bytes()[:whole.Len()-1])
					return errors.Join(err, untilItFails(w))
				}
			}
		})
	})
	for k := range 100 {
		if err := must(groups[0].Subgroup("map")).Send(t.Context(), binary.LittleEndian.AppendUint32(nil, uint32(k))); err != nil {
			t.Fatal(err)
		}
	}
	inside := make(chan struct{}, 10)
	failed := make(chan squall.StateSourceFailed, 10)
	joined := joins(t, 4, groups[0], func(c *squall.Config) {
		c.Events = func(e squall.Event) {
			if f, ok := e.(squall.StateSourceFailed); ok {
				failed <- f
			}
		}
		c.Subgroups = replicated(replicas[3], func(sg *squall.SubgroupConfig) {
			sg.Restore = func(in io.Reader) error {
				inside <- struct{}{}
				return replicas[3].restore(in)
			}
		})
	})
	source := <-slow
	<-inside
	select {
	case <-must(joined.Subgroup("map")).Restored():
		t.Fatal("restored, though the source never ended")
	default:
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	groups[source-1].Close(now)
	awaitRestored(t, joined)
	if f := <-failed; f.Source != source || f.Subgroup != "map" {
		t.Errorf("%+v", f)
	}
	var left []*replica
	for i, r := range replicas {
		if squall.NodeID(i+1) != source {
			left = append(left, r)
		}
	}
	if err := must(joined.Subgroup("map")).Send(t.Context(), make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	agree(t, 101, left...)
}

// Messages that do not fit the backlog hold up the subgroup's senders and no other subgroup, and
// none of them is lost.
func TestAFullBacklogHoldsUpItsOwnSubgroupOnly(t *testing.T) {
	t.Parallel()
	replicas := []*replica{newReplica(), newReplica(), newReplica()}
	var quickCount [3]atomic.Int64
	subgroups := func(i int, change func(*squall.SubgroupConfig)) []squall.SubgroupConfig {
		return append(replicated(replicas[i], change), squall.SubgroupConfig{Name: "quick", Deliver: func(squall.Message) { quickCount[i].Add(1) }})
	}
	groups := cluster(t, 2, func(i int, c *squall.Config) { c.Subgroups = subgroups(i, nil) })
	gate := make(chan struct{})
	joined := joins(t, 3, groups[0], func(c *squall.Config) {
		c.Subgroups = subgroups(2, func(sg *squall.SubgroupConfig) {
			sg.BacklogBytes = 1 // that is: the largest message
			sg.Restore = func(in io.Reader) error {
				<-gate
				return replicas[2].restore(in)
			}
		})
	})
	n, quiet := 0, 0
	for quiet < 100 {
		switch err := must(groups[0].Subgroup("map")).TrySend(make([]byte, 1000)); {
		case err == nil:
			n, quiet = n+1, 0
		case errors.Is(err, squall.ErrWindowFull):
			quiet++
			time.Sleep(time.Millisecond)
		default:
			t.Fatal(err)
		}
	}
	if limit := 2 * 64; n > limit {
		t.Errorf("%d messages of 1000 bytes are in flight; ring and backlog have room for %d", n, limit)
	}
	for k := range 100 {
		if err := must(groups[1].Subgroup("quick")).Send(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the other subgroup goes on", func() bool { return quickCount[2].Load() == int64(k+1) })
	}
	close(gate)
	awaitRestored(t, joined)
	for range 300 {
		if err := must(groups[0].Subgroup("map")).Send(t.Context(), make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		n++
	}
	agree(t, n, replicas...)
}

// While a large state is handed over, the group goes on.
func TestTheGroupGoesOnWhileALargeStateIsHandedOver(t *testing.T) {
	t.Parallel()
	replicas := []*replica{newReplica(), newReplica(), newReplica(), newReplica()}
	for _, r := range replicas[:3] {
		r.state.ballast = make([]byte, 64<<20)
	}
	groups := cluster(t, 3, func(i int, c *squall.Config) { c.Subgroups = replicated(replicas[i], nil) })
	var l load
	l.start(t, 200*time.Microsecond, groups...)
	eventually(t, "some load", func() bool { return l.sent.Load() > 500 })
	gaps := func() (gap time.Duration) {
		for _, r := range replicas[:3] {
			r.mu.Lock()
			gap, r.gap = max(gap, r.gap), 0
			r.mu.Unlock()
		}
		return gap
	}
	before := gaps()
	restored := make(chan squall.StateRestored, 1)
	g := joins(t, 4, groups[0], func(c *squall.Config) {
		c.Subgroups = replicated(replicas[3], nil)
		c.Events = func(e squall.Event) {
			if r, ok := e.(squall.StateRestored); ok {
				restored <- r
			}
		}
	})
	joining := gaps()
	awaitRestored(t, g)
	during := gaps()
	agree(t, l.end(), replicas...)
	if len(replicas[3].state.ballast) != 64<<20 {
		t.Error("the state is not whole")
	}
	t.Logf("longest gap between deliveries at old members: %v before, %v while it joined, %v while it got the state", before, joining, during)
	t.Logf("%v", <-restored)
}

func TestARestoreThatFailsHaltsItsProcess(t *testing.T) {
	own := errors.New("no space for it")
	groups := cluster(t, 3, func(i int, c *squall.Config) { c.Subgroups = replicated(newReplica(), nil) })
	g := joins(t, 4, groups[0], func(c *squall.Config) {
		c.Subgroups = replicated(newReplica(), func(sg *squall.SubgroupConfig) { sg.Restore = func(io.Reader) error { return own } })
	})
	select {
	case <-g.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
	if !errors.Is(g.Err(), own) {
		t.Error(g.Err())
	}
}

// None of the members that had the state is left.
func TestALostStateHaltsWhoWaitsForIt(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	only := func(sg *squall.SubgroupConfig) {
		sg.Members = []squall.NodeID{1, 4}
		sg.Snapshot = func() func(io.Writer) error {
			return func(w io.Writer) error {
				asked <- struct{}{}
				return untilItFails(w)
			}
		}
	}
	groups := cluster(t, 3, func(i int, c *squall.Config) { c.Subgroups = replicated(newReplica(), only) })
	g := joins(t, 4, groups[1], func(c *squall.Config) { c.Subgroups = replicated(newReplica(), only) })
	<-asked
	now, cancel := context.WithCancel(context.Background())
	cancel()
	groups[0].Close(now)
	select {
	case <-g.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
	if !errors.Is(g.Err(), squall.ErrStateLost) {
		t.Error(g.Err())
	}
}

// A member that was spare, and takes the place of one that went, is fresh, too.
func TestASpareMemberGetsTheStateWhenItTakesAPlace(t *testing.T) {
	replicas := []*replica{newReplica(), newReplica(), newReplica()}
	two := func(sg *squall.SubgroupConfig) { sg.MaxMembers = 2 }
	groups := cluster(t, 3, func(i int, c *squall.Config) { c.Subgroups = replicated(replicas[i], two) })
	<-must(groups[2].Subgroup("map")).Restored() // it is in no shard, and needs nothing
	for k := range 100 {
		if err := must(groups[0].Subgroup("map")).Send(t.Context(), binary.LittleEndian.AppendUint32(nil, uint32(k))); err != nil {
			t.Fatal(err)
		}
	}
	if err := groups[1].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node 3 is in", func() bool { _, in := must(groups[2].Subgroup("map")).Shard(); return in })
	awaitRestored(t, groups[2])
	if err := must(groups[0].Subgroup("map")).Send(t.Context(), make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	agree(t, 101, replicas[0], replicas[2])
}

// A member that enters another shard gets the state of that shard in place of its present state.
func TestAMemberThatChangesItsShardGetsTheOthersState(t *testing.T) {
	replicas := []*replica{newReplica(), newReplica(), newReplica(), newReplica()}
	two := func(sg *squall.SubgroupConfig) { sg.Shards, sg.MinMembers = 2, 2 }
	groups := cluster(t, 4, func(i int, c *squall.Config) { c.Subgroups = replicated(replicas[i], two) })
	left, right := must(groups[0].Subgroup("map")).Members(0), must(groups[0].Subgroup("map")).Members(1)
	stays, goes, moves, ends := left[0]-1, left[1]-1, right[0]-1, right[1]-1
	var first, second load
	first.start(t, 20*time.Microsecond, groups[stays])
	second.start(t, 20*time.Microsecond, groups[ends])
	eventually(t, "some load", func() bool { return first.sent.Load() > 500 && second.sent.Load() > 500 })
	agree(t, second.end(), replicas[moves], replicas[ends])
	// One member's shard ends without the other, and then it is needed in what is left of the first
	// one.
	for _, i := range []squall.NodeID{ends, goes} {
		if err := groups[i].Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "it is in the other shard", func() bool { shard, in := must(groups[moves].Subgroup("map")).Shard(); return in && shard == 0 })
	awaitRestored(t, groups[moves])
	more := first.sent.Load() + 500
	eventually(t, "some more load", func() bool { return first.sent.Load() > more })
	agree(t, first.end(), replicas[stays], replicas[moves])
}

// A member that waits for a state which the group gives up waits no more; and if the subgroup
// begins anew, it takes part.
func TestASubgroupThatBeginsAnewNeedsNoState(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	replicas := []*replica{newReplica(), newReplica(), newReplica(), newReplica(), newReplica()}
	pair := func(stuck bool) func(*squall.SubgroupConfig) {
		return func(sg *squall.SubgroupConfig) {
			sg.Members, sg.MinMembers = []squall.NodeID{2, 4, 5}, 2
			if stuck {
				sg.Snapshot = func() func(io.Writer) error {
					return func(w io.Writer) error {
						select {
						case asked <- struct{}{}:
						default:
						}
						return untilItFails(w)
					}
				}
			}
		}
	}
	groups := cluster(t, 3, func(i int, c *squall.Config) { c.Subgroups = replicated(replicas[i], pair(true)) })
	lost := make(chan squall.StateLost, 10)
	told := func(c *squall.Config) {
		c.Events = func(e squall.Event) {
			if l, ok := e.(squall.StateLost); ok {
				lost <- l
			}
		}
	}
	// Alone, node 2 is too few; with node 4 the subgroup begins, and node 5 comes into it.
	open := func(id squall.NodeID) *squall.Group {
		return joins(t, id, groups[0], func(c *squall.Config) { c.Subgroups = replicated(replicas[id-1], pair(true)); told(c) })
	}
	fourth := open(4)
	fifth := open(5)
	<-asked
	waiting := must(fifth.Subgroup("map")).Restored()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for _, g := range []*squall.Group{groups[1], fourth} { // with node 5 alone it ends; they would wait for it
		if err := g.Close(now); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	select {
	case <-waiting:
	case <-fifth.Done():
		t.Fatal(fifth.Err())
	case <-time.After(20 * time.Second):
		t.Fatal("node 5 waits for a state that no process has")
	}
	again := joins(t, 4, groups[0], func(c *squall.Config) {
		replicas[3] = newReplica()
		c.Subgroups = replicated(replicas[3], pair(false))
		told(c)
	})
	eventually(t, "the subgroup begins", func() bool { return len(must(again.Subgroup("map")).Members(0)) == 2 })
	if err := must(again.Subgroup("map")).Send(t.Context(), make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	agree(t, 1, replicas[3], replicas[4])
	for range 2 { // node 5, and the new node 4
		select {
		case l := <-lost:
			if l != (squall.StateLost{Subgroup: "map"}) {
				t.Error(l)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("some member is not told that the state is lost")
		}
	}
}

// A subgroup that needs two members falls to one, and that one has the state when another comes.
func TestAStateOutlivesATimeWithTooFewMembers(t *testing.T) {
	replicas := []*replica{newReplica(), newReplica(), newReplica()}
	pair := func(sg *squall.SubgroupConfig) { sg.MinMembers = 2 }
	groups := cluster(t, 2, func(i int, c *squall.Config) { c.Subgroups = replicated(replicas[i], pair) })
	sendNumbers(t, 100, groups[0])
	agree(t, 100, replicas[0], replicas[1])
	if err := groups[1].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitView(t, 1, groups[0])
	if err := must(groups[0].Subgroup("map")).Send(t.Context(), nil); !errors.Is(err, squall.ErrNotProvisioned) {
		t.Errorf("a member alone sends: %v", err)
	}
	back := joins(t, 2, groups[0], func(c *squall.Config) { c.Subgroups = replicated(replicas[2], pair) })
	awaitRestored(t, back)
	sendNumbers(t, 1, groups[0], back)
	agree(t, 102, replicas[0], replicas[2])
}

func TestSnapshotAndRestoreAreValidated(t *testing.T) {
	for want, change := range map[string]func(*squall.SubgroupConfig){
		"set both Snapshot and Restore":                   func(sg *squall.SubgroupConfig) { sg.Restore = nil },
		"set both Snapshot and Restore, or":               func(sg *squall.SubgroupConfig) { sg.Snapshot = nil },
		"a subgroup with Snapshot must be Ordered or Per": func(sg *squall.SubgroupConfig) { sg.Mode = squall.Unordered },
		"set Restore or Log.Recover": func(sg *squall.SubgroupConfig) {
			sg.Mode, sg.Log.Recover = squall.Persistent, func(*squall.Log) error { return nil }
		},
		"Snapshot is set without Restore": func(sg *squall.SubgroupConfig) { sg.Mode, sg.Restore = squall.Persistent, nil },
		"Snapshot is set together with Log.Recover": func(sg *squall.SubgroupConfig) {
			sg.Mode, sg.Restore, sg.Log.Recover = squall.Persistent, nil, func(*squall.Log) error { return nil }
		},
		"BacklogBytes is -1: 0 to 1073741824 bytes":       func(sg *squall.SubgroupConfig) { sg.BacklogBytes = -1 },
		"BacklogBytes is 2147483648: 0 to 1073741824 byt": func(sg *squall.SubgroupConfig) { sg.BacklogBytes = 2 << 30 },
	} {
		cfg := squall.Config{Cluster: "c", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Subgroups: replicated(newReplica(), change)}
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	cfg := squall.Config{Cluster: "c", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Subgroups: replicated(newReplica(), nil)}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}

func TestEventsOfStatesSayWhatHappened(t *testing.T) {
	given := squall.StateGiven{}
	given.Subgroup, given.To, given.Bytes = "map", 7, 100
	broken := given
	broken.Err = io.ErrUnexpectedEOF
	for e, want := range map[squall.Event]string{
		squall.StateRestoring{Subgroup: "map", Source: 7}:                                 `subgroup "map": restoring the state from node 7`,
		squall.StateSourceFailed{Subgroup: "map", Source: 7, Err: io.ErrUnexpectedEOF}:    `subgroup "map": no state from node 7: unexpected EOF`,
		squall.StateRestored{Subgroup: "map", Source: 7, Bytes: 5, Took: 2 * time.Second}: `subgroup "map": restored from node 7: 5 bytes in 2s, and 0s to catch up`,
		given:  `subgroup "map": gave the state to node 7: 100 bytes in 0s`,
		broken: `subgroup "map": node 7 got only 100 bytes of the state: unexpected EOF`,
	} {
		if e.String() != want {
			t.Errorf("%s: want %s", e, want)
		}
	}
}

// A member that moves to another shard gets the state of that shard in place of its present state,
// whatever the application still had to process in the old shard.
func TestAMemberThatMovesToAnotherShardGetsItsState(t *testing.T) {
	replicas := []*replica{newReplica(), newReplica(), newReplica(), newReplica(), newReplica()}
	shards := func(sg *squall.SubgroupConfig) {
		sg.Shards, sg.LayoutName = 2, "node 2 moves"
		sg.Layout = func(in squall.LayoutInput) ([]squall.ShardPlaces, error) {
			if len(in.Members) < 5 {
				return []squall.ShardPlaces{{Members: []squall.NodeID{1, 2}}, {Members: []squall.NodeID{3, 4}}}, nil
			}
			return []squall.ShardPlaces{{Members: []squall.NodeID{1, 5}}, {Members: []squall.NodeID{2, 3, 4}}}, nil
		}
	}
	groups := cluster(t, 4, func(i int, c *squall.Config) { c.Subgroups = replicated(replicas[i], shards) })
	var first, second load
	first.start(t, 20*time.Microsecond, groups[0])
	second.start(t, 20*time.Microsecond, groups[2], groups[3])
	eventually(t, "some load", func() bool { return first.sent.Load() > 500 && second.sent.Load() > 500 })
	joined := joins(t, 5, groups[0], func(c *squall.Config) { c.Subgroups = replicated(replicas[4], shards) })
	eventually(t, "node 2 has moved", func() bool { shard, in := must(groups[1].Subgroup("map")).Shard(); return in && shard == 1 })
	awaitRestored(t, joined)
	awaitRestored(t, groups[1])
	more := second.sent.Load() + 500
	eventually(t, "some more load", func() bool { return second.sent.Load() > more })
	agree(t, first.end(), replicas[0], replicas[4])
	agree(t, second.end(), replicas[2], replicas[3], replicas[1])
}
