package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// measureRedis measures one Redis without replication and without a disk, by redis-benchmark.
func measureRedis(ctx context.Context, o options) (r result, err error) {
	if o.load != puts {
		return r, fmt.Errorf("of redis, %s are measured", puts)
	}
	dir, err := o.directory()
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	server, to, err := o.startRedis(dir)
	if err != nil {
		return r, err
	}
	defer server.end()
	err = until(ctx, func(ctx context.Context) error {
		return exec.CommandContext(ctx, "redis-cli", append(to, "ping")...).Run()
	})
	if err != nil {
		return r, err
	}
	// A number of requests is what redis-benchmark takes: a short run says how many the time holds.
	rate, err := redisBenchmark(ctx, o, to, 20_000)
	if err != nil {
		return r, err
	}
	n := max(20_000, int(rate*o.d.Seconds()))
	if rate, err = redisBenchmark(ctx, o, to, n); err != nil {
		return r, err
	}
	return resultOf(n, time.Duration(float64(n)/rate*float64(time.Second)), o.clients), nil
}

// startRedis starts a server, and returns how its clients reach it.
func (o options) startRedis(dir string) (server *process, to []string, err error) {
	addrs, err := ports(1)
	if err != nil {
		return nil, nil, err
	}
	host, port, err := net.SplitHostPort(addrs[0])
	if err != nil {
		return nil, nil, err
	}
	socket := filepath.Join(dir, "socket")
	if to = []string{"-h", host, "-p", port}; o.place == "unix" {
		to = []string{"-s", socket}
	}
	server, err = start("redis-server", "--bind", host, "--port", port, "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir)
	return server, to, err
}

// redisBenchmark returns the rate of SET without pipelining.
func redisBenchmark(ctx context.Context, o options, to []string, n int) (float64, error) {
	args := append(to, "-t", "set", "-c", strconv.Itoa(o.clients), "-d", strconv.Itoa(o.size), "-n", strconv.Itoa(n), "-r", strconv.Itoa(keys), "-P", "1", "--csv")
	out, err := exec.CommandContext(ctx, "redis-benchmark", args...).Output()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark: %w", err)
	}
	lines, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(lines) == 0 || len(lines[len(lines)-1]) < 2 {
		return 0, fmt.Errorf("redis-benchmark says %q: %w", out, err)
	}
	return strconv.ParseFloat(lines[len(lines)-1][1], 64)
}
