package ripc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/testutil"
)

// streamsOf make streams that are the connection itself, or refuse them.
type streamsOf struct {
	name    string
	made    atomic.Int32
	refuses bool
	stays   chan struct{} // not nil: Close of a stream waits for it
}

func (s *streamsOf) Name() string { return s.name }

func (s *streamsOf) Stream(_ context.Context, conn net.Conn) (fabric.Stream, error) {
	if s.refuses {
		return nil, fmt.Errorf("%w: no device", fabric.ErrRefused)
	}
	s.made.Add(1)
	return &slowEnd{Stream: conn, stays: s.stays}, nil
}

type slowEnd struct {
	fabric.Stream
	stays chan struct{}
}

func (s *slowEnd) Close() error {
	err := s.Stream.Close()
	if s.stays != nil {
		<-s.stays
	}
	return err
}

// sendOver sends a long message each way between two endpoints with transports of the test. Each
// way has a pair of its own.
func sendOver(t *testing.T, here, there Config) (a, b *Endpoint) {
	t.Helper()
	ctx := testutil.Within(t)
	for _, c := range []*Config{&here, &there} {
		c.Transport, c.Listen, c.Long = TransportTCP, "127.0.0.1:0", LongConfig{MaxBytes: 8 << 20, MaxPeerBytes: 8 << 20}
	}
	a, b = open(t, here), open(t, there)
	server, client := register(t, b, "server"), register(t, a, "client")
	for i, s := range [][2]*Service{{client, server}, {server, client}} {
		want := pattern(uint64(i), 700_001)
		must(t, s[0].SendLong(ctx, s[0].To(s[1].id), NewBody(want)))
		m, err := s[1].Receive(ctx)
		must(t, err)
		if !bytes.Equal(m.Body(), want) {
			t.Errorf("message %d differs", i)
		}
		m.Release()
	}
	return a, b
}

func TestLongMessagesGoThroughStreamsOfEndpointsThatHaveThem(t *testing.T) {
	none := Config{}
	for what, c := range map[string]struct {
		here, there *streamsOf
		rest        Config
		streams     int32
	}{
		"both":                     {&streamsOf{name: "x"}, &streamsOf{name: "x"}, none, 4},
		"only the dialer":          {&streamsOf{name: "x"}, nil, none, 0},
		"only the listener":        {nil, &streamsOf{name: "x"}, none, 0},
		"of different names":       {&streamsOf{name: "x"}, &streamsOf{name: "y"}, none, 0},
		"there is memory for one":  {&streamsOf{name: "x"}, &streamsOf{name: "x"}, Config{MaxBytes: streamBytes + 2<<20, MaxBytesPerClient: streamBytes + 2<<20}, 2},
		"there is memory for none": {&streamsOf{name: "x"}, &streamsOf{name: "x"}, Config{MaxBytes: streamBytes, MaxBytesPerClient: streamBytes}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			here, there := Config{}, c.rest
			made := &atomic.Int32{}
			if c.here != nil {
				here.LongTransport = c.here
			}
			if c.there != nil {
				there.LongTransport = c.there
			}
			sendOver(t, here, there)
			for _, s := range []*streamsOf{c.here, c.there} {
				if s != nil {
					made.Add(s.made.Load())
				}
			}
			if made.Load() != c.streams {
				t.Errorf("%d ends of streams were made, not %d", made.Load(), c.streams)
			}
		})
	}
}

func TestLongMessagesGoOverTCPIfStreamsAreRefused(t *testing.T) {
	events := make(chan Event, 100)
	refused := Config{LongTransport: &streamsOf{name: "x", refuses: true}, Events: func(v Event) { events <- v }}
	sendOver(t, refused, refused)
	for n := 0; n < 2; {
		if v, is := (<-events).(StreamRefused); is {
			if n++; !errors.Is(v.Err, fabric.ErrRefused) || !strings.Contains(v.String(), "no device") {
				t.Error(v)
			}
		}
	}
}

// A stream takes its time to end. The endpoint serves others meanwhile, and Close waits for it.
func TestAStreamThatEndsSlowlyDelaysNobody(t *testing.T) {
	stays := make(chan struct{})
	here, there := &streamsOf{name: "x", stays: stays}, &streamsOf{name: "x"}
	a, b := sendOver(t, Config{LongTransport: here}, Config{LongTransport: there})
	must(t, b.Close())
	inTime(t, "the end of the pair", func() bool { return a.Peers() == 0 })
	counted := func() int64 {
		a.lock()
		defer a.unlock()
		return a.accounts.Bytes()
	}
	if n := counted(); n < streamBytes {
		t.Errorf("%d bytes are counted while a stream ends", n)
	}
	close(stays)
	inTime(t, "its memory", func() bool { return counted() < streamBytes })
}

// A process that connects twice for the long messages of a pair is refused, and the stream of the
// pair stays.
func TestASecondConnectionForLongMessagesLeavesTheStreamAlone(t *testing.T) {
	s := &streamsOf{name: "x"}
	a, b := sendOver(t, Config{LongTransport: s}, Config{LongTransport: s})
	a.lock()
	p := a.peers[0]
	a.unlock()
	conn, stream, err := p.callBulk(t.Context(), "x")
	must(t, err)
	defer conn.Close()
	if stream {
		t.Error("there is a second stream for the pair")
	}
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes came", n)
	}
	must(t, errors.Join(a.audit(false), b.audit(false)))
}

func TestStreamsGoWithNoTLS(t *testing.T) {
	_, err := Open(t.Context(), Config{TLS: testutil.NewAuthority(t).TLS(), LongTransport: &streamsOf{name: "x"}})
	if err == nil || !strings.Contains(err.Error(), "LongTransport") {
		t.Error(err)
	}
}
