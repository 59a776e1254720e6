package ripchttp

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/ripc"
)

// ErrAborted says that a handler gave up without a response.
var ErrAborted = errors.New("ripchttp: the handler aborted the response")

// DefaultRetryTimeout is how long a request is tried.
const DefaultRetryTimeout = 10 * time.Second

// Transport makes HTTP requests to services. The host of a URL is the id of a service; a port is
// ignored. It is an [http.RoundTripper], and is used by several goroutines.
//
// A request that was certainly not received is sent again, to wherever the service is then; and so
// is one whose fate is unknown, if its method is safe (RFC 9110, 9.2.1) or it has an
// Idempotency-Key. While no process has the service, requests wait.
type Transport struct {
	// Service is the service that sends the requests. It takes long messages: the bodies of responses,
	// and within a host it looks at them in memory of the server. A body takes its memory until it is
	// closed, or read to its end.
	Service *ripc.Service
	// RetryTimeout is how long a request waits for a service that is not there, and is sent again; 0
	// is DefaultRetryTimeout, less than 0 is not at all.
	RetryTimeout time.Duration

	once    sync.Once
	streams *http.Transport
	session uint64
	number  atomic.Uint64
	buffers sync.Pool

	mu    sync.Mutex
	sides map[string]*side // by service

	names     map[*ripc.Remote]string // of services in one process
	processes map[string]*ripc.Remote
	last      int
}

// side is a service to which requests are sent.
type side struct {
	remote *ripc.Remote
	alive  *lifeline
	used   atomic.Int32 // by requests; grows under the transport's mu
}

// maxSides is how many services a transport remembers that no request uses.
const maxSides = 1024

func (t *Transport) begin() {
	t.streams = &http.Transport{DialContext: t.dial, MaxIdleConnsPerHost: 64, DisableCompression: true, ExpectContinueTimeout: time.Second}
	t.sides, t.names, t.processes = map[string]*side{}, map[*ripc.Remote]string{}, map[string]*ripc.Remote{}
	t.buffers.New = func() any { return new([]byte) }
	t.session = randomNumber()
	t.Service.TakeLong(ripc.LongConfig{InPlace: true, MaxBytes: 2 * maxLongBody, MaxPeerBytes: 2 * maxLongBody}) // it has no faults
}

// randomNumber returns a number that cannot be guessed.
func randomNumber() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// CloseIdleConnections closes what no request uses.
func (t *Transport) CloseIdleConnections() {
	t.once.Do(t.begin)
	t.mu.Lock()
	sides := t.sides
	t.sides = map[string]*side{}
	t.mu.Unlock()
	for _, s := range sides {
		s.alive.end()
	}
	t.streams.CloseIdleConnections()
}

// to is the service that a URL names.
func (t *Transport) to(host string) *side {
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sides[host]
	if s == nil {
		if len(t.sides) >= maxSides {
			t.forget()
		}
		s = &side{remote: t.Service.To(ripc.ID(host))}
		s.alive = newLifeline(t, host)
		t.sides[host] = s
	}
	s.used.Add(1)
	return s
}

// forget forgets the services that no request uses. The caller holds the mu.
func (t *Transport) forget() {
	for host, s := range t.sides {
		if s.used.Load() == 0 {
			delete(t.sides, host)
			s.alive.end()
		}
	}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.once.Do(t.begin)
	if r.URL == nil || r.URL.Scheme != "http" || r.URL.Host == "" {
		closeBody(r)
		return nil, fmt.Errorf("ripchttp: %v: the URL must be http:// with the id of a service", r.URL)
	}
	if !isCall(r) {
		return t.overStream(r)
	}
	s := t.to(r.URL.Host)
	defer s.used.Add(-1)
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	ctx := r.Context()
	var until time.Time
	pause := wait.Backoff{First: minPause, Longest: maxPause}
	for {
		response, err := t.call(ctx, s, r, body)
		if err == nil || !t.repeats(r, err) {
			return response, err
		}
		now := time.Now()
		if until.IsZero() {
			until = now.Add(t.patience())
		}
		if !now.Before(until) {
			return nil, err
		}
		if !errors.Is(err, ripc.ErrPeerGone) { // else it may be somewhere already
			if err := pause.Wait(ctx); err != nil {
				return nil, err
			}
		}
	}
}

const (
	minPause = time.Millisecond
	maxPause = 50 * time.Millisecond
)

func (t *Transport) patience() time.Duration {
	if t.RetryTimeout == 0 {
		return DefaultRetryTimeout
	}
	return t.RetryTimeout
}

// repeats reports whether a request may be sent again.
func (t *Transport) repeats(r *http.Request, err error) bool {
	var gone *ripc.GoneError
	switch {
	case r.Context().Err() != nil, t.RetryTimeout < 0:
		return false
	case errors.Is(err, ripc.ErrNoService), errors.Is(err, ripc.ErrUnreachable), errors.Is(err, errMoved):
		return true // it was not sent
	case errors.Is(err, ripc.ErrRefused): // by a process that is about to end
		return isSafe(r)
	case errors.As(err, &gone):
		return gone.Exact && gone.Unreceived == 1 || isSafe(r)
	}
	return false
}

// isSafe reports whether a request may be received twice.
func isSafe(r *http.Request) bool {
	switch r.Method {
	case "", "GET", "HEAD", "OPTIONS", "TRACE":
		return true
	}
	return len(r.Header["Idempotency-Key"]) > 0 || len(r.Header["X-Idempotency-Key"]) > 0
}

// maxCallBody is the largest body of a request that is a call, if the pair takes it.
const maxCallBody = 32 << 10

// isCall reports whether a request may be a call: there is nothing that needs a connection.
func isCall(r *http.Request) bool {
	if r.Method == "CONNECT" || len(r.Trailer) > 0 || len(r.TransferEncoding) > 0 || r.Close {
		return false
	}
	if r.Body != nil && r.Body != http.NoBody && (r.ContentLength <= 0 || r.ContentLength > maxCallBody || r.Header["Expect"] != nil) {
		return false
	}
	return r.Header["Upgrade"] == nil && r.Header["Connection"] == nil
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	defer r.Body.Close()
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return nil, fmt.Errorf("ripchttp: the body has fewer bytes than the request says: %w", err)
	}
	if n, _ := r.Body.Read(make([]byte, 1)); n > 0 {
		return nil, errors.New("ripchttp: the body has more bytes than the request says")
	}
	return body, nil
}

// overStream sends a request with net/http. It is repeated if it was not sent, because the service
// is nowhere.
func (t *Transport) overStream(r *http.Request) (*http.Response, error) {
	var until time.Time
	pause := wait.Backoff{First: minPause, Longest: maxPause}
	for {
		response, err := t.streams.RoundTrip(r)
		var dial *net.OpError
		if err == nil || !errors.As(err, &dial) || dial.Op != "dial" || !t.repeats(r, err) {
			return response, err
		}
		now := time.Now()
		if until.IsZero() {
			until = now.Add(t.patience())
		}
		if !now.Before(until) || r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
			return nil, err
		}
		if err := pause.Wait(r.Context()); err != nil {
			return nil, err
		}
		if r.GetBody != nil { // the attempt closed the body
			body, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			again := *r
			again.Body = body
			r = &again
		}
	}
}

// defaultAgent is the user agent of net/http.
const defaultAgent = "Go-http-client/1.1"

// call sends a request as a call.
func (t *Transport) call(ctx context.Context, s *side, r *http.Request, body []byte) (*http.Response, error) {
	number := t.number.Add(1)
	store := t.buffers.Get().(*[]byte)
	head, err := t.encode((*store)[:0], r, number, len(body))
	if err != nil {
		t.buffers.Put(store)
		if errors.Is(err, errLong) {
			return t.again(r, body)
		}
		return nil, err
	}
	s.alive.hold()
	m, err := t.Service.Call(ctx, s.remote, head, body)
	*store = head
	t.buffers.Put(store)
	if err != nil {
		if ctx.Err() != nil {
			s.alive.cancel(number)
		}
		if errors.Is(err, ripc.ErrTooLarge) {
			return t.again(r, body)
		}
		return nil, err
	}
	return t.reply(s, r, &m)
}

// again sends a request over a stream that is too large for a call.
func (t *Transport) again(r *http.Request, body []byte) (*http.Response, error) {
	r = r.Clone(r.Context())
	if body != nil {
		r.Body = io.NopCloser(newBody(body))
	}
	return t.overStream(r)
}

// appendFields adds the fields of a request that travel as they are.
func appendFields(b []byte, h http.Header, noAgent bool) ([]byte, error) {
	fields := 1 // Content-Length
	for name, values := range h {
		if fields += len(values); fields > maxFields {
			return nil, errLong
		}
		if name == "Content-Length" || name == "Host" || name == "Transfer-Encoding" || name == "Trailer" || noAgent && name == "User-Agent" {
			continue
		}
		if !validName(name) {
			return nil, fmt.Errorf("ripchttp: a header with the name %q", name)
		}
		for _, v := range values {
			if !validValue(v) {
				return nil, fmt.Errorf("ripchttp: the value of header %s", name)
			}
			b = appendField(b, name, v)
		}
	}
	return b, nil
}

func (t *Transport) encode(b []byte, r *http.Request, number uint64, length int) ([]byte, error) {
	flags := byte(0)
	agent, given := r.Header["User-Agent"]
	if !given {
		flags |= flagDefaultAgent
	}
	b = append(b, 0, 0, flags)
	b = binary.LittleEndian.AppendUint64(b, t.session)
	b = binary.LittleEndian.AppendUint64(b, number)
	method := r.Method
	if method == "" {
		method = "GET"
	}
	if !validName(method) {
		return nil, fmt.Errorf("ripchttp: the method %q", method)
	}
	b = appendName(b, method, methodNumbers)
	b = appendText(b, r.URL.RequestURI())
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	b = appendText(b, host)
	b, err := appendFields(b, r.Header, given && (len(agent) == 0 || agent[0] == ""))
	if err != nil {
		return nil, err
	}
	if length > 0 || method == "POST" || method == "PUT" || method == "PATCH" {
		b = appendField(b, "Content-Length", strconv.Itoa(length))
	}
	return seal(b)
}

// reply makes a response of the reply to a call.
func (t *Transport) reply(s *side, r *http.Request, m *ripc.Message) (*http.Response, error) {
	head, body, err := unseal(m.Data)
	if err != nil {
		m.Release()
		return nil, fmt.Errorf("ripchttp: %s: %w", r.URL.Host, err)
	}
	in := reader{text: string(head)}
	kind := in.byte()
	if kind == responseWhole {
		return t.whole(r, m, in, body)
	}
	at := m.Sender()
	m.Release()
	switch kind {
	case responseTicket:
		return t.redeem(r, at, in.number(8))
	case responseAborted:
		return nil, fmt.Errorf("%w: %s %s", ErrAborted, r.Method, r.URL)
	case responseMoved:
		return nil, errMoved
	}
	return nil, fmt.Errorf("ripchttp: %s: %w", r.URL.Host, errMalformed)
}

// whole makes a response of a reply that has all of it.
func (t *Transport) whole(r *http.Request, m *ripc.Message, in reader, body []byte) (*http.Response, error) {
	status := int(in.number(2))
	header, err := in.header(false)
	if err != nil || in.bad || status < 200 || status > 999 {
		m.Release()
		return nil, fmt.Errorf("ripchttp: %s: %w", r.URL.Host, errMalformed)
	}
	w := &whole{}
	w.Response = http.Response{
		Status: statusLine(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: http.NoBody, ContentLength: int64(len(body)), Request: r,
	}
	if m.BodySize() > 0 {
		w.long.Message = *m
		w.long.rest = m.Body()
		w.Body, w.ContentLength = &w.long, m.BodySize()
		return &w.Response, nil
	}
	if len(body) > 0 {
		w.body.rest = append(make([]byte, 0, len(body)), body...)
		w.Body = &w.body
	}
	m.Release()
	w.declare(r.Method == "HEAD")
	return &w.Response, nil
}

// declare takes in what the handler said of the length.
func (w *whole) declare(head bool) {
	declared := int64(-1)
	if text := w.Header["Content-Length"]; text != nil {
		if n, err := strconv.ParseInt(text[0], 10, 64); err == nil {
			declared = n
		}
	}
	switch {
	case head:
		w.ContentLength = declared
	case declared > w.ContentLength && hasBody(w.StatusCode): // the handler wrote less than it said
		w.ContentLength, w.body.short, w.Body = declared, true, &w.body
	}
}

// errMoved says that a server is about to end, and did nothing with the request.
var errMoved = errors.New("ripchttp: the server is about to end")

// whole is a response with its body.
type whole struct {
	http.Response
	body body
	long longBody
}

// longBody is a body in memory that has to be given back.
type longBody struct {
	ripc.Message
	mu   sync.Mutex // Close may come beside Read
	rest []byte
	done bool
}

func (b *longBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return 0, b.end()
	}
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; len(b.rest) == 0 {
		b.release()
	}
	return n, nil
}

// WriteTo writes the rest without a copy.
func (b *longBody) WriteTo(w io.Writer) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		if err := b.end(); err != io.EOF {
			return 0, err
		}
		return 0, nil
	}
	n, err := w.Write(b.rest)
	if b.rest = b.rest[n:]; len(b.rest) == 0 {
		b.release()
	}
	return int64(n), err
}

// end is why there is nothing to read any more.
func (b *longBody) end() error {
	if b.rest != nil { // closed too early
		return http.ErrBodyReadAfterClose
	}
	return io.EOF
}

func (b *longBody) release() {
	b.done = true
	if len(b.rest) == 0 {
		b.rest = nil
	} else {
		b.rest = []byte{}
	}
	b.Release()
}

func (b *longBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.done {
		b.release()
	}
	return nil
}

// body is a body in memory.
type body struct {
	rest   []byte
	short  bool // it ends too early
	closed bool
}

func newBody(b []byte) *body { return &body{rest: b} }

func (b *body) Read(p []byte) (int, error) {
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(b.rest) == 0 {
		return 0, b.end()
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// WriteTo writes the rest without a copy.
func (b *body) WriteTo(w io.Writer) (int64, error) {
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(b.rest) == 0 {
		return 0, b.failure()
	}
	n, err := w.Write(b.rest)
	if b.rest = b.rest[n:]; err == nil {
		err = b.failure()
	}
	return int64(n), err
}

// failure is why the body does not end as it should, or nil.
func (b *body) failure() error {
	if b.short {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (b *body) end() error {
	if b.short {
		return io.ErrUnexpectedEOF
	}
	return io.EOF
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

var statusLines = func() (all [600]string) {
	for code := range all {
		if text := http.StatusText(code); text != "" {
			all[code] = strconv.Itoa(code) + " " + text
		}
	}
	return all
}()

func statusLine(code int) string {
	if code < len(statusLines) && statusLines[code] != "" {
		return statusLines[code]
	}
	return strconv.Itoa(code) + " status code " + strconv.Itoa(code)
}

// redeem asks for a response that does not fit into a reply, in the process that gave the ticket.
func (t *Transport) redeem(r *http.Request, at *ripc.Remote, ticket uint64) (*http.Response, error) {
	again := r.Clone(r.Context())
	again.Method = methodRedeem
	again.URL.Host = t.hostAt(at)
	again.Header = http.Header{headerNumber: {strconv.FormatUint(ticket, 16)}}
	again.Body, again.GetBody, again.ContentLength = nil, nil, 0
	response, err := t.streams.RoundTrip(again)
	if err != nil {
		return nil, err
	}
	response.Request = r
	return response, nil
}

// hostAt is a name for a service in one process: streams to it are kept apart from streams to the
// same service in other processes.
func (t *Transport) hostAt(at *ripc.Remote) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	name, ok := t.names[at]
	if !ok {
		if len(t.names) == maxProcesses {
			clear(t.names)
			clear(t.processes)
		}
		t.last++
		name = fmt.Sprintf("process-%d%s", t.last, processSuffix)
		t.names[at] = name
		t.processes[name] = at
	}
	return name
}

// maxProcesses is how many processes are remembered.
const maxProcesses = 64

// processSuffix ends names of services in one process. No id ends so that others use.
const processSuffix = ".ripchttp.invalid"

// dial opens a stream for net/http.
func (t *Transport) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(addr)
	if strings.HasSuffix(host, processSuffix) {
		t.mu.Lock()
		at := t.processes[host]
		t.mu.Unlock()
		if at != nil {
			return dialed(t.Service.DialRemote(ctx, at))
		}
	}
	return t.Service.DialContext(ctx, network, addr)
}

func dialed(c *ripc.Stream, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}
