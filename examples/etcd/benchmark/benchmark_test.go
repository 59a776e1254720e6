// Package benchmark runs etcd's own benchmark tool, unmodified, against members of the example. It
// is a module of its own, since the tool imports the server of etcd.
package benchmark

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// build builds a command of a directory's module, and returns its path.
func build(t *testing.T, dir, name, pkg string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("go", "-C", dir, "build", "-o", path, pkg).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
	return path
}

// start starts a member in a process of its own.
func start(t *testing.T, program, args string) (members, clients string) {
	t.Helper()
	p := exec.Command(program, strings.Fields(args)...)
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(strings.ReplaceAll(line, ",", ""), "member %d: members at %s clients at %s", new(int), &members, &clients); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return members, clients
}

// TestTheBenchmarkToolOfEtcdRuns runs all commands of the tool that call a server. What it lacks is
// the lock service, which the tool calls with --stm-locker lock-rpc only.
func TestTheBenchmarkToolOfEtcdRuns(t *testing.T) {
	tool, program := build(t, ".", "benchmark", "go.etcd.io/etcd/v3/tools/benchmark"), build(t, "..", "etcd", ".")
	var endpoints []string
	join, dir := "-join=", t.TempDir()
	for id := 1; id <= 3; id++ {
		members, clients := start(t, program, fmt.Sprintf("-id %d -listen 127.0.0.1:0 -clients 127.0.0.1:0 -dir %s/%d %s", id, dir, id, join))
		if id == 1 {
			join = "-join " + members
		}
		endpoints = append(endpoints, clients)
	}
	for _, args := range []string{
		"put --total 500 --key-space-size 100 --val-size 256",
		"put --total 500 --sequential-keys --key-space-size 100 --check-hashkv",
		"put --total 100 --target-leader --auto-sync-interval 10ms",
		"range foo --total 500 --consistency l",
		"range a z --total 500 --consistency s --limit 10",
		"txn-put --total 200 --txn-ops 4 --key-space-size 100",
		"txn-mixed foo --total 200",
		"stm --total 100 --isolation r",
		"stm --total 100 --isolation c --keys 10 --keys-per-txn 3",
		"stm --total 100 --isolation s --keys 10 --keys-per-txn 3",
		"stm --total 100 --isolation ss --keys 10 --keys-per-txn 3",
		"stm --total 50 --stm-locker lock-client",
		"lease-keepalive --total 200",
		"watch --streams 4 --watch-per-stream 10 --put-total 100",
		"watch-latency --put-total 100 --put-rate 1000 --prevkv",
		"watch-get --streams 4 --watchers 100 --events 10",
	} {
		t.Run(args, func(t *testing.T) {
			all := append([]string{"--endpoints", strings.Join(endpoints, ","), "--conns", "3", "--clients", "12"}, strings.Fields(args)...)
			out, err := exec.CommandContext(t.Context(), tool, all...).CombinedOutput()
			if text := string(out); err != nil || !strings.Contains(text, "Requests/sec:") || strings.Contains(text, "Error distribution:") {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}
