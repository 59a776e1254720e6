package squall_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
)

// heard collects the events of a process.
type heard struct {
	mu   sync.Mutex
	list []squall.Event
}

func (h *heard) add(e squall.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, e)
}

// has reports whether an event has all texts.
func (h *heard) has(texts ...string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.list {
		n := 0
		for _, text := range texts {
			if strings.Contains(e.String(), text) {
				n++
			}
		}
		if n == len(texts) {
			return true
		}
	}
	return false
}

// listed returns the configuration of a member of a group whose members all have the same list.
func listed(t *testing.T, id int, list []string, h *heard) squall.Config {
	return squall.Config{
		Cluster: t.Name(), ID: squall.NodeID(id), Listen: list[id-1], Join: list, Logger: quiet, FailAfter: time.Hour, Events: h.add,
		Subgroups: []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}},
	}
}

// openAll opens the groups of several processes, which wait for each other.
func openAll(t *testing.T, configs ...squall.Config) []*squall.Group {
	t.Helper()
	groups, errs := make([]*squall.Group, len(configs)), make([]error, len(configs))
	var all sync.WaitGroup
	for i, c := range configs {
		all.Go(func() {
			if groups[i], errs[i] = squall.Open(testutil.Within(t), c); errs[i] == nil {
				t.Cleanup(func() { closeAll(groups[i]) })
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return groups
}

func TestASecondProcessWithTheIDOfALiveMemberIsRefusedWithoutWaitingForFailAfter(t *testing.T) {
	t.Parallel()
	list := []string{testutil.FreeAddress(t), testutil.FreeAddress(t)}
	var first, second, third heard
	groups := openAll(t, listed(t, 1, list, &first), listed(t, 2, list, &second))
	for _, id := range []squall.NodeID{1, 2} {
		c := listed(t, int(id), list, &third)
		c.Listen = testutil.FreeAddress(t)
		_, err := squall.Open(testutil.Within(t), c)
		if !errors.Is(err, squall.ErrRefused) || !strings.Contains(err.Error(), "in use by the member at "+list[id-1]) || !strings.Contains(err.Error(), "an id of its own") {
			t.Errorf("%v", err)
		}
		eventually(t, "an event of the leader that names the process", func() bool {
			return first.has("at "+c.Listen+" refused", "in use by the member at "+list[id-1])
		})
	}
	for _, g := range groups {
		if g.View().ID != 1 {
			t.Errorf("view %d: a refused process changes no view", g.View().ID)
		}
	}
}

func TestAMemberThatReachesNoOtherMemberBootstrapsNoGroup(t *testing.T) {
	t.Parallel()
	list := []string{testutil.FreeAddress(t), testutil.FreeAddress(t), testutil.FreeAddress(t)}
	var alone heard
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := squall.Open(ctx, listed(t, 1, list, &alone)); !errors.Is(err, context.DeadlineExceeded) || alone.has("bootstrapped") {
		t.Errorf("the first process of a list of three is alone: %v", err)
	}
}

func TestAMajorityOfTheListBootstrapsTheGroupAndTheOthersJoinIt(t *testing.T) {
	list := []string{testutil.FreeAddress(t), testutil.FreeAddress(t), testutil.FreeAddress(t)}
	var heards [3]heard
	groups := openAll(t, listed(t, 1, list, &heards[0]), listed(t, 2, list, &heards[1]))
	groups = append(groups, openAll(t, listed(t, 3, list, &heards[2]))...)
	awaitView(t, 3, groups...)
	history := groups[0].View().Group
	if !heards[0].has("bootstrapped group " + history) {
		t.Error("the first process does not report that it bootstrapped the group")
	}
	closeAll(groups[0])
	awaitView(t, 2, groups[1:]...)
	again := openAll(t, listed(t, 1, list, &heards[0]))[0]
	if got := again.View().Group; got != history {
		t.Errorf("the first process, started again, is in group %s and not in %s", got, history)
	}
}

func TestAProcessThatListsNoMembersIsWarnedThatItBootstrapsAnotherGroupWhenItStartsAgain(t *testing.T) {
	for _, test := range []struct {
		name     string
		change   func(*squall.Config)
		unlisted bool
	}{
		{"no list", func(c *squall.Config) { c.Join, c.InitialMembers = nil, 1 }, true},
		{"its own address", func(*squall.Config) {}, false},
		{"a log", func(c *squall.Config) {
			c.Join, c.InitialMembers, c.Dir, c.Subgroups[0].Mode = nil, 1, t.TempDir(), squall.Persistent
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var h heard
			c := listed(t, 1, []string{testutil.FreeAddress(t)}, &h)
			test.change(&c)
			openAll(t, c)
			if got := h.has("bootstrapped", "Join is empty"); got != test.unlisted {
				t.Errorf("a warning: %v", got)
			}
		})
	}
}

func TestProcessesWithDifferentSecretsSayAtOnceAtBothEndsThatTheyDiffer(t *testing.T) {
	secret, other := []byte("sixteen bytes or more"), []byte("another secret of the same")
	for _, test := range []struct {
		name        string
		here, there []byte
	}{
		{"another one", secret, other}, {"none at the joiner", secret, nil}, {"none at the member", nil, secret},
	} {
		for _, forming := range []bool{true, false} {
			t.Run(test.name, func(t *testing.T) {
				list := []string{testutil.FreeAddress(t), testutil.FreeAddress(t)}
				var member, joiner heard
				c := listed(t, 1, list, &member)
				c.Secret = test.here
				if forming {
					opening, cancel := context.WithCancel(t.Context())
					ended := make(chan struct{})
					defer func() { cancel(); <-ended }()
					go func() {
						defer close(ended)
						_, _ = squall.Open(opening, c)
					}()
				} else {
					c.Join, c.InitialMembers = nil, 1
					openAll(t, c)
				}
				d := listed(t, 2, list, &joiner)
				d.Secret = test.there
				_, err := squall.Open(testutil.Within(t), d)
				if !errors.Is(err, squall.ErrRefused) || !strings.Contains(err.Error(), "set the same Config.Secret at both") {
					t.Errorf("the joiner reads %v", err)
				}
				eventually(t, "the member reports it", func() bool { return member.has("set the same Config.Secret at both") })
			})
		}
	}
}

func TestMembersWithOneSecretFormAGroupAndLetAnotherOneJoin(t *testing.T) {
	list := []string{testutil.FreeAddress(t), testutil.FreeAddress(t), testutil.FreeAddress(t)}
	var h heard
	with := func(id int) squall.Config {
		c := listed(t, id, list, &h)
		c.Secret = []byte("sixteen bytes or more")
		return c
	}
	groups := openAll(t, with(1), with(2))
	awaitView(t, 3, append(groups, openAll(t, with(3))...)...)
}

func TestAStartThatFindsNothingWrongLogsNoFault(t *testing.T) {
	list := []string{testutil.FreeAddress(t), testutil.FreeAddress(t), testutil.FreeAddress(t)}
	var logged strings.Builder
	out := &locked{w: &logged}
	var configs []squall.Config
	for id := range list {
		var h heard
		c := listed(t, id+1, list, &h)
		c.Dir, c.Subgroups[0].Mode = t.TempDir(), squall.Persistent
		c.Logger = slog.New(slog.NewTextHandler(out, nil))
		configs = append(configs, c)
	}
	groups := openAll(t, configs...)
	awaitView(t, 3, groups...)
	closeWell(t, groups...)
	for line := range strings.Lines(logged.String()) {
		if strings.Contains(line, "failed") || strings.Contains(line, "rejected") || strings.Contains(line, "OpenLogs") || strings.Contains(line, "told to ask again") {
			t.Error(line)
		}
	}
}

// locked is a writer for several processes.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
