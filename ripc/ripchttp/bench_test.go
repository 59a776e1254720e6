package ripchttp

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/squall-go/squall/ripc"
)

// Requests of 32 clients for 1 KiB, with both sides in one process.
func BenchmarkGet(b *testing.B) {
	content := make([]byte, 1<<10)
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{"application/octet-stream"}
		w.Write(content)
	})
	b.Run("via=unix", func(b *testing.B) {
		t := onUnix(b, h)
		t.MaxIdleConnsPerHost = 64
		benchmarkGet(b, t)
	})
	b.Run("via=streams", func(b *testing.B) {
		service := register(b, endpoint(b, ripc.TransportSHM), "web")
		server := &http.Server{Handler: h}
		var serving sync.WaitGroup
		serving.Go(func() {
			if err := server.Serve(ripc.Listen(service)); !errors.Is(err, http.ErrServerClosed) {
				b.Error(err)
			}
		})
		t := &http.Transport{DialContext: register(b, endpoint(b, ripc.TransportSHM), "").DialContext, MaxIdleConnsPerHost: 64, DisableCompression: true}
		benchmarkGet(b, t)
		t.CloseIdleConnections()
		must(b, server.Close())
		serving.Wait()
	})
	b.Run("via=calls", func(b *testing.B) {
		_, t := serve(b, ripc.TransportSHM, h)
		benchmarkGet(b, t)
	})
}

func benchmarkGet(b *testing.B, over http.RoundTripper) {
	b.ReportAllocs()
	client := &http.Client{Transport: over}
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			response, err := client.Get("http://web/content")
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	})
}
