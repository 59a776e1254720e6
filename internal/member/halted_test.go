package member_test

import (
	"errors"
	"testing"
	"time"
)

// A halted member waits to be closed, however long that takes: it must not ask to be stepped again
// at once for a heartbeat that it will never send, and must take from its sockets what would wake
// it.
func TestAHaltedMemberSleeps(t *testing.T) {
	w := newWorld(t, 2, 16)
	w.pass(time.Second)
	if d := w.members[0].Deadline(w.now); d < 0 || d > heartbeat {
		t.Errorf("the next heartbeat is due in %v", d)
	}
	w.members[0].Halt(errors.New("enough"))
	if w.pass(2 * heartbeat); w.members[0].Deadline(w.now) >= 0 {
		t.Errorf("a halted member wants to be stepped in %v", w.members[0].Deadline(w.now))
	}
	before := w.beats(0, 1)
	w.pass(2 * heartbeat)
	if w.beats(0, 1) == before {
		t.Error("what a peer sends stays in the socket, and keeps the loop awake")
	}
}

// A member that sleeps does what it is asked for at once, and not when something else wakes it.
func TestACallWakesTheLoop(t *testing.T) {
	w := newWorld(t, 2, 16)
	w.pass(time.Second)
	before, called := w.woken.Load(), false
	w.members[0].Call(func() { called = true })
	if w.woken.Load() == before || called {
		t.Errorf("woken %d times; called %v outside of the loop", w.woken.Load()-before, called)
	}
	if w.members[0].Step(w.now); !called {
		t.Error("the next step does not call")
	}
}

// A message that every member delivered before its sender halted was sent, also if the halt comes
// before Commit returns. One that was not delivered gets the reason of the halt.
func TestCommitSaysWhatWasSentBeforeAHalt(t *testing.T) {
	w := newWorld(t, 2, 16)
	w.pass(time.Second)
	halt := errors.New("enough")
	w.onWake = func() {
		w.onWake = nil
		w.pass(time.Second)
		w.members[0].Halt(halt)
	}
	if err := w.send(0); err != nil {
		t.Errorf("a message that was delivered: %v", err)
	}
	w.delivered(1, 0, 1)
	w = newWorld(t, 2, 16)
	w.pass(time.Second)
	w.onWake = func() {
		w.onWake = nil
		w.members[0].Halt(halt)
	}
	if err := w.send(0); err != halt {
		t.Errorf("a message that was not delivered: %v", err)
	}
}
