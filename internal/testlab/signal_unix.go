//go:build unix

package testlab

import "syscall"

// Stop has the system stop the process where it stands.
func (p *Process) Stop() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue ends Stop.
func (p *Process) Continue() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
