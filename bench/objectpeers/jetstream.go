package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
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

// serveJetStream is one of three servers, until the standard input ends.
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
	go s.Start()
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.Shutdown()
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
	if c.Clients, err = ports(3); err != nil {
		return r, err
	}
	if c.Routes, err = ports(3); err != nil {
		return r, err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return r, err
	}
	for node := 1; node <= 3; node++ {
		p := exec.Command(os.Args[0], "-jetstream-node", strconv.Itoa(node), "-jetstream-config", string(text))
		in, err := p.StdinPipe()
		if err != nil {
			return r, err
		}
		p.Stderr = os.Stderr
		p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := p.Start(); err != nil {
			return r, err
		}
		defer func() {
			_ = in.Close()
			_ = p.Process.Kill() // its data is of no use any more
			_ = p.Wait()
		}()
	}
	return jetStreamLoad(ctx, o, c)
}

func jetStreamLoad(ctx context.Context, o options, c jetStreamConfig) (r result, err error) {
	var all []*nats.Conn
	defer func() {
		for _, nc := range all {
			nc.Close()
		}
	}()
	var buckets []jetstream.KeyValue
	for i := range o.conns {
		var kv jetstream.KeyValue
		err := until(ctx, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second) // a request before a leader is known has no answer
			defer cancel()
			nc, err := nats.Connect("nats://" + c.Clients[i%3])
			if err != nil {
				return err
			}
			js, err := jetstream.New(nc)
			if err == nil && i == 0 {
				kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "bench", Replicas: 3, Storage: jetstream.FileStorage})
			} else if err == nil {
				kv, err = js.KeyValue(ctx, "bench")
			}
			if err != nil {
				nc.Close()
				return err
			}
			all = append(all, nc)
			return nil
		})
		if err != nil {
			return r, errors.Join(errors.New("jetstream"), err)
		}
		buckets = append(buckets, kv)
	}
	value := make([]byte, o.size)
	return run(ctx, o, func(ctx context.Context, client int, key string) error {
		_, err := buckets[client%len(buckets)].Put(ctx, key, value)
		return err
	})
}
