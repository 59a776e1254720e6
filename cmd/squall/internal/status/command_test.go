package status

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/squall-go/squall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// group opens two members whose states have the given sums, and returns their addresses.
func group(t *testing.T, sums [2]uint64) (addrs []string) {
	t.Helper()
	var position atomic.Uint64 // of the last hash, which both members take
	listening := make(chan string, 1)
	var opening sync.WaitGroup
	groups, errs := make([]*squall.Group, 2), make([]error, 2)
	open := func(i int, join []string) {
		cfg := squall.Config{
			Cluster: t.Name(), ID: squall.NodeID(i + 1), Listen: "127.0.0.1:0", Join: join, InitialMembers: 2, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Subgroups: []squall.SubgroupConfig{{Name: "chat", Deliver: func(squall.Message) {}, StateHash: func(_ context.Context, fresh bool) (squall.StateHash, error) {
				if fresh {
					position.Add(1)
				}
				if position.Load() == 0 {
					return squall.StateHash{}, squall.ErrNoStateHash
				}
				return squall.StateHash{Position: position.Load(), Sum: sums[i]}, nil
			}}},
		}
		if i == 0 {
			cfg.Events = func(e squall.Event) {
				if l, ok := e.(squall.Listening); ok {
					listening <- l.Addr
				}
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		groups[i], errs[i] = squall.Open(ctx, cfg)
	}
	opening.Go(func() { open(0, nil) })
	opening.Go(func() { open(1, []string{<-listening}) })
	opening.Wait()
	t.Cleanup(func() {
		var closing sync.WaitGroup
		defer closing.Wait()
		for _, g := range groups {
			if g != nil {
				closing.Go(func() { g.Close(context.Background()) })
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return []string{groups[0].Addr(), groups[1].Addr()}
}

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := NewCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// Any address that answers will do, and every member of the view is asked.
func TestOneAddressShowsTheWholeGroup(t *testing.T) {
	addrs := group(t, [2]uint64{5, 5})
	out, err := run(t, "127.0.0.1:1", addrs[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"group " + t.Name(), addrs[0], addrs[1], "subgroup chat, ordered", "all 2 members are ready"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is missing in\n%s", part, out)
		}
	}
	if out, err = run(t, "--hash", "--json", addrs[0]); err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Members) != 2 || len(r.Statuses) != 2 || len(r.Problems) != 0 || r.Statuses[1].Subgroups[0].State == nil || r.Statuses[1].Subgroups[0].State.Sum != 5 {
		t.Errorf("the report is %s", out)
	}
}

// States that differ are a problem, and so is the exit status.
func TestStatesThatDifferAreAProblem(t *testing.T) {
	out, err := run(t, "--hash", group(t, [2]uint64{5, 6})[0])
	if err == nil || !strings.Contains(err.Error(), "1 problem") || !strings.Contains(out, `problem: the states of "chat" at members 1 and 2 differ at position 1`) {
		t.Errorf("%v\n%s", err, out)
	}
}

// What is wrong with a group is named, once.
func TestAReportNamesWhatIsWrong(t *testing.T) {
	members := []squall.MemberStatus{{Node: 1}, {Node: 2}, {Node: 3, Suspected: true}, {Node: 4}}
	first := &squall.Status{Cluster: "c", Group: "a", Node: 1, View: 3, Ready: true, Members: members}
	other := &squall.Status{Cluster: "c", Group: "a", Node: 2, View: 4, Reason: "it waits", Members: members}
	stranger := &squall.Status{Cluster: "c", Group: "b", Node: 4, View: 3, Ready: true}
	r := newReport(first, []*squall.Status{first, other, stranger}, map[squall.NodeID]error{3: errors.New("no route")})
	want := []string{
		"member 1 suspects member 3", "member 2 is not ready: it waits", "member 2 is in view 4, and member 1 in view 3", "member 2 suspects member 3",
		"member 3 does not answer: no route", `member 4 at  is in another group of the name "c" (b, not a)`,
	}
	if fmt.Sprint(r.Problems) != fmt.Sprint(want) {
		t.Errorf("the problems are\n%q", r.Problems)
	}
}

// Why a link is not one of the transport stands below the members, a line for each.
func TestWhyTCPIsUsedIsPrinted(t *testing.T) {
	s := &squall.Status{Cluster: "c", Group: "a", Node: 1, Ready: true, Members: []squall.MemberStatus{
		{Node: 1, Link: "self"}, {Node: 2, Link: "tcp", Fallback: "the device failed"}, {Node: 3, Link: "verbs"},
	}}
	var out strings.Builder
	newReport(s, []*squall.Status{s}, map[squall.NodeID]error{2: errors.New("no route"), 3: errors.New("no route")}).print(&out)
	if got := strings.Count(out.String(), "link to member 2: tcp: the device failed\n"); got != 1 || strings.Contains(out.String(), "link to member 3") {
		t.Error(out.String())
	}
}

func TestBadArgumentsAreRefused(t *testing.T) {
	for _, args := range [][]string{{}, {"nowhere"}, {"--timeout", "0s", "127.0.0.1:1"}, {"127.0.0.1:1"}} {
		if out, err := run(t, args...); err == nil || out != "" {
			t.Errorf("%q: %v, %q", args, err, out)
		}
	}
}
