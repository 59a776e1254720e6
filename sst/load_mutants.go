//go:build mutants

package sst

import "sync/atomic"

// Hooked says that this build calls BeforeLoad.
const Hooked = true

// BeforeLoad is called before each load of a shared word, if it is set, with the line that holds
// the word. A peer's row may change between any two loads of a step; with it a test makes the row
// change there. It exists in builds with the tag "mutants" only.
var BeforeLoad func(*Line)

// AfterStore is called after each store of a shared word, if it is set. A peer may look between any
// two stores of a step.
var AfterStore func()

// Load reads a shared word.
func Load(line *Line, word int) uint64 {
	if BeforeLoad != nil {
		BeforeLoad(line)
	}
	return atomic.LoadUint64(&line[word])
}

// Store publishes a word of the own row: everything that was stored before is visible to a reader
// that loads it.
func Store(line *Line, word int, v uint64) {
	atomic.StoreUint64(&line[word], v)
	if AfterStore != nil {
		AfterStore()
	}
}
