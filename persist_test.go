package squall_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/persist/bolt"
	"github.com/squall-go/squall/persist/wal"
)

// keeper is what a member of a test saw.
type keeper struct {
	mu        sync.Mutex
	delivered []string
	recovered []string
	times     []squall.Time
}

func (j *keeper) deliver(m squall.Message) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.delivered = append(j.delivered, string(m.Data))
	j.times = append(j.times, m.Time)
}

func (j *keeper) recover(l *squall.Log) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.recovered = nil
	for r, err := range l.Range(squall.Version{}, squall.Version{}) {
		if err != nil {
			return err
		}
		j.recovered = append(j.recovered, string(r.Data))
	}
	return nil
}

// all is what the application knows: what it recovered, and what was delivered since.
func (j *keeper) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append(slices.Clone(j.recovered), j.delivered...)
}

// durableCluster opens n members of a group with a persistent subgroup "log", whose directories are
// below dir. Their ports stay the same.
func durableCluster(t testing.TB, dir string, n int, more func(i int, c *squall.Config)) ([]*squall.Group, []*keeper) {
	t.Helper()
	keepers := make([]*keeper, n)
	groups := cluster(t, n, func(i int, c *squall.Config) {
		keepers[i] = &keeper{}
		c.Cluster = "durable"
		c.Dir = filepath.Join(dir, fmt.Sprint("node-", i+1))
		c.Subgroups = []squall.SubgroupConfig{{
			Name: "log", Mode: squall.Persistent, RingBytes: 64 << 10, Window: 256,
			Deliver: keepers[i].deliver, Log: squall.LogConfig{Recover: keepers[i].recover},
		}}
		if more != nil {
			more(i, c)
		}
	})
	return groups, keepers
}

// persist sends k messages from every member and waits until all disks have them. It returns the
// version of the last one.
func persistSome(t testing.TB, groups []*squall.Group, tag string, k int) (last squall.Version) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var mu sync.Mutex
	var senders sync.WaitGroup
	for i, g := range groups {
		senders.Go(func() {
			var futures []*squall.Future
			for m := range k {
				f, err := must(g.Subgroup("log")).SendFuture(ctx, fmt.Appendf(nil, "%s %d %d", tag, i+1, m))
				if err != nil {
					t.Errorf("node %d: message %d: %v", i+1, m, err)
					return
				}
				futures = append(futures, f)
			}
			for m, f := range futures {
				v, err := f.Persisted(ctx, squall.OnEveryDisk)
				if err != nil {
					t.Errorf("node %d: message %d: %v", i+1, m, err)
					return
				}
				mu.Lock()
				if last.Before(v) {
					last = v
				}
				mu.Unlock()
			}
		})
	}
	senders.Wait()
	return last
}

func TestWhatIsPersistedIsInEveryLogInTheOrderOfDelivery(t *testing.T) {
	t.Parallel()
	for _, engine := range []squall.LogEngine{bolt.Engine, wal.Engine} {
		t.Run(engine.String(), func(t *testing.T) {
			groups, keepers := durableCluster(t, t.TempDir(), 3, func(_ int, c *squall.Config) { c.Subgroups[0].Log.Engine = engine })
			last := persistSome(t, groups, "x", 200)
			for i, g := range groups {
				l, err := must(g.Subgroup("log")).Log()
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				if err := l.WaitPersisted(ctx, squall.OnEveryDisk, last); err != nil {
					t.Fatal(err)
				}
				var got []string
				var times []squall.Time
				for r, err := range l.Range(squall.Version{}, squall.Version{}) {
					if err != nil {
						t.Fatal(err)
					}
					got, times = append(got, string(r.Data)), append(times, r.Time)
				}
				if len(got) != 600 || !slices.Equal(got, keepers[0].all()) || !slices.Equal(times, keepers[i].times) {
					t.Errorf("node %d: its log has %d records, %d were delivered; equal: %v", i+1, len(got), len(keepers[i].all()), slices.Equal(got, keepers[i].all()))
				}
				if !slices.IsSorted(times) || len(slices.Compact(times)) != 600 {
					t.Errorf("node %d: times do not grow strictly", i+1)
				}
			}
		})
	}
}

func TestAGroupComesBackAfterAllMembersEnded(t *testing.T) {
	dir := t.TempDir()
	groups, before := durableCluster(t, dir, 3, nil)
	persistSome(t, groups, "first", 50)
	all := before[0].all()
	addrs := make([]string, 3)
	for i, g := range groups {
		addrs[i] = g.Addr()
	}
	closeAll(groups...)

	keep := func(i int, c *squall.Config) { c.Listen = addrs[i] }
	groups, after := durableCluster(t, dir, 3, keep)
	for i, j := range after {
		<-must(groups[i].Subgroup("log")).Restored() // the last ones to leave come back first, and the others join them
		if got := j.all(); !slices.Equal(got, all) {
			t.Fatalf("node %d came back with %d of %d messages", i+1, len(got), len(all))
		}
	}
	persistSome(t, groups, "second", 50)
	for i, j := range after {
		eventually(t, "everything is there", func() bool { return len(j.all()) == 300 })
		if got := j.all(); !slices.Equal(got, after[0].all()) {
			t.Errorf("node %d differs", i+1)
		}
	}
}

func TestAMemberThatComesBackCatchesUp(t *testing.T) {
	dir := t.TempDir()
	groups, _ := durableCluster(t, dir, 3, nil)
	persistSome(t, groups, "all", 20)
	closeWell(t, groups[2])
	persistSome(t, groups[:2], "two", 20)
	caught := make(chan squall.LogCaughtUp, 8)
	j := &keeper{}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	again, err := squall.Open(ctx, squall.Config{
		Cluster: "durable", ID: 3, Listen: "127.0.0.1:0", Join: []string{groups[0].Addr()}, InitialMembers: 3, Logger: quiet, Dir: filepath.Join(dir, "node-3"),
		Events: func(e squall.Event) {
			if c, ok := e.(squall.LogCaughtUp); ok {
				caught <- c
			}
		},
		Subgroups: []squall.SubgroupConfig{{
			Name: "log", Mode: squall.Persistent, RingBytes: 64 << 10, Window: 256, Deliver: j.deliver, Log: squall.LogConfig{Recover: j.recover},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(again) })
	<-must(again.Subgroup("log")).Restored()
	persistSome(t, append(groups[:2:2], again), "again", 10)
	eventually(t, "everything is there", func() bool { return len(j.all()) == 60+40+30 })
	if c := <-caught; c.Records != 40 || c.Cut != 0 {
		t.Errorf("it caught up by %d records, and 40 were missing: %v", c.Records, c)
	}
}

func TestDeliverAfterPersistDeliversWhatEveryDiskHas(t *testing.T) {
	var early sync.Map
	var groups []*squall.Group
	ready := make(chan struct{})
	groups, keepers := durableCluster(t, t.TempDir(), 2, func(i int, c *squall.Config) {
		c.Subgroups[0].Log.DeliverAfterPersist = true
		deliver := c.Subgroups[0].Deliver
		c.Subgroups[0].Deliver = func(m squall.Message) {
			<-ready
			l, err := must(groups[i].Subgroup("log")).Log()
			if err != nil || !m.Version().Before(l.Persisted(squall.OnEveryDisk)) {
				early.Store(i, fmt.Sprint(m.Version(), " ", err))
			}
			deliver(m)
		}
	})
	close(ready)
	persistSome(t, groups, "x", 300)
	for i, j := range keepers {
		eventually(t, "everything is there", func() bool { return len(j.all()) == 600 })
		if what, ok := early.Load(i); ok {
			t.Errorf("node %d: version %v was delivered before every disk had it", i+1, what)
		}
	}
}

func TestATimeIsReadWhenItIsSettled(t *testing.T) {
	groups, _ := durableCluster(t, t.TempDir(), 3, nil)
	last := persistSome(t, groups, "x", 5)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	now := squall.Time(time.Now().UnixNano())
	for i, g := range groups {
		l, err := must(g.Subgroup("log")).Log()
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.At(ctx, now) // nothing is sent any more: the members' clocks tell that nothing can come
		if err != nil || r.Version != last {
			t.Errorf("node %d: at %v there is %v, %v; want %v", i+1, now, r.Version, err, last)
		}
		if _, err := l.TryAt(now + squall.Time(time.Hour)); !errors.Is(err, squall.ErrNotFinal) {
			t.Errorf("node %d: in an hour: %v", i+1, err)
		}
		if _, err := l.TryAt(now); err != nil {
			t.Errorf("node %d: %v", i+1, err)
		}
	}
}

func TestASnapshotStandsForTheRecordsBeforeIt(t *testing.T) {
	dir := t.TempDir()
	groups, _ := durableCluster(t, dir, 2, nil)
	persistSome(t, groups, "x", 25)
	last := persistSome(t, groups, "x", 25) // whole blocks go, and not the last one
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, g := range groups {
		l, err := must(g.Subgroup("log")).Log()
		if err != nil {
			t.Fatal(err)
		}
		if err := l.WaitPersisted(ctx, squall.OnEveryDisk, last); err != nil {
			t.Fatal(err)
		}
		if err := l.Snapshot(last, func(w io.Writer) error { _, err := io.WriteString(w, "hundred"); return err }); err != nil {
			t.Fatal(err)
		}
		at, r, err := l.OpenSnapshot()
		if err != nil || at.Version != last {
			t.Fatal(at, err)
		}
		text, err := io.ReadAll(r)
		r.Close()
		if err != nil || string(text) != "hundred" {
			t.Fatalf("%q, %v", text, err)
		}
	}
	persistSome(t, groups, "y", 5)
	eventually(t, "the first version is gone", func() bool {
		_, err := mustLog(t, groups[0]).Get(squall.Version{View: 1})
		return errors.Is(err, squall.ErrLogTruncated)
	})
}

func mustLog(t testing.TB, g *squall.Group) *squall.Log {
	t.Helper()
	l, err := must(g.Subgroup("log")).Log()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestALargeMessageIsARecordLikeAnyOther(t *testing.T) {
	groups, _ := durableCluster(t, t.TempDir(), 2, func(_ int, c *squall.Config) { c.Subgroups[0].MaxMessageBytes = 8 << 20 })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	data := make([]byte, 6<<20)
	for i := 0; i < len(data); i += 8 {
		binary.LittleEndian.PutUint64(data[i:], uint64(i))
	}
	f, err := must(groups[0].Subgroup("log")).SendFuture(ctx, data)
	if err != nil {
		t.Fatal(err)
	}
	v, err := f.Persisted(ctx, squall.OnEveryDisk)
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range groups {
		r, err := mustLog(t, g).Get(v)
		if err != nil || string(r.Data) != string(data) || r.Sender != 1 {
			t.Errorf("node %d: %v of %d bytes, %v", i+1, r.Version, len(r.Data), err)
		}
	}
}

func TestADirectoryOfSomebodyElseIsRefused(t *testing.T) {
	dir := t.TempDir()
	groups, _ := durableCluster(t, dir, 1, nil)
	persistSome(t, groups, "x", 3)
	closeAll(groups...)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	open := func(change func(*squall.Config)) error {
		c := squall.Config{
			Cluster: "durable", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Logger: quiet, Dir: filepath.Join(dir, "node-1"),
			Subgroups: []squall.SubgroupConfig{{Name: "log", Mode: squall.Persistent, Deliver: func(squall.Message) {}}},
		}
		change(&c)
		g, err := squall.Open(ctx, c)
		if err == nil {
			closeAll(g)
		}
		return err
	}
	if err := open(func(c *squall.Config) { c.Cluster = "other" }); !errors.Is(err, squall.ErrOtherCluster) {
		t.Errorf("another cluster: %v", err)
	}
	if err := open(func(c *squall.Config) { c.ID = 2 }); err == nil || !strings.Contains(err.Error(), "another node") {
		t.Errorf("another node: %v", err)
	}
	if err := open(func(*squall.Config) {}); err != nil {
		t.Errorf("its own: %v", err)
	}
}

// A process whose disk was replaced has no record of the group and would found it. The other
// processes came back without it and ask no process.
func TestTheFirstMemberThatWaitsFindsTheGroupThatFormedWithoutIt(t *testing.T) {
	ports := freeAddrs(t, 2)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	open := func(i int, expect int, join ...string) (*squall.Group, error) {
		return squall.Open(ctx, squall.Config{
			Cluster: t.Name(), ID: squall.NodeID(i + 1), Listen: ports[i], Join: join, InitialMembers: expect, Logger: quiet,
			Subgroups: []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}},
		})
	}
	type opened struct {
		g   *squall.Group
		err error
	}
	first := make(chan opened, 1)
	go func() {
		g, err := open(0, 2, ports[0], ports[1])
		first <- opened{g, err}
	}()
	other, err := open(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(other) })
	got := <-first
	if got.err != nil {
		t.Fatal(got.err)
	}
	t.Cleanup(func() { closeAll(got.g) })
	if v := got.g.View(); v.ID < 2 || len(v.Members) != 2 || v.Members[0].ID != 2 {
		t.Errorf("it is in view %d of %v", v.ID, v.Members)
	}
}

// freeAddrs are addresses on loopback on which no process listens.
func freeAddrs(t testing.TB, n int) (addrs []string) {
	t.Helper()
	for range n {
		addrs = append(addrs, testutil.FreeAddress(t))
	}
	return addrs
}

func TestThoseThatComeBackSayForWhomTheyWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	groups, _ := durableCluster(t, dir, 3, nil)
	persistSome(t, groups, "x", 5)
	addrs := []string{groups[0].Addr(), groups[1].Addr(), groups[2].Addr()}
	closeAll(groups...) // all at once: how many of them the last view still has is left to chance
	waits := make(chan string, 64)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var opening sync.WaitGroup
	back := make([]*squall.Group, 3)
	open := func(i int) {
		opening.Go(func() {
			var err error
			back[i], err = squall.Open(ctx, squall.Config{
				Cluster: "durable", ID: squall.NodeID(i + 1), Listen: addrs[i], Join: addrs, InitialMembers: 3, Logger: quiet, Dir: filepath.Join(dir, fmt.Sprint("node-", i+1)),
				Subgroups: []squall.SubgroupConfig{{Name: "log", Mode: squall.Persistent, RingBytes: 64 << 10, Window: 256, Deliver: func(squall.Message) {}}},
				Events: func(e squall.Event) {
					if r, ok := e.(squall.Restarting); ok {
						select {
						case waits <- r.String():
						default:
						}
					}
				},
			})
			if err != nil {
				t.Errorf("node %d: %v", i+1, err)
			}
		})
	}
	open(2)
	if said := <-waits; !strings.Contains(said, "node") {
		t.Errorf("it said %q", said)
	}
	open(0)
	open(1)
	opening.Wait()
	defer closeAll(back...)
	if t.Failed() {
		return
	}
	for i, g := range back {
		<-must(g.Subgroup("log")).Restored()
		n := 0
		for _, err := range mustLog(t, g).Range(squall.Version{}, squall.Version{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 15 {
			t.Errorf("node %d has %d of 15 records", i+1, n)
		}
	}
}

// What is damaged in front of the end is found by its reader: here, by the application that
// recovers.
func TestDamageThatIsFoundWhileReadingIsDroppedAtTheNextStartAndComesFromOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	onWAL := func(_ int, c *squall.Config) { c.Subgroups[0].Log.Engine = wal.Engine }
	groups, _ := durableCluster(t, dir, 3, onWAL)
	for k := range 5 {
		persistSome(t, groups, fmt.Sprint("round ", k), 20)
	}
	addrs := []string{groups[0].Addr(), groups[1].Addr(), groups[2].Addr()}
	closeWell(t, groups[2]) // the others go on
	files, err := filepath.Glob(filepath.Join(dir, "node-3", "logs", "*", "*.wal"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	if !flip(t, files[0], "round 0") {
		t.Fatal("nothing was damaged")
	}
	var repaired atomic.Int32
	open := func() (*squall.Group, *keeper, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		j := &keeper{}
		g, err := squall.Open(ctx, squall.Config{
			Cluster: "durable", ID: 3, Listen: "127.0.0.1:0", Join: addrs[:2], InitialMembers: 3, Logger: quiet, Dir: filepath.Join(dir, "node-3"),
			Subgroups: []squall.SubgroupConfig{{
				Name: "log", Mode: squall.Persistent, RingBytes: 64 << 10, Window: 256, Deliver: j.deliver, Log: squall.LogConfig{Engine: wal.Engine, Recover: j.recover},
			}},
			Events: func(e squall.Event) {
				if _, ok := e.(squall.LogRepaired); ok {
					repaired.Add(1)
				}
			},
		})
		return g, j, err
	}
	g, _, err := open()
	if err == nil {
		<-g.Done()
		err = g.Err()
		closeAll(g)
	}
	if !errors.Is(err, squall.ErrLogDamaged) || !strings.Contains(err.Error(), "when it is started again") {
		t.Fatalf("the first start: %v", err)
	}
	g, j, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(g) })
	<-must(g.Subgroup("log")).Restored()
	if n := len(j.all()); n != 300 || repaired.Load() != 1 {
		t.Errorf("it has %d of 300 messages, and %d repairs were told", n, repaired.Load())
	}
}

// A member whose application recovers without its log finds damage when the log is read.
func TestDamageThatAReaderFindsIsToldAndRepairedAtTheNextStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	groups, _ := durableCluster(t, dir, 3, nil)
	for k := range 5 {
		persistSome(t, groups, fmt.Sprint("round ", k), 20)
	}
	addrs := []string{groups[0].Addr(), groups[1].Addr()}
	closeWell(t, groups[2])         // the others go on
	for flipped := 0; ; flipped++ { // the tree may have copies that are not in use any more
		if !flip(t, filepath.Join(dir, "node-3", "logs", "log.0", "log.db"), "round 2") {
			if flipped == 0 {
				t.Fatal("nothing was damaged")
			}
			break
		}
	}
	var damaged, repaired atomic.Int32
	open := func() *squall.Group {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		g, err := squall.Open(ctx, squall.Config{
			Cluster: "durable", ID: 3, Listen: "127.0.0.1:0", Join: addrs, InitialMembers: 3, Logger: quiet, Dir: filepath.Join(dir, "node-3"),
			Subgroups: []squall.SubgroupConfig{{Name: "log", Mode: squall.Persistent, RingBytes: 64 << 10, Window: 256, Deliver: func(squall.Message) {}}},
			Events: func(e squall.Event) {
				switch e.(type) {
				case squall.LogDamaged:
					damaged.Add(1)
				case squall.LogRepaired:
					repaired.Add(1)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeAll(g) })
		select {
		case <-must(g.Subgroup("log")).Restored():
		case <-g.Done():
			t.Fatal(g.Err())
		}
		return g
	}
	read := func(g *squall.Group) (n int, err error) {
		for _, err = range mustLog(t, g).Range(squall.Version{}, squall.Version{}) {
			if err == nil {
				n++
			}
		}
		return n, err
	}
	g := open()
	for range 2 {
		if n, err := read(g); !errors.Is(err, squall.ErrLogDamaged) {
			t.Fatalf("%d records, %v", n, err)
		}
	}
	eventually(t, "the damage is told", func() bool { return damaged.Load() > 0 })
	closeAll(g)
	if n, err := read(open()); n != 300 || err != nil || damaged.Load() != 1 || repaired.Load() != 1 {
		t.Errorf("%d of 300 records, %v; told %d times of damage, and %d of a repair", n, err, damaged.Load(), repaired.Load())
	}
}

// flip changes a byte of a text in a file, where it stands first: false if it stands nowhere.
func flip(t testing.TB, path, text string) bool {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, []byte(text))
	if at < 0 {
		return false
	}
	data[at] ^= 0xff
	if err := os.WriteFile(path, data, 0o640); err != nil {
		t.Fatal(err)
	}
	return true
}

func TestAMemberThatRecoversForLongIsNotTakenForFailed(t *testing.T) {
	t.Parallel()
	const failAfter = time.Second
	dir := t.TempDir()
	quick := func(_ int, c *squall.Config) { c.FailAfter, c.Heartbeat = failAfter, failAfter/4 }
	groups, _ := durableCluster(t, dir, 3, quick)
	persistSome(t, groups, "x", 5)
	closeAll(groups...)
	groups, keepers := durableCluster(t, dir, 3, func(i int, c *squall.Config) {
		quick(i, c)
		recover := c.Subgroups[0].Log.Recover
		c.Subgroups[0].Log.Recover = func(l *squall.Log) error {
			time.Sleep(time.Duration(min(i, 1)) * 2 * failAfter) // that is how long the application takes
			return recover(l)
		}
	})
	for i, g := range groups {
		<-must(g.Subgroup("log")).Restored()
		if err := g.Err(); err != nil {
			t.Errorf("node %d: %v", i+1, err)
		}
	}
	persistSome(t, groups, "y", 5)
	for _, k := range keepers {
		eventually(t, "all messages are there", func() bool { return len(k.all()) == 30 })
	}
}
