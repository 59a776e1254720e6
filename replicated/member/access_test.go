package member_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

var whoami = replicated.NewCommand[int, string]("whoami")

// guests is an object that keeps whose commands it executed.
type guests struct{ Names []string }

func newGuests(int) *member.Object[*guests] {
	return member.New(squall.SubgroupConfig{Name: "guests"}, func() *guests { return &guests{} },
		member.Handle(whoami, func(g *guests, c *member.Context, _ int) (string, error) {
			g.Names = append(g.Names, c.Caller.Identity)
			return c.Caller.Identity, nil
		}),
		member.Handle(noted, func(g *guests, c *member.Context, _ string) ([]string, error) {
			return append(slices.Clone(g.Names), "for "+c.Caller.Identity), nil
		}))
}

// secured has all members serve clients with certificates of an authority, and returns their
// addresses.
func secured[S any](t *testing.T, all []*node[S], authority *testutil.Authority, authorize func(member.Access) error) (addrs []string) {
	for _, m := range all {
		s, err := member.Serve(t.Context(), member.ServerConfig{
			Endpoint: ripc.Config{Listen: "127.0.0.1:0", TLS: authority.Named("member")}, Authorize: authorize,
		}, m.bank)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

func TestHandlersKnowTheIdentityOfAClient(t *testing.T) {
	t.Parallel()
	authority := testutil.NewAuthority(t)
	all := open(t, 2, newGuests, nil)
	addrs := secured(t, all, authority, nil)
	for i, name := range []string{"ann", "bob"} {
		c := dial(t, replicated.ClientConfig{Addresses: addrs[i:], Endpoint: ripc.Config{TLS: authority.Named(name)}}).Object("guests")
		if got, err := whoami.Call(t.Context(), c, 0); got != "CN="+name || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		names, err := noted.Call(t.Context(), c, "")
		if want := []string{"CN=ann", "CN=bob", "for CN=" + name}; err != nil || !slices.Equal(names, append(want[:i+1], want[2])) {
			t.Errorf("%v, %v", names, err)
		}
	}
	stranger := dial(t, replicated.ClientConfig{Addresses: addrs, Endpoint: ripc.Config{TLS: testutil.NewAuthority(t).Named("ann")}})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if got, err := whoami.Call(ctx, stranger.Object("guests"), 0); err == nil {
		t.Errorf("a certificate of another authority: %q", got)
	}
}

// Nothing is ordered for a client that may not have it.
func TestAClientDoesOnlyWhatItMay(t *testing.T) {
	t.Parallel()
	authority := testutil.NewAuthority(t)
	all := open(t, 2, newGuests, nil)
	var mu sync.Mutex
	asked := map[string]int{}
	addrs := secured(t, all, authority, func(a member.Access) error {
		mu.Lock()
		defer mu.Unlock()
		asked[fmt.Sprint(a.Peer.Identity, " ", a.Action, " ", a.Name, " of ", a.Object)]++
		if a.Peer.Identity == "CN=reader" && a.Action != replicated.CallQuery {
			return errors.New("it reads only")
		}
		if a.Peer.Identity == "CN=writer" && (a.Action == replicated.CallQuery || a.Name == "secret") {
			return errors.New("it writes only")
		}
		return nil
	})
	client := func(name string) *replicated.RemoteObject {
		return dial(t, replicated.ClientConfig{Addresses: addrs, Endpoint: ripc.Config{TLS: authority.Named(name)}}).Object("guests")
	}
	reader, writer := client("reader"), client("writer")
	denied := func(what, contains string, err error) {
		t.Helper()
		var e *replicated.AccessError
		if !errors.Is(err, replicated.ErrDenied) || !errors.As(err, &e) || !strings.Contains(err.Error(), contains) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := whoami.Call(t.Context(), reader, 0)
	denied("a session of a reader", `"CN=reader" may not open a session: it reads only`, err)
	if _, err := noted.Call(t.Context(), reader, ""); err != nil {
		t.Error(err)
	}
	_, err = replicated.Now(t.Context(), reader)
	denied("events for a reader", `may not watch the events`, err)
	if _, err := whoami.Call(t.Context(), writer, 0); err != nil {
		t.Error(err)
	}
	_, err = noted.Local(t.Context(), writer, "")
	denied("a query of a writer", `object "guests": "CN=writer" may not call the query "noted": it writes only`, err)
	_, err = replicated.NewCommand[int, int]("secret").Call(t.Context(), writer, 0)
	denied("a command of a writer", `may not call the command "secret"`, err)
	for e, err := range replicated.Watch(t.Context(), writer, replicated.Cursor{}, "secret") {
		denied(fmt.Sprint("a watch, which got ", e), `may not watch the events "secret"`, err)
	}
	if n := all[0].bank.Sessions(); n != 1 {
		t.Errorf("%d sessions", n)
	}
	all[0].bank.View(func(g *guests) {
		if !slices.Equal(g.Names, []string{"CN=writer"}) {
			t.Errorf("executed for %v", g.Names)
		}
	})
	mu.Lock()
	defer mu.Unlock()
	if asked["CN=writer call the command whoami of guests"] != 1 {
		t.Errorf("asked %v", asked)
	}
}

// A session is of use to the identity that opened it only, at every member, also at one that has
// not seen it yet.
func TestASessionBelongsToTheIdentityThatOpenedIt(t *testing.T) {
	t.Parallel()
	authority := testutil.NewAuthority(t)
	all := open(t, 2, newGuests, nil)
	addrs := secured(t, all, authority, nil)
	id := serviceOf(all[0].group, "guests")
	raw := func(name, addr string) func(r client.Request) client.Answer {
		e, err := ripc.Open(t.Context(), ripc.Config{
			TLS: authority.Named(name), Resolver: ripc.Static{id: ripc.Place{Addr: addr}},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		s, err := e.Register(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return func(r client.Request) client.Answer {
			t.Helper()
			m, err := s.Call(t.Context(), s.To(id), r.AppendTo(nil))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Release()
			a, err := client.ParseAnswer(append([]byte(nil), m.Data...))
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
	}
	ann, annThere, eve, eveThere := raw("ann", addrs[0]), raw("ann", addrs[1]), raw("eve", addrs[0]), raw("eve", addrs[1])
	opened := ann(client.Request{Ask: client.Open, Token: [16]byte{7}, Timeout: 60e9})
	if opened.Said != client.Done || len(opened.Text) != 8 {
		t.Fatalf("%+v", opened)
	}
	session := uint64(0)
	for i := range 8 {
		session |= uint64(opened.Text[i]) << (8 * i)
	}
	command := client.Request{Ask: client.Command, Session: session, Number: 1, Name: []byte("whoami"), Args: []byte{0}}
	for i, ask := range []func(client.Request) client.Answer{eve, eveThere} {
		for _, r := range []client.Request{command, {Ask: client.Touch, Session: session}, {Ask: client.Close, Session: session}} {
			if a := ask(r); a.Said != client.Denied {
				t.Errorf("eve at member %d, request %d: %+v", i+1, r.Ask, a)
			}
		}
		if a := ask(client.Request{Ask: client.Open, Token: [16]byte{7}, Timeout: 60e9}); a.Said == client.Done {
			t.Errorf("eve has ann's token: %+v", a)
		}
	}
	if a := annThere(command); a.Said != client.Done {
		t.Errorf("ann: %+v", a)
	}
	unknown := command
	unknown.Session++
	if a := ann(unknown); a.Said != client.Ended {
		t.Errorf("a session that is none: %+v", a)
	}
	all[1].bank.View(func(g *guests) {
		if !slices.Equal(g.Names, []string{"CN=ann"}) {
			t.Errorf("executed for %v", g.Names)
		}
	})
}
