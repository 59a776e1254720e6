package persist

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/squall-go/squall/persist/internal/engine"
)

// lockPatience is how long Open and Verify try a directory that is in use: a process that was
// killed holds it for a moment longer.
const lockPatience = time.Second

// lock holds a directory for this process: alone, or together with others that only read. The
// kernel lets go of it when the process ends, however it ends, so there is no file to remove by
// hand.
//
// The engines lock their files as well. This lock comes first because it covers all of them at
// once, also while they are made.
type lock struct{ dir *os.File }

// takeLock tries a directory that is in use until patience is over, or ctx ends.
func takeLock(ctx context.Context, dir string, shared bool, patience time.Duration) (*lock, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, engine.Named(err, dir)
	}
	how := syscall.LOCK_EX | syscall.LOCK_NB
	if shared {
		how = syscall.LOCK_SH | syscall.LOCK_NB
	}
	for until := time.Now().Add(patience); ; {
		err := syscall.Flock(int(f.Fd()), how)
		if err == nil {
			return &lock{f}, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(engine.Named(err, dir), f.Close())
		}
		if time.Now().After(until) {
			return nil, errors.Join(fmt.Errorf("%s: %w: %s", dir, ErrInUse, engine.InUseAdvice), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("%s: %w", dir, context.Cause(ctx)), f.Close())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// release unlocks the directory and closes it. To close it is not enough: a process that is being
// started has a copy of its descriptor until it runs its own program.
func (l *lock) release() error {
	return errors.Join(syscall.Flock(int(l.dir.Fd()), syscall.LOCK_UN), l.dir.Close())
}
