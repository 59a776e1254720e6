//go:build unix

package demo

import "syscall"

// The signals that stop a process where it stands, and let it go on.
const (
	signalStop     = syscall.SIGSTOP
	signalContinue = syscall.SIGCONT
)
