package handshake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/wait"
)

// Pauses between two attempts to reach a peer that hung up.
const (
	retryPauseMin = 5 * time.Millisecond
	retryPauseMax = 200 * time.Millisecond
)

// HungUp puts ErrHungUp in front of errors that mean it, and leaves others as they are. A peer that
// does not listen any more is not among them: it is dead.
func HungUp(err error) error {
	for _, sign := range []error{
		io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.EAGAIN,
		syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH,
	} {
		if errors.Is(err, sign) {
			return fmt.Errorf("%w: %w", fabric.ErrHungUp, err)
		}
	}
	return err
}

// DialWithRetry calls dial until it succeeds, fails with another error than ErrHungUp, or ctx ends.
func DialWithRetry[L any](ctx context.Context, dial func() (L, error)) (L, error) {
	pause := wait.Backoff{First: retryPauseMin, Longest: retryPauseMax}
	for {
		l, err := dial()
		if !errors.Is(err, fabric.ErrHungUp) {
			return l, err
		}
		if cause := pause.Wait(ctx); cause != nil {
			return l, fmt.Errorf("%w; %w", cause, err)
		}
	}
}
