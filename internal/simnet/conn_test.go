package simnet

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
)

// channel is a channel between nodes 1 and 2 that is up.
func channel(t *testing.T, opts Options) (net *Net, dialed, accepted *Conn) {
	t.Helper()
	net = New(1, opts)
	net.Listen(2, func(c *Conn) { accepted = c })
	dialed = net.Dial(1, 2)
	net.Advance(time.Second)
	net.Advance(2 * time.Second)
	if accepted == nil || !dialed.Up() || accepted.Peer() != 1 || dialed.Peer() != 2 {
		t.Fatal("the channel did not come up")
	}
	return net, dialed, accepted
}

func received(c *Conn) (all []int) {
	for {
		msg, ok := c.Recv()
		if !ok {
			return all
		}
		all = append(all, msg.(int))
	}
}

func TestAChannelComesUpAfterTheWayThereAndBack(t *testing.T) {
	net := New(1, Options{Delay: always(Delay{Base: 10})})
	var accepted *Conn
	net.Listen(2, func(c *Conn) { accepted = c })
	dialed := net.Dial(1, 2)
	if dialed.Send(1) || dialed.Up() || dialed.Closed() != nil {
		t.Fatal("up at once")
	}
	if at, ok := net.Due(2); !ok || at != 10 {
		t.Fatalf("due at %v, %v", at, ok)
	}
	net.Advance(10)
	if accepted == nil || dialed.Up() || !accepted.Send(1) {
		t.Fatal("not accepted after the way there, or up before the way back")
	}
	net.Advance(20)
	if !dialed.Up() || !slices.Equal(received(dialed), []int{1}) {
		t.Fatal("not up after the way back")
	}
}

func TestMessagesArriveInOrder(t *testing.T) {
	net, dialed, accepted := channel(t, Options{Delay: always(Delay{Base: 10, Jitter: 100})})
	for k := range 4 {
		dialed.Send(k)
	}
	net.Advance(net.Now() + 200)
	if got := received(accepted); !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Fatalf("received %v", got)
	}
}

func TestAChannelsEndIsHeardOfBehindWhatWasSent(t *testing.T) {
	for name, end := range map[string]func(*Net, *Conn){
		"closed": func(_ *Net, c *Conn) { c.Close() }, "crashed": func(n *Net, _ *Conn) { n.Crash(1) },
		"restarted": func(n *Net, _ *Conn) { n.Restart(1) },
	} {
		t.Run(name, func(t *testing.T) {
			net, dialed, accepted := channel(t, Options{Delay: always(Delay{Base: 10}), NoticeAfter: 50})
			dialed.Send(1)
			end(net, dialed)
			if dialed.Send(2) || !errors.Is(dialed.Closed(), ErrClosed) {
				t.Fatal("the end that was closed still sends")
			}
			net.Advance(net.Now() + 100)
			if accepted.Closed() != nil {
				t.Fatal("closed before everything was received")
			}
			if got := received(accepted); !slices.Equal(got, []int{1}) {
				t.Fatalf("received %v", got)
			}
			if err := accepted.Closed(); !errors.Is(err, fabric.ErrPeerGone) {
				t.Fatalf("closed: %v", err)
			}
			if _, ok := net.Due(2); ok || len(net.node(2).conns) > 0 {
				t.Error("a channel that is known to be closed is still due")
			}
		})
	}
}

func TestAHostThatLosesPowerLeavesItsChannelsHanging(t *testing.T) {
	net, dialed, accepted := channel(t, Options{})
	dialed.Send(1)
	net.PowerOff(2)
	net.Advance(net.Now() + time.Hour)
	if dialed.Closed() != nil || accepted.Send(1) {
		t.Fatal("told")
	}
	again := net.Dial(1, 2)
	net.Advance(net.Now() + time.Hour)
	net.Advance(net.Now() + time.Hour)
	if again.Up() || again.Closed() != nil {
		t.Fatal("a host without power answered")
	}
}

func TestADialToAProcessThatDoesNotListenIsRefused(t *testing.T) {
	for name, prepare := range map[string]func(*Net){
		"it never listened": func(*Net) {},
		"it crashed": func(n *Net) {
			n.Listen(2, func(*Conn) {})
			n.Crash(2)
		},
		"it was restarted": func(n *Net) {
			n.Listen(2, func(*Conn) {})
			n.Restart(2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			net := New(1, Options{Delay: always(Delay{Base: 10})})
			prepare(net)
			c := net.Dial(1, 2)
			net.Advance(19)
			net.Advance(19)
			if c.Closed() != nil {
				t.Fatal("refused before the way there and back")
			}
			net.Advance(20)
			if err := c.Closed(); !errors.Is(err, fabric.ErrRefused) || c.Up() {
				t.Fatalf("closed: %v", err)
			}
		})
	}
}

func TestACutHoldsChannelsUp(t *testing.T) {
	net, dialed, accepted := channel(t, Options{})
	net.Cut(1, 2)
	dialed.Send(1)
	late := net.Dial(1, 2)
	net.Advance(net.Now() + time.Hour)
	if len(received(accepted)) > 0 || late.Up() || !accepted.Send(2) || !slices.Equal(received(dialed), []int{2}) {
		t.Fatal("the cut way lets something pass, or the other one does not")
	}
	net.Heal(1, 2)
	net.Advance(net.Now())
	if !slices.Equal(received(accepted), []int{1}) || !late.Up() {
		t.Fatal("what was held up did not arrive")
	}
}

// Z3
func TestAFuseBurnsInChannelsToo(t *testing.T) {
	net, dialed, accepted := channel(t, Options{})
	net.CrashAfter(1, 2, false)
	dialed.Send(1)
	func() {
		defer func() {
			if c, ok := recover().(Crashed); !ok || c.Node != 1 {
				t.Errorf("recovered %v", c)
			}
		}()
		dialed.Send(2)
		t.Error("it did not crash")
	}()
	if got := received(accepted); !slices.Equal(got, []int{1}) || accepted.Closed() == nil {
		t.Errorf("received %v, %v", got, accepted.Closed())
	}
}
