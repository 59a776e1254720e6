// Objectpeers measures puts and gets of etcd, Redis and NATS JetStream with many clients, each with
// one request at a time, on this machine, in the way of "squall bench objects", and prints a line
// of JSON. It is a program of a module of its own, so that users of Squall do not get the clients
// of other systems.
//
// Etcd is three processes of the program etcd, JetStream three servers in processes of this
// program. Redis is one process of redis-server without replication, and redis-benchmark, which is
// written in C, is its client. Squall is three processes of the program of examples/etcd, with the
// same clients as etcd.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"
)

// options are what is measured.
type options struct {
	system  string
	place   string // memory, disk; of Redis tcp, unix
	load    string
	clients int
	conns   int
	size    int
	dir     string // on a disk
	program string // of examples/etcd
	d       time.Duration
}

// Loads.
const (
	puts = "puts"
	gets = "linearizable gets"
	tell = "events" // of one key that is put, at every client, which watches it
)

// keys is how many keys there are.
const keys = 10000

// result is the line of JSON.
type result struct {
	Rate float64 `json:"msgs_per_s"`
	P50  float64 `json:"p50_us"` // the mean: requests are not timed one by one
	OK   bool    `json:"ok"`
	Note string  `json:"note,omitempty"`
}

// resultOf is what a number of requests in a time comes to.
func resultOf(n int, took time.Duration, clients int) result {
	if n == 0 {
		return result{Note: "no request was answered"}
	}
	return result{Rate: float64(n) / took.Seconds(), P50: float64(took.Microseconds()) / float64(n) * float64(clients), OK: true}
}

// run has clients do something again and again, and counts how often they did.
func run(ctx context.Context, o options, once func(ctx context.Context, client int, key string) error) (result, error) {
	counts := make([]atomic.Int64, 8*o.clients) // of each client, on a cache line of its own
	total := func() (n int64) {
		for i := 0; i < len(counts); i += 8 {
			n += counts[i].Load()
		}
		return n
	}
	return o.measure(ctx, o.clients, total, func(i int) func() error {
		numbers := rand.New(rand.NewPCG(1, uint64(i)))
		return func() error {
			err := once(ctx, i, fmt.Sprintf("key-%05d", numbers.IntN(keys)))
			if err == nil {
				counts[8*i].Add(1)
			}
			return err
		}
	})
}

// measure has goroutines repeat what do returns for each, and returns what was counted after a
// warm-up.
func (o options) measure(ctx context.Context, goroutines int, count func() int64, do func(i int) func() error) (result, error) {
	var group sync.WaitGroup
	var over atomic.Bool
	failed := make([]error, goroutines)
	for i := range goroutines {
		group.Go(func() {
			for once := do(i); failed[i] == nil && !over.Load(); {
				failed[i] = once()
			}
		})
	}
	rest(ctx, o.d/3)
	before, began := count(), time.Now()
	rest(ctx, o.d)
	n, took := count()-before, time.Since(began)
	over.Store(true)
	group.Wait()
	return resultOf(int(n), took, o.clients), errors.Join(failed...)
}

// rest waits for a while.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// directory makes a directory for the data of a system.
func (o options) directory() (string, error) {
	at := o.dir
	if o.place != "disk" {
		at = "/dev/shm"
	}
	return os.MkdirTemp(at, "objectpeers")
}

func main() {
	var o options
	flag.StringVar(&o.system, "system", "etcd", "etcd, redis, jetstream or squall")
	flag.StringVar(&o.program, "program", "", "the program of examples/etcd, for squall")
	flag.StringVar(&o.place, "place", "memory", "memory or disk; of redis tcp or unix")
	flag.StringVar(&o.load, "load", puts, puts+", "+gets+" or "+tell)
	flag.IntVar(&o.clients, "clients", 128, "requests at a time")
	flag.IntVar(&o.conns, "conns", 0, "connections of the clients of etcd and JetStream; 0: of each client one, up to 32")
	flag.IntVar(&o.size, "size", 256, "bytes of a value")
	flag.StringVar(&o.dir, "dir", ".", "where data is kept, on a disk, until the end")
	secs := flag.Float64("secs", 1, "seconds")
	node := flag.Int("jetstream-node", 0, "be a server of JetStream: used by this program")
	config := flag.String("jetstream-config", "", "of that server")
	flag.Bool("json", true, "print JSON, as always")
	flag.Parse()
	if *node != 0 {
		if err := serveJetStream(*node, *config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	o.d = time.Duration(*secs * float64(time.Second))
	if o.conns == 0 {
		o.conns = min(o.clients, 32)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := o.of(ctx)
	if err != nil {
		r.OK, r.Note = false, err.Error()
	}
	_ = json.NewEncoder(os.Stdout).Encode(r)
}

// of measures the system.
func (o options) of(ctx context.Context) (result, error) {
	switch o.system {
	case "etcd":
		return measureEtcd(ctx, o, etcdNodes)
	case "squall":
		return measureEtcd(ctx, o, o.squallNodes)
	case "redis":
		return measureRedis(ctx, o)
	case "jetstream":
		return measureJetStream(ctx, o)
	}
	return result{}, fmt.Errorf("no such system: %s", o.system)
}
