package member

// LargeWaiters is the number of goroutines that wait for buffer space for a large message.
func (o *Outbox) LargeWaiters() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.larges.queue)
}
