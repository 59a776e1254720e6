package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestMain(m *testing.M) {
	testutil.BecomeProgram(main)
	os.Exit(m.Run())
}

// process starts a member in a process of its own.
func process(t *testing.T, args string) (p *testutil.Program, members, clients string) {
	t.Helper()
	p = testutil.StartProgram(t, strings.Fields(args)...)
	line := p.Next()
	if _, err := fmt.Sscanf(strings.ReplaceAll(line, ",", ""), "member %d: members at %s clients at %s", new(int), &members, &clients); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return p, members, clients
}

// TestAWatchHasNoGapAcrossAFailOver kills the member that serves a watch while keys are put, twice.
// The members are processes, and keep their state on disk.
func TestAWatchHasNoGapAcrossAFailOver(t *testing.T) {
	dir := t.TempDir()
	var all []*testutil.Program
	var endpoints []string
	join := "-join="
	for id := 1; id <= 4; id++ { // four, so that two can be killed one after the other
		p, members, clients := process(t, fmt.Sprintf("-id %d -listen 127.0.0.1:0 -clients 127.0.0.1:0 -dir %s/%d %s", id, dir, id, join))
		if id == 1 {
			join = "-join " + members
		}
		all, endpoints = append(all, p), append(endpoints, clients)
	}
	writer, watcher := client(t, endpoints[0]), client(t, endpoints[1:]...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first := must(writer.Put(ctx, "n", "0")).Header.Revision
	const total = 600
	var putting sync.WaitGroup
	defer putting.Wait()
	putting.Go(func() {
		for i := 1; i <= total; i++ {
			if _, err := writer.Put(ctx, "n", fmt.Sprint(i)); err != nil {
				t.Error(err)
				cancel()
				return
			}
		}
	})
	seen, served := 0, map[uint64]bool{}
	for r := range watcher.Watch(ctx, "n", clientv3.WithRev(first)) {
		if r.Err() != nil {
			t.Fatal(r.Err())
		}
		for _, e := range r.Events {
			if got := string(e.Kv.Value); got != fmt.Sprint(seen) || e.Kv.ModRevision != first+int64(seen) {
				t.Fatalf("event %d has the value %s and revision %d", seen, got, e.Kv.ModRevision)
			}
			seen++
			if seen == total/3 || seen == total*2/3 {
				all[r.Header.MemberId-1].Kill()
				served[r.Header.MemberId] = true
			}
		}
		if seen > total && (len(served) != 2 || served[r.Header.MemberId]) {
			t.Errorf("the members that served the watch until they were killed: %v, and then %d", served, r.Header.MemberId)
		}
		if seen > total {
			return
		}
	}
	t.Fatalf("the watch ended after %d events: %v", seen, context.Cause(ctx))
}
