//go:build !mutants

package sst

import "sync/atomic"

func load(word *uint64, _ *Line) uint64 { return atomic.LoadUint64(word) }

func store(word *uint64, v uint64) { atomic.StoreUint64(word, v) }
