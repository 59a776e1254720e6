//go:build linux

package verbs

import (
	"net"
	"testing"

	"github.com/squall-go/squall/fabric"
)

// tcpPair returns the two ends of a connection.
func tcpPair(t *testing.T) (here, there net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	here, err = net.Dial("tcp", l.Addr().String())
	must(t, err)
	t.Cleanup(func() { here.Close() })
	there, err = l.Accept()
	must(t, err)
	t.Cleanup(func() { there.Close() })
	return here, there
}

// A table that is retired is closed on another goroutine, while the loop goes on with the next one
// and with the same parker.
func TestALinkThatIsClosedElsewhereLeavesReadinessToTheLoop(t *testing.T) {
	here, there := tcpPair(t)
	parker, err := fabric.NewParker()
	must(t, err)
	defer parker.Close()
	line, err := newLifeline(here, parker)
	must(t, err)
	c := line.(*connection)
	c.ready.In = true
	if c.look() || !c.ready.In {
		t.Errorf("gone: %v, ready: %v", c.gone, c.ready.In)
	}
	if c.ended() || c.ready.In {
		t.Errorf("the loop looked: gone: %v, ready: %v", c.gone, c.ready.In)
	}
	must(t, there.Close())
	for !c.ended() {
		parker.Look()
	}
	must(t, c.close())
}
