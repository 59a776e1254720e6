//go:build linux

package verbstest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/order"
)

// Joins has a third member join a group of two, send to it and leave it, again and again. Then the
// process holds what it held after the first time, and so do its devices if tool rdma tells.
func Joins(t *testing.T, of Transports, times int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	late := time.AfterFunc(time.Minute, cancel) // a visit takes too long
	defer late.Stop()
	v := &visits{T: t, ctx: ctx, of: of, late: late, delivered: make(chan string, 16)}
	defer func() {
		if t.Failed() {
			t.Logf("the members said:\n%s", &v.logged)
		}
	}()
	first := v.open(1)
	v.addrs = []string{first.View().Members[0].Addr}
	v.hosts = []*squall.Group{first, v.open(2)}
	v.visit("first")
	before, devices := fabrictest.Resources(), settled("")
	began := time.Now()
	for i := range times {
		v.visit(fmt.Sprint(i))
	}
	t.Logf("%d joins and leaves in %v; held before: %v; %s", times, time.Since(began), before, devices)
	fabrictest.Settle(t, before)
	if now := settled(devices); now != devices {
		t.Errorf("devices held before: %s, and after: %s", devices, now)
	}
	for _, g := range slices.Backward(v.hosts) {
		if err := g.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

// visits are those of a third member to a group of two.
type visits struct {
	*testing.T
	ctx       context.Context
	of        Transports
	late      *time.Timer
	addrs     []string
	hosts     []*squall.Group
	delivered chan string // at the first member
	logged    lines
}

func (v *visits) open(id squall.NodeID) *squall.Group {
	v.Helper()
	g, err := squall.Open(v.ctx, squall.Config{
		Cluster: "rdma", ID: id, Listen: "127.0.0.1:0", Join: v.addrs, InitialMembers: 1, FailAfter: 30 * time.Second,
		Fabric: squall.FabricTransport, Transport: v.of(v.T, order.Rank(id-1)), Logger: slog.New(slog.NewTextHandler(&v.logged, nil)).With("member", id),
		Subgroups: []squall.SubgroupConfig{{Name: "all", Deliver: func(m squall.Message) {
			if id == 1 {
				v.delivered <- string(m.Data)
			}
		}}},
	})
	if err != nil {
		v.Fatalf("member %d: %v", id, err)
	}
	return g
}

func (v *visits) visit(text string) {
	v.Helper()
	v.late.Reset(time.Minute)
	third := v.open(3)
	all, err := third.Subgroup("all")
	if err == nil {
		err = all.Send(v.ctx, []byte(text))
	}
	if err != nil {
		v.Fatalf("visit %s: send: %v", text, err)
	}
	select {
	case got := <-v.delivered:
		if got != text {
			v.Errorf("%q was delivered, not %q", got, text)
		}
	case <-third.Done(): // its message is not delivered any more
		v.Fatalf("visit %s: the member ended: %v", text, third.Err())
	case <-v.ctx.Done():
		v.Fatalf("visit %s: nothing is delivered", text)
	}
	if err := third.Close(v.ctx); err != nil {
		v.Fatalf("visit %s: close: %v", text, err)
	}
	for i, g := range v.hosts {
		if !awaitMembers(v.ctx, g, 2) {
			v.Fatalf("visit %s: member %d goes on with it", text, i+1)
		}
	}
}

// lines keeps the last lines that were logged.
type lines struct {
	mu   sync.Mutex
	last [][]byte
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = append(l.last[max(0, len(l.last)-59):], bytes.Clone(line))
	return len(line), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.Join(l.last, nil))
}

// awaitMembers waits until a group's view has n members, and reports whether it has.
func awaitMembers(ctx context.Context, g *squall.Group, n int) bool {
	for v := range g.Views(ctx) {
		if len(v.Members) == n {
			return true
		}
	}
	return false
}

// settled is what all devices of this host hold: as much as before, or what two looks agree on.
// Tables of views that are over are closed some time after them. Without tool rdma it is empty.
func settled(before string) (now string) {
	for range 50 {
		text, err := exec.Command("rdma", "resource", "show").Output()
		if err != nil || string(text) == before || before == "" && string(text) == now {
			return string(text)
		}
		now = string(text)
		time.Sleep(200 * time.Millisecond)
	}
	return now
}
