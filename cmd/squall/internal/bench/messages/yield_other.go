//go:build !linux

package messages

import "time"

// yieldCore lets another process have the core.
func yieldCore() { time.Sleep(time.Microsecond) }
