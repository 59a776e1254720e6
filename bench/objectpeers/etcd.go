package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdNodes starts a cluster of three nodes.
func etcdNodes(dir string) (clients []string, end func(), err error) {
	return startNodes(func(i int, clients, members []string) []string {
		var cluster []string
		for i, addr := range members {
			cluster = append(cluster, fmt.Sprintf("n%d=http://%s", i, addr))
		}
		client, member := "http://"+clients[i], "http://"+members[i]
		return []string{
			"etcd", "--name", fmt.Sprint("n", i), "--data-dir", filepath.Join(dir, fmt.Sprint(i)),
			"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", member, "--initial-advertise-peer-urls", member,
			"--initial-cluster", strings.Join(cluster, ","), "--log-level", "error", "--quota-backend-bytes", fmt.Sprint(8 << 30),
		}
	})
}

// squallNodes starts a cluster of examples/etcd.
func (o options) squallNodes(dir string) (clients []string, end func(), err error) {
	return startNodes(func(i int, clients, members []string) []string {
		line := []string{o.program, "-id", fmt.Sprint(i + 1), "-clients", clients[i], "-initial", "3", "-join", strings.Join(members, ",")}
		if o.place == "disk" {
			line = append(line, "-dir", filepath.Join(dir, fmt.Sprint(i)))
		}
		return line
	})
}

func measureEtcd(ctx context.Context, o options, nodes func(dir string) (clients []string, end func(), err error)) (r result, err error) {
	dir, err := o.directory()
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	addrs, end, err := nodes(dir)
	if err != nil {
		return r, err
	}
	defer end()
	return etcdLoad(ctx, o, addrs)
}

// etcdLoad puts or gets by the API of etcd, at the nodes in turn.
func etcdLoad(ctx context.Context, o options, addrs []string) (r result, err error) {
	var all []*clientv3.Client
	defer func() {
		for _, c := range all {
			_ = c.Close()
		}
	}()
	for i := range o.conns {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + addrs[i%len(addrs)]}, DialTimeout: within, Logger: zap.NewNop()})
		if err != nil {
			return r, err
		}
		all = append(all, c)
	}
	value := strings.Repeat("v", o.size)
	for i := range addrs { // every node takes part
		err := until(ctx, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, err := all[i%len(all)].Put(ctx, "key-00000", value)
			return err
		})
		if err != nil {
			return r, err
		}
	}
	switch o.load {
	case gets:
		if err := putAll(ctx, all[0], value); err != nil {
			return r, err
		}
	case tell:
		return etcdEvents(ctx, o, all, value)
	}
	return etcdRequests(ctx, o, all, value)
}

// putAll puts a value under all keys, 100 in a transaction.
func putAll(ctx context.Context, c *clientv3.Client, value string) error {
	for k := range keys / 100 {
		var ops []clientv3.Op
		for i := range 100 {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("key-%05d", 100*k+i), value))
		}
		if _, err := c.Txn(ctx).Then(ops...).Commit(); err != nil {
			return err
		}
	}
	return nil
}

func etcdRequests(ctx context.Context, o options, all []*clientv3.Client, value string) (result, error) {
	return run(ctx, o, func(ctx context.Context, client int, key string) error {
		c := all[client%len(all)]
		if o.load == gets {
			got, err := c.Get(ctx, key)
			if err == nil && (len(got.Kvs) != 1 || len(got.Kvs[0].Value) != o.size) {
				err = fmt.Errorf("%s has %d values", key, len(got.Kvs))
			}
			return err
		}
		_, err := c.Put(ctx, key, value)
		return err
	})
}

// putters is how many puts are under way while events are counted.
const putters = 64

// etcdEvents counts the events that watchers of one key get.
func etcdEvents(ctx context.Context, o options, all []*clientv3.Client, value string) (r result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var events atomic.Int64
	var group sync.WaitGroup
	for i := range o.clients {
		w := all[i%len(all)].Watch(ctx, "watched", clientv3.WithCreatedNotify())
		if r, ok := <-w; !ok || r.Err() != nil {
			return result{}, fmt.Errorf("watching: %w", r.Err())
		}
		group.Go(func() {
			for r := range w {
				events.Add(int64(len(r.Events)))
			}
		})
	}
	r, err = o.measure(ctx, putters, events.Load, func(i int) func() error {
		return func() error {
			_, err := all[i%len(all)].Put(ctx, "watched", value)
			return err
		}
	})
	cancel()
	group.Wait()
	return r, err
}
