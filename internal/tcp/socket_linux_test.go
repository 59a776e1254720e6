package tcp

import (
	"net"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
)

// The last look of a loop that polls alone reads nothing, and what it left ends the sleep. A look
// of several goroutines reads it.
func TestTheLastLookOfOneLoopLeavesSocketsToTheSleep(t *testing.T) {
	for _, alone := range []bool{true, false} {
		parker, err := fabric.NewParker()
		if err != nil {
			t.Fatal(err)
		}
		defer parker.Close()
		parker.OneLoop = alone
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		there, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer there.Close()
		here, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		s, err := newSocket(here, parker)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		read := func() int {
			n, err := s.read([][]byte{make([]byte, 8)})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := read(); n != 0 {
			t.Fatalf("%d bytes are there before the first was sent", n)
		}
		parker.Announce()
		if _, err := there.Write([]byte("word")); err != nil {
			t.Fatal(err)
		}
		if n := read(); alone != (n == 0) {
			t.Errorf("one loop %v: the last look read %d bytes", alone, n)
		}
		if alone {
			parker.Sleep(time.Minute)
		}
		parker.Retract()
		if n := read(); alone != (n == 4) {
			t.Errorf("one loop %v: %d bytes were read after the sleep", alone, n)
		}
	}
}
