package member_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// counter is the smallest object: it counts.
type counter struct{ N uint64 }

var (
	countRaw  = replicated.NewCommand[[]byte, []byte]("raw")
	countCBOR = replicated.NewCommand[depositArgs, int64]("cbor")
	read      = replicated.NewQuery[[]byte, []byte]("read")
)

var none []byte

func (c *counter) raw(*member.Context, []byte) ([]byte, error) {
	c.N++
	return none, nil
}

func (c *counter) cbor(*member.Context, depositArgs) (int64, error) {
	c.N++
	return int64(c.N), nil
}

func (c *counter) read(*member.Context, []byte) ([]byte, error) { return none, nil }

func counters(int) *member.Object[*counter] {
	return member.New(squall.SubgroupConfig{Name: "counter"}, func() *counter { return &counter{} },
		member.Handle(countRaw, (*counter).raw), member.Handle(countCBOR, (*counter).cbor), member.Handle(read, (*counter).read))
}

// BenchmarkCommands has one of three members of this process call commands of 100 bytes.
func BenchmarkCommands(b *testing.B) {
	run := func(name string, each func(b *testing.B, m *node[*counter])) {
		b.Run(name, func(b *testing.B) {
			all := open(b, 3, counters, nil)
			b.ReportAllocs()
			b.ResetTimer()
			each(b, all[0])
		})
	}
	args := make([]byte, 100)
	run("raw", func(b *testing.B, m *node[*counter]) { pipeline(b, m, countRaw, args) })
	run("cbor", func(b *testing.B, m *node[*counter]) { pipeline(b, m, countCBOR, depositArgs{"an account", 5}) })
	run("one", func(b *testing.B, m *node[*counter]) {
		for b.Loop() {
			if _, err := countRaw.Call(b.Context(), m.bank, args); err != nil {
				b.Fatal(err)
			}
		}
	})
	run("linearizable", func(b *testing.B, m *node[*counter]) {
		for b.Loop() {
			if _, err := read.Call(b.Context(), m.bank, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	run("local", func(b *testing.B, m *node[*counter]) {
		for b.Loop() {
			if _, err := read.Local(b.Context(), m.bank, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// pipeline keeps some hundred commands under way.
func pipeline[A, R any](b *testing.B, m *node[*counter], c *replicated.Command[A, R], args A) {
	const window = 512
	var under [window]*replicated.Future[R]
	for i := range b.N {
		if f := under[i%window]; f != nil {
			if _, err := f.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		f, err := c.Go(b.Context(), m.bank, args)
		if err != nil {
			b.Fatal(err)
		}
		under[i%window] = f
	}
	for i := range min(window, b.N) {
		if _, err := under[i].Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkClients has clients call one command at a time each.
func BenchmarkClients(b *testing.B) {
	for _, n := range []int{1, 128} {
		b.Run(map[int]string{1: "1", 128: "128"}[n], func(b *testing.B) {
			all := open(b, 3, counters, nil)
			client, _ := serve(b, all, ripc.TransportAuto)
			c := client.Object("counter")
			b.ReportAllocs()
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := countRaw.Call(b.Context(), c, make([]byte, 100)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
