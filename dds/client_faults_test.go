package dds_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
)

// dialRaw returns a connection to a relay, for frames of the test's own.
func dialRaw(t *testing.T, addr string) net.Conn {
	t.Helper()
	id := ripc.ID("squall topics\x00test\x00fleet")
	e, err := ripc.Open(t.Context(), ripc.Config{Resolver: ripc.Static{id: ripc.Place{Addr: addr}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	svc, err := e.Register(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := svc.Dial(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// ask sends a value, and returns the body of the first frame of a kind that comes.
func ask(t *testing.T, conn net.Conn, k remote.Kind, v any, want remote.Kind) []byte {
	t.Helper()
	frame, err := remote.AppendValue(nil, k, v)
	if err == nil {
		_, err = conn.Write(frame)
	}
	for err == nil {
		head := make([]byte, remote.HeadBytes)
		if _, err = io.ReadFull(conn, head); err != nil {
			break
		}
		body := make([]byte, binary.LittleEndian.Uint32(head))
		if _, err = io.ReadFull(conn, body); err == nil && remote.Kind(head[4]) == want {
			return body
		}
	}
	t.Fatal(err)
	return nil
}

// Best effort samples of a client are in the order, also in a space that has a subgroup for samples
// that need none.
func TestBestEffortSamplesOfAClientHaveAnOrder(t *testing.T) {
	all := open(t, 1, func(_ int, p *member.Config, _ *squall.Config) { p.Unordered.Name = "loose" })
	c := dial(t, nil, serve(t, all[0], member.RelayConfig{}).Addr())
	set := dds.QoS{Reliability: qos.Reliability{Kind: qos.BestEffort}}
	r := reader(t, topic(t, all[0], dds.QoS{}), set)
	w := writer(t, topic(t, c, dds.QoS{}), set)
	write(t, w, position{N: 1})
	if err := w.Flush(testutil.Within(t)); err != nil {
		t.Fatal(err)
	}
	if got := next(t, r, 1); got[0].Value.N != 1 || got[0].Info.Position == 0 {
		t.Errorf("got %+v", got)
	}
}

// A client that has seen the origin of another one's writer, which all readers see, cannot write as
// that one.
func TestTheOriginOfAClientsWriterDoesNotAllowToWriteAsIt(t *testing.T) {
	all := open(t, 1, nil)
	relay := serve(t, all[0], member.RelayConfig{})
	c := dial(t, nil, relay.Addr())
	set := dds.QoS{History: qos.KeepAll()}
	r := reader(t, topic(t, all[0], dds.QoS{}), set)
	w := writer(t, topic(t, c, dds.QoS{}), dds.QoS{})
	write(t, w, position{N: 1})
	seen := next(t, r, 1)[0].Info.Origin

	conn := dialRaw(t, relay.Addr())
	ask(t, conn, remote.KindHello, remote.Hello{Version: remote.Version, Cluster: "test", Space: "fleet"}, remote.KindWelcome)
	open := remote.Request{Call: 1, Op: remote.OpOpen, Number: 1, Topic: &space.TopicInfo{Name: "positions"}, QoS: &dds.QoS{}, GUID: seen.GUID}
	var a remote.Answer
	if err := remote.ParseValue(ask(t, conn, remote.KindRequest, open, remote.KindAnswer), &a); err != nil || a.Err() != nil {
		t.Fatal(err, a.Err())
	}
	if a.Come.Ordered != 0 {
		t.Errorf("the other writer's last number is told: %d", a.Come.Ordered)
	}
	key := []byte{0, 0, 0, 0}
	if _, err := conn.Write(remote.AppendSample(nil, 1, &remote.Entry{Sequence: 1 << 40, Operation: 1, Key: key})); err != nil {
		t.Fatal(err)
	}
	ask(t, conn, remote.KindRequest, remote.Request{Call: 2, Op: remote.OpClose, Number: 1}, remote.KindAnswer)

	write(t, w, position{N: 2})
	for {
		s, err := r.Next(testutil.Within(t))
		if err != nil {
			t.Fatalf("the sample that was written after the attack: %v", err)
		}
		if s.Info.Valid && s.Value.N == 2 {
			break
		}
	}
}

// A relay takes no frame that is larger than what its space takes.
func TestARelayReadsNoHugeFrames(t *testing.T) {
	all := open(t, 1, nil)
	conn := dialRaw(t, serve(t, all[0], member.RelayConfig{ClientTimeout: time.Minute}).Addr())
	if _, err := conn.Write(append(binary.LittleEndian.AppendUint32(nil, 1<<29), byte(remote.KindHello))); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the relay goes on: %v", err)
	}
}

// A client that closes without a relay says that its samples have not come into the order, and does
// not wait for ever.
func TestAClientThatClosesWithoutARelayTellsOfItsSamples(t *testing.T) {
	t.Parallel()
	all := open(t, 1, nil)
	relay := serve(t, all[0], member.RelayConfig{})
	gone := make(chan struct{}, 10)
	events := func(e dds.Event) {
		if e, ok := e.(dds.RelayChanged); ok && e.Err != nil {
			gone <- struct{}{}
		}
	}
	c, err := dds.Dial(t.Context(), dds.ClientConfig{Space: "fleet", Cluster: "test", Addresses: []string{relay.Addr()}, RelayTimeout: 600 * time.Millisecond, Events: events})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, topic(t, c, dds.QoS{}), dds.QoS{})
	if err := relay.Close(); err != nil {
		t.Fatal(err)
	}
	<-gone
	write(t, w, position{N: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := c.Close(ctx); err == nil {
		t.Error("a sample that is nowhere was written")
	}
	if ctx.Err() != nil {
		t.Error("closing does not end")
	}
}

// watched tells of the lines that a logger writes.
type watched chan string

func (w watched) Write(b []byte) (int, error) {
	select {
	case w <- string(bytes.Clone(b)):
	default:
	}
	return len(b), nil
}

// hold fills the order behind a reader of a member that has no room, so that a call that sends
// waits. The reader is returned.
func hold(t *testing.T, p dds.Space) *dds.Reader[position] {
	t.Helper()
	tp, err := dds.NewTopic(t.Context(), p, "held", dds.CBOR[position](), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	r := reader(t, tp, dds.QoS{History: qos.KeepAll(), Limits: qos.Limits{Samples: 5}})
	w := writer(t, tp, dds.QoS{Reliability: qos.Reliability{MaxBlocking: 200 * time.Millisecond}})
	for range 1 << 15 {
		if err := w.Write(t.Context(), position{}); err != nil {
			return r
		}
	}
	t.Fatal("the order takes everything")
	return nil
}

// A client that ends while the order is held up has no writers when it goes on.
func TestAClientThatEndsWhileTheOrderIsHeldUpHasNoWriters(t *testing.T) {
	t.Parallel()
	all := open(t, 1, nil)
	lines := make(watched, 100)
	relay := serve(t, all[0], member.RelayConfig{ClientTimeout: 600 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(lines, nil))})
	c := dial(t, nil, relay.Addr())
	r := reader(t, topic(t, all[0], dds.QoS{}), dds.QoS{History: qos.KeepAll()})
	w := writer(t, topic(t, c, dds.QoS{}), dds.QoS{})
	write(t, w, position{Vehicle: 1, N: 1})
	if err := w.Flush(testutil.Within(t)); err != nil {
		t.Fatal(err)
	}
	full := hold(t, all[0])
	if err := c.Close(testutil.Within(t)); err != nil {
		t.Fatal(err)
	}
	for line := range lines {
		if strings.Contains(line, "is gone") {
			break
		}
	}
	if err := full.Close(testutil.Within(t)); err != nil {
		t.Fatal(err)
	}
	if got := next(t, r, 2); got[1].Info.Instance != dds.InstanceNoWriters {
		t.Errorf("got %+v", got)
	}
}

// A claim of a client waits for its outbox as long as MaxBlocking says, and no longer.
func TestAClaimOfAClientWaitsNoLongerThanItsWriter(t *testing.T) {
	t.Parallel()
	all := open(t, 1, nil)
	relay := serve(t, all[0], member.RelayConfig{})
	c, err := dds.Dial(t.Context(), dds.ClientConfig{Space: "fleet", Cluster: "test", Addresses: []string{relay.Addr()}, OutboxBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	raw, err := dds.NewTopic(t.Context(), c, "raw", dds.Raw(), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := testutil.Within(t)
	w, err := raw.Writer(ctx, dds.QoS{})
	if err == nil {
		err = w.Change(ctx, dds.QoS{Reliability: qos.Reliability{MaxBlocking: 10 * time.Millisecond}})
	}
	if err != nil {
		t.Fatal(err)
	}
	full := hold(t, all[0])
	for err == nil {
		var room dds.Claim
		if room, err = w.Claim(ctx, 8<<10); err == nil {
			err = room.Commit()
		}
	}
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("a claim that finds no room: %v, %v", err, ctx.Err())
	}
	if err := full.Close(testutil.Within(t)); err != nil {
		t.Fatal(err)
	}
}

// A writer's MaxBlocking is for its calls at the client: a relay that waits for buffer space in the
// order keeps the client.
func TestARelayWaitsForRoomLongerThanAClientsWriter(t *testing.T) {
	t.Parallel()
	all := open(t, 1, nil)
	failed := make(chan error, 10)
	relay := serve(t, all[0], member.RelayConfig{})
	c := dial(t, func(e dds.Event) {
		if e, ok := e.(dds.RelayChanged); ok && e.Err != nil {
			failed <- e.Err
		}
	}, relay.Addr())
	r := reader(t, topic(t, all[0], dds.QoS{}), dds.QoS{History: qos.KeepAll()})
	w := writer(t, topic(t, c, dds.QoS{}), dds.QoS{Reliability: qos.Reliability{MaxBlocking: 10 * time.Millisecond}})
	full := hold(t, all[0])
	write(t, w, position{N: 1})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := w.Flush(ctx); err == nil {
		t.Fatal("the order is not held up")
	}
	if err := full.Close(testutil.Within(t)); err != nil {
		t.Fatal(err)
	}
	if got := next(t, r, 1); got[0].Value.N != 1 {
		t.Errorf("got %+v", got)
	}
	select {
	case err := <-failed:
		t.Errorf("the relay gave the client up: %v", err)
	default:
	}
}

// A client's reader whose samples have expired has room again.
func TestAClientsReaderHasRoomWhenItsSamplesHaveExpired(t *testing.T) {
	t.Parallel()
	all := open(t, 1, nil)
	c := dial(t, nil, serve(t, all[0], member.RelayConfig{}).Addr())
	r := reader(t, topic(t, c, dds.QoS{}), dds.QoS{History: qos.KeepAll(), Limits: qos.Limits{Samples: 2}})
	w := writer(t, topic(t, all[0], dds.QoS{}), dds.QoS{Lifespan: time.Second})
	for range 4 {
		write(t, w, position{N: 1})
	}
	for expired := time.Now().Add(1200 * time.Millisecond); time.Now().Before(expired); <-time.After(10 * time.Millisecond) {
		must(t)(r.Read(dds.Query{}))
	}
	if err := w.Change(t.Context(), dds.QoS{}); err != nil {
		t.Fatal(err)
	}
	write(t, w, position{N: 2})
	s, err := r.Next(testutil.Within(t))
	if err != nil || s.Value.N != 2 {
		t.Errorf("got %+v: %v", s, err)
	}
}

func must(t *testing.T) func([]dds.Sample[position], error) []dds.Sample[position] {
	return func(all []dds.Sample[position], err error) []dds.Sample[position] {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
}
