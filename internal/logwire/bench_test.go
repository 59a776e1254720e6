package logwire

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/persist/wal"
)

// listening serves a host's log over TCP.
func (h *host) listening() (dial func(context.Context) (net.Conn, error)) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	h.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			h.serving.Go(func() { h.server.Serve(conn) })
		}
	})
	h.t.Cleanup(func() { listener.Close() })
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", listener.Addr().String())
	}
}

// big is a log of so many bytes of data.
func big(b *testing.B, size, total int) *persist.Log {
	l := newLog(b, wal.Engine)
	data := make([]byte, size)
	for n := range total / size {
		r := persist.Record{Version: order.Version{View: 1, Seq: order.Seq(n)}, Time: order.Time(1 + n), Sender: 1, Data: data}
		if err := l.Import(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Sync(b.Context()); err != nil {
		b.Fatal(err)
	}
	return l
}

func BenchmarkRange(b *testing.B) {
	for _, size := range []int{100, 10 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			const total = 128 << 20
			h := newHost(b, big(b, size, total))
			c := &Client{Dial: h.listening(), Times: quick}
			b.SetBytes(total)
			for b.Loop() {
				for _, err := range c.Range(b.Context(), prices, order.Version{}, order.Version{}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkCatchUp(b *testing.B) {
	for _, size := range []int{100, 10 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			const total = 128 << 20
			h := newHost(b, big(b, size, total))
			dial := h.listening()
			b.SetBytes(total)
			for b.Loop() {
				b.StopTimer()
				l := newLog(b, wal.Engine)
				b.StartTimer()
				if _, err := CatchUp(b.Context(), CatchUpConfig{ID: prices, Log: l, Dial: dial}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
