package ripchttp

import (
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func TestAHeaderComesBackAsItWas(t *testing.T) {
	h := http.Header{
		"Content-Type": {"text/plain"}, "X-Own": {"a", "", "c"}, "Set-Cookie": {"a=b", "c=d"}, "X-Long": {strings.Repeat("v", 300)}, "Etag": {`"ä"`},
	}
	for i, name := range names[1:] {
		h[name] = append(h[name], strings.Repeat("x", i))
	}
	r := reader{text: string(appendHeader(nil, h))}
	got, err := r.header(true)
	if err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("%v\n%v\n%v", err, got, h)
	}
}

func TestKnownNamesAreCanonical(t *testing.T) {
	for _, name := range names[1:] {
		if http.CanonicalHeaderKey(name) != name || !validName(name) {
			t.Errorf("%q", name)
		}
	}
}

func TestAHeaderThatNetHTTPWouldNotTakeIsMalformed(t *testing.T) {
	for _, field := range [][]byte{
		appendField(nil, "", "v"), appendField(nil, "a b", "v"), appendField(nil, "a:", "v"), appendField(nil, "ä", "v"), appendField(nil, "X", "a\r\nb"),
		appendField(nil, "X", "a\x00"), {byte(len(names)), 0}, {0}, {0, 5, 'a'}, {1, 0xff, 0xff, 0xff, 0xff, 0xff}, {1},
		bytes.Repeat(appendField(nil, "X", "1"), maxFields+1),
	} {
		r := reader{text: string(field)}
		if h, err := r.header(true); err == nil {
			t.Errorf("%.40q: %v", field, h)
		}
	}
}

// Whatever a message says, the fields that are taken from it are parts of it, and fields that are
// put together again are the same.
func FuzzFields(f *testing.F) {
	f.Add(appendHeader(nil, http.Header{"Accept": {"*/*"}, "X-Own": {"1", "2"}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		head, body, err := unseal(b)
		if err == nil && len(head)+len(body)+headLength != len(b) {
			t.Fatalf("%d and %d bytes of %d", len(head), len(body), len(b))
		}
		r := reader{text: string(b)}
		r.byte()
		r.number(8)
		r.name(methods)
		r.string()
		h, err := r.header(true)
		if err != nil || r.bad {
			return
		}
		again := reader{text: string(appendHeader(nil, h))}
		back, err := again.header(true)
		if err != nil || !reflect.DeepEqual(h, back) {
			t.Fatalf("%v: %v became %v", err, h, back)
		}
	})
}

// What is larger than a call or a long message may be goes over a stream.
func TestWhatIsTooLargeGoesOverAStream(t *testing.T) {
	for n, want := range map[int]bool{1<<16 - 1: true, 1 << 16: false} {
		if _, err := seal(make([]byte, headLength+n)); (err == nil) != want {
			t.Errorf("a head of %d bytes: %v", n, err)
		}
	}
	for n, want := range map[int64]bool{32 << 10: true, 32<<10 + 1: false} {
		if is := isCall(&http.Request{Method: "POST", Body: struct{ io.ReadCloser }{}, ContentLength: n}); is != want {
			t.Errorf("a request with a body of %d bytes is a call: %v", n, is)
		}
	}
	for n, want := range map[int64]bool{1 << 30: true, 1<<30 + 1: false} {
		x := &exchange{request: &http.Request{Method: "GET"}, length: n, written: n}
		if is := x.isWhole(n); is != want {
			t.Errorf("a response with a body of %d bytes is a long message: %v", n, is)
		}
	}
}

func appendHeader(b []byte, h http.Header) []byte {
	for name, values := range h {
		for _, v := range values {
			b = appendField(b, name, v)
		}
	}
	return b
}
