package member_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/trust"
)

// A call fails at once if each member fails whenever it is asked. If one of them refuses the
// connection, the call goes on, because that member may be starting.
func TestACallFailsAtOnceIfNoMemberCanBeReachedEver(t *testing.T) {
	t.Parallel()
	all := open(t, 2, ordered, nil)
	authority, another := testutil.NewAuthority(t), testutil.NewAuthority(t)
	serverAt := func(m *bankNode, e ripc.Config) string {
		e.Listen = "127.0.0.1:0"
		s, err := member.Serve(t.Context(), member.ServerConfig{Endpoint: e}, m.bank)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s.Addr()
	}
	members := []string{all[0].group.Addr(), all[1].group.Addr()}
	plain := []string{serverAt(all[0], ripc.Config{}), serverAt(all[1], ripc.Config{})}
	secure := []string{serverAt(all[0], ripc.Config{TLS: authority.TLS()}), serverAt(all[1], ripc.Config{TLS: authority.TLS()})}
	secret := []string{serverAt(all[0], ripc.Config{Secret: []byte("a")}), serverAt(all[1], ripc.Config{Secret: []byte("a")})}
	for name, c := range map[string]struct {
		addresses []string
		endpoint  ripc.Config
		want      error // nil: any
		text      string
	}{
		"the port of members":      {members, ripc.Config{}, port.ErrWrongPort, "use the address at which a member serves clients"},
		"TLS at the client only":   {plain, ripc.Config{TLS: authority.TLS(), Transport: ripc.TransportTCP}, port.ErrTLSDiffers, "set TLS at both"},
		"TLS at the members only":  {secure, ripc.Config{}, port.ErrTLSDiffers, "set TLS at both"},
		"another authority":        {secure, ripc.Config{TLS: another.TLS()}, nil, "certificate"},
		"another secret":           {secret, ripc.Config{Secret: []byte("b")}, trust.ErrSecret, "set the same Config.Secret at both"},
		"another secret, over TCP": {secret, ripc.Config{Secret: []byte("b"), Transport: ripc.TransportTCP}, trust.ErrSecret, "set the same Config.Secret at both"},
		"no secret":                {secret, ripc.Config{}, trust.ErrSecret, "set the same Config.Secret at both"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testutil.Within(t)
			_, err := balance.Call(ctx, dial(t, replicated.ClientConfig{Addresses: c.addresses, Endpoint: c.endpoint}).Object("accounts"), "ann")
			if ctx.Err() != nil || !errors.Is(err, replicated.ErrUnreachable) || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("the call ends with: %v", err)
			}
			c.addresses = []string{c.addresses[0], testutil.FreeAddress(t)}
			for wait := 100 * time.Millisecond; ; wait *= 2 { // until both were tried in time
				short, cancel := context.WithTimeout(ctx, wait)
				_, err = balance.Call(short, dial(t, replicated.ClientConfig{Addresses: c.addresses, Endpoint: c.endpoint, Seed: 1}).Object("accounts"), "ann")
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
					t.Fatalf("with another address, that refuses the connection: %v", err)
				}
				if errors.Is(err, replicated.ErrUnreachable) && strings.Contains(err.Error(), c.text) {
					break
				}
			}
		})
	}
}
