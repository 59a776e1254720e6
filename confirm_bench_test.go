package squall_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/squall-go/squall"
)

// BenchmarkConfirm has a member confirm, one time after the other or from 256 goroutines: the
// junior one of two or three members of this process, or one that is alone. Beside it stand plain
// round trips over TCP.
func BenchmarkConfirm(b *testing.B) {
	for _, of := range []struct {
		name    string
		members int
		fabric  squall.Fabric
	}{{"alone", 1, squall.FabricSHM}, {"shm/2", 2, squall.FabricSHM}, {"shm/3", 3, squall.FabricSHM}, {"tcp/2", 2, squall.FabricTCP}, {"tcp/3", 3, squall.FabricTCP}} {
		junior := func(b *testing.B) *squall.Subgroup {
			all := cluster(b, of.members, func(_ int, c *squall.Config) {
				c.Fabric = of.fabric
				c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}}
			})
			b.ReportAllocs()
			b.ResetTimer()
			return must(all[of.members-1].Subgroup("a"))
		}
		b.Run(of.name+"/one", func(b *testing.B) {
			s := junior(b)
			for b.Loop() {
				if err := s.Confirm(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(of.name+"/256", func(b *testing.B) {
			s := junior(b)
			var left atomic.Int64
			left.Store(int64(b.N))
			var reading sync.WaitGroup
			for range 256 {
				reading.Go(func() {
					for left.Add(-1) >= 0 {
						if err := s.Confirm(b.Context()); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			reading.Wait()
		})
	}
	b.Run("raw tcp", func(b *testing.B) {
		l := must(net.Listen("tcp", "127.0.0.1:0"))
		defer l.Close()
		var echo sync.WaitGroup
		defer echo.Wait()
		echo.Go(func() {
			if c, err := l.Accept(); err == nil {
				defer c.Close()
				_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
			}
		})
		c := must(net.Dial("tcp", l.Addr().String()))
		defer c.Close()
		word := make([]byte, 64)
		for b.Loop() {
			if _, err := c.Write(word); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(c, word); err != nil {
				b.Fatal(err)
			}
		}
	})
}
