package squall_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// happenings keeps the events of one member.
type happenings struct {
	mu     sync.Mutex
	events []squall.Event
}

func (h *happenings) add(e squall.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// kinds are the types of the events, those that come several times in a row once, and without rejected connections.
func (h *happenings) kinds() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var kinds []string
	for _, e := range h.events {
		if kind := strings.TrimPrefix(fmt.Sprintf("%T", e), "squall."); !strings.HasPrefix(kind, "Connection") {
			kinds = append(kinds, kind)
		}
	}
	return slices.Compact(kinds)
}

func TestEventsTellTheLifeOfAGroup(t *testing.T) {
	const members = 3
	told := make([]happenings, members)
	groups := cluster(t, members, func(i int, c *squall.Config) {
		c.Fabric, c.Events = squall.TCP, told[i].add
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}}
	})
	formed := []string{"Listening", "Joining", "ViewInstalled"}
	for i := range told {
		if got := told[i].kinds(); !slices.Equal(got, formed) {
			t.Errorf("node %d: %v", i+1, got)
		}
	}
	if err := groups[1].Close(t.Context()); err != nil {
		t.Error(err)
	}
	for i, g := range groups {
		<-g.Done()
		want := append(slices.Clone(formed), "MemberDown", "Halted")
		if i == 1 {
			want = formed // whoever leaves knows that it does
		}
		if got := told[i].kinds(); !slices.Equal(got, want) {
			t.Errorf("node %d, after node 2 left: %v", i+1, got)
		}
	}
	for _, e := range told[0].events {
		switch e := e.(type) {
		case squall.Listening:
			if e.Addr != groups[0].Addr() {
				t.Errorf("%v, and the group is at %s", e, groups[0].Addr())
			}
		case squall.ViewInstalled:
			if e.View != groups[0].View() || !slices.Equal(e.Links, []string{"self", "tcp", "tcp"}) {
				t.Errorf("%v", e)
			}
		case squall.MemberDown:
			if !e.Left || e.Member.ID != 2 || !strings.Contains(e.String(), "node 2") {
				t.Errorf("%v", e)
			}
		case squall.Halted:
			if !errors.Is(e.Reason, squall.ErrMemberLeft) || e.Reason != groups[0].Err() {
				t.Errorf("%v", e)
			}
		}
		if e.String() == "" {
			t.Errorf("%T says nothing", e)
		}
	}
}

// A member that closes never looks like one that failed, whatever the others are doing then.
func TestAMemberThatClosesHasLeftAndNotFailed(t *testing.T) {
	runs := 50
	if testing.Short() {
		runs = 10
	}
	for _, fabric := range []squall.Fabric{squall.SHM, squall.TCP} {
		t.Run(fabric.String(), func(t *testing.T) {
			for run := range runs {
				groups := cluster(t, 3, func(_ int, c *squall.Config) {
					c.Fabric = fabric
					c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 4096, Window: 16, Deliver: func(squall.Message) {}}}
				})
				leaver := run % 3
				others := slices.Delete(slices.Clone(groups), leaver, leaver+1)
				var senders sync.WaitGroup
				for _, g := range others {
					senders.Go(func() {
						for {
							if err := g.Subgroup("a").Send(t.Context(), []byte("busy")); err != nil {
								if !errors.Is(err, squall.ErrMemberLeft) {
									t.Errorf("run %d: node %d: Send: %v", run, g.ID(), err)
								}
								return
							}
						}
					})
				}
				for range 10 {
					send(t, groups[leaver].Subgroup("a"), "the last words")
				}
				if err := groups[leaver].Close(t.Context()); err != nil {
					t.Errorf("run %d: %v", run, err)
				}
				for _, g := range others {
					select {
					case <-g.Done():
					case <-time.After(20 * time.Second):
						t.Fatalf("run %d: node %d did not notice", run, g.ID())
					}
					if err := g.Err(); !errors.Is(err, squall.ErrMemberLeft) || errors.Is(err, squall.ErrMemberFailed) {
						t.Errorf("run %d: node %d: %v", run, g.ID(), err)
					}
				}
				senders.Wait()
				for _, g := range others {
					g.Close(t.Context())
				}
			}
		})
	}
}

func dump(t testing.TB, g *squall.Group) string {
	t.Helper()
	var b bytes.Buffer
	if err := g.Dump(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDumpShowsAMemberOnEachLine(t *testing.T) {
	js := newJournals(2)
	groups := cluster(t, 2, func(i int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "prices", Deliver: js[i].deliver}}
	})
	send(t, groups[0].Subgroup("prices"), "x")
	same(t, 1, js...)
	lines := strings.Split(strings.TrimSpace(dump(t, groups[0])), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines for two members: %q", len(lines), lines)
	}
	for line, parts := range map[string][]string{
		lines[0]: {"rank 0 (self): ", " member{heartbeat=", " prices{sent=1 "}, lines[1]: {"rank 1: ", " member{heartbeat=", " prices{sent=0 "},
	} {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				t.Errorf("%q is not in %q", part, line)
			}
		}
	}
}
