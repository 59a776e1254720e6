package port

import (
	"net"
	"testing"
)

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
