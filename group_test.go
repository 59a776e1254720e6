package squall_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// quiet is a logger for tests that expect errors.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// cluster opens n members of one group in this process and closes them when the test ends.
func cluster(t testing.TB, n int, configure func(i int, c *squall.Config)) []*squall.Group {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	groups := make([]*squall.Group, n)
	errs := make([]error, n)
	first := make(chan string, 2)
	var done sync.WaitGroup
	for i := range n {
		cfg := squall.Config{Cluster: t.Name(), ID: squall.NodeID(i + 1), Listen: "127.0.0.1:0", InitialMembers: n, Logger: quiet}
		configure(i, &cfg)
		if i == 0 { // it listens on any free port, and says on which
			told := cfg.Events
			cfg.Events = func(e squall.Event) {
				if l, ok := e.(squall.Listening); ok {
					first <- l.Addr
				}
				if told != nil {
					told(e)
				}
			}
		} else {
			addr := <-first
			first <- addr
			cfg.Join = []string{addr}
		}
		done.Go(func() {
			groups[i], errs[i] = squall.Open(ctx, cfg)
			if i == 0 && groups[i] == nil {
				first <- "" // it never listened: the others fail, too
			}
		})
	}
	done.Wait()
	t.Cleanup(func() { closeAll(groups...) })
	for i, err := range errs {
		if err != nil {
			t.Fatalf("member %d: %v", i+1, err)
		}
	}
	return groups
}

// closeAll closes groups at the same time, and returns their errors. Some tests leave members
// behind that cannot be reached.
func closeAll(groups ...*squall.Group) error { return closeWithin(time.Second, groups...) }

// closeWell closes groups at the same time. Nothing keeps them from leaving.
func closeWell(t testing.TB, groups ...*squall.Group) {
	t.Helper()
	if err := closeWithin(time.Minute, groups...); err != nil {
		t.Error(err)
	}
}

func closeWithin(d time.Duration, groups ...*squall.Group) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	errs := make([]error, len(groups))
	var closing sync.WaitGroup
	for i, g := range groups {
		if g != nil {
			closing.Go(func() { errs[i] = g.Close(ctx) })
		}
	}
	closing.Wait()
	return errors.Join(errs...)
}

var fabrics = []squall.Fabric{squall.FabricSHM, squall.FabricTCP, squall.FabricAuto}

func TestAllMembersDeliverTheSameSequence(t *testing.T) {
	t.Parallel()
	for _, fabric := range fabrics {
		for _, nodes := range []int{1, 2, 3, 5} {
			t.Run(fmt.Sprintf("fabric=%v/nodes=%d", fabric, nodes), func(t *testing.T) {
				const each = 2000
				type state struct {
					digest uint64
					count  int
					next   map[squall.NodeID]uint64
					bad    string
					all    chan struct{}
				}
				states := make([]state, nodes)
				groups := cluster(t, nodes, func(i int, c *squall.Config) {
					s := &states[i]
					s.next, s.all = map[squall.NodeID]uint64{}, make(chan struct{})
					h := fnv.New64a()
					c.Fabric = fabric
					c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 64 << 10, Window: 256, Deliver: func(m squall.Message) {
						if k := binary.LittleEndian.Uint64(m.Data); k != s.next[m.Sender] {
							s.bad = fmt.Sprintf("node %d's message %d came in place of %d", m.Sender, k, s.next[m.Sender])
						}
						s.next[m.Sender]++
						h.Write(m.Data)
						fmt.Fprint(h, m.Sender, m.Seq)
						if s.count++; s.count == each*nodes {
							s.digest = h.Sum64()
							close(s.all)
						}
					}}}
				})
				var senders sync.WaitGroup
				for i, g := range groups {
					senders.Go(func() {
						for k := range uint64(each) {
							data := make([]byte, 8+(k*uint64(i+7))%300)
							binary.LittleEndian.PutUint64(data, k)
							if err := must(g.Subgroup("a")).Send(context.Background(), data); err != nil {
								t.Errorf("node %d: message %d: %v", i+1, k, err)
								return
							}
						}
					})
				}
				senders.Wait()
				for i := range states {
					select {
					case <-states[i].all:
					case <-time.After(20 * time.Second):
						groups[i].Debug().Dump(testWriter{t})
						t.Fatalf("node %d delivered %d of %d", i+1, states[i].count, each*nodes)
					}
					if states[i].bad != "" || states[i].digest != states[0].digest {
						t.Fatalf("node %d: digest %x, node 1 has %x; %s", i+1, states[i].digest, states[0].digest, states[i].bad)
					}
				}
			})
		}
	}
}

type testWriter struct{ testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.Logf("%s", b)
	return len(b), nil
}
