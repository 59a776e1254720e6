package member

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
)

// alone returns the member of a group of one.
func alone(t *testing.T) *Member {
	t.Helper()
	addr := testutil.FreeAddress(t)
	m, err := Open(t.Context(), Config{
		Group:    squall.Config{Cluster: "test", ID: 1, Listen: addr, Join: []string{addr}, InitialMembers: 1, Logger: slog.New(slog.DiscardHandler)},
		Subgroup: squall.SubgroupConfig{Name: "fleet"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	return m
}

// relayAlone returns the relay of a group of one member.
func relayAlone(t *testing.T) *Relay {
	t.Helper()
	m := alone(t)
	r, err := Serve(t.Context(), RelayConfig{Member: m, Endpoint: ripc.Config{Listen: "127.0.0.1:0"}, ClientTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// A relay without an address would have the same name on its host as every other such relay:
// clients would come to one of another space, and none to the second one.
func TestARelayThatNobodyWouldFindIsRefused(t *testing.T) {
	m := alone(t)
	for _, cfg := range []ripc.Config{{}, {Listen: "127.0.0.1:0", Transport: ripc.TransportSHM}} {
		if r, err := Serve(t.Context(), RelayConfig{Member: m, Endpoint: cfg}); err == nil || !strings.Contains(err.Error(), "Endpoint.Listen") {
			t.Errorf("%+v: %v, %v", cfg, r, err)
		}
	}
}

// greet has a relay serve a connection on which frame is the first one, and returns the answer.
func greet(t *testing.T, r *Relay, frame []byte) (answer remote.Welcome, err error) {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	served := make(chan error, 1)
	go func() { served <- r.serve(there) }()
	go func() { _, _ = here.Write(frame) }()
	in := &core.Frames{Conn: here}
	if _, body, err := in.Next(); err == nil {
		if err := remote.ParseValue(body, &answer); err != nil {
			t.Fatal(err)
		}
	}
	_ = here.Close()
	return answer, <-served
}

func hello(t *testing.T, h remote.Hello) []byte {
	t.Helper()
	frame, err := remote.AppendValue(nil, remote.KindHello, h)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

// A process at the address of a relay may be of another cluster or space, whatever the service was
// that the client asked for.
func TestARelayRefusesClientsOfOthers(t *testing.T) {
	r := relayAlone(t)
	r.cfg.ClientGrace = 0
	right := remote.Hello{Version: remote.Version, Cluster: "test", Space: "fleet"}
	if answer, _ := greet(t, r, hello(t, right)); answer.Refused != "" || answer.Version != remote.Version {
		t.Errorf("a client is answered with %+v", answer)
	}
	for _, change := range []func(*remote.Hello){func(h *remote.Hello) { h.Version++ }, func(h *remote.Hello) { h.Cluster = "other" }, func(h *remote.Hello) { h.Space = "other" }} {
		h := right
		change(&h)
		if answer, err := greet(t, r, hello(t, h)); answer.Refused == "" || err == nil || !strings.Contains(err.Error(), answer.Refused) {
			t.Errorf("%+v is answered with %+v: %v", h, answer, err)
		}
	}
}

func TestWhatComesBeforeAHelloIsBounded(t *testing.T) {
	r := relayAlone(t)
	for n, want := range map[int]bool{maxHelloBytes: true, maxHelloBytes + 1: false} { // whether it is read to its end
		frame := binary.LittleEndian.AppendUint32(nil, uint32(n))
		frame = append(append(frame, byte(remote.KindPing)), make([]byte, n)...)
		_, err := greet(t, r, frame)
		if tooLong := strings.Contains(fmt.Sprint(err), "at most"); !errors.Is(err, remote.ErrMalformed) || tooLong == want {
			t.Errorf("a first frame of %d bytes: %v", n, err)
		}
	}
	r.greeting.Store(maxGreetings)
	if answer, err := greet(t, r, nil); err == nil || answer.Version != 0 {
		t.Errorf("one connection too many is answered with %+v, %v", answer, err)
	}
	r.greeting.Add(-maxGreetings)
	if answer, _ := greet(t, r, hello(t, remote.Hello{Version: remote.Version, Cluster: "test", Space: "fleet"})); answer.Refused != "" || answer.Version == 0 {
		t.Errorf("a client is answered with %+v", answer)
	}
	if n := r.greeting.Load(); n != 0 {
		t.Errorf("%d connections count that were answered", n)
	}
}

func TestTopicsThatClientsDeclareAreBounded(t *testing.T) {
	r := relayAlone(t)
	name := 0
	attend := func() *attendance { return &attendance{r: r, ctx: t.Context(), endpoints: map[uint32]*attended{}} }
	declare := func(a *attendance, data int) error {
		name++
		return a.declare(&space.TopicInfo{Name: fmt.Sprint(name), Type: "raw", QoS: dds.QoS{TopicData: make([]byte, data)}})
	}
	defer func(c, s topicSum) { mostOfClient, mostOfSpace = c, s }(mostOfClient, mostOfSpace)
	mostOfClient, mostOfSpace = topicSum{3, 10_000}, topicSum{5, 20_000}
	a, b := attend(), attend()
	for i, want := range []bool{true, true, true, false} {
		if err := declare(a, 0); (err == nil) != want || err != nil && !errors.Is(err, qos.ErrRefused) {
			t.Errorf("topic %d of a client: %v", i, err)
		}
	}
	if err := a.declare(&space.TopicInfo{Name: "1", Type: "raw", QoS: dds.QoS{TopicData: []byte{}}}); err != nil {
		t.Errorf("a topic that the space has: %v", err)
	}
	if err := declare(b, 10_000); !errors.Is(err, qos.ErrRefused) {
		t.Errorf("too much data: %v", err)
	}
	if err := errors.Join(declare(b, 8_000), declare(b, 0)); err != nil {
		t.Error(err)
	}
	if err := declare(attend(), 0); !errors.Is(err, qos.ErrRefused) {
		t.Errorf("a topic too many in the space: %v", err)
	}
	mostOfSpace = topicSum{100, 12_000}
	if err := declare(attend(), 4_000); !errors.Is(err, qos.ErrRefused) {
		t.Errorf("too much data in the space: %v", err)
	}
}

func TestASetOfAClientIsBounded(t *testing.T) {
	a := &attendance{r: relayAlone(t), ctx: t.Context()}
	e := remote.Entry{Data: make([]byte, remote.MaxSetBytes-(&remote.Entry{}).Bytes())}
	if _, err := a.inSet(&e); err != nil {
		t.Errorf("a set of %d bytes: %v", e.Bytes(), err)
	}
	if _, err := a.inSet(&remote.Entry{}); !errors.Is(err, remote.ErrMalformed) {
		t.Errorf("a larger set: %v", err)
	}
}
