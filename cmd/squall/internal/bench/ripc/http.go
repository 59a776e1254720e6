package ripc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/ripchttp"
)

// Systems that carry HTTP: net/http on a unix socket, net/http over streams of ripc, and ripchttp.
const (
	viaUnixHTTP   system = "net/http"
	viaStreamHTTP system = "net/http over ripc streams"
	viaCallHTTP   system = "ripchttp"
)

const gets load = "GET" // requests of HTTP

// web carries requests of HTTP.
type web struct {
	services
	content  []byte
	buffer   *ripc.Buffer
	server   *http.Server
	calls    *ripchttp.Server
	listener net.Listener
	client   http.Client
	idle     func()
	sinks    []sink
}

// sink takes a body and looks at each line of it.
type sink struct {
	buffer []byte
	sum    byte
	bytes  int
}

func (s *sink) Write(p []byte) (int, error) {
	sum := s.sum
	for i := 0; i < len(p); i += 64 {
		sum ^= p[i]
	}
	s.sum = sum
	s.bytes += len(p)
	return len(p), nil
}

func (w *web) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	if w.buffer != nil {
		http.ServeContent(to, r, "content.bin", time.Time{}, ripchttp.NewContent(w.buffer))
		return
	}
	to.Header()["Content-Type"] = contentType
	_, _ = to.Write(w.content) // the client notices
}

var contentType = []string{"application/octet-stream"}

// cachedBytes is from where on a body lies in a Buffer.
const cachedBytes = 64 << 10

func (w *web) listen() (addr string, err error) {
	w.content = make([]byte, w.spec.Size)
	w.server = &http.Server{Handler: w}
	if w.spec.System == viaUnixHTTP {
		w.listener, err = net.Listen("unix", "")
		if err != nil {
			return "", err
		}
		if w.spec.Size >= cachedBytes {
			w.server.Handler = http.HandlerFunc(func(to http.ResponseWriter, _ *http.Request) {
				to.Header()["Content-Type"] = contentType
				to.Header().Set("Content-Length", fmt.Sprint(len(w.content)))
				_, _ = to.Write(w.content)
			})
		}
		return w.listener.Addr().String(), nil
	}
	if err := w.open("server"); err != nil {
		return "", err
	}
	if w.spec.Size >= cachedBytes {
		if w.buffer, err = w.endpoint.Alloc(w.spec.Size); err != nil {
			return "", err
		}
	}
	if w.spec.System == viaCallHTTP {
		w.calls = &ripchttp.Server{Handler: w}
	} else {
		w.listener = ripc.Listen(w.service)
	}
	return "", nil
}

func (w *web) connect(_ context.Context, addr string) error {
	w.sinks = make([]sink, max(1, w.spec.Callers))
	for i := range w.sinks {
		w.sinks[i].buffer = make([]byte, 64<<10)
	}
	if w.spec.System == viaCallHTTP {
		if err := w.open(""); err != nil {
			return err
		}
		t := &ripchttp.Transport{Service: w.service}
		w.client.Transport, w.idle = t, t.CloseIdleConnections
		return nil
	}
	t := &http.Transport{MaxIdleConnsPerHost: len(w.sinks), DisableCompression: true}
	w.client.Transport, w.idle = t, t.CloseIdleConnections
	if w.spec.System == viaUnixHTTP {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", addr)
		}
		return nil
	}
	if err := w.open(""); err != nil {
		return err
	}
	t.DialContext = w.service.DialContext
	return nil
}

// serve ends with close.
func (w *web) serve() {
	if w.calls != nil {
		_ = w.calls.Serve(w.service)
		return
	}
	_ = w.server.Serve(w.listener)
}

func (w *web) once(ctx context.Context, caller int) error {
	response, err := w.client.Get("http://server/content")
	if err != nil {
		return err
	}
	s := &w.sinks[caller]
	s.bytes = 0
	if to, ok := response.Body.(io.WriterTo); ok {
		_, err = to.WriteTo(s)
	} else {
		_, err = io.CopyBuffer(s, response.Body, s.buffer)
	}
	response.Body.Close()
	if err == nil && (s.bytes != w.spec.Size || response.StatusCode != http.StatusOK) {
		err = fmt.Errorf("%s, %d bytes", response.Status, s.bytes)
	}
	return errors.Join(err, context.Cause(ctx))
}

func (w *web) close() (err error) {
	if w.idle != nil {
		w.idle()
	}
	if w.server != nil {
		err = w.server.Close()
	}
	if w.calls != nil {
		err = errors.Join(err, w.calls.Close())
	}
	if w.buffer != nil {
		w.buffer.Release()
	}
	if w.cancel == nil {
		return err
	}
	return errors.Join(err, w.services.close())
}

// Sizes of the bars of HTTP, and how many connections there are.
const (
	smallPage   = 1 << 10
	largePage   = 16 << 20
	connections = 32
)

// httpRing has room for the responses to all connections at a time.
const httpRing = 256 << 10

func httpBars(s *set, base spec, _ bench.Peers) {
	base.Load = gets
	for _, x := range []struct {
		size, callers  int
		streams, calls bench.Asked
	}{
		{smallPage, connections, bench.Asked{AtLeast: 1.5}, bench.Asked{AtLeast: 4}},
		{largePage, 1, bench.Asked{}, bench.Asked{AtLeast: 3}},
	} {
		of := base.with(func(s *spec) { s.Size, s.Callers = x.size, x.callers })
		unix := caseOf(of.on(viaUnixHTTP, "unix"))
		s.Compare(caseOf(of.on(viaStreamHTTP, "shm")), "requests/s", rateOf, x.streams, unix)
		s.Compare(caseOf(of.on(viaCallHTTP, "shm")), "requests/s", rateOf, x.calls, unix)
	}
}
