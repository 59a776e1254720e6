package ripchttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
)

// A request is sent again only if it was certainly not received, or may be received twice.
func TestARequestOfUnknownFateIsSentOnceUnlessItIsSafe(t *testing.T) {
	lost := func(exact bool, unreceived int) error {
		return fmt.Errorf("wrapped: %w", &ripc.GoneError{Exact: exact, Unreceived: unreceived})
	}
	for _, c := range []struct {
		name         string
		err          error
		unsafe, safe bool
	}{
		{"it was not received", lost(true, 1), true, true},
		{"it was received", lost(true, 0), false, true},
		{"it may have been received", lost(false, 1), false, true},
		{"it may have been received, with others", lost(false, 2), false, true},
		{"no process has the service", ripc.ErrNoService, true, true},
		{"no process is there", ripc.ErrUnreachable, true, true},
		{"the server is about to end", errMoved, true, true},
		{"it was refused", ripc.ErrRefused, false, true},
		{"the handler aborted", ErrAborted, false, false},
		{"something else", errors.New("else"), false, false},
	} {
		for _, method := range []string{"", "GET", "HEAD", "OPTIONS", "TRACE", "POST", "PUT", "PATCH", "DELETE", "OWN"} {
			for _, key := range []string{"", "Idempotency-Key", "X-Idempotency-Key"} {
				r := (&http.Request{Method: method, Header: http.Header{}}).WithContext(t.Context())
				if key != "" {
					r.Header.Set(key, "1")
				}
				safe := key != "" || method == "" || method == "GET" || method == "HEAD" || method == "OPTIONS" || method == "TRACE"
				if got, want := (&Transport{}).repeats(r, c.err), safe && c.safe || c.unsafe; got != want {
					t.Errorf("%s %q %s: it is sent again %v", c.name, method, key, got)
				}
				if (&Transport{RetryTimeout: -1}).repeats(r, c.err) {
					t.Errorf("%s %q %s: it is sent again without patience", c.name, method, key)
				}
			}
		}
	}
}

// served serves a handler to calls that a test makes itself, and returns their sender.
func served(t *testing.T, h http.HandlerFunc) (*Server, *ripc.Service) {
	t.Helper()
	server := &Server{Handler: h, ErrorLog: quiet}
	service := register(t, endpoint(t, ripc.TransportSHM), "web")
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(service) }()
	t.Cleanup(func() { server.Close(); <-done })
	return server, register(t, endpoint(t, ripc.TransportSHM), "")
}

// The handler of a call that was given up before it came has a context that is over. What is
// remembered of such calls is bounded.
func TestACallThatWasGivenUpBeforeItCameIsOver(t *testing.T) {
	ctx := testutil.Within(t)
	errs := make(chan error, 1)
	server, me := served(t, func(_ http.ResponseWriter, r *http.Request) { errs <- r.Context().Err() })
	head, err := handCall("/", "web") // call 2 of session 1
	must(t, err)
	for _, early := range []bool{false, true, false} {
		if early {
			server.giveUp(callID{1, 2})
		}
		if m, err := me.Call(ctx, me.To("web"), head); err == nil {
			m.Release()
		}
		if err := <-errs; (err != nil) != early {
			t.Errorf("given up before: %v, the context: %v", early, err)
		}
		for served := 1; served > 0; { // else the next call with its number would not be a call that did not come yet
			must(t, ctx.Err())
			runtime.Gosched()
			server.mu.Lock()
			served = len(server.calls)
			server.mu.Unlock()
		}
	}
	for k := range uint64(2 * maxEarly) {
		server.giveUp(callID{1, 100 + k})
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if len(server.early) != maxEarly {
		t.Errorf("%d calls are remembered", len(server.early))
	}
}

// A ticket is good for one request.
func TestATicketIsGoodOnce(t *testing.T) {
	ctx := testutil.Within(t)
	goOn := make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	server, me := served(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "first part")
		w.(http.Flusher).Flush()
		<-goOn
	})
	head, err := handCall("/", "web")
	must(t, err)
	m, err := me.Call(ctx, me.To("web"), head)
	must(t, err)
	said, _, err := unseal(m.Data)
	must(t, err)
	in := reader{text: string(said)}
	if kind := in.byte(); kind != responseTicket {
		t.Fatalf("the response is of kind %d", kind)
	}
	number := in.number(8)
	ticket := strconv.FormatUint(number, 16)
	m.Release()
	streams := &http.Transport{DialContext: me.DialContext}
	defer streams.CloseIdleConnections()
	redeem := func(ticket string) *http.Response {
		r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), methodRedeem, "http://web/", nil)
		must(t, err)
		r.Header.Set(headerNumber, ticket)
		response, err := streams.RoundTrip(r)
		must(t, err)
		return response
	}
	first := redeem(ticket)
	defer first.Body.Close()
	server.mu.Lock()
	_, good := server.tickets[number]
	server.mu.Unlock()
	if good {
		t.Fatal("a ticket that was used is good for another request") // which would wait with the first one
	}
	for text, want := range map[string]int{ticket: http.StatusGone, "1" + ticket[1:]: http.StatusGone, "no number": http.StatusBadRequest} {
		again := redeem(text)
		again.Body.Close()
		if again.StatusCode != want {
			t.Errorf("ticket %q again: %s", text, again.Status)
		}
	}
	release()
	if b, err := io.ReadAll(first.Body); string(b) != "first part" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}
