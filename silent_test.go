package squall_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/handshake"
	joining "github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// traitor is a process that the group took in as a member: it knows the key, and has a connection
// for rows.
type traitor struct {
	identity      *trust.Identity
	control, rows net.Conn
	view          *views.View
}

// said is what matters of the first member's message.
type said struct {
	Verb string            `json:"verb"`
	View *viewchange.Keyed `json:"view"`
}

// join goes through the whole of joining by hand.
func (r *traitor) join(ctx context.Context, first, cluster string, decls []views.Declaration) error {
	var err error
	for { // until the first member listens
		if r.control, err = port.Dial(ctx, first, port.KindControl, nil); err == nil {
			break
		}
		if ctx.Err() != nil {
			return err
		}
	}
	deadline, _ := ctx.Deadline()
	r.control.SetDeadline(deadline)
	var c joining.Challenge
	if err := wire.ReadMessage(r.control, wire.MaxMessageBytes, &c); err != nil {
		return err
	}
	q, err := joining.Request{
		Cluster: cluster, Member: views.Member{ID: 2, Addr: "127.0.0.1:1", PublicKey: r.identity.PublicKey()}, Expect: 2, Declarations: decls,
	}.Sign(r.identity, c)
	if err == nil {
		err = wire.WriteMessage(r.control, q)
	}
	if err != nil {
		return err
	}
	if r.view, err = r.hear("view"); err != nil {
		return err
	}
	if err := r.connect(ctx, first); err != nil {
		return err
	}
	if err := wire.WriteMessage(r.control, said{Verb: "ready"}); err != nil {
		return err
	}
	_, err = r.hear("install")
	return err
}

// hear waits for a verb.
func (r *traitor) hear(verb string) (*views.View, error) {
	for {
		var m said
		if err := wire.ReadMessage(r.control, wire.MaxMessageBytes, &m); err != nil {
			return nil, fmt.Errorf("waiting for %s: %w", verb, err)
		}
		switch m.Verb {
		case verb:
			return (*views.View)(m.View), nil
		case "wait":
		default:
			return nil, fmt.Errorf("the first member said %s, not %s", m.Verb, verb)
		}
	}
}

// connect makes the connection for rows.
func (r *traitor) connect(ctx context.Context, first string) error {
	layout, err := member.NewLayout(r.view)
	if err != nil {
		return err
	}
	if r.rows, err = port.Dial(ctx, first, port.KindRows, nil); err != nil {
		return err
	}
	spec := fabric.Spec{Scope: r.view.Scope(), Identity: r.identity, Self: 1}
	for k, m := range r.view.Members {
		spec.Peers = append(spec.Peers, fabric.Peer{ID: m.ID, Incarnation: m.Incarnation, Shape: layout.Shape(order.Rank(k)), PublicKey: m.PublicKey})
	}
	var challenge handshake.Challenge
	if err := wire.ReadMessage(r.rows, wire.MaxMessageBytes, &challenge); err != nil {
		return err
	}
	hello, err := handshake.NewHello(&spec, 0, challenge)
	if err != nil {
		return err
	}
	var w handshake.Welcome
	if err := errors.Join(wire.WriteMessage(r.rows, hello), wire.ReadMessage(r.rows, wire.MaxMessageBytes, &w)); err != nil {
		return err
	}
	return handshake.Heed(&spec, r.rows, hello, w)
}

func (r *traitor) close() {
	for _, conn := range []net.Conn{r.control, r.rows} {
		if conn != nil {
			conn.Close()
		}
	}
}

// halves of a frame, each cut off where the receiver waits for more.
func halves(view squall.ViewID, shape fabric.RowShape) map[string][]byte {
	le := binary.LittleEndian
	header := func(ranges, lines uint16, bytes uint32) []byte {
		return le.AppendUint64(le.AppendUint32(le.AppendUint16(le.AppendUint16(nil, ranges), lines), bytes), uint64(view))
	}
	bytes := header(1, 0, 256)
	bytes = le.AppendUint32(le.AppendUint32(bytes, uint32(shape.ControlBytes)), 256)
	return map[string][]byte{
		"the header":  header(1, 1, 256)[:7],
		"the bytes":   append(bytes, make([]byte, 100)...),
		"a line":      append(le.AppendUint64(header(0, 1, 0), 0), make([]byte, 20)...),
		"nothing yet": nil,
	}
}

// A member that stops in the middle of a frame keeps its connection, so only its heartbeat tells.
func TestAMemberThatFallsSilentWithinAFrameFails(t *testing.T) {
	t.Parallel()
	for name := range halves(0, fabric.RowShape{}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			silentWithin(t, name)
		})
	}
}

func silentWithin(t *testing.T, name string) {
	const failAfter = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	down := make(chan squall.MemberDown, 2)
	cfg := squall.Config{
		Cluster: t.Name(), ID: 1, Listen: testutil.FreeAddress(t), InitialMembers: 2, Logger: quiet, Fabric: squall.FabricTCP,
		Heartbeat: 20 * time.Millisecond, FailAfter: failAfter,
		Subgroups: []squall.SubgroupConfig{{Name: "a", RingBytes: 64 << 10, Window: 256, Deliver: func(squall.Message) {}}},
		Events: func(e squall.Event) {
			if d, ok := e.(squall.MemberDown); ok {
				down <- d
			}
		},
	}
	traitor := traitor{identity: trust.NewIdentity()}
	defer traitor.close()
	var both sync.WaitGroup
	var joined error
	both.Go(func() {
		joined = traitor.join(ctx, cfg.Listen, cfg.Cluster, []views.Declaration{{Name: "a", RingBytes: 64 << 10, Window: 256}})
	})
	g, err := squall.Open(ctx, cfg)
	both.Wait()
	if err = errors.Join(err, joined); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	layout, err := member.NewLayout(traitor.view)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := traitor.rows.Write(halves(traitor.view.ID, layout.Shape(1))[name]); err != nil {
		t.Fatal(err)
	}
	reading := make(chan struct{}) // it still reads, so that nothing else can be the reason
	go func() {
		defer close(reading)
		io.Copy(io.Discard, traitor.rows)
	}()

	began := time.Now()
	select {
	case d := <-down:
		if !errors.Is(d.Err, squall.ErrSilent) || d.Member.ID != 2 {
			t.Errorf("event %v", d)
		}
	case <-ctx.Done():
		t.Fatal("the silence is not noticed")
	}
	eventually(t, "node 1 goes on alone", func() bool { return len(g.View().Members) == 1 })
	if took := time.Since(began); took > failAfter+10*time.Second {
		t.Errorf("it took %v, FailAfter is %v", took, failAfter)
	}
	send(t, must(g.Subgroup("a")), "no member is waited for")
	<-reading
	if len(down) > 0 {
		t.Errorf("a second event: %v", <-down)
	}
}
