//go:build mutants

package sst

import "sync/atomic"

// BeforeLoad is called before each load of a shared word, if it is set, with the line that holds
// the word. A peer's row may change between any two loads of a step; with it a test makes the row
// change there. It exists in builds with the tag "mutants" only.
var BeforeLoad func(*Line)

// AfterStore is called after each store of a shared word, if it is set. A peer may look between any
// two stores of a step.
var AfterStore func()

func load(word *uint64, line *Line) uint64 {
	if BeforeLoad != nil {
		BeforeLoad(line)
	}
	return atomic.LoadUint64(word)
}

func store(word *uint64, v uint64) {
	atomic.StoreUint64(word, v)
	if AfterStore != nil {
		AfterStore()
	}
}
