package logs

import "context"

// until does what cannot be told to stop, and waits for it until the context ends. Then what is
// still done ends with the process: all that it writes may be interrupted anywhere.
func until[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		value, err := do()
		done <- answer{value, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		return *new(T), ctx.Err()
	}
}
