package ripchttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
)

// A handler knows which process asks, whether the request is a call or comes on a stream.
func TestAHandlerKnowsWhichProcessAsks(t *testing.T) {
	t.Run("shm", func(t *testing.T) {
		there := endpoint(t, ripc.SHM)
		asksAs(t, there, endpoint(t, ripc.SHM), func(p ripc.Peer) error {
			if p.Identity != "" || p.Process != os.Getpid() || p.User != os.Getuid() {
				return fmt.Errorf("process %d of user %d, not %d of %d", p.Process, p.User, os.Getpid(), os.Getuid())
			}
			return nil
		})
	})
	t.Run("tls", func(t *testing.T) {
		authority := testutil.NewAuthority(t)
		named := func(name string) *ripc.Endpoint {
			e, err := ripc.Open(t.Context(), ripc.Config{
				Transport: ripc.TCP, Addr: "127.0.0.1:0", TLS: authority.Named(name), Resolver: ripc.OneHost(fmt.Sprint(t.Name(), os.Getpid())),
			})
			must(t, err)
			t.Cleanup(func() { must(t, e.Close()) })
			return e
		}
		there := named("server")
		asksAs(t, there, named("alice"), func(p ripc.Peer) error {
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
