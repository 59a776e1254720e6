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

// etcdNodes starts a cluster of three nodes, and returns where clients reach them.
func etcdNodes(dir string) (endpoints []string, end func(), err error) {
	clients, err := ports(3)
	if err != nil {
		return nil, nil, err
	}
	members, err := ports(3)
	if err != nil {
		return nil, nil, err
	}
	var cluster []string
	for i, addr := range members {
		cluster = append(cluster, fmt.Sprintf("n%d=http://%s", i, addr))
		endpoints = append(endpoints, "http://"+clients[i])
	}
	var all []*process
	end = func() {
		for _, p := range all {
			p.end()
		}
	}
	for i, addr := range members {
		p, err := start("etcd", "--name", fmt.Sprint("n", i), "--data-dir", filepath.Join(dir, fmt.Sprint(i)),
			"--listen-client-urls", endpoints[i], "--advertise-client-urls", endpoints[i],
			"--listen-peer-urls", "http://"+addr, "--initial-advertise-peer-urls", "http://"+addr,
			"--initial-cluster", strings.Join(cluster, ","), "--log-level", "error", "--quota-backend-bytes", fmt.Sprint(8<<30))
		if err != nil {
			end()
			return nil, nil, err
		}
		all = append(all, p)
	}
	return endpoints, end, nil
}

// squallNodes starts a cluster of examples/etcd.
func (o options) squallNodes(dir string) (endpoints []string, end func(), err error) {
	clients, err := ports(3)
	if err != nil {
		return nil, nil, err
	}
	members, err := ports(3)
	if err != nil {
		return nil, nil, err
	}
	var all []*process
	end = func() {
		for _, p := range all {
			p.end()
		}
	}
	for i, addr := range clients {
		args := []string{"-id", fmt.Sprint(i + 1), "-clients", addr, "-initial", "3", "-join", strings.Join(members, ",")}
		if o.place == "disk" {
			args = append(args, "-dir", filepath.Join(dir, fmt.Sprint(i)))
		}
		p, err := start(o.program, args...)
		if err != nil {
			end()
			return nil, nil, err
		}
		all = append(all, p)
		endpoints = append(endpoints, "http://"+addr)
	}
	return endpoints, end, nil
}

func measureEtcd(ctx context.Context, o options, nodes func(dir string) (endpoints []string, end func(), err error)) (r result, err error) {
	dir, err := o.directory()
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	endpoints, end, err := nodes(dir)
	if err != nil {
		return r, err
	}
	defer end()
	return etcdLoad(ctx, o, endpoints)
}

// etcdLoad puts or gets by the API of etcd, at the endpoints in turn.
func etcdLoad(ctx context.Context, o options, endpoints []string) (r result, err error) {
	var all []*clientv3.Client
	defer func() {
		for _, c := range all {
			_ = c.Close()
		}
	}()
	for i := range o.conns {
		c, err := clientv3.New(clientv3.Config{Endpoints: endpoints[i%len(endpoints) : i%len(endpoints)+1], DialTimeout: within, Logger: zap.NewNop()})
		if err != nil {
			return r, err
		}
		all = append(all, c)
	}
	value := strings.Repeat("v", o.size)
	for i := range endpoints { // every node takes part
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
	if o.load == gets {
		for k := range keys / 100 { // 100 keys in a transaction
			var ops []clientv3.Op
			for i := range 100 {
				ops = append(ops, clientv3.OpPut(fmt.Sprintf("key-%05d", 100*k+i), value))
			}
			if _, err := all[0].Txn(ctx).Then(ops...).Commit(); err != nil {
				return r, err
			}
		}
	}
	if o.load == tell {
		return etcdEvents(ctx, o, all, value)
	}
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
	var over atomic.Bool
	var failed atomic.Pointer[error]
	var putting sync.WaitGroup
	for i := range putters {
		putting.Go(func() {
			for !over.Load() {
				if _, err := all[i%len(all)].Put(ctx, "watched", value); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	rest(ctx, o.d/3)
	before, began := events.Load(), time.Now()
	rest(ctx, o.d)
	n, took := events.Load()-before, time.Since(began)
	over.Store(true)
	putting.Wait()
	cancel()
	group.Wait()
	if err := failed.Load(); err != nil {
		return r, *err
	}
	return resultOf(int(n), took, o.clients), nil
}
