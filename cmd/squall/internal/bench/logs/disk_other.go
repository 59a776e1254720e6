//go:build !linux

package logs

import (
	"errors"
	"os"
)

func fileSystem(string) string { return "unknown" }

// openAround refuses: what other systems have in its place is asked for in other ways, and does
// other things.
func openAround(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func refused(err error) bool { return errors.Is(err, errors.ErrUnsupported) }

func syncData(f *os.File) error { return f.Sync() }

// forget does nothing where the kernel offers nothing: what was just written is read from memory.
func forget(string) error { return nil }
