//go:build !linux

package persist

import "os"

func openDirect(string) *os.File { return nil }

func noDirect(error) bool { return false }
