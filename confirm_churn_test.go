package squall_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

var cycles = flag.Int("cycles", 3, "members that come and go while others confirm")

// TestTryConfirmWhileMembersComeAndGo has goroutines call TryConfirm all the time, also of groups
// that join, are evicted, halt and are closed. Whatever it confirms, the application of that member
// had been given what any other one had before.
func TestTryConfirmWhileMembersComeAndGo(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("no shared memory here")
	}
	n := *cycles
	if testing.Short() {
		n = 1
	}
	for first, of := range []struct {
		name      string
		configure func(i int, c *squall.Config)
	}{
		{"ordered", func(int, *squall.Config) {}},
		{"queued", func(_ int, c *squall.Config) { c.Subgroups[0].AsyncQueueBytes = 1 << 16 }},
		{"one over TCP", func(i int, c *squall.Config) {
			if i == 1 {
				c.Fabric = squall.FabricTCP
			}
		}},
		{"log", func(_ int, c *squall.Config) { c.Subgroups[0].Mode = squall.Persistent }},
	} {
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			newest, dir := &register{}, t.TempDir()
			config := func(i int, own *register, c *squall.Config) {
				c.Subgroups = []squall.SubgroupConfig{{
					Name: "a",
					Deliver: func(m squall.Message) {
						own.deliver(m)
						k := binary.LittleEndian.Uint64(m.Data)
						for last := newest.last.Load(); last < k && !newest.last.CompareAndSwap(last, k); {
							last = newest.last.Load()
						}
					},
					Snapshot: func() func(io.Writer) error {
						last := own.last.Load()
						return func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, last) }
					},
					Restore: func(r io.Reader) error {
						var last uint64
						if err := binary.Read(r, binary.LittleEndian, &last); err != nil && !errors.Is(err, io.EOF) {
							return err
						}
						own.last.Store(last)
						return nil
					},
				}}
				if of.configure(i, c); c.Subgroups[0].Mode == squall.Persistent {
					c.Dir = filepath.Join(dir, fmt.Sprint(i))
					c.Subgroups[0].Log.Recover = func(l *squall.Log) error {
						own.last.Store(0)
						for r, err := range l.Range(squall.Version{}, squall.Version{}) {
							if err != nil {
								return err
							}
							own.last.Store(binary.LittleEndian.Uint64(r.Data))
						}
						return nil
					}
					c.Subgroups[0].Snapshot, c.Subgroups[0].Restore = nil, nil
				}
			}
			const stay = 3
			registers := make([]register, stay)
			groups := cluster(t, stay, func(i int, c *squall.Config) { config(i, &registers[i], c) })
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+10*n)*time.Second)
			defer cancel()

			var over atomic.Bool
			var confirmed atomic.Int64
			var reading sync.WaitGroup
			read := func(i int, g *squall.Group, own *register, over *atomic.Bool, n *atomic.Int64) {
				s := must(g.Subgroup("a"))
				reading.Go(func() {
					for !over.Load() {
						before := newest.last.Load()
						if !s.TryConfirm() {
							runtime.Gosched()
							continue
						}
						n.Add(1)
						confirmed.Add(1)
						if now := own.last.Load(); now < before {
							t.Errorf("B11: member %d reads %d, and another one had %d before", i+1, now, before)
							return
						}
						runtime.Gosched()
					}
				})
			}
			for i, g := range groups {
				read(i, g, &registers[i], &over, new(atomic.Int64))
			}
			reading.Go(func() {
				a := must(groups[0].Subgroup("a"))
				for k := uint64(1); !over.Load(); k++ {
					if err := a.Send(ctx, binary.LittleEndian.AppendUint64(nil, k)); err != nil {
						t.Error(err)
						return
					}
					if k%64 == 0 {
						time.Sleep(time.Millisecond)
					}
				}
			})
			for k := first; k < first+n; k++ {
				own, cfg := &register{}, squall.Config{Cluster: t.Name(), ID: stay + 1, InitialMembers: stay, Listen: "127.0.0.1:0", Join: []string{groups[0].Addr()}, Logger: quiet}
				config(stay, own, &cfg)
				g, err := squall.Open(ctx, cfg)
				if err != nil {
					t.Error(err)
					break
				}
				var gone atomic.Bool
				var n atomic.Int64
				read(stay, g, own, &gone, &n)
				read(stay, g, own, &gone, &n)
				eventually(t, "TryConfirm", func() bool { return n.Load() > 100 || t.Failed() })
				switch k % 3 {
				case 1:
					groups[k%2].ReportFailure(g.ID())
					<-g.Done()
				case 2:
					g.Halt(errors.New("halted"))
					<-g.Done()
				}
				_ = g.Close(ctx) // it may have been evicted
				if must(g.Subgroup("a")).TryConfirm() {
					t.Error("a closed group confirms")
				}
				gone.Store(true)
			}
			over.Store(true)
			reading.Wait()
			t.Logf("%d confirmations", confirmed.Load())
		})
	}
}
