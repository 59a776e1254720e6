package wire

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"
)

// at is a connection from an address.
type at struct {
	net.Conn
	addr string
}

func (a at) RemoteAddr() net.Addr { return a }
func (a at) Network() string      { return "tcp" }
func (a at) String() string       { return a.addr + ":1" }

// callersOf are callers, and a function that adds one.
func callersOf(t *testing.T, most, mostNew int) (*Callers, func(addr string) net.Conn) {
	c := NewCallers(most, mostNew, 0)
	return c, func(addr string) net.Conn {
		t.Helper()
		here, there := net.Pipe()
		t.Cleanup(func() { here.Close(); there.Close() })
		conn := at{here, addr}
		if _, ok := c.Enter(conn); !ok {
			t.Fatal("it has no place")
		}
		return conn
	}
}

func open(conn net.Conn) bool {
	return conn.SetDeadline(time.Time{}) == nil
}

func TestCV4TheOldestThatIsNewMakesRoom(t *testing.T) {
	c, enter := callersOf(t, 0, 4)
	settled := enter("1")
	if !c.Settle(settled) {
		t.Error("there was room")
	}
	oldest, newer := enter("1"), enter("2")
	enter("1")
	enter("3")
	enter("4")
	if open(oldest) || c.Settle(oldest) {
		t.Error("the oldest of the address that has most is still there")
	}
	if !open(newer) || !c.Settle(newer) {
		t.Error("an address with one caller lost it")
	}
	if !open(settled) {
		t.Error("one that has proved itself made room")
	}
}

// CV4: a flood from one address costs other addresses nothing.
func TestCV4AnAddressDrivesOutNobodyElse(t *testing.T) {
	c, enter := callersOf(t, 16, 8)
	joiner := enter("joiner")
	for range 100 {
		enter("stranger")
	}
	if !open(joiner) || !c.Settle(joiner) {
		t.Fatal("a flood from one address drove out the caller of another one")
	}
	if n := c.slots.fresh("stranger"); n != c.slots.perAddress() {
		t.Errorf("the stranger has %d places", n)
	}
}

// CV4: callers that prove themselves, as every process with a key of its own can, do not take all
// places either if they are of one address.
func TestCV4AnAddressHasItsShareOfAllPlaces(t *testing.T) {
	c := NewCallers(16, 8, 4)
	enter := func(addr string) (net.Conn, bool) {
		here, there := net.Pipe()
		t.Cleanup(func() { here.Close(); there.Close() })
		conn := at{here, addr}
		_, ok := c.Enter(conn)
		return conn, ok
	}
	for k := range 20 {
		conn, ok := enter("stranger")
		if ok != (k < 4) || ok && !c.Settle(conn) {
			t.Fatalf("caller %d of an address that may have 4: %v", k+1, ok)
		}
	}
	if conn, ok := enter("joiner"); !ok || !c.Settle(conn) {
		t.Error("another address has no place")
	}
}

func TestCallersAreBoundedAndEndedAllAtOnce(t *testing.T) {
	c := NewCallers(1, 1, 0)
	here, there := net.Pipe()
	defer there.Close()
	if n, ok := c.Enter(here); n != 0 || !ok || !c.Settle(here) {
		t.Fatal(n, ok)
	}
	if n, ok := c.Enter(there); n != 1 || ok {
		t.Fatal("one more than there may be: ", n, ok)
	}
	left := make(chan error)
	go func() {
		_, err := here.Read(make([]byte, 1))
		c.Leave(here)
		left <- err
	}()
	if c.Closing() {
		t.Error("no caller hung up")
	}
	hung := make(chan struct{})
	go func() { c.HangUp(); close(hung) }()
	if <-left == nil {
		t.Error("the connection goes on")
	}
	<-hung
	if n, ok := c.Enter(there); n != 0 || ok || !c.Closing() {
		t.Error("a caller came in afterwards: ", n, ok)
	}
}

// CV4, whatever callers come, prove themselves and leave.
func TestCV4RandomCallersKeepTheirBounds(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 2))
		s := Slots{Most: 6 + random.IntN(6), MostNew: 1 + random.IntN(6)} // an address is bounded by its share of the new ones
		var there []uint64
		proved := map[uint64]bool{}
		for id := uint64(1); id < 300; id++ {
			switch random.IntN(4) {
			case 0:
				if len(there) > 0 {
					n := there[random.IntN(len(there))]
					proved[n] = s.Prove(n)
				}
			case 1:
				if len(there) > 0 {
					i := random.IntN(len(there))
					s.Leave(there[i])
					there = slices.Delete(there, i, i+1)
				}
			default:
				evicted, ok := s.Enter(id, fmt.Sprint(random.IntN(3)))
				if proved[evicted] {
					t.Fatalf("seed %d: %d made room, and had proved itself", seed, evicted)
				}
				there = slices.DeleteFunc(there, func(n uint64) bool { return n == evicted })
				if ok {
					there = append(there, id)
				} else if slices.ContainsFunc(there, func(n uint64) bool { return !proved[n] }) {
					t.Fatalf("seed %d: no place, and a caller is new", seed)
				}
			}
			if s.Count() != len(there) || s.Count() > s.Most || s.fresh("") > s.MostNew {
				t.Fatalf("seed %d: %d callers, %d new, of %+v", seed, s.Count(), s.fresh(""), s)
			}
		}
	}
}
