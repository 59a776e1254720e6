package ripc

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
)

// benchPair is two connected services, of which the second answers.
func benchPair(b *testing.B, cfg Config) (client *Service, to *Remote) {
	server := register(b, open(b, cfg), "server")
	client = register(b, open(b, cfg), "")
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { echo(ctx, server) })
	b.Cleanup(func() { cancel(); done.Wait() })
	to = client.To("server")
	if err := to.Connect(ctx); err != nil {
		b.Fatal(err)
	}
	return client, to
}

func BenchmarkRoundTrip(b *testing.B) {
	for name, cfg := range map[string]Config{"shm": {Transport: TransportSHM}, "tcp": {Transport: TransportTCP, Listen: "127.0.0.1:0"}} {
		b.Run("fabric="+name+"/size=64B", func(b *testing.B) {
			client, to := benchPair(b, cfg)
			ctx, body := context.Background(), make([]byte, 64)
			b.ReportAllocs()
			for b.Loop() {
				if err := client.Send(ctx, to, body); err != nil {
					b.Fatal(err)
				}
				m, err := client.Receive(ctx)
				if err != nil {
					b.Fatal(err)
				}
				m.Release()
			}
		})
	}
}

func BenchmarkCall(b *testing.B) {
	for name, cfg := range map[string]Config{"shm": {Transport: TransportSHM}, "tcp": {Transport: TransportTCP, Listen: "127.0.0.1:0"}} {
		b.Run("fabric="+name+"/size=64B", func(b *testing.B) {
			client, to := benchPair(b, cfg)
			ctx, body := context.Background(), make([]byte, 64)
			b.ReportAllocs()
			for b.Loop() {
				m, err := client.Call(ctx, to, body)
				if err != nil {
					b.Fatal(err)
				}
				m.Release()
			}
		})
	}
}

func BenchmarkOneWay(b *testing.B) {
	for name, cfg := range map[string]Config{"shm": {Transport: TransportSHM}, "tcp": {Transport: TransportTCP, Listen: "127.0.0.1:0"}} {
		b.Run("fabric="+name+"/size=64B", func(b *testing.B) {
			server, client := register(b, open(b, cfg), "server"), register(b, open(b, cfg), "")
			to := client.To("server")
			ctx, body := context.Background(), make([]byte, 64)
			if err := to.Connect(ctx); err != nil {
				b.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				server.Serve(ctx, func(_ context.Context, m *Message) {
					if len(m.Data) == 0 {
						server.Close()
					}
				})
			}()
			b.ReportAllocs()
			for b.Loop() {
				if err := client.Send(ctx, to, body); err != nil {
					b.Fatal(err)
				}
			}
			if err := client.Send(ctx, to); err != nil {
				b.Fatal(err)
			}
			<-done
		})
	}
}

// BenchmarkCallsOfMany has 500 goroutines call over one connection, whose ring has room for some of
// the requests.
func BenchmarkCallsOfMany(b *testing.B) {
	for name, cfg := range map[string]Config{"shm": {Transport: TransportSHM}, "tcp": {Transport: TransportTCP, Listen: "127.0.0.1:0"}} {
		b.Run("fabric="+name+"/size=1KiB", func(b *testing.B) {
			client, to := benchPair(b, cfg)
			ctx, body := context.Background(), make([]byte, 1024)
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			var callers sync.WaitGroup
			for range 500 {
				callers.Go(func() {
					for left.Add(-1) >= 0 {
						m, err := client.Call(ctx, to, body)
						if err != nil {
							b.Error(err)
							return
						}
						m.Release()
					}
				})
			}
			callers.Wait()
		})
	}
}
