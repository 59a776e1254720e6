//go:build !unix

package descriptors

import "errors"

// ErrTooFew says that the limit of the process leaves too few file descriptors.
var ErrTooFew = errors.New("too few file descriptors")

// Share holds nothing here.
type Share struct{}

// Resize holds nothing here.
func (*Share) Resize(n, more int, what string) error { return nil }

// Check finds nothing here.
func Check(needed int, what string) error { return nil }

// Retry calls do once here.
func Retry[T any](do func() (T, error)) (T, error) { return do() }

// IsLack reports false here.
func IsLack(err error) bool { return false }

// Give has nothing to give here.
func Give() bool { return false }
