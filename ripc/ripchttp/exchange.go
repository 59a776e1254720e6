package ripchttp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/ripc"
)

// exchange is a call that is handled: the request, and the writer of its response. The response is
// kept until the handler returns, and is the reply if it is short and simple; else the exchange
// goes on over a stream, whose writer takes what comes then.
type exchange struct {
	server  *Server
	id      callID
	call    ripc.Message
	request *http.Request
	url     url.URL
	ctx     requestContext
	body    requestBody

	header  http.Header // the handler's
	status  int         // 0: not written
	draft   draft
	has     hasHeader
	length  int64 // that the handler declared, or -1
	written int64
	failed  error

	replied  bool // the response went out with a long body
	stream   http.ResponseWriter
	writers  chan http.ResponseWriter
	finished chan bool // true: the handler gave up
}

// hasHeader says which headers a handler set.
type hasHeader struct {
	contentType, contentLength, date, encoding, trailer bool
}

// draft is a reply that is being written. One that takes more than room, less what is in reserve,
// goes over a stream.
type draft struct {
	store *buffers
	head  []byte // in the store
	data  []byte // the body, in the store
	room  int    // for both
}

// buffers are the memory of a reply.
type buffers struct{ head, data []byte }

var bufferPool = sync.Pool{New: func() any { return &buffers{make([]byte, 0, 512), make([]byte, 0, 2048)} }}

func newExchange(s *Server) *exchange {
	x := &exchange{server: s, draft: draft{store: bufferPool.Get().(*buffers)}, length: -1}
	x.draft.head, x.draft.data = x.draft.store.head[:0], x.draft.store.data[:0]
	x.ctx.Context = s.base
	return x
}

// free gives the memory of the reply back. What the handler kept of the exchange does not reach it
// any more.
func (x *exchange) free() {
	x.draft.store.head, x.draft.store.data = x.draft.head[:0], x.draft.data[:0]
	bufferPool.Put(x.draft.store)
	x.draft.store, x.draft.head, x.draft.data = nil, nil, nil
}

// begin begins the head of a reply.
func (x *exchange) begin(kind byte) []byte {
	x.draft.head = append(x.draft.head[:0], 0, 0, kind)
	return x.draft.head
}

// decode takes in a request.
func (x *exchange) decode(m *ripc.Message) error {
	head, body, err := unseal(m.Data)
	if err != nil {
		return err
	}
	if most := x.server.MaxHeaderBytes; most > 0 && len(head) > most {
		return errLong
	}
	in := reader{text: string(head)}
	flags := in.byte()
	x.id = callID{in.number(8), in.number(8)}
	method, known := in.name(methods)
	uri, host := in.string(), in.string()
	if in.bad || !known && !validName(method) || !validHost(host) {
		return errMalformed
	}
	header, err := in.header(true)
	if err != nil {
		return err
	}
	if err := checkFraming(header, len(body)); err != nil {
		return err
	}
	if flags&flagDefaultAgent != 0 {
		header["User-Agent"] = agents
	}
	u, err := parseURI(uri)
	if err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	x.url = *u
	x.ctx.peer = m.Peer()
	r := noRequest.WithContext(&x.ctx)
	r.Method, r.URL, r.Proto, r.ProtoMajor, r.ProtoMinor = method, &x.url, "HTTP/1.1", 1, 1
	r.Header, r.Body, r.ContentLength, r.Host = header, http.NoBody, int64(len(body)), host
	r.RemoteAddr, r.RequestURI = string(m.From()), uri
	if u.Host != "" {
		r.Host = u.Host
	}
	if len(body) > 0 {
		x.body.Reset(bytes.Clone(body))
		r.Body = &x.body
	}
	x.request = r
	x.draft.room = m.MaxReplyBytes()
	return nil
}

// checkFraming refuses a header that says of the body, or of the host, something else than the
// call: a proxy might pass it on to a server that believes it.
func checkFraming(h http.Header, body int) error {
	for _, text := range h["Content-Length"] {
		if n, err := strconv.ParseUint(text, 10, 63); err != nil || n != uint64(body) {
			return fmt.Errorf("%w: Content-Length %.20q for %d bytes", errMalformed, text, body)
		}
	}
	if length := h["Content-Length"]; len(length) > 1 {
		h["Content-Length"] = length[:1]
	}
	for _, name := range []string{"Transfer-Encoding", "Trailer", "Host"} {
		if _, has := h[name]; has {
			return fmt.Errorf("%w: a call with the field %s", errMalformed, name)
		}
	}
	return nil
}

// refuse answers a call that is no valid request, as net/http does.
func (x *exchange) refuse(m *ripc.Message, err error) {
	status := http.StatusBadRequest
	if errors.Is(err, errFields) || errors.Is(err, errLong) {
		status = http.StatusRequestHeaderFieldsTooLarge
	}
	x.draft.head = binary.LittleEndian.AppendUint16(x.begin(responseWhole), uint16(status))
	x.draft.head = appendField(x.draft.head, "Content-Type", "text/plain; charset=utf-8")
	if reply, err := seal(x.draft.head); err == nil {
		_ = m.Reply(reply, []byte(statusLine(status)))
	}
	m.Release()
	x.free()
}

var noRequest http.Request

var agents = []string{defaultAgent}

// parseURI is url.ParseRequestURI, without its cost for the simplest paths.
func parseURI(uri string) (*url.URL, error) {
	if strings.HasPrefix(uri, "/") && !strings.HasPrefix(uri, "//") {
		plain := true
		for i := range len(uri) {
			c := uri[i]
			if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '/' || c == '.' || c == '-' || c == '_') {
				plain = false
				break
			}
		}
		if plain {
			return &url.URL{Path: uri}, nil
		}
	}
	return url.ParseRequestURI(uri)
}

// requestBody is the body of a request.
type requestBody struct{ bytes.Reader }

func (*requestBody) Close() error { return nil }

// serve calls the handler and sends the response, unless the client is gone or the server closed.
func (x *exchange) serve() {
	defer func() {
		if caught := recover(); caught != nil {
			x.abort(caught)
		}
	}()
	x.header = make(http.Header, 4)
	x.server.handler.ServeHTTP(x, x.request)
	if x.ctx.Err() != nil { // the handler may have stopped half-way for it, and its response would look whole
		x.abort(http.ErrAbortHandler)
		return
	}
	x.finish()
}

// abort ends a response whose handler panicked.
func (x *exchange) abort(caught any) {
	if caught != http.ErrAbortHandler {
		trace := make([]byte, 64<<10)
		trace = trace[:runtime.Stack(trace, false)]
		x.server.logf("ripchttp: panic serving %s: %v\n%s", x.request.RemoteAddr, caught, trace)
	}
	x.failed = http.ErrAbortHandler
	if x.replied {
		return
	}
	if x.stream != nil {
		x.finished <- true // has room
		return
	}
	if x.writers == nil {
		reply, _ := seal(x.begin(responseAborted))
		x.call.Reply(reply)
	}
}

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header { return x.header }

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("ripchttp: invalid status %d", status))
	}
	if x.status != 0 || x.failed != nil {
		if x.status != 0 {
			x.server.logf("ripchttp: superfluous WriteHeader")
		}
		return
	}
	if status < 200 && status != http.StatusSwitchingProtocols { // an informational one, which a reply does not have
		if x.spill() == nil {
			x.copyHeader(x.header)
			x.stream.WriteHeader(status)
		}
		return
	}
	x.status = status
	if x.stream != nil {
		x.copyHeader(x.header)
		x.stream.WriteHeader(status)
		return
	}
	x.begin(responseWhole)
	x.draft.head = binary.LittleEndian.AppendUint16(x.draft.head, uint16(status))
	for name, values := range x.header {
		if !x.note(name, values) || strings.HasPrefix(name, http.TrailerPrefix) || !validName(name) {
			continue
		}
		for _, v := range values {
			x.draft.head = appendField(x.draft.head, name, newlines.Replace(v))
		}
	}
}

// note keeps what a field says of the response. It returns false for one that is left out, as by
// net/http.
func (x *exchange) note(name string, values []string) bool {
	switch name {
	case "Content-Type":
		x.has.contentType = true
	case "Content-Length":
		if len(values) == 0 || values[0] == "" { // it is suppressed
			x.has.contentLength = true
			return false
		}
		n, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil || n < 0 {
			return false
		}
		x.length, x.has.contentLength = n, true
	case "Date":
		x.has.date = true
	case "Content-Encoding":
		x.has.encoding = len(values) > 0 && values[0] != ""
	case "Trailer":
		x.has.trailer = true
	}
	return true
}

// newlines is what net/http does to values with line breaks.
var newlines = strings.NewReplacer("\n", " ", "\r", " ")

// hasBody reports whether responses with a status have bodies (RFC 9110, 6.4.1).
func hasBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(p []byte) (int, error) {
	n, ok, err := x.admit(len(p))
	if !ok {
		return n, err
	}
	if x.stream == nil && len(x.draft.head)+len(x.draft.data)+len(p) <= x.draft.room-reserve {
		x.draft.data = append(x.draft.data, p...)
		return len(p), nil
	}
	if x.isHead() {
		x.draft.data = append(x.draft.data, p[:max(0, min(len(p), sniffBytes-len(x.draft.data)))]...)
		return len(p), nil
	}
	if x.isWhole(int64(len(p))) {
		if !x.has.contentType && !x.has.encoding {
			x.draft.head = appendField(x.draft.head, "Content-Type", http.DetectContentType(p[:min(len(p), sniffBytes)]))
		}
		return x.sendWhole(ripc.NewBody(p))
	}
	if err := x.spill(); err != nil {
		return 0, err
	}
	return x.stream.Write(p)
}

// WriteString implements io.StringWriter.
func (x *exchange) WriteString(s string) (int, error) {
	n, ok, err := x.admit(len(s))
	if !ok {
		return n, err
	}
	if x.stream == nil && len(x.draft.head)+len(x.draft.data)+len(s) <= x.draft.room-reserve {
		x.draft.data = append(x.draft.data, s...)
		return len(s), nil
	}
	x.written -= int64(len(s))
	return x.Write([]byte(s))
}

// isWhole reports whether so many bytes that are about to be written are all of a long body whose
// length the handler declared: it goes as a long message then. They are counted as written already.
func (x *exchange) isWhole(n int64) bool {
	return x.stream == nil && x.length == n && x.written == n && n <= maxLongBody && !x.has.trailer && !x.isHead()
}

// sendWhole sends the response with a body that is all of it.
func (x *exchange) sendWhole(body ripc.Body) (int, error) {
	if !x.has.date {
		x.draft.head = appendField(x.draft.head, "Date", date())
		x.has.date = true
	}
	head, err := seal(x.draft.head)
	if err == nil {
		err = x.call.ReplyLong(&x.ctx, body, head)
	}
	x.replied = true
	if err != nil {
		x.failed = err
		return 0, err
	}
	return int(body.Size()), nil
}

// ReadFrom implements io.ReaderFrom. A part of a file, or of a Buffer, that is all of a body goes
// to the client without a copy here.
func (x *exchange) ReadFrom(from io.Reader) (int64, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if part, ok := from.(*io.LimitedReader); ok && x.failed == nil && x.written == 0 && int64(len(x.draft.head))+part.N > int64(x.draft.room-reserve) {
		x.written = part.N
		if x.isWhole(part.N) && x.has.contentType {
			if body, ok := bodyOf(part); ok {
				n, err := x.sendWhole(body)
				return int64(n), err
			}
		}
		x.written = 0
	}
	return io.Copy(onlyWriter{x}, from)
}

// onlyWriter hides ReadFrom.
type onlyWriter struct{ io.Writer }

// bodyOf is a part of a file or a Buffer as a body.
func bodyOf(part *io.LimitedReader) (body ripc.Body, ok bool) {
	switch from := part.R.(type) {
	case *os.File:
		at, err := from.Seek(0, io.SeekCurrent)
		if info, statErr := from.Stat(); err != nil || statErr != nil || !info.Mode().IsRegular() || at+part.N > info.Size() {
			return body, false
		}
		return ripc.NewFileBody(from, at, part.N), true
	case *Content:
		body, err := from.buffer.Part(int(from.at), int(part.N))
		return body, err == nil
	}
	return body, false
}

const (
	reserve    = 200 // for the headers that the server adds
	sniffBytes = 512
)

func (x *exchange) isHead() bool { return x.request.Method == "HEAD" }

// admit checks whether so many bytes may be written.
func (x *exchange) admit(n int) (written int, ok bool, err error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	switch {
	case x.failed != nil:
		return 0, false, x.failed
	case n == 0:
		return 0, false, nil
	case !hasBody(x.status):
		return 0, false, http.ErrBodyNotAllowed
	}
	if x.written += int64(n); x.length >= 0 && x.written > x.length {
		return 0, false, http.ErrContentLength
	}
	return 0, true, nil
}

// Flush implements http.Flusher.
func (x *exchange) Flush() { _ = x.FlushError() }

// FlushError sends what is written to the client.
func (x *exchange) FlushError() error {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if x.isHead() {
		return nil
	}
	if err := x.spill(); err != nil || x.replied {
		return err
	}
	return http.NewResponseController(x.stream).Flush()
}

// SetReadDeadline has no effect: the body of the request is here.
func (x *exchange) SetReadDeadline(time.Time) error { return nil }

// EnableFullDuplex has no effect: the body of the request is here.
func (x *exchange) EnableFullDuplex() error { return nil }

// SetWriteDeadline bounds the time in which the response is written, if it goes over a stream.
func (x *exchange) SetWriteDeadline(t time.Time) error {
	if err := x.spill(); err != nil || x.replied {
		return err
	}
	return http.NewResponseController(x.stream).SetWriteDeadline(t)
}

// redeemTime is how long a client may take to ask for a response for which it has a ticket.
const redeemTime = 30 * time.Second

// await waits for the stream of a client with a ticket.
func (x *exchange) await(ticket uint64) {
	timer := time.NewTimer(redeemTime)
	defer timer.Stop()
	select {
	case x.stream = <-x.writers:
		return
	case <-x.ctx.Done():
	case <-timer.C:
	}
	s := x.server
	s.mu.Lock()
	unused := s.tickets[ticket] == x
	delete(s.tickets, ticket)
	s.mu.Unlock()
	if unused {
		x.failed = errors.New("ripchttp: the client does not ask for the response")
		return
	}
	x.stream = <-x.writers // at the last moment
}

// spill has the response go over a stream from now on.
func (x *exchange) spill() error {
	if x.stream != nil || x.failed != nil || x.replied {
		return x.failed
	}
	s := x.server
	x.writers, x.finished = make(chan http.ResponseWriter, 1), make(chan bool, 1)
	ticket := randomNumber()
	s.mu.Lock()
	s.tickets[ticket] = x
	s.mu.Unlock()
	var b [headLength + 9]byte
	reply := binary.LittleEndian.AppendUint64(append(b[:headLength], responseTicket), ticket)
	reply, _ = seal(reply)
	x.call.Reply(reply)
	if x.await(ticket); x.failed != nil {
		return x.failed
	}
	if x.status == 0 {
		return nil
	}
	in := reader{text: string(x.draft.head[headLength+3:])}
	header, err := in.header(false)
	if err != nil {
		x.failed = err
		return err
	}
	x.copyHeader(header)
	x.stream.WriteHeader(x.status)
	if _, err := x.stream.Write(x.draft.data); err != nil && len(x.draft.data) > 0 {
		return err
	}
	return nil
}

// copyHeader gives a header to the writer of the stream.
func (x *exchange) copyHeader(from http.Header) {
	to := x.stream.Header()
	clear(to)
	for name, values := range from {
		to[name] = values
	}
}

// finish sends the response of a handler that returned.
func (x *exchange) finish() {
	if x.status == 0 && x.stream == nil {
		x.WriteHeader(http.StatusOK)
	}
	if x.replied {
		return
	}
	if x.stream == nil && x.failed == nil && x.trails() && !x.isHead() {
		_ = x.spill() // its error is in failed
	}
	if x.stream != nil {
		if x.status != 0 {
			maps.Copy(x.stream.Header(), x.header) // net/http sends trailers itself
		}
		x.finished <- false // has room
		return
	}
	if x.failed != nil {
		return
	}
	x.complete()
	data := x.draft.data
	if x.isHead() {
		data = nil
	}
	reply, err := seal(x.draft.head)
	if err == nil {
		err = x.call.Reply(reply, data)
	}
	if err != nil {
		x.server.logf("ripchttp: replying to %s: %v", x.request.RemoteAddr, err)
		x.call.Refuse("the response does not fit")
	}
}

// trails reports whether there are trailers.
func (x *exchange) trails() bool {
	if x.has.trailer {
		return true
	}
	for name := range x.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return len(x.draft.head)+len(x.draft.data) > x.draft.room-reserve
}

// complete adds the headers that the handler left to the server.
func (x *exchange) complete() {
	if hasBody(x.status) {
		if !x.has.contentType && !x.has.encoding && len(x.draft.data) > 0 {
			x.draft.head = appendField(x.draft.head, "Content-Type", http.DetectContentType(x.draft.data[:min(len(x.draft.data), sniffBytes)]))
		}
		if !x.has.contentLength && (!x.isHead() || x.written > 0) {
			x.draft.head = appendField(x.draft.head, "Content-Length", strconv.FormatInt(x.written, 10))
		}
	}
	if !x.has.date {
		x.draft.head = appendField(x.draft.head, "Date", date())
	}
}

// dated is a date in the form of HTTP.
type dated struct {
	second int64
	text   string
}

var lastDate atomic.Pointer[dated]

func date() string {
	now := time.Now()
	if d := lastDate.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &dated{now.Unix(), now.UTC().Format(http.TimeFormat)}
	lastDate.Store(d)
	return d.text
}

// requestContext is the context of a request. Most handlers never ask for its channel, so it is
// made when one does.
type requestContext struct {
	context.Context
	peer ripc.Peer
	mu   sync.Mutex
	done chan struct{}
	over bool
}

// Value implements context.Context.
func (c *requestContext) Value(key any) any {
	if key == (peerKey{}) {
		return c.peer
	}
	return c.Context.Value(key)
}

// Done implements context.Context.
func (c *requestContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.over {
			close(c.done)
		}
	}
	return c.done
}

// Err implements context.Context.
func (c *requestContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return context.Canceled
	}
	return nil
}

func (c *requestContext) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.over = true
		if c.done != nil {
			close(c.done)
		}
	}
}

var (
	_ io.StringWriter = (*exchange)(nil)
	_ http.Flusher    = (*exchange)(nil)
)
