//go:build !linux

package testlab

import "os/exec"

func dieWithParent(*exec.Cmd) {}
