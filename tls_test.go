package squall_test

import (
	"context"
	"crypto/tls"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
)

func TestAGroupOverTLSDeliversTheSameSequence(t *testing.T) {
	a := testutil.NewAuthority(t)
	js := newJournals(3)
	groups := cluster(t, 3, func(i int, c *squall.Config) {
		c.Fabric, c.TLS = squall.FabricTCP, a.TLS()
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 16 << 10, Window: 64, Deliver: js[i].deliver}}
	})
	everybodySends(t, "a", 500, groups...)
	same(t, 1500, js...)
	if link := must(groups[0].Debug().Link(2)); link == "shm" {
		t.Errorf("the link is %s", link)
	}
}

// A process that shows no certificate, or one that another authority signed, does not get in; the
// group forms with the real member.
func TestAMemberWithoutACertificateCannotJoin(t *testing.T) {
	a := testutil.NewAuthority(t)
	impostor := testutil.NewAuthority(t).TLS()
	impostor.RootCAs = a.Pool
	first := testutil.FreeAddress(t)
	open := func(ctx context.Context, id squall.NodeID, c *tls.Config) (*squall.Group, error) {
		cfg := squall.Config{
			Cluster: t.Name(), ID: id, Listen: "127.0.0.1:0", Join: []string{first}, InitialMembers: 2, Fabric: squall.FabricTCP, TLS: c, Logger: quiet,
			Subgroups: []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}},
		}
		if id == 1 {
			cfg.Listen = first
		}
		return squall.Open(ctx, cfg)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var groups [2]*squall.Group
	var errs [2]error
	var opening, turnedAway sync.WaitGroup
	opening.Go(func() { groups[0], errs[0] = open(ctx, 1, a.TLS()) })
	for name, config := range map[string]*tls.Config{
		"plain": nil, "no certificate": {RootCAs: a.Pool, ClientCAs: a.Pool}, "another authority's": impostor,
	} {
		turnedAway.Go(func() {
			soon, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			defer cancel()
			if g, err := open(soon, 2, config); err == nil {
				t.Errorf("%s: joined", name)
				g.Close(ctx)
			}
		})
	}
	turnedAway.Wait()
	opening.Go(func() { groups[1], errs[1] = open(ctx, 2, a.TLS()) })
	opening.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		defer g.Close(ctx)
	}
	if n := groups[0].Stats().RejectedConnections; n < 2 {
		t.Errorf("%d connections were rejected; two processes tried", n)
	}
	send(t, must(groups[1].Subgroup("a")), "it is me")
}
