//go:build !linux

package wallog

import "os"

func openDirect(string) *os.File { return nil }

func noDirect(error) bool { return false }
