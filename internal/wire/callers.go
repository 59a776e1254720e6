package wire

import (
	"net"
	"sync"
)

// Callers are the connections that a handler serves: a bounded number (Slots), which can be ended
// all at once. Its methods may be called from any goroutine.
type Callers struct {
	mu    sync.Mutex
	slots Slots
	shut  bool
	last  uint64
	conns map[uint64]net.Conn
	ids   map[net.Conn]uint64
	open  sync.WaitGroup
}

// NewCallers bounds the number of callers at a time: of all callers, of callers that have not
// proved themselves, and of callers of one address; 0: no bound.
func NewCallers(most, mostNew, mostOf int) *Callers {
	return &Callers{
		slots: Slots{Most: most, MostNew: mostNew, MostOf: mostOf}, conns: map[uint64]net.Conn{}, ids: map[net.Conn]uint64{},
	}
}

// Enter counts a connection in, unless there are too many, or HangUp was called. A new one that has
// to make room for it is closed. It returns how many there were. A connection that entered leaves.
func (c *Callers) Enter(conn net.Conn) (there int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	there = c.slots.Count()
	if c.shut {
		return there, false
	}
	c.last++
	evicted, ok := c.slots.Enter(c.last, Host(conn.RemoteAddr()))
	if !ok {
		return there, false
	}
	if old := c.conns[evicted]; old != nil {
		old.Close()
	}
	c.conns[c.last], c.ids[conn] = conn, c.last
	c.open.Add(1)
	return there, true
}

// Settle says that a connection has proved itself. It reports false if that had to make room
// before.
func (c *Callers) Settle(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slots.Prove(c.ids[conn])
}

// Leave is the end of a connection that entered.
func (c *Callers) Leave(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.ids[conn]
	c.slots.Leave(id)
	delete(c.conns, id)
	delete(c.ids, conn)
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
	for _, conn := range c.conns {
		conn.Close()
	}
	c.mu.Unlock()
	c.open.Wait()
}

// Host is the address of a connection's other end, without the port.
func Host(addr net.Addr) string {
	if host, _, err := net.SplitHostPort(addr.String()); err == nil {
		return host
	}
	return addr.String()
}
