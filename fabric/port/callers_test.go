package port

import (
	"net"
	"testing"
)

func TestTheOldestThatGreetsMakesRoom(t *testing.T) {
	var c Callers
	var ends []net.Conn
	admit := func() net.Conn {
		here, there := net.Pipe()
		ends = append(ends, there)
		t.Cleanup(func() { here.Close(); there.Close() })
		if !c.Admit(here, 2) {
			t.Fatal("it was not admitted")
		}
		return here
	}
	settled, oldest, newer := admit(), net.Conn(nil), net.Conn(nil)
	if !c.Settle(settled) {
		t.Error("there was room")
	}
	oldest, newer = admit(), admit()
	admit()
	if _, err := oldest.Write([]byte{0}); err == nil || c.Settle(oldest) {
		t.Errorf("the oldest is still there: %v", err)
	}
	if !c.Settle(newer) {
		t.Error("the newer one is gone")
	}
	go ends[0].Read(make([]byte, 1))
	if _, err := settled.Write([]byte{0}); err != nil {
		t.Errorf("one that has greeted made room: %v", err)
	}
}

func TestCallersAreBoundedAndEndedAllAtOnce(t *testing.T) {
	var c Callers
	here, there := net.Pipe()
	defer there.Close()
	if n, ok := c.Enter(here, 1); n != 0 || !ok {
		t.Fatal(n, ok)
	}
	if n, ok := c.Enter(there, 1); n != 1 || ok {
		t.Fatal("one more than there may be: ", n, ok)
	}
	left := make(chan error)
	go func() {
		_, err := here.Read(make([]byte, 1))
		c.Leave(here)
		left <- err
	}()
	if c.Closing() {
		t.Error("nobody hung up")
	}
	hung := make(chan struct{})
	go func() { c.HangUp(); close(hung) }()
	if <-left == nil {
		t.Error("the connection goes on")
	}
	<-hung
	if n, ok := c.Enter(there, 9); n != 0 || ok || !c.Closing() {
		t.Error("somebody came in afterwards: ", n, ok)
	}
}
