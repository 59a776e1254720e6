//go:build !linux

package wait

import "time"

// kernel knows nothing of threads here.
type kernel struct{}

func (*kernel) Usage() Usage        { return Usage{} }
func (*kernel) Idle() time.Duration { return -1 }
func (*kernel) Close()              {}
