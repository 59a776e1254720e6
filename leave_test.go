package squall

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestEveryGoroutineThatLeavesHearsOfAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Group{ending: newEnding()}
		drained, done := false, make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go g.await(ctx, g.Err, func() bool { return false })
		synctest.Wait()
		go func() {
			_ = g.await(ctx, g.Err, func() bool { return drained })
			close(done)
		}()
		synctest.Wait()
		drained = true
		g.leavers.ring()
		synctest.Wait()
		select {
		case <-done:
		default:
			t.Error("what one of them waits for is so, and it still waits")
		}
	})
}
