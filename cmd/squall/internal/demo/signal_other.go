//go:build !unix

package demo

import "syscall"

// The signals that stop a process where it stands, and let it go on. Elsewhere sending them fails.
const (
	signalStop     = syscall.Signal(0x13)
	signalContinue = syscall.Signal(0x12)
)
