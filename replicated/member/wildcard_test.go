package member_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// A server that listens on all addresses of its host tells clients, and the members of other
// shards, one that they can dial, or the one that it was told to advertise.
func TestAServerOnAllAddressesTellsOneThatCanBeDialed(t *testing.T) {
	for _, c := range []struct{ name, addr, advertise string }{
		{"no host", ":0", ""},
		{"IPv4", "0.0.0.0:0", ""},
		{"advertised", "0.0.0.0:0", "localhost:0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all := open(t, testShards, func(int) *member.Object[*shelf] { return shelves(squall.SubgroupConfig{}) }, nil)
			tcp := ripc.Config{Listen: c.addr, Advertise: c.advertise, Transport: ripc.TransportTCP}
			var addresses []string
			for _, m := range all {
				s, err := member.Serve(t.Context(), member.ServerConfig{Endpoint: tcp}, m.bank)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				host, port, err := net.SplitHostPort(s.Addr())
				if ip, notIP := netip.ParseAddr(host); err != nil || host == "" || port == "0" || notIP == nil && ip.IsUnspecified() {
					t.Fatalf("a server at %s says that it is at %s", c.addr, s.Addr())
				}
				if c.advertise != "" && host != "localhost" {
					t.Errorf("a server that advertises %s says that it is at %s", c.advertise, s.Addr())
				}
				addresses = append(addresses, s.Addr())
			}
			client, err := replicated.Dial(t.Context(), replicated.ClientConfig{Cluster: "test", Addresses: addresses[:1], Endpoint: ripc.Config{Transport: ripc.TransportTCP}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			ctx := testutil.Within(t)
			for i, target := range []replicated.Target{client.Object("shelves"), all[0].bank, all[1].bank} {
				for shard := range testShards { // one of which is at the other member, for each of them
					key := "a"
					for replicated.ShardOf(key, testShards) != shard {
						key += "a"
					}
					if n, err := addTo.Call(ctx, target, addition{key, 1}); n != i+1 || err != nil {
						t.Errorf("target %d, shard %d: %d, %v", i, shard, n, err)
					}
				}
			}
		})
	}
}
