package wire

import (
	"context"
	"time"
)

// Backoff is a pause that doubles. It is pure.
type Backoff struct {
	Pause   time.Duration // the first one
	Longest time.Duration
	next    time.Duration
}

// Next is the next pause.
func (b *Backoff) Next() time.Duration {
	pause := max(b.next, b.Pause)
	b.next = min(2*pause, b.Longest)
	return pause
}

// Reset begins with the first pause again.
func (b *Backoff) Reset() { b.next = 0 }

// Backoff is the pause between two attempts.
func (t Times) Backoff() Backoff { return Backoff{Pause: t.Pause, Longest: t.Longest} }

// Wait waits for a pause, and reports whether the context goes on.
func Wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
