package ripc

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/squall-go/squall/internal/testutil"
)

// answerLong serves a service that answers each request with a long body.
func answerLong(t *testing.T, cfg Config, body func(m *Message) Body) *Service {
	t.Helper()
	server := register(t, open(t, cfg), "server")
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		server.Serve(ctx, func(ctx context.Context, m *Message) {
			_ = m.ReplyLong(ctx, body(m)) // the caller learns of a failure
		})
	})
	t.Cleanup(func() { cancel(); serving.Wait() })
	return server
}

// Replies that a caller of this host keeps count for it, and are refused beyond its limit, until it
// gives some back.
func TestRepliesThatAreKeptCountForTheirCaller(t *testing.T) {
	ctx := testutil.Within(t)
	const size, most = 256 << 10, 4 << 20
	data := make([]byte, size)
	server := answerLong(t, Config{Transport: TransportSHM, MaxBytesPerClient: most}, func(*Message) Body { return NewBody(data) })
	keeper, other := register(t, open(t, Config{Transport: TransportSHM}), ""), register(t, open(t, Config{Transport: TransportSHM}), "")
	var kept []Message
	call := func(s *Service) error {
		m, err := s.CallLong(ctx, s.To("server"), nil, NewBody(nil))
		if err == nil {
			kept = append(kept, m)
		}
		return err
	}
	for _, s := range []*Service{keeper, other} {
		must(t, s.TakeLong(LongConfig{InPlace: true, MaxBytes: 1 << 30, MaxPeerBytes: 1 << 30}))
	}
	var err error
	for err == nil && len(kept) <= most/size {
		err = call(keeper)
	}
	if n := len(kept); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "the peer keeps its replies") || n < most/size/2 {
		t.Fatalf("after %d replies of %d bytes: %v", n, size, err)
	}
	kept[0].Release()
	eventually(t, server.e, "the reply that was given back still counts", func() bool { return server.e.peers[0].fits(size) == nil })
	must(t, call(keeper))
	for i := range kept {
		kept[i].Release()
	}
	eventually(t, server.e, "replies that were given back still count", func() bool {
		p := server.e.peers[0]
		peers, _ := p.member.Account.Peers()
		return p.member.Account.Bytes() == p.member.Charged()*int64(peers) && p.long.out.Open() == 0
	})
	must(t, call(other))
	kept[len(kept)-1].Release()
}

// A caller keeps a bounded number of replies, also of buffers, which count no bytes.
func TestTheNumberOfRepliesThatAreKeptIsBounded(t *testing.T) {
	ctx := testutil.Within(t)
	var buffer *Buffer
	server := answerLong(t, Config{Transport: TransportSHM}, func(*Message) Body { return buffer.Body() })
	var err error
	buffer, err = server.e.Alloc(1)
	must(t, err)
	defer buffer.Release()
	s := register(t, open(t, Config{Transport: TransportSHM}), "")
	must(t, s.TakeLong(LongConfig{InPlace: true, MaxBytes: 1 << 30, MaxPeerBytes: 1 << 30}))
	kept := make([]Message, 0, maxKeptReplies)
	for len(kept) < maxKeptReplies {
		m, err := s.CallLong(ctx, s.To("server"), nil, NewBody(nil))
		must(t, err)
		kept = append(kept, m)
	}
	if _, err := s.CallLong(ctx, s.To("server"), nil, NewBody(nil)); !errors.Is(err, ErrRefused) {
		t.Errorf("one reply more than may be kept: %v", err)
	}
	for i := range kept {
		kept[i].Release()
	}
}

// Memory in which the reply to one client was is cleared before another client sees it: a client
// sees all of a segment.
func TestAReplyDoesNotShowWhatAnotherClientGot(t *testing.T) {
	ctx := testutil.Within(t)
	secret := []byte("secret of the first client; ")
	server := answerLong(t, Config{Transport: TransportSHM}, func(m *Message) Body {
		if string(m.Data) == "first" {
			return NewBody(bytes.Repeat(secret, 2000))
		}
		return NewBody([]byte("nothing special"))
	})
	call := func(name string) Message {
		s := register(t, open(t, Config{Transport: TransportSHM}), "")
		must(t, s.TakeLong(LongConfig{InPlace: true, MaxBytes: 1 << 20}))
		m, err := s.CallLong(ctx, s.To("server"), nil, NewBody(nil), []byte(name))
		must(t, err)
		return m
	}
	segment := func(m *Message) []byte { return unsafe.Slice(unsafe.SliceData(m.Body()), 64<<10) } // the smallest mapping
	first := call("first")
	if !bytes.Contains(segment(&first), secret) {
		t.Fatal("the first client does not see its own reply")
	}
	first.Release()
	eventually(t, server.e, "the reply is not given back", func() bool { return server.e.peers[0].long.out.Open() == 0 })
	second := call("second")
	defer second.Release()
	if at := bytes.Index(segment(&second), secret); at >= 0 {
		t.Errorf("the second client reads at %d: %q", at, segment(&second)[at:][:60])
	}
	first = call("first")
	first.Release()
	eventually(t, server.e, "the reply is not given back", func() bool { return server.e.peers[2].long.out.Open() == 0 })
	third, err := server.e.Alloc(100) // for anybody
	must(t, err)
	if whole := unsafe.Slice(unsafe.SliceData(third.Bytes()), 64<<10); bytes.Contains(whole, secret[:10]) {
		t.Error("a buffer has what a client got")
	}
	third.Release()
}
