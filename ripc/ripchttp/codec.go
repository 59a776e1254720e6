package ripchttp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"
)

// A request is a head and a body, and so is a response. A head is fields one after the other: a
// byte, a number of 8 bytes, or a text with its length in front. Names of headers and methods that
// are frequent are a byte.
//
//	request:   length of the head u16 ┬ flags u8 ┬ session u64 ┬ number u64 ┬ method ┬ URI ┬ host ┬ header ┐┌ body
//	response:  length of the head u16 ┬ flags u8 ┬ status u16 ┬ header ┐┌ body
//	ticket:    length of the head u16 ┬ flags u8 ┬ ticket u64 ┐
//	header:    { name ┬ value }…
//	name:      0 < i ≤ len(names), or 0 ┬ text

// Flags of a request.
const (
	flagDefaultAgent = 1 << iota // the user agent is that of net/http
)

// Flags of a response, one of them.
const (
	responseWhole = iota
	responseTicket
	responseAborted // the handler gave up
	responseMoved   // the server does not answer any more, and did nothing
)

const (
	headLength = 2
	maxHead    = 1<<16 - 1
)

var (
	errMalformed = errors.New("malformed message")
	errLong      = errors.New("the head is too long for a message")
	errFields    = errors.New("the header has too many fields")
)

var methods = []string{"", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"}

var names = []string{"",
	"Accept", "Accept-Encoding", "Accept-Language", "Accept-Ranges", "Age", "Allow", "Authorization", "Cache-Control", "Connection",
	"Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length", "Content-Location", "Content-Range", "Content-Type", "Cookie",
	"Date", "Etag", "Expires", "Forwarded", "From", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Last-Modified",
	"Link", "Location", "Origin", "Pragma", "Range", "Referer", "Retry-After", "Server", "Set-Cookie", "Strict-Transport-Security", "Traceparent",
	"Tracestate", "User-Agent", "Vary", "Via", "Www-Authenticate", "X-Content-Type-Options", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
	"X-Frame-Options", "X-Request-Id",
}

var (
	methodNumbers = numbers(methods)
	nameNumbers   = numbers(names)
)

func numbers(list []string) map[string]byte {
	m := map[string]byte{}
	for i, s := range list[1:] {
		m[s] = byte(i + 1)
	}
	return m
}

func appendText(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendName(b []byte, s string, known map[string]byte) []byte {
	if n, ok := known[s]; ok {
		return append(b, n)
	}
	return appendText(append(b, 0), s)
}

func appendField(b []byte, name, value string) []byte {
	return appendText(appendName(b, name, nameNumbers), value)
}

// seal stores the length of a head that was appended to headLength bytes.
func seal(b []byte) ([]byte, error) {
	n := len(b) - headLength
	if n > maxHead {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", errLong, n, maxHead)
	}
	binary.LittleEndian.PutUint16(b, uint16(n))
	return b, nil
}

// unseal divides a message into its head and its body.
func unseal(b []byte) (head, body []byte, err error) {
	if len(b) < headLength {
		return nil, nil, errMalformed
	}
	n := headLength + int(binary.LittleEndian.Uint16(b))
	if len(b) < n {
		return nil, nil, errMalformed
	}
	return b[headLength:n], b[n:], nil
}

// reader takes fields from a head. After an error it has no more.
type reader struct {
	text string // a copy, of which texts are parts
	bad  bool
}

func (r *reader) fail() {
	r.text, r.bad = "", true
}

func (r *reader) byte() byte {
	if len(r.text) == 0 {
		r.fail()
		return 0
	}
	c := r.text[0]
	r.text = r.text[1:]
	return c
}

func (r *reader) number(bytes int) (n uint64) {
	if len(r.text) < bytes {
		r.fail()
		return 0
	}
	for i := range bytes {
		n |= uint64(r.text[i]) << (8 * i)
	}
	r.text = r.text[bytes:]
	return n
}

func (r *reader) string() string {
	n := uint64(0)
	for shift := 0; ; shift += 7 {
		c := r.byte()
		if r.bad || shift > 21 {
			r.fail()
			return ""
		}
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			break
		}
	}
	if n > uint64(len(r.text)) {
		r.fail()
		return ""
	}
	s := r.text[:n]
	r.text = r.text[n:]
	return s
}

// name takes a name: one of a list, or a text.
func (r *reader) name(list []string) (s string, known bool) {
	switch n := int(r.byte()); {
	case n == 0:
		return r.string(), false
	case n < len(list):
		return list[n], true
	}
	r.fail()
	return "", false
}

// maxFields is how many fields the header of a call has at most.
const maxFields = 1000

// header takes the rest as a header. The header of a request is checked: its names and values as
// net/http does, and the number of its fields.
func (r *reader) header(check bool) (http.Header, error) {
	h := make(http.Header, 8)
	values := make([]string, 0, 8)
	for fields := 0; len(r.text) > 0; fields++ {
		name, known := r.name(names)
		value := r.string()
		if r.bad {
			return nil, errMalformed
		}
		if check {
			if fields == maxFields {
				return nil, errFields
			}
			if !known {
				if !validName(name) {
					return nil, fmt.Errorf("%w: the name of a header", errMalformed)
				}
				name = textproto.CanonicalMIMEHeaderKey(name)
			}
			if !validValue(value) {
				return nil, fmt.Errorf("%w: the value of %s", errMalformed, name)
			}
		}
		if before, ok := h[name]; ok {
			h[name] = append(before, value)
			continue
		}
		if len(values) == cap(values) {
			values = make([]string, 0, 16)
		}
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	return h, nil
}

// validName reports whether a name of a header is a token (RFC 9110, 5.6.2).
func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '!' || '#' <= c && c <= '\'' || c == '*' || c == '+' || c == '-' || c == '.' || '^' <= c && c <= '`' || c == '|' || c == '~':
		default:
			return false
		}
	}
	return s != ""
}

// validHost reports whether a host has only characters that net/http accepts in one.
func validHost(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!$%&()*+,-.:;=@[]_~'", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// validValue reports whether a value of a header has no control characters but tabs.
func validValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
