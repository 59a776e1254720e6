package squall_test

import (
	"fmt"
	"net"
	"runtime"
	"slices"
	"testing"

	"github.com/squall-go/squall"
)

func TestMembersMeetOverIPv4IPv6AndHostNames(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1", "localhost"} {
		t.Run(host, func(t *testing.T) {
			l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
			if err != nil {
				t.Skipf("this machine has no %s: %v", host, err)
			}
			l.Close()
			js := newJournals(3)
			groups := cluster(t, 3, func(i int, c *squall.Config) {
				c.Listen, c.Advertise = net.JoinHostPort(host, "0"), net.JoinHostPort(host, "0")
				c.Fabric = squall.FabricTCP
				c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: js[i].deliver}}
			})
			for _, g := range groups {
				if at, _, _ := net.SplitHostPort(g.Addr()); at != host {
					t.Errorf("node %d is at %s", g.ID(), g.Addr())
				}
			}
			everybodySends(t, "a", 50, groups...)
			same(t, 150, js...)
		})
	}
}

// One member offers no shared memory: it is reached over TCP, and the others reach each other as
// before.
func TestFabricsAreChosenPairByPair(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("shared memory between members needs Linux")
	}
	js := newJournals(3)
	groups := cluster(t, 3, func(i int, c *squall.Config) {
		if c.ID == 2 {
			c.Fabric = squall.FabricTCP
		}
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 16 << 10, Window: 64, Deliver: js[i].deliver}}
	})
	for _, g := range groups {
		for _, other := range groups {
			want := "shm"
			if g == other {
				want = "self"
			} else if g.ID() == 2 || other.ID() == 2 {
				want = "tcp"
			}
			if got := must(g.Debug().Link(other.ID())); got != want {
				t.Errorf("node %d reaches node %d by %q, not %q", g.ID(), other.ID(), got, want)
			}
		}
		if got := must(g.Debug().Link(9)); got != "" {
			t.Errorf("node %d reaches a stranger by %q", g.ID(), got)
		}
	}
	everybodySends(t, "a", 500, groups...)
	same(t, 1500, js...)
}

func TestGroupsOfOneProcessDoNotMix(t *testing.T) {
	const each = 200
	var journals [3][]*journal
	var all [3][]*squall.Group
	for k := range all {
		journals[k] = newJournals(2)
		all[k] = cluster(t, 2, func(i int, c *squall.Config) {
			c.Cluster = fmt.Sprintf("group %d", k)
			c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: journals[k][i].deliver}}
		})
	}
	for n := range each {
		for k, groups := range all {
			for _, g := range groups {
				send(t, must(g.Subgroup("a")), fmt.Sprintf("%d of %d", n, k))
			}
		}
	}
	for k := range all {
		lines := same(t, 2*each, journals[k]...)
		for _, id := range []squall.NodeID{1, 2} {
			var want []string
			for n := range each {
				want = append(want, fmt.Sprintf("%d:%d of %d", id, n, k))
			}
			if got := journals[k][0].from(id); !slices.Equal(got, want) {
				t.Errorf("group %d: of node %d, among %d: %q", k, id, len(lines), got)
			}
		}
	}
}
