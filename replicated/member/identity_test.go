package member_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// serviceOf returns the id of the service of an object.
func serviceOf(g *squall.Group, object string) ripc.ID {
	return ripc.ID("squall object\x00test\x00" + g.View().Group + "\x00" + object)
}

// serveAt has a member serve clients at an address, or at one that is free.
func serveAt(t *testing.T, m *bankNode, addr string, transport ripc.Transport) *member.Server {
	t.Helper()
	s := testutil.Reopen(t, func(context.Context) (*member.Server, error) {
		return member.Serve(t.Context(), member.ServerConfig{Endpoint: ripc.Config{Listen: addr, Transport: transport}}, m.bank)
	})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A client stays with the group that it called first. A second group with the same name and objects
// at the same address is an error: an empty answer would look like the loss of all data.
func TestAClientRefusesAnotherGroupOfTheSameName(t *testing.T) {
	t.Parallel()
	for name, transport := range map[string]ripc.Transport{"shm": ripc.TransportAuto, "tcp": ripc.TransportTCP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := open(t, 1, ordered, nil), open(t, 1, ordered, nil)
			s := serveAt(t, first[0], testutil.FreeAddress(t), transport)
			addr := s.Addr()
			c := dial(t, replicated.ClientConfig{Addresses: []string{addr}, Endpoint: ripc.Config{Transport: transport}})
			bank := c.Object("accounts")
			if _, err := deposit.Call(testutil.Within(t), bank, depositArgs{"ann", 5}); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = serveAt(t, second[0], addr, transport)
			_, queried := total.Call(testutil.Within(t), bank, "ann")
			_, commanded := deposit.Call(testutil.Within(t), bank, depositArgs{"ann", 1})
			_, fresh := total.Call(testutil.Within(t), c.Object("another"), "ann")
			for _, err := range []error{queried, commanded, fresh} {
				if !errors.Is(err, replicated.ErrOtherGroup) || !strings.Contains(err.Error(), first[0].group.View().Group) || !strings.Contains(err.Error(), second[0].group.View().Group) {
					t.Errorf("a call at another group: %v", err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			serveAt(t, first[0], addr, transport)
			if n, err := balance.Call(testutil.Within(t), bank, "ann"); n != 5 || err != nil {
				t.Errorf("the first group again: %d, %v", n, err)
			}
		})
	}
}

// A member of another group among a client's addresses is passed over.
func TestAClientGoesOnWithAMemberOfItsGroup(t *testing.T) {
	t.Parallel()
	first, second := open(t, 2, ordered, nil), open(t, 1, ordered, nil)
	one, two := serveAt(t, first[0], "127.0.0.1:0", ripc.TransportAuto), serveAt(t, first[1], testutil.FreeAddress(t), ripc.TransportAuto)
	other := serveAt(t, second[0], testutil.FreeAddress(t), ripc.TransportAuto)
	bank := dial(t, replicated.ClientConfig{Addresses: []string{one.Addr(), other.Addr(), two.Addr()}, Seed: 1}).Object("accounts")
	for range 2 {
		if _, err := deposit.Call(testutil.Within(t), bank, depositArgs{"ann", 1}); err != nil {
			t.Fatal(err)
		}
		_ = one.Close()
	}
	if n, err := balance.Call(testutil.Within(t), first[1].bank, "ann"); n != 2 || err != nil {
		t.Errorf("the group has %d, %v", n, err)
	}
	if n := second[0].bank.Sessions(); n != 0 {
		t.Errorf("the other group has %d sessions of the client", n)
	}
}
