package member

import "github.com/squall-go/squall/internal/wait"

// LargeWaiters is the number of goroutines that wait for buffer space for a large message.
func (o *Outbox) LargeWaiters() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.larges.queue)
}

// Queue queues up for n bytes, like a goroutine that waits and does not run, until leave.
func (o *Outbox) Queue(n int) (leave func()) {
	w := &waiter{n: n, bell: wait.NewBell()}
	o.join(w)
	return func() { o.leave(w) }
}
