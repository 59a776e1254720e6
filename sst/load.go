//go:build !mutants

package sst

import "sync/atomic"

// Hooked says that this build calls BeforeLoad.
const Hooked = false

// Load reads a shared word.
func Load(line *Line, word int) uint64 { return atomic.LoadUint64(&line[word]) }
