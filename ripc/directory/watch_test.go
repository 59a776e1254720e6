package directory

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/directory/internal/registry"
)

// Clients of one account that ask for names without end cost no more memory than maxWatched names
// take, however many services they have. Other clients are notified as before.
func TestTheNamesThatAnAccountWatchesAreBounded(t *testing.T) {
	w := newWatch()
	w.pruned = time.Now().Add(time.Hour) // nothing is pruned: these clients have no service
	first, second, other := new(ripc.Remote), new(ripc.Remote), new(ripc.Remote)
	for i := range maxWatched {
		w.add(fmt.Sprint(i), first, "hostile")
		w.add(fmt.Sprint(i), first, "hostile")
		w.add(fmt.Sprint(i), second, "hostile")
	}
	w.add("0", other, "other")
	w.add("z", other, "other")
	sum := 0
	for _, clients := range w.clients {
		sum += len(clients)
	}
	if sum != maxWatched+2 || !w.clients["0"][first] || !w.clients["0"][second] || !w.clients["0"][other] || !w.clients["z"][other] {
		t.Errorf("%d names are watched, want %d", sum, maxWatched+2)
	}
	w.drop(func(c *ripc.Remote) bool { return c != other })
	if len(w.clients) != 2 || len(w.names) != 1 || len(w.sums) != 1 {
		t.Errorf("%d names of %d clients of %d accounts are watched after one was dropped", len(w.clients), len(w.names), len(w.sums))
	}
	if w.add("1", first, "hostile"); !w.clients["1"][first] {
		t.Error("a client that was dropped cannot watch again")
	}
}

// What a service of a client watches is released with the service, though its process stays
// connected.
func TestAClosedServiceWatchesNothing(t *testing.T) {
	ctx := testutil.Within(t)
	m := cluster(t, 1, options{})[0]
	e, err := ripc.Open(ctx, ripc.Config{Transport: ripc.TransportSHM, Resolver: ripc.Static{ServiceID: m.endpoint.Place()}})
	must(t, err)
	defer e.Close()
	watch := func() *ripc.Service {
		s, err := e.Register(ctx, "")
		must(t, err)
		text, err := json.Marshal(request{Find: &query{Name: "name", Watch: true}})
		must(t, err)
		reply, err := s.Call(ctx, s.To(ServiceID), text)
		must(t, err)
		reply.Release()
		return s
	}
	stays, goes := watch(), watch()
	must(t, goes.Close())
	left := func() int {
		m.dir.mu.Lock()
		defer m.dir.mu.Unlock()
		m.dir.watch.prune(0)
		return len(m.dir.watch.names)
	}
	for left() != 1 {
		if ctx.Err() != nil {
			t.Fatalf("%d services are notified, one is open", left())
		}
		time.Sleep(time.Millisecond)
	}
	must(t, stays.Close())
}

// A service that moves again while a client looks where it is now is looked for once more.
func TestAServiceThatMovesWhileItIsLookedForIsLookedForAgain(t *testing.T) {
	m := cluster(t, 1, options{})[0]
	c, _ := client(t, ClientConfig{Addresses: []string{m.endpoint.Addr()}}, ripc.Config{})
	told := make(chan ripc.ID, 3)
	c.Watch(func(id ripc.ID, _ []ripc.Place) { told <- id })
	c.mu.Lock()
	c.fetch("x")
	c.fetch("x") // before the first answer
	c.mu.Unlock()
	for range 2 {
		select {
		case <-told:
		case <-testutil.Within(t).Done():
			t.Fatal("it was not looked for again")
		}
	}
}

// The parts of a long answer are of one member: if the connection is another one meanwhile, the
// client begins again.
func TestAnAnswerIsOfOneMember(t *testing.T) {
	one, other := &conn{}, &conn{}
	type part struct {
		by      *conn
		version uint64
		at      string
		more    bool
	}
	parts := []part{{one, 9, "a", true}, {other, 3, "b", false}, {other, 3, "c", true}, {other, 4, "d", false}}
	var asked []query
	known, from, err := collect("name", func(q *query) (reply, *conn, error) {
		p := parts[len(asked)]
		asked = append(asked, *q)
		r := reply{Found: []found{{Name: "name", Version: p.version, Places: []registry.Place{{Addr: p.at}}}}}
		if p.more {
			r.More = &query{Name: "name", After: p.at}
		}
		return r, p.by, nil
	})
	must(t, err)
	if want := (cached{4, []ripc.Place{{Addr: "c"}, {Addr: "d"}}}); !reflect.DeepEqual(known, want) || from != other {
		t.Errorf("%+v, it has to be %+v", known, want)
	}
	begin := query{Name: "name", Watch: true}
	if want := []query{begin, {Name: "name", After: "a"}, begin, {Name: "name", After: "c"}}; !slices.Equal(asked, want) {
		t.Errorf("asked %+v", asked)
	}
}
