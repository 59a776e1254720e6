//go:build !linux

package predicates

import "time"

// kernel knows nothing of threads here.
type kernel struct{}

func (*kernel) usage() usage        { return usage{} }
func (*kernel) idle() time.Duration { return -1 }
func (*kernel) close()              {}
