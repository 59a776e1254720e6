// Command etcd is a service with the API of etcd, version 3, on replicated objects: keys and values
// with revisions, transactions, watches and leases. Unmodified clients of etcd work with it.
//
//	go run . -id 1
//	go run . -id 2
//	go run . -id 3
//	ETCDCTL_API=3 etcdctl --endpoints 127.0.0.1:2379,127.0.0.1:2479,127.0.0.1:2579 put greeting hello
//
// With -dir the members keep what they did on disk, and a write is answered when it is on the disk
// of every member.
//
// Garbage is collected when the memory in use has grown fivefold, unless GOGC says otherwise.
// GOMEMLIMIT bounds the memory, as always.
//
// The clients' address answers HTTP, too: /health, /readyz and /livez, /version and /metrics.
//
// The files, from the inside out: store.go, txn.go and lease.go are the state and its commands,
// snapshot.go hands it over and hash.go hashes it; operations.go makes it an object; check.go,
// server.go and watch.go are the API, and web.go is what is there over HTTP.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/persist/wal"
	"github.com/squall-go/squall/replicated/member"
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// config is what a member is told.
type config struct {
	cluster string
	squall.Config
	clients string // address for clients
}

func parse(args []string) (c config, err error) {
	f := flag.NewFlagSet("etcd", flag.ContinueOnError)
	id := f.Uint64("id", 0, "number of this member, from 1")
	f.StringVar(&c.Listen, "listen", "", "address for the other members; empty: the one in -join")
	f.StringVar(&c.clients, "clients", "", "address for clients; empty: port 2379 for member 1, 2479 for member 2, and so on")
	f.StringVar(&c.Dir, "dir", "", "directory for the log of this member; empty: nothing is kept on disk")
	join := f.String("join", "127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003", "addresses of all members by number, separated by commas: the same list at each of them; empty: this member begins a cluster of its own")
	f.IntVar(&c.InitialMembers, "initial", 0, "members that the cluster begins with; 0: a majority of -join")
	f.StringVar(&c.cluster, "cluster", "etcd", "name of the cluster")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	c.Cluster, c.ID, c.FailAfter = c.cluster, squall.NodeID(*id), time.Second
	if *join != "" {
		c.Join = strings.Split(*join, ",")
	} else {
		c.InitialMembers, c.Listen = 1, cmp.Or(c.Listen, "127.0.0.1:0")
	}
	if c.Listen == "" && *id > 0 && *id <= uint64(len(c.Join)) {
		c.Listen = c.Join[*id-1]
	}
	if c.clients == "" {
		c.clients = fmt.Sprint("127.0.0.1:", 2279+100**id)
	}
	return c, nil
}

// run is a member until ctx ends.
func run(ctx context.Context, args []string, out io.Writer) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	m, err := open(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "member %d: members at %s, clients at %s\n", c.ID, m.group.Addr(), m.clients)
	select {
	case <-ctx.Done():
	case <-m.group.Done():
	}
	return m.close()
}

// node is a member that serves clients.
type node struct {
	*server
	clients string // where clients reach it
	stop    func()
}

// open makes this process a member, and begins to serve clients.
func open(ctx context.Context, c config) (*node, error) {
	var sg squall.SubgroupConfig
	if c.Dir != "" {
		sg.Mode, sg.Log.Engine = squall.Persistent, wal.Engine // one sync for what has come meanwhile
	}
	l, err := net.Listen("tcp", c.clients)
	if err != nil {
		return nil, err
	}
	o := newObject(sg)
	g, err := member.Open(ctx, c.Config, o)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s, r := newServer(g, o, c.cluster)
	m := &node{server: s, clients: l.Addr().String(), stop: func() { _ = l.Close() }}
	self := &pb.Member{ID: uint64(c.ID), Name: fmt.Sprint("member-", c.ID), ClientURLs: []string{"http://" + m.clients}, PeerURLs: []string{"http://" + g.Addr()}}
	if _, err := announce.Call(ctx, o, self); err != nil {
		return nil, errors.Join(err, l.Close(), m.close())
	}
	go s.expire()
	m.stop = s.serve(l, r)
	go func() { // a member that halted is of no use to clients
		<-g.Done()
		m.stop()
	}()
	return m, nil
}

// close leaves the group.
func (m *node) close() error {
	m.stop()
	if err := m.group.Err(); err != nil {
		return err
	}
	leaving, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return m.group.Close(leaving)
}
