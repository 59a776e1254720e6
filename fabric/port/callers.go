package port

import (
	"math"
	"net"
	"slices"
	"sync"
)

// Callers are the connections that a handler serves: a bounded number, which can be ended all at once. The zero value has none. Its methods
// may be called from any goroutine.
type Callers struct {
	mu    sync.Mutex
	shut  bool
	conns map[net.Conn]bool
	open  sync.WaitGroup

	greeting []net.Conn // of conns, those that entered with Admit and were not settled; the oldest first
}

// Admit counts a connection in, unless HangUp was called. If as many as most greet already, the oldest of them is closed: a
// peer that is welcome greets within moments, so silent strangers cannot keep it out. Whoever was admitted leaves.
func (c *Callers) Admit(conn net.Conn, most int) bool {
	if _, ok := c.Enter(conn, math.MaxInt); !ok {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.greeting) >= most {
		c.greeting[0].Close()
		c.greeting = slices.Delete(c.greeting, 0, 1)
	}
	c.greeting = append(c.greeting, conn)
	return true
}

// Settle says that a connection that was admitted has greeted. It reports false if it had to make room before.
func (c *Callers) Settle(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settle(conn)
}

func (c *Callers) settle(conn net.Conn) bool {
	i := slices.Index(c.greeting, conn)
	if i >= 0 {
		c.greeting = slices.Delete(c.greeting, i, i+1)
	}
	return i >= 0
}

// Enter counts a connection in, unless there are so many already, or HangUp was called. It returns how many there were. Whoever entered leaves.
func (c *Callers) Enter(conn net.Conn, most int) (there int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	there = len(c.conns)
	if c.shut || there >= most {
		return there, false
	}
	if c.conns == nil {
		c.conns = map[net.Conn]bool{}
	}
	c.conns[conn] = true
	c.open.Add(1)
	return there, true
}

// Leave is the end of a connection that entered.
func (c *Callers) Leave(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
	c.settle(conn)
	c.open.Done()
}

// Closing reports whether HangUp was called.
func (c *Callers) Closing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shut
}

// HangUp ends all connections, lets none in any more, and waits until all have left.
func (c *Callers) HangUp() {
	c.mu.Lock()
	c.shut = true
	for conn := range c.conns {
		conn.Close()
	}
	c.mu.Unlock()
	c.open.Wait()
}
