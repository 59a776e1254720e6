package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// jetStreamConfig is what a server of JetStream is told.
type jetStreamConfig struct {
	Clients, Routes []string // addresses, by node
	Dir             string
	Sync            bool
}

// serveJetStream is one of three servers, until the process is killed.
func serveJetStream(node int, text string) error {
	var c jetStreamConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	host, port, err := split(c.Clients[node-1])
	if err != nil {
		return err
	}
	_, route, err := split(c.Routes[node-1])
	if err != nil {
		return err
	}
	var routes []*url.URL
	for _, addr := range c.Routes {
		routes = append(routes, &url.URL{Scheme: "nats", Host: addr})
	}
	s, err := server.NewServer(&server.Options{
		ServerName: fmt.Sprint("n", node), Host: host, Port: port, NoSigs: true, NoLog: true,
		Cluster: server.ClusterOpts{Name: "peers", Host: host, Port: route}, Routes: routes,
		JetStream: true, StoreDir: filepath.Join(c.Dir, strconv.Itoa(node)), JetStreamMaxMemory: 4 << 30, JetStreamMaxStore: 16 << 30, SyncAlways: c.Sync,
	})
	if err != nil {
		return err
	}
	s.Start()
	s.WaitForShutdown()
	return nil
}

func split(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(text)
	return host, port, err
}

// measureJetStream measures a bucket of keys and values with three replicas.
func measureJetStream(ctx context.Context, o options) (r result, err error) {
	if o.load != puts {
		return r, fmt.Errorf("of jetstream, %s are measured", puts)
	}
	c := jetStreamConfig{Sync: o.place == "disk"}
	if c.Dir, err = o.directory(); err != nil {
		return r, err
	}
	defer os.RemoveAll(c.Dir)
	clients, end, err := startNodes(func(i int, clients, members []string) []string {
		c.Clients, c.Routes = clients, members
		text, _ := json.Marshal(c) // of texts: it cannot fail
		return []string{os.Args[0], "-jetstream-node", strconv.Itoa(i + 1), "-jetstream-config", string(text)}
	})
	if err != nil {
		return r, err
	}
	defer end()
	return jetStreamLoad(ctx, o, clients)
}

func jetStreamLoad(ctx context.Context, o options, addrs []string) (r result, err error) {
	var all []*nats.Conn
	defer func() {
		for _, nc := range all {
			nc.Close()
		}
	}()
	var buckets []jetstream.KeyValue
	for i := range o.conns {
		err := until(ctx, func(ctx context.Context) error {
			nc, kv, err := bucket(ctx, addrs[i%3], i == 0)
			if err == nil {
				all, buckets = append(all, nc), append(buckets, kv)
			}
			return err
		})
		if err != nil {
			return r, errors.Join(errors.New("jetstream"), err)
		}
	}
	value := make([]byte, o.size)
	return run(ctx, o, func(ctx context.Context, client int, key string) error {
		_, err := buckets[client%len(buckets)].Put(ctx, key, value)
		return err
	})
}

// bucket connects to a server and opens the bucket, or makes it.
func bucket(ctx context.Context, addr string, isNew bool) (nc *nats.Conn, kv jetstream.KeyValue, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second) // a request before a leader is known has no answer
	defer cancel()
	if nc, err = nats.Connect("nats://" + addr); err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	if err == nil && isNew {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "bench", Replicas: 3, Storage: jetstream.FileStorage})
	} else if err == nil {
		kv, err = js.KeyValue(ctx, "bench")
	}
	if err != nil {
		nc.Close()
	}
	return nc, kv, err
}
