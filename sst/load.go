//go:build !mutants

package sst

import "sync/atomic"

// Hooked says that this build calls BeforeLoad.
const Hooked = false

// Load reads a shared word.
func Load(line *Line, word int) uint64 { return atomic.LoadUint64(&line[word]) }

// Store publishes a word of the own row: everything that was stored before is visible to a reader
// that loads it.
func Store(line *Line, word int, v uint64) { atomic.StoreUint64(&line[word], v) }
