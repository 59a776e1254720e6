package member_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

func TestAServerDescribesItsObjects(t *testing.T) {
	t.Parallel()
	all := open(t, 2, ordered, nil)
	c, servers := serve(t, all, ripc.TransportAuto)
	for range 3 {
		if _, err := deposit.Call(t.Context(), c.Object("accounts"), depositArgs{"ann", 1}); err != nil {
			t.Fatal(err)
		}
	}
	// Another member may have answered the client: the one that is asked executes all three first.
	if n, err := balance.Call(t.Context(), all[0].bank, "ann"); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	describe := func(cluster string) []replicated.ObjectInfo {
		t.Helper()
		client, err := replicated.Dial(t.Context(), replicated.ClientConfig{Cluster: cluster, Addresses: []string{servers[0].Addr()}})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		got, err := client.Objects(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := describe("another"); len(got) != 0 {
		t.Errorf("the objects of another group: %+v", got)
	}
	for _, cluster := range []string{"", "test"} {
		got := describe(cluster)
		if len(got) != 1 {
			t.Fatalf("%d objects: %+v", len(got), got)
		}
		o := got[0]
		if o.Cluster != "test" || o.Name != "accounts" || o.Member != 1 || !slices.Equal(slices.Sorted(slices.Values(o.Members)), []squall.NodeID{1, 2}) ||
			o.Version.View == 0 || o.Executed != 3 || o.Sessions != 1 || o.Persistent {
			t.Errorf("%+v", o)
		}
		want := []replicated.OperationInfo{
			{Name: "balance", Query: true, Enabled: true, Arguments: "cbor", Reply: "cbor"},
			{Name: "burst", Enabled: true, Arguments: "cbor", Reply: "cbor"},
			{Name: "deposit", Enabled: true, Arguments: "cbor", Reply: "cbor"},
			{Name: "draw", Enabled: true, Arguments: "cbor", Reply: "cbor"},
			{Name: "nothing", Enabled: true, Arguments: "raw", Reply: "raw"},
			{Name: "total", Query: true, Enabled: true, Arguments: "cbor", Reply: "cbor"},
		}
		if !reflect.DeepEqual(o.Operations, want) {
			t.Errorf("operations %+v", o.Operations)
		}
	}
}

// anonymous is a codec that has no name.
type anonymous struct{ replicated.Codec[[]byte] }

// A command that another member lacks is described as not enabled, and a codec without a name has
// none.
func TestACommandThatAMemberLacksIsDescribedAsNotEnabled(t *testing.T) {
	t.Parallel()
	later := replicated.NewCommand[[]byte, []byte]("later").Encoded(anonymous{replicated.Raw()}, replicated.Raw())
	all := open(t, 2, func(i int) *member.Object[*bank] {
		operations := []member.Binding[*bank]{member.Handle(deposit, (*bank).deposit)}
		if i == 0 {
			operations = append(operations, member.Handle(later, (*bank).nothing))
		}
		return member.New(squall.SubgroupConfig{Name: "accounts"}, newBank, operations...)
	}, nil)
	c, _ := serve(t, all[:1], ripc.TransportAuto)
	if _, err := deposit.Call(t.Context(), c.Object("accounts"), depositArgs{"ann", 1}); err != nil { // it waits until deposit is enabled
		t.Fatal(err)
	}
	got, err := c.Objects(t.Context())
	want := []replicated.OperationInfo{
		{Name: "deposit", Enabled: true, Arguments: "cbor", Reply: "cbor"},
		{Name: "later", Reply: "raw"},
	}
	if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0].Operations, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestObjectsAreDescribedToClientsThatMayKnowOfThem(t *testing.T) {
	t.Parallel()
	authority := testutil.NewAuthority(t)
	all := open(t, 1, newGuests, nil)
	addrs := secured(t, all, authority, func(a member.Access) error {
		if a.Action == replicated.DescribeObject && a.Object == "guests" && a.Name == "" && a.Peer.Identity != "CN=ann" {
			return errors.New("they are ann's")
		}
		return nil
	})
	describe := func(name string) ([]replicated.ObjectInfo, error) {
		return dial(t, replicated.ClientConfig{Addresses: addrs, Endpoint: ripc.Config{TLS: authority.Named(name)}}).Objects(t.Context())
	}
	if got, err := describe("ann"); err != nil || len(got) != 1 || got[0].Name != "guests" {
		t.Errorf("ann: %+v, %v", got, err)
	}
	var denied *replicated.AccessError
	if got, err := describe("bob"); !errors.As(err, &denied) || denied.Action != replicated.DescribeObject || !strings.Contains(err.Error(), "they are ann's") {
		t.Errorf("bob: %+v, %v", got, err)
	}
}

// A member that has halted describes nothing, and its clients ask another one.
func TestAMemberThatHaltedSendsAwayTheClientsThatWantADescription(t *testing.T) {
	t.Parallel()
	all := open(t, 3, ordered, nil)
	c, servers := serve(t, all, ripc.TransportAuto)
	all[0].group.Halt(errors.New("enough"))
	<-all[0].group.Done()
	got, err := c.Objects(t.Context()) // it begins with any member
	if err != nil || len(got) != 1 || got[0].Member == 1 {
		t.Errorf("%+v, %v", got, err)
	}
	alone := dial(t, replicated.ClientConfig{Addresses: []string{servers[0].Addr()}})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if got, err := alone.Objects(ctx); err == nil || ctx.Err() == nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// A member that takes requests and answers none is left, also by a client without objects.
func TestAnotherMemberDescribesTheObjectsIfTheFirstOneHangs(t *testing.T) {
	t.Parallel()
	hangs, err := ripc.Open(t.Context(), ripc.Config{Listen: "127.0.0.1:0", Resolver: ripc.Static{}, Transport: ripc.TransportTCP})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hangs.Close() })
	if _, err := hangs.Register(t.Context(), "squall objects"); err != nil {
		t.Fatal(err)
	}
	_, servers := serve(t, open(t, 1, ordered, nil), ripc.TransportAuto)
	c := dial(t, replicated.ClientConfig{Addresses: []string{hangs.Addr(), servers[0].Addr()}, Seed: 1, MemberTimeout: 50 * time.Millisecond})
	if got, err := c.Objects(testutil.Within(t)); err != nil || len(got) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A request that is none is refused, by the service for descriptions and by that of an object.
func TestARequestForADescriptionHasNothingElse(t *testing.T) {
	t.Parallel()
	all := open(t, 1, ordered, nil)
	_, servers := serve(t, all, ripc.TransportTCP)
	place := ripc.Place{Addr: servers[0].Addr()}
	object := serviceOf(all[0].group, "accounts")
	e, err := ripc.Open(t.Context(), ripc.Config{Resolver: ripc.Static{"squall objects": place, object: place}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	s, err := e.Register(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	describe := byte(client.Describe)
	for _, request := range []struct {
		to   ripc.ID
		data []byte
		said client.Said
	}{
		{"squall objects", []byte{describe}, client.Done},
		{"squall objects", []byte{describe, 0}, client.Else},
		{"squall objects", []byte{byte(client.Now)}, client.Else},
		{"squall objects", make([]byte, 1000), client.Else},
		{object, []byte{byte(client.Group), 'x'}, client.Else},
		{object, []byte{describe}, client.Else},
	} {
		m, err := s.Call(t.Context(), s.To(request.to), request.data)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := client.ParseAnswer(m.Data); err != nil || a.Said != request.said {
			t.Errorf("%q, %d bytes: %d %q, %v", request.to, len(request.data), a.Said, a.Text, err)
		}
		m.Release()
	}
}

// A description that is no short message comes whole.
func TestADescriptionOfAnySizeComes(t *testing.T) {
	t.Parallel()
	const operations = 5000
	all := open(t, 1, func(int) *member.Object[*bank] {
		var bindings []member.Binding[*bank]
		for i := range operations {
			name := fmt.Sprintf("%04d of %s", i, strings.Repeat("x", 200))
			bindings = append(bindings, member.Handle(replicated.NewQuery[string, int64](name), (*bank).total))
		}
		return member.New(squall.SubgroupConfig{Name: "accounts"}, newBank, bindings...)
	}, nil)
	for _, transport := range []ripc.Transport{ripc.TransportAuto, ripc.TransportTCP} {
		c, servers := serve(t, all, transport)
		got, err := c.Objects(t.Context())
		if err != nil || len(got) != 1 || len(got[0].Operations) != operations || !strings.HasPrefix(got[0].Operations[operations-1].Name, "4999 of x") {
			t.Errorf("%d objects, %v", len(got), err)
		}
		_ = servers[0].Close()
	}
}
