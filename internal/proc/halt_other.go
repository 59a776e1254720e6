//go:build !linux

package proc

import "os/exec"

// DieWithParent does nothing where the kernel offers nothing: the end of its standard input ends
// the child.
func DieWithParent(*exec.Cmd) {}

// awaitStop does nothing where the system does not tell: a stopped process stands still soon.
func awaitStop(int) error { return nil }
