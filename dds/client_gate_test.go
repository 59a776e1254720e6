package dds_test

import (
	"encoding/binary"
	"io"
	"math"
	"net"
	"testing"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/ripc"
)

// script is a relay of which the test writes the frames.
type script struct {
	t    *testing.T
	l    *ripc.Listener
	conn net.Conn
}

// scripted returns a relay of which the test writes the frames, and its address.
func scripted(t *testing.T) (s *script, addr string) {
	t.Helper()
	e, err := ripc.Open(t.Context(), ripc.Config{Listen: "127.0.0.1:0", Resolver: ripc.Static{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	svc, err := e.Register(t.Context(), "squall topics\x00test\x00fleet")
	if err != nil {
		t.Fatal(err)
	}
	return &script{t: t, l: ripc.Listen(svc)}, e.Addr()
}

func (s *script) write(frame []byte, err error) {
	s.t.Helper()
	if err == nil {
		_, err = s.conn.Write(frame)
	}
	if err != nil {
		s.t.Error(err)
	}
}

// take reads the next frame of the client that is not a heartbeat. It returns false at the end of
// the connection.
func (s *script) take(v any) bool {
	for head := make([]byte, remote.HeadBytes); ; {
		if _, err := io.ReadFull(s.conn, head); err != nil {
			return false
		}
		body := make([]byte, binary.LittleEndian.Uint32(head))
		if _, err := io.ReadFull(s.conn, body); err != nil || remote.Kind(head[4]) == remote.KindBye {
			return false
		}
		if remote.Kind(head[4]) != remote.KindPing {
			if err := remote.ParseValue(body, v); err != nil {
				s.t.Error(err)
			}
			return true
		}
	}
}

// serve accepts a connection and answers its requests until it ends. It calls answered after each
// answer, and ends the connection if answered returns false.
func (s *script) serve(answered func(remote.Request) bool) {
	conn, err := s.l.Accept()
	if err != nil {
		return
	}
	s.conn = conn
	defer conn.Close()
	var hello remote.Hello
	s.take(&hello)
	s.write(remote.AppendValue(nil, remote.KindWelcome, remote.Welcome{Version: remote.Version, MaxBytes: 1 << 16}))
	for {
		var q remote.Request
		if !s.take(&q) {
			return
		}
		a := remote.Answer{Call: q.Call, Resume: space.Resume{Born: 1}}
		if q.Resume != nil {
			a.Resume = *q.Resume
		}
		s.write(remote.AppendValue(nil, remote.KindAnswer, a))
		if !answered(q) {
			return
		}
	}
}

// batch sends a sample to a reader, unless the number of the reader is 0, and then an event with a
// count.
func (s *script) batch(gate remote.Gate, reader uint32, count int) {
	b := remote.Batch{Gate: gate, Position: 1}
	if reader != 0 {
		b.Fed = []space.Fed{{Reader: reader, Position: 1, Expires: math.MaxInt64, Writer: space.ID{Number: 1}, Key: "\x00\x00\x00\x00", Data: []byte{0xa0}}}
		b.Reached = []remote.Reached{{Number: reader, Reached: space.Reached{Position: 1}}}
	}
	s.write(remote.AppendBatch(nil, &b), nil)
	s.write(remote.AppendValue(nil, remote.KindEvent, remote.Event{Number: 1, Event: space.Event{Kind: space.Matched, Current: count}}))
}

// The connection of a client breaks while one of its two readers has a set that the other one
// lacks. While the readers are opened again at a relay, which does not know yet how far they are,
// they do not show the set. They show it once both have it.
func TestReadersWithDifferentSetsShowNoneOfThemWhileTheyAreOpenedAgain(t *testing.T) {
	relay, addr := scripted(t)
	cut, checked := make(chan struct{}), make(chan struct{})
	go func() {
		relay.serve(func(q remote.Request) bool {
			if q.Number == 2 {
				relay.batch(remote.GateShut, 1, 1)
				<-cut
			}
			return q.Number != 2
		})
		relay.serve(func(q remote.Request) bool {
			if q.Op != remote.OpRelease {
				relay.batch(remote.GateOpen, 0, 2)
				return true
			}
			relay.batch(remote.GateShut, 2, 3)
			<-checked
			relay.batch(remote.GateOpen, 0, 4)
			return true
		})
	}()
	matched := make(chan int)
	c := dial(t, func(e dds.Event) {
		if e, ok := e.(dds.Matched); ok {
			matched <- e.Current
		}
	}, addr)
	set := inSets
	set.KeepUnregistered, set.History = false, qos.KeepAll()
	var readers [2]*dds.Reader[position]
	for i, tp := range two(t, c) {
		readers[i] = reader(t, tp, set)
	}
	look := func(event, want int) {
		t.Helper()
		for i, r := range readers {
			if got := must(t)(r.Take(dds.Query{})); len(got) != want {
				t.Errorf("event %d: reader %d has %d samples, want %d", event, i, len(got), want)
			}
		}
	}
	for opened := 0; ; {
		e := <-matched
		switch e {
		case 1:
			look(e, 0)
			close(cut)
		case 2:
			look(e, 0)
			opened++
		case 3:
			look(e, 0)
			close(checked)
		case 4:
			if look(e, 1); opened != 4 { // two topics and two readers
				t.Errorf("the relay answered %d requests before the release, want 4", opened)
			}
			return
		}
	}
}
