package join

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
)

// hand is a joiner that is played by hand.
type hand struct {
	*conversation
	t *testing.T
}

func dialByHand(t *testing.T, addr string) hand {
	t.Helper()
	conn, err := port.Dial(within(t), addr, port.KindControl, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	var c Challenge
	if err := wire.ReadMessage(conn, wire.MaxMessageBytes, &c); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) { // there was no place
		t.Fatal(err)
	}
	h := hand{speak(conn, patience), t}
	h.seal = func(v any) any {
		if q, ok := v.(Request); ok {
			return signed(t, q, c, byHand)
		}
		return v
	}
	return h
}

func (h hand) say(v any) {
	h.t.Helper()
	if err := h.conversation.say(v); err != nil {
		h.t.Fatal(err)
	}
}

// hear returns the next message that says something new. Pulses may come before it: how many
// depends on the time that the test takes.
func (h hand) hear(want Verb) (m Message) {
	h.t.Helper()
	for m.Verb == "" || m.Verb == sayStill {
		m = Message{}
		if err := h.conversation.hear(&m); err != nil {
			h.t.Fatalf("heard %+v, %v; want %s", m, err, want)
		}
	}
	if m.Verb != want {
		h.t.Fatalf("heard %+v; want %s", m, want)
	}
	return m
}

// huge announces a frame of 4 GiB.
const huge = "\xff\xff\xff\xff\x00\x00\x00\x00\x01"

// dialWhenServed dials a process that is about to start.
func dialWhenServed(t *testing.T, addr string) hand {
	t.Helper()
	for ctx := within(t); ctx.Err() == nil; {
		conn, err := port.Dial(ctx, addr, port.KindControl, nil)
		if err == nil {
			conn.Close()
			return dialByHand(t, addr)
		}
		if !errors.Is(err, port.ErrKindRefused) {
			t.Fatal(err)
		}
	}
	t.Fatalf("no process serves %s", addr)
	panic("unreachable")
}

// Strangers hold as many connections as they get, and say nothing for longer than the test lasts. A
// joiner still gets in: it proves itself at once.
func TestCV4SilentStrangersKeepNoJoinerOut(t *testing.T) {
	all := cluster(t, 2)
	all[0].silence = patience
	first := all[0].start(within(t))
	dialWhenServed(t, all[0].Port.Addr())
	for range 4 * leastNew {
		dialByHand(t, all[0].Port.Addr())
	}
	joiner := all[1].start(within(t))
	if err := errors.Join(ready(t, []*Session{get(t, first).Session, get(t, joiner).Session})...); err != nil {
		t.Fatal(err)
	}
}
