package logwire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/catchup"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// quick are times that let a test wait for what must happen, and not for what must not.
var quick = wire.Times{Silence: 5 * time.Second, Pulse: 20 * time.Millisecond, Pause: time.Millisecond, Longest: 10 * time.Millisecond}

var prices = persist.LogID{Name: "prices", Shard: 1}

// newLog makes a log in a directory of its own.
func newLog(t testing.TB, engine persist.Engine) *persist.Log {
	t.Helper()
	s, err := persist.Open(t.Context(), persist.Config{Dir: testutil.MemoryDir(t), Cluster: "test", Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	l, err := s.Log(t.Context(), persist.LogConfig{ID: prices, Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// record is number n of a history in which ten records make a view. Odd seqs are nulls.
func record(n int, data []byte) persist.Record {
	return persist.Record{
		Version: order.Version{View: order.ViewID(1 + n/10), Seq: order.Seq(2 * (n % 10))}, Time: order.Time(1_000_000 + 1000*n),
		Sender: order.NodeID(1 + n%3), Data: data,
	}
}

func text(n int) []byte { return fmt.Appendf(nil, "message %d", n) }

// history are n of them.
func history(n int) (all []persist.Record) {
	for i := range n {
		all = append(all, record(i, text(i)))
	}
	return all
}

// put imports records, and makes them durable.
func put(t testing.TB, l *persist.Log, records ...persist.Record) *persist.Log {
	t.Helper()
	for _, r := range records {
		if err := l.Import(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

// snapshot replaces the first records of a log.
func snapshot(t testing.TB, l *persist.Log, at order.Version, content string) {
	t.Helper()
	l.SetGlobal(at)
	err := l.Snapshot(at, func(w io.Writer) error { _, err := io.WriteString(w, content); return err })
	if err != nil {
		t.Fatal(err)
	}
}

// collect takes all that there is.
func collect(t testing.TB, records iter.Seq2[persist.Record, error]) (all []persist.Record) {
	t.Helper()
	for r, err := range records {
		if err != nil {
			t.Fatalf("after %d records: %v", len(all), err)
		}
		all = append(all, r)
	}
	return all
}

// everything is all that is in a log.
func everything(t testing.TB, l *persist.Log) []persist.Record {
	return collect(t, l.Range(order.Version{}, order.Version{}))
}

// alike compares records, but for their numbers.
func alike(a, b []persist.Record) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Version != b[i].Version || a[i].Time != b[i].Time || a[i].Sender != b[i].Sender || !bytes.Equal(a[i].Data, b[i].Data) {
			return false
		}
	}
	return true
}

// host is a member that serves one log.
type host struct {
	t       testing.TB
	server  *Server
	serving sync.WaitGroup
	cut     func(net.Conn) net.Conn // of the reader's end; nil: as it is

	mu       sync.Mutex
	rejected []port.Rejection
}

func newHost(t testing.TB, l *persist.Log, change ...func(*ServerConfig)) *host {
	h := &host{t: t}
	cfg := ServerConfig{
		Cluster: "test", Times: quick,
		Find: func(id persist.LogID) *persist.Log {
			if id != prices {
				return nil
			}
			return l
		},
		List: func() []persist.LogID { return []persist.LogID{prices} },
		Reject: func(r port.Rejection) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.rejected = append(h.rejected, r)
		},
	}
	for _, c := range change {
		c(&cfg)
	}
	h.server = NewServer(cfg)
	t.Cleanup(h.close)
	return h
}

func (h *host) close() {
	h.server.Close()
	h.serving.Wait()
}

func (h *host) rejections() []port.Rejection {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rejected
}

func (h *host) dial(context.Context) (net.Conn, error) {
	theirs, mine := net.Pipe()
	h.serving.Go(func() { h.server.Serve(theirs) })
	if h.cut != nil {
		return h.cut(mine), nil
	}
	return mine, nil
}

func (h *host) client() *Client { return &Client{Dial: h.dial, Cluster: "test", Times: quick} }

// fragile breaks after some bytes that were read.
type fragile struct {
	net.Conn
	left int
}

func (f *fragile) Read(p []byte) (int, error) {
	if f.left == 0 {
		f.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := f.Conn.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, err
}

// breaks makes connections that break after up to so many bytes.
func breaks(random *rand.Rand, atMost int) func(net.Conn) net.Conn {
	return func(c net.Conn) net.Conn { return &fragile{c, random.IntN(atMost)} }
}

// bring catches a log up from hosts, one after the other until one of them gives all records, and
// returns the result of the last one, with all the records that came.
func bring(t testing.TB, l *persist.Log, before order.Version, change func(*CatchUpConfig), hosts ...*host) (r catchup.Result, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	records := uint64(0)
	for _, h := range hosts {
		cfg := CatchUpConfig{Cluster: "test", ID: prices, Log: l, Before: before, Times: quick, Dial: h.dial}
		if change != nil {
			change(&cfg)
		}
		r, err = CatchUp(ctx, cfg)
		records += r.Records
		r.Records = records
		if err == nil {
			break
		}
	}
	return r, err
}
