package ripchttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/ripc"
)

// A handler knows which process asks, whether the request is a call or comes on a stream.
func TestAHandlerKnowsWhichProcessAsks(t *testing.T) {
	t.Run("shm", func(t *testing.T) {
		there := endpoint(t, ripc.TransportSHM)
		asksAs(t, there, endpoint(t, ripc.TransportSHM), func(p ripc.Peer) error {
			if p.Identity != "" || p.Process != os.Getpid() || p.User != os.Getuid() {
				return fmt.Errorf("process %d of user %d, not %d of %d", p.Process, p.User, os.Getpid(), os.Getuid())
			}
			return nil
		})
	})
	t.Run("tls", func(t *testing.T) {
		authority := testutil.NewAuthority(t)
		there := named(t, authority, "server")
		asksAs(t, there, named(t, authority, "alice"), func(p ripc.Peer) error {
			if p.Identity != "CN=alice" || p.Addr == "" {
				return fmt.Errorf("%q at %q, not CN=alice", p.Identity, p.Addr)
			}
			return nil
		})
	})
	if _, ok := PeerOf(&http.Request{}); ok {
		t.Error("a request of no server has a peer")
	}
}

// named opens an endpoint with a certificate for a name.
func named(t *testing.T, authority *testutil.Authority, name string) *ripc.Endpoint {
	e, err := ripc.Open(t.Context(), ripc.Config{
		Transport: ripc.TransportTCP, Listen: "127.0.0.1:0", TLS: authority.Named(name), Resolver: ripc.OneHost(fmt.Sprint(t.Name(), os.Getpid())),
	})
	must(t, err)
	t.Cleanup(func() { must(t, e.Close()) })
	return e
}

// A client whose requests take all the time that they get has a part of the handlers, over all of
// its processes, and leaves the others to the rest. Its further requests are answered in their
// turn.
func TestTheRequestsOfOneClientAreBounded(t *testing.T) {
	ctx := testutil.Within(t)
	authority := testutil.NewAuthority(t)
	const requests, most = 12, 2
	service := register(t, named(t, authority, "server"), "web")
	begun, goOn := make(chan struct{}, requests), make(chan struct{})
	var handled, high atomic.Int32
	server := &Server{MaxRequests: 4, MaxRequestsPerClient: most, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/slow" {
			return
		}
		n := handled.Add(1)
		for before := high.Load(); n > before && !high.CompareAndSwap(before, n); before = high.Load() {
		}
		begun <- struct{}{}
		<-goOn
		handled.Add(-1)
	})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(service) })
	get := func(t *http.Client, path string) error {
		r, err := http.NewRequestWithContext(ctx, "GET", "http://web"+path, nil)
		if err != nil {
			return err
		}
		response, err := t.Do(r)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", response.Status)
		}
		return nil
	}
	var asking sync.WaitGroup
	for range 2 {
		transport := &Transport{Service: register(t, named(t, authority, "flood"), "")}
		defer transport.CloseIdleConnections()
		for range requests / 2 {
			asking.Go(func() {
				if err := get(&http.Client{Transport: transport}, "/slow"); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for range most {
		<-begun
	}
	for waits := 0; waits < requests-most; { // all others have come
		must(t, ctx.Err())
		must(t, wait.Sleep(ctx, time.Millisecond))
		server.mu.Lock()
		waits = len(server.clients["identity CN=flood"].waiting)
		server.mu.Unlock()
	}
	transport := &Transport{Service: register(t, named(t, authority, "client"), "")}
	defer transport.CloseIdleConnections()
	must(t, get(&http.Client{Transport: transport}, "/"))
	close(goOn)
	asking.Wait()
	if n := high.Load(); n != most {
		t.Errorf("%d requests of one client were handled at a time, the limit is %d", n, most)
	}
	must(t, server.Close())
	serving.Wait()
	if server.forgetIdle(); len(server.clients) != 0 {
		t.Error(server.clients)
	}
}

// asksAs asks a server on one endpoint from another one. The handler checks its peer.
func asksAs(t *testing.T, there, here *ripc.Endpoint, check func(ripc.Peer) error) {
	_, over := serveOn(t, there, here, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/streams" {
			w.(http.Flusher).Flush()
		}
		p, ok := PeerOf(r)
		if err := check(p); !ok || err != nil {
			fmt.Fprint(w, ok, err)
		}
	}))
	for _, path := range []string{"/call", "/streams"} {
		for _, ask := range []func(context.Context) *http.Request{get(path), request("PUT", path, strings.NewReader(long))} {
			response, err := over.RoundTrip(ask(testutil.Within(t)))
			must(t, err)
			said, err := io.ReadAll(response.Body)
			must(t, err)
			must(t, response.Body.Close())
			if len(said) > 0 {
				t.Errorf("%s: %s", path, said)
			}
		}
	}
}
