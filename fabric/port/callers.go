package port

import (
	"net"
	"sync"
)

// Callers are the connections that a handler serves: a bounded number, which can be ended all at once. The zero value has none. Its methods
// may be called from any goroutine.
type Callers struct {
	mu    sync.Mutex
	shut  bool
	conns map[net.Conn]bool
	open  sync.WaitGroup
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
