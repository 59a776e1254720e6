package wait

import (
	"context"
	"time"
)

// Backoff is the pause between two attempts, which doubles from one to the next, from First to
// Longest. It is pure but for Wait: pure packages add the pause to their time.
type Backoff struct {
	First, Longest time.Duration
	next           time.Duration // 0: First
}

// Next is the next pause.
func (b *Backoff) Next() time.Duration {
	pause := max(b.next, b.First)
	b.next = min(2*pause, b.Longest)
	return pause
}

// Reset begins with First again.
func (b *Backoff) Reset() { b.next = 0 }

// Wait waits for the next pause. If ctx ends first, it returns the cause.
func (b *Backoff) Wait(ctx context.Context) error { return Sleep(ctx, b.Next()) }

// Sleep waits for a time. If ctx ends first, it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
