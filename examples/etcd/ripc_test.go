package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/squall-go/squall/ripc"
)

// gRPC runs over streams of ripc as it is: calls, and streams that live as long as a watch. The
// client finds the server by the name of its service.
func TestGRPCRunsOverStreamsOfRIPC(t *testing.T) {
	_, members := cluster(t, 1)
	for name, transport := range map[string]ripc.Transport{"shm": ripc.TransportSHM, "tcp": ripc.TransportTCP} {
		t.Run(name, func(t *testing.T) {
			resolver := ripc.OneHost(fmt.Sprint(t.Name(), os.Getpid()))
			register := func(id ripc.ID) *ripc.Service {
				cfg := ripc.Config{Transport: transport, Resolver: resolver}
				if transport == ripc.TransportTCP {
					cfg.Listen = "127.0.0.1:0"
				}
				e := must(ripc.Open(t.Context(), cfg))
				t.Cleanup(func() { _ = e.Close() })
				return must(e.Register(t.Context(), id))
			}
			_, over := newServer(members[0].group, members[0].object, "test")
			listener := ripc.Listen(register("etcd"))
			var serving sync.WaitGroup
			serving.Go(func() {
				if err := over.Serve(listener); err != nil {
					t.Error(err)
				}
			})
			defer serving.Wait()
			defer over.Stop()

			me := register("")
			c := must(clientv3.New(clientv3.Config{
				Endpoints: []string{"http://etcd"}, DialTimeout: 10 * time.Second, Logger: zap.NewNop(),
				DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
					return me.DialContext(ctx, "", addr)
				})},
			}))
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			watched := c.Watch(ctx, name, clientv3.WithCreatedNotify())
			<-watched
			must(c.Put(ctx, name, "over ripc"))
			got := <-watched
			if err := got.Err(); err != nil || len(got.Events) != 1 || string(got.Events[0].Kv.Value) != "over ripc" {
				t.Errorf("watched %v: %v", got.Events, err)
			}
			same(t, "get", kvs(must(c.Get(ctx, name)).Kvs), []string{name + "=over ripc"})
		})
	}
}
