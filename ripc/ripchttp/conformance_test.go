package ripchttp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
)

// A field that a handler sets to nil is not added by the server, as package net/http documents.
func TestFieldsThatAreSetToNilAreSuppressed(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()[r.URL.Path[1:]] = nil
		io.WriteString(w, "hello")
	})
	unix := onUnix(t, h)
	_, here := serve(t, ripc.TransportSHM, h)
	for _, name := range []string{"Content-Length", "Content-Type", "Content-Encoding", "Date", "Trailer", "X-Other"} {
		say := func(over http.RoundTripper) string {
			r, err := http.NewRequest("GET", "http://web/"+name, nil)
			must(t, err)
			response, err := over.RoundTrip(r)
			if err != nil {
				return err.Error()
			}
			defer response.Body.Close()
			b, err := io.ReadAll(response.Body)
			return fmt.Sprintf("%s %q %v, Content-Type %q, has a Date %v", response.Status, b, err, response.Header["Content-Type"], response.Header["Date"] != nil)
		}
		if want, got := say(unix), say(here); got != want {
			t.Errorf("%s is nil:\n%s\nnet/http:\n%s", name, got, want)
		}
	}
}

// handCall is a request that is a call, with fields as a hostile client would put them.
func handCall(uri, host string, fields ...string) ([]byte, error) {
	b := binary.LittleEndian.AppendUint64([]byte{0, 0, 0}, 1)
	b = binary.LittleEndian.AppendUint64(b, 2)
	b = appendName(b, "POST", methodNumbers)
	b = appendText(appendText(b, uri), host)
	for i := 0; i < len(fields); i += 2 {
		b = appendField(b, fields[i], fields[i+1])
	}
	return seal(b)
}

// A call that says of its body or host what is not so is answered with 400, and one whose header is
// too large with 431; no handler sees it.
func TestCallsThatContradictThemselvesReachNoHandler(t *testing.T) {
	ctx := testutil.Within(t)
	seen := make(chan string, 64)
	server := &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- fmt.Sprint(r.Host, r.Header["Content-Length"])
	}), ErrorLog: quiet, MaxHeaderBytes: 5000}
	service := register(t, endpoint(t, ripc.TransportSHM), "web")
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(service) }()
	defer func() { server.Close(); <-done }()
	me := register(t, endpoint(t, ripc.TransportSHM), "")
	for _, c := range []struct {
		name   string
		fields []string
		host   string
		status int
		length int // of a body
	}{
		{"a valid call", []string{"Content-Length", "10"}, "web", 200, 10},
		{"a length twice", []string{"Content-Length", "10", "Content-Length", "10"}, "web", 200, 10},
		{"no length", nil, "web", 200, 10},
		{"another length", []string{"Content-Length", "3"}, "web", 400, 10},
		{"two lengths", []string{"Content-Length", "10", "Content-Length", "7"}, "web", 400, 10},
		{"a length with a sign", []string{"Content-Length", "+10"}, "web", 400, 10},
		{"no number", []string{"Content-Length", ""}, "web", 400, 10},
		{"chunks", []string{"Transfer-Encoding", "chunked"}, "web", 400, 10},
		{"trailers", []string{"Trailer", "X"}, "web", 400, 10},
		{"a second host", []string{"Host", "other"}, "web", 400, 10},
		{"no host", nil, "we b", 400, 10},
		{"as many fields as may be", slicesOf(maxFields, "A", ""), "web", 200, 0},
		{"more fields", slicesOf(maxFields+1, "A", ""), "web", 431, 0},
		{"a header that is too large", []string{"Cookie", strings.Repeat("c", 5000)}, "web", 431, 0},
	} {
		head, err := handCall("/x", c.host, c.fields...)
		must(t, err)
		m, err := me.Call(ctx, me.To("web"), head, bytes.Repeat([]byte{'b'}, c.length))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		in, _, err := unseal(m.Data)
		must(t, err)
		r := reader{text: string(in[1:])}
		if status := int(r.number(2)); status != c.status {
			t.Errorf("%s: status %d, want %d", c.name, status, c.status)
		}
		m.Release()
	}
	head, err := handCall("http://elsewhere/x", "web")
	must(t, err)
	m, err := me.Call(ctx, me.To("web"), head)
	must(t, err)
	m.Release()
	var hosts []string
	for len(seen) > 0 {
		hosts = append(hosts, <-seen)
	}
	if got, want := fmt.Sprint(hosts), "[web[10] web[10] web[] web[] elsewhere[]]"; got != want {
		t.Errorf("the handler saw %s, want %s", got, want)
	}
}

func slicesOf(n int, pair ...string) (all []string) {
	for range n {
		all = append(all, pair...)
	}
	return all
}

// A request with more fields than a call may have goes over a stream, and a response with more
// fields than that is a reply.
func TestManyFieldsAreCarried(t *testing.T) {
	_, here := serve(t, ripc.TransportSHM, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range len(r.Header["X"]) {
			w.Header().Add("Y", "2")
		}
	}))
	for _, n := range []int{maxFields - 1, maxFields, 2 * maxFields} {
		r, err := http.NewRequest("GET", "http://web/", nil)
		must(t, err)
		for range n {
			r.Header.Add("X", "1")
		}
		response, err := here.RoundTrip(r)
		must(t, err)
		response.Body.Close()
		if got := len(response.Header["Y"]); got != n {
			t.Errorf("%d fields of %d came back", got, n)
		}
	}
}
