//go:build !linux

package proc

// awaitStop does nothing where the system does not tell: a stopped process stands still soon.
func awaitStop(int) error { return nil }
