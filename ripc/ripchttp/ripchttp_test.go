package ripchttp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
	"go.uber.org/goleak"
)

// A server of net/http waits half a second before it closes a connection whose request it did not
// read.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// endpoint opens an endpoint that the test closes.
func endpoint(t testing.TB, transport ripc.Transport) *ripc.Endpoint {
	t.Helper()
	cfg := ripc.Config{Transport: transport, Resolver: ripc.OneHost(fmt.Sprint(t.Name(), os.Getpid())), RingBytes: 256 << 10}
	if transport == ripc.TransportTCP {
		cfg.Listen = "127.0.0.1:0"
	}
	e, err := ripc.Open(t.Context(), cfg)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, e.Close()) })
	return e
}

// register makes a service.
func register(t testing.TB, e *ripc.Endpoint, id ripc.ID) *ripc.Service {
	t.Helper()
	s, err := e.Register(t.Context(), id)
	must(t, err)
	return s
}

var quiet = log.New(io.Discard, "", 0)

// serve serves a handler as "web", and returns a transport of another endpoint.
func serve(t testing.TB, transport ripc.Transport, h http.Handler) (*Server, *Transport) {
	t.Helper()
	return serveOn(t, endpoint(t, transport), endpoint(t, transport), h)
}

// serveOn serves a handler on one endpoint, and returns a transport of another one.
func serveOn(t testing.TB, there, here *ripc.Endpoint, h http.Handler) (*Server, *Transport) {
	t.Helper()
	server := &Server{Handler: h, ErrorLog: quiet}
	service := register(t, there, "web")
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(service); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	client := &Transport{Service: register(t, here, "")}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		must(t, server.Close())
		serving.Wait()
	})
	return server, client
}

// onUnix serves a handler with net/http on a unix socket.
func onUnix(t testing.TB, h http.Handler) *http.Transport {
	t.Helper()
	l, err := net.Listen("unix", "")
	must(t, err)
	server := &http.Server{Handler: h, ErrorLog: quiet}
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(l) })
	client := &http.Transport{DisableCompression: true, ExpectContinueTimeout: 10 * time.Second, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", l.Addr().String())
	}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		server.Close()
		serving.Wait()
	})
	return client
}

// conversation is a request, and the handler that answers it.
type conversation struct {
	name    string
	request func(ctx context.Context) *http.Request
	handler http.HandlerFunc
}

func request(method, path string, body io.Reader, headers ...string) func(context.Context) *http.Request {
	content := []byte(nil)
	if body != nil {
		content, _ = io.ReadAll(body)
	}
	return func(ctx context.Context) *http.Request {
		var from io.Reader
		if body != nil {
			from = bytes.NewReader(content)
		}
		r, err := http.NewRequestWithContext(ctx, method, "http://web"+path, from)
		if err != nil {
			panic(err)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		return r
	}
}

func get(path string, headers ...string) func(context.Context) *http.Request {
	return request("GET", path, nil, headers...)
}

var long = strings.Repeat("a body that does not fit into one message. ", 5000)

// describe tells all that a handler sees of a request.
func describe(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %s %s\nquery %v\n", r.Method, r.URL, r.RequestURI, r.Proto, r.Host, r.URL.Query())
	fmt.Fprintf(w, "%d bytes of %d, %.60q, %v, %v\n", len(body), r.ContentLength, body, err, r.TransferEncoding)
	names := []string{}
	for name := range r.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(w, "%s: %q\n", name, r.Header[name])
	}
	fmt.Fprintf(w, "trailer %v, form %v", r.Trailer, r.FormValue("q"))
}

var conversations = []conversation{
	{"a path", get("/a/b.html"), describe},
	{"a query and escapes", get("/a%2Fb/%C3%A4?q=1&q=2%20x&z"), describe},
	{"a path with two slashes", get("//x/../y"), describe},
	{"headers", get("/", "Accept", "text/html", "X-Own", "one", "X-Own", "two", "Cookie", "a=b; c=d", "User-Agent", "me/1"), describe},
	{"no user agent", get("/", "User-Agent", ""), describe},
	{"a short body", request("POST", "/form", strings.NewReader("q=ä&r=2"), "Content-Type", "application/x-www-form-urlencoded"), describe},
	{"an empty body", request("POST", "/form", strings.NewReader("")), describe},
	{"a long body", request("PUT", "/file", strings.NewReader(long)), describe},
	{"another method", request("PROPFIND", "/dav", strings.NewReader("<x/>")), describe},
	{"options", request("OPTIONS", "/x", nil), describe},
	{"delete", request("DELETE", "/x", nil), describe},
	{"a body of unknown length", func(ctx context.Context) *http.Request {
		r := request("POST", "/stream", nil)(ctx)
		r.Body = io.NopCloser(strings.NewReader("chunks"))
		return r
	}, describe},
	{"a trailer of the request", func(ctx context.Context) *http.Request {
		r := request("POST", "/stream", nil)(ctx)
		r.Body = io.NopCloser(strings.NewReader("chunks"))
		r.Trailer = http.Header{"Sum": {"42"}}
		return r
	}, describe},
	{"a long header", get("/", "X-Long", strings.Repeat("h", 20000)), describe},
	{"a header that is too long", get("/", "X-Long", strings.Repeat("h", 2<<20)), describe},
	{"nothing is written", get("/"), func(http.ResponseWriter, *http.Request) {}},
	{"only a status", get("/"), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }},
	{"a status without a body", get("/"), func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
			panic(err)
		}
	}},
	{"not modified", get("/"), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Etag", `"x"`)
		w.WriteHeader(http.StatusNotModified)
	}},
	{"a redirect", get("/"), func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/there", http.StatusFound) }},
	{"an error", get("/"), func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) }},
	{"headers of the response", get("/"), func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["X-Many"] = []string{"1", "2"}
		w.Header().Set("Content-Type", "text/x-own")
		w.Header().Set("X-Lines", "a\nb")
		http.SetCookie(w, &http.Cookie{Name: "c", Value: "v"})
		io.WriteString(w, "body")
		w.Header().Set("X-Late", "is not sent")
	}},
	{"a declared length", get("/"), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "3")
		io.WriteString(w, "abc")
		if _, err := io.WriteString(w, "d"); !errors.Is(err, http.ErrContentLength) {
			panic(err)
		}
	}},
	{"fewer bytes than declared", get("/"), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "30")
		io.WriteString(w, "abc")
	}},
	{"a long response", get("/"), func(w http.ResponseWriter, _ *http.Request) {
		for part := range strings.SplitSeq(long, "one") {
			io.WriteString(w, part)
		}
	}},
	{"a long response with its length", get("/"), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(long)))
		io.WriteString(w, long)
	}},
	{"a long header of the response", get("/"), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("h", 20000))
		io.WriteString(w, "x")
	}},
	{"a flushed response", get("/"), func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "one ")
		w.(http.Flusher).Flush()
		io.WriteString(w, "two ")
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(err)
		}
	}},
	{"only a flush", get("/"), func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }},
	{"declared trailers", get("/"), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "Sum, Other")
		io.WriteString(w, "body")
		w.Header().Set("Sum", "42")
		w.Header().Set("Other", "x")
	}},
	{"trailers that were not declared", get("/"), func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "body")
		w.Header().Set(http.TrailerPrefix+"Sum", "42")
	}},
	{"trailers of a long response", get("/"), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "Sum")
		io.WriteString(w, long)
		w.Header().Set("Sum", "42")
	}},
	{"an informational response", get("/"), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("X-Then", "yes")
		io.WriteString(w, "body")
	}},
	{"head", request("HEAD", "/", nil), func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }},
	{"head of nothing", request("HEAD", "/", nil), func(http.ResponseWriter, *http.Request) {}},
	{"head with a length", request("HEAD", "/", nil), func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "1000000") }},
	{"a range", get("/f", "Range", "bytes=10-19"), func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "f.txt", time.Unix(1e9, 0), strings.NewReader(long))
	}},
	{"a long range", get("/f", "Range", "bytes=10-190000"), func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "f.txt", time.Unix(1e9, 0), strings.NewReader(long))
	}},
	{"several ranges", get("/f", "Range", "bytes=0-9,100000-190000"), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		http.ServeContent(w, r, "f.txt", time.Unix(1e9, 0), strings.NewReader(long[:50]))
	}},
	{"a file", get("/f"), func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "transport.go") }},
	{"a range of a file", get("/f", "Range", "bytes=100-11000"), func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "transport.go") }},
	{"the head of a file", request("HEAD", "/f", nil), func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "transport.go") }},
	{"a file that has not changed", get("/f", "If-Modified-Since", "Tue, 19 Jan 2038 00:00:00 GMT"), func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "transport.go") }},
	{"expect, and the handler reads", request("POST", "/", strings.NewReader("content"), "Expect", "100-continue"), describe},
	{"expect, and the handler refuses", request("POST", "/", strings.NewReader("content"), "Expect", "100-continue"), func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "not that", http.StatusExpectationFailed)
	}},
	{"a panic", get("/"), func(http.ResponseWriter, *http.Request) { panic("on purpose") }},
	{"an abort", get("/"), func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "x")
		panic(http.ErrAbortHandler)
	}},
	{"an abort after a flush", get("/"), func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}},
	{"an upgrade", get("/", "Connection", "Upgrade", "Upgrade", "echo"), func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := bufio.NewReader(conn).ReadString('\n')
		io.WriteString(conn, line)
	}},
}

// outcome is all that a client sees of a response, but for how its length is told.
func outcome(t *testing.T, over http.RoundTripper, c conversation) string {
	t.Helper()
	hints := ""
	ctx := httptrace.WithClientTrace(testutil.Within(t), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			hints += fmt.Sprint(code, h)
			return nil
		},
	})
	response, err := over.RoundTrip(c.request(ctx))
	if err != nil {
		return "failed"
	}
	defer response.Body.Close()
	if rw, ok := response.Body.(io.ReadWriter); ok && response.StatusCode == http.StatusSwitchingProtocols {
		fmt.Fprintln(rw, "hello")
		line, err := bufio.NewReader(rw).ReadString('\n')
		return fmt.Sprint("upgraded: ", line, err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Sprintf("%s\nfailed after %q", response.Status, body)
	}
	if response.ContentLength >= 0 && response.Request.Method != "HEAD" && int(response.ContentLength) != len(body) {
		t.Errorf("%s: %d bytes, the response says %d", c.name, len(body), response.ContentLength)
	}
	if response.Header.Get("Date") == "" && response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%s: no date", c.name)
	}
	response.Header.Del("Date")
	if response.Request.Method != "HEAD" {
		response.Header.Del("Content-Length")
	}
	return fmt.Sprintf("%s %s\n%v\n%v\n%v\n%s%d bytes\n%.3000s", response.Proto, response.Status, response.Header, response.Trailer, response.Uncompressed, hints, len(body), body)
}

// All that handlers and clients can see is as with net/http.
func TestRequestsAndResponsesAreThoseOfNetHTTP(t *testing.T) {
	var current atomic.Pointer[conversation]
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { current.Load().handler(w, r) })
	unix := onUnix(t, h)
	onEach(t, func(t *testing.T, transport ripc.Transport) {
		_, over := serve(t, transport, h)
		for _, c := range conversations {
			current.Store(&c)
			want := outcome(t, unix, c)
			if got := outcome(t, over, c); got != want {
				t.Errorf("%s:\n%s\n\nnet/http on a unix socket:\n%s", c.name, got, want)
			}
		}
	})
}

// onEach runs a test over each transport.
func onEach(t *testing.T, test func(*testing.T, ripc.Transport)) {
	for name, transport := range map[string]ripc.Transport{"shm": ripc.TransportSHM, "tcp": ripc.TransportTCP} {
		t.Run(name, func(t *testing.T) { test(t, transport) })
	}
}

func TestTheEndOfARequestsContextReachesTheHandler(t *testing.T) {
	onEach(t, func(t *testing.T, transport ripc.Transport) {
		began, ended := make(chan bool), make(chan error, 1)
		_, over := serve(t, transport, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/streams" {
				w.(http.Flusher).Flush()
			}
			began <- true
			<-r.Context().Done()
			ended <- r.Context().Err()
		}))
		for _, path := range []string{"/waits", "/streams"} {
			ctx, cancel := context.WithCancel(testutil.Within(t))
			var asking sync.WaitGroup
			asking.Go(func() {
				response, err := over.RoundTrip(get(path)(ctx))
				if err == nil {
					_, err = io.ReadAll(response.Body)
					response.Body.Close()
				}
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v", path, err)
				}
			})
			<-began
			cancel()
			asking.Wait()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
}

func TestTheEndOfAClientReachesTheHandler(t *testing.T) {
	began, ended := make(chan bool), make(chan error, 1)
	server, over := serve(t, ripc.TransportSHM, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			began <- true
			<-r.Context().Done()
			ended <- r.Context().Err()
		}
	}))
	e, err := ripc.Open(t.Context(), ripc.Config{Transport: ripc.TransportSHM, Resolver: ripc.OneHost(fmt.Sprint(t.Name(), os.Getpid())), RingBytes: 256 << 10})
	must(t, err)
	over.Service, over.RetryTimeout = register(t, e, ""), -1
	for tied := false; !tied; {
		response, err := over.RoundTrip(get("/")(testutil.Within(t)))
		must(t, err)
		response.Body.Close()
		server.mu.Lock()
		tied = len(server.sessions) > 0
		server.mu.Unlock()
	}
	var asking sync.WaitGroup
	asking.Go(func() {
		if _, err := over.RoundTrip(get("/wait")(context.Background())); err == nil {
			t.Error("a response")
		}
	})
	<-began
	must(t, e.Close())
	<-ended
	asking.Wait()
}

// What is in a Buffer is looked at where it is, and given back when the body is read, or closed.
func TestABufferIsSentInPlace(t *testing.T) {
	onEach(t, func(t *testing.T, transport ripc.Transport) {
		there := endpoint(t, transport)
		buffer, err := there.Alloc(len(long))
		must(t, err)
		defer buffer.Release()
		copy(buffer.Bytes(), long)
		_, over := serveOn(t, there, endpoint(t, transport), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "f.txt", time.Time{}, NewContent(buffer))
		}))
		for _, c := range []struct{ name, ask, want string }{
			{"all", "", long}, {"a range", "bytes=10-100000", long[10:100001]}, {"a short range", "bytes=-7", long[len(long)-7:]},
		} {
			r := get("/")(testutil.Within(t))
			if c.ask != "" {
				r.Header.Set("Range", c.ask)
			}
			response, err := over.RoundTrip(r)
			must(t, err)
			long, isLong := response.Body.(*longBody)
			if isLong != (len(c.want) > 10000) || isLong && transport == ripc.TransportSHM && !long.InPlace() {
				t.Errorf("%s: a %T", c.name, response.Body)
			}
			got, err := io.ReadAll(response.Body)
			if err != nil || string(got) != c.want {
				t.Errorf("%s: %d bytes, %v", c.name, len(got), err)
			}
			if n, err := response.Body.Read(make([]byte, 1)); n > 0 || err != io.EOF {
				t.Errorf("%s: after the end: %d, %v", c.name, n, err)
			}
			must(t, response.Body.Close())
			if response, err = over.RoundTrip(r); err == nil {
				var copied bytes.Buffer
				if n, err := io.CopyN(&copied, response.Body, 5); err != nil || copied.String() != c.want[:5] {
					t.Errorf("%s: %d, %v", c.name, n, err)
				}
				must(t, response.Body.Close())
				if _, err := response.Body.Read(make([]byte, 1)); isLong && !errors.Is(err, http.ErrBodyReadAfterClose) {
					t.Errorf("%s: after Close: %v", c.name, err)
				}
			}
			must(t, err)
		}
	})
}
